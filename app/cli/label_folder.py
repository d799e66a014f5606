"""`phonechain label FOLDER`: label every recording of a folder, and list the least certain segments."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from phonechain.app.cli import answers, common
from phonechain.app.cli.certainty import Ranking
from phonechain.features.errors import PhonechainError, SettingsError
from phonechain.features.files import printable_path

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.features.corpora.folder import Pair
    from phonechain.model.labeler import PhoneLabeler

BATCH = 16
"""Recordings per batch."""

_ALONE = re.compile("beside it|passed over")
"""In the message about a file without its counterpart, which is reported but no failure."""


@dataclass(slots=True)
class Work:
    """One recording, ready to be labelled, and the format and file of its answer."""

    pair: Pair
    ready: Prepared
    format: str
    target: Path


def label_folder(
    root: Path,
    out: Path | None,
    model: str,
    format: str | None,
    options: dict[str, Any],
    doubtful: int,
    table: Path | None,
    *,
    entropy: bool = False,
    gop: bool = False,
    normalise: str | None = None,
) -> None:
    """Label every pair below `root`, and write the answers to the same tree below `out`.

    Exits with 1 if some files could not be used, with 2 if none could.
    """
    from phonechain.app.labelling.pipeline import label_sequences
    from phonechain.features.corpora import folder
    from phonechain.features.corpora.base import NoticeCount

    form = _check_arguments(root, out, format, doubtful, table)
    pairs, problems = folder.pairs(root, raw=options.pop("raw", None))
    labeler = common.load_model(model)
    mode = labeler.normalisation(normalise, known_speakers=True)
    decoding = {name: options.pop(name) for name in ("n_best", "decode")}
    if options.pop("utterance", None) is not None:
        raise SettingsError("--utterance cannot be given with a folder: the names of its recordings decide")
    options["known"] = labeler.label_set_.mapped(options.pop("mapping"))
    ranking, notices, failed, done = Ranking(), NoticeCount(), 0, 0
    with common.bars() as bars:
        for problem in problems:
            alone = _ALONE.search(problem.message) is not None
            bars.line(f"{'left out' if alone else 'failed'} {problem}")
            failed += not alone

        def fail(file: Path, error: Exception) -> None:
            nonlocal failed
            failed += 1
            bars.line(f"failed {common.file_line(file, error)}")

        for at in range(0, len(pairs), BATCH):
            work = _prepare(pairs[at : at + BATCH], root, out, form, labeler, options, fail)
            speakers: dict[str, int] = {}
            batch = label_sequences(
                labeler.model_,
                [(one.ready.inputs, one.ready.segments, one.ready.starts) for one in work],
                comparisons=[one.ready.comparison for one in work],
                groups=[speakers.setdefault(one.pair.speaker or f"\0{n}", len(speakers)) for n, one in enumerate(work)],
                mode=mode,
                support=bool(doubtful) or table is not None,
                **decoding,
            )
            for one, labelled in zip(work, batch, strict=True):
                file = one.pair.file
                one.ready.normalised = mode
                try:
                    if out is not None:
                        data = answers.render(labeler, model, one.ready, labelled, one.format, entropy=entropy, gop=gop)
                        one.target.parent.mkdir(parents=True, exist_ok=True)
                        common.write_output(data, one.target)
                except (PhonechainError, OSError) as error:
                    fail(file, error)
                    continue
                done += 1
                ranking.add(printable_path(file), one.ready, labelled)
                notices.add(file, one.ready.notices)
            bars.update("label", min(at + BATCH, len(pairs)), len(pairs))
    common.warn(notices.notices())
    ranking.output(doubtful, table)
    wrong = f"; {common.counted(failed, 'file')} could not be used" if failed else ""
    where = f" to {out}" if out is not None else ""
    print(
        f"labelled {len(ranking.rows)} segments of {common.counted(done, 'recording')}{where}{wrong}", file=sys.stderr
    )
    if failed or not done:
        raise typer.Exit(1 if done else 2)


def _check_arguments(root: Path, out: Path | None, format: str | None, doubtful: int, table: Path | None) -> str | None:
    """The format asked for. Raises SettingsError."""
    from phonechain.features.annotation import FORMATS, format_named

    if out is None and not doubtful and table is None:
        raise SettingsError("labelling a folder needs --out DIR, --doubtful N or --table FILE")
    if out is not None and out.is_file():
        raise SettingsError(f"--out: expected a folder, got the file {out}", value=str(out))
    if out is not None and out.resolve().is_relative_to(root.resolve()):
        raise SettingsError(
            f"--out: expected a folder outside {root}, got {out}; answers inside would be read as its annotations",
            value=str(out),
        )
    form = format_named(format) if format is not None else None
    if format is not None and form is None:
        raise SettingsError(f"--format: expected one of {', '.join(FORMATS)} for a folder, got {format!r}")
    return form.name if form is not None else None


def _prepare(
    pairs: Sequence[Pair],
    root: Path,
    out: Path | None,
    default_format: str | None,
    labeler: PhoneLabeler,
    options: dict[str, Any],
    fail: Callable[[Path, Exception], None],
) -> list[Work]:
    """Read, decode and compute features; files that cannot be used are reported and left out."""
    from phonechain.app.labelling import conversion, pipeline
    from phonechain.features.annotation import FORMATS
    from phonechain.features.corpora.candidates import Unusable, annotation_of

    ready = []
    options = dict(options)
    by = options.pop("shift", 0.0)
    for pair in pairs:
        file = pair.file
        try:
            chosen = annotation_of(pair, options.get("tier"), by)
            file, annotation = chosen.file, chosen.annotation
            prepared = pipeline.prepare_utterance(
                pair.audio, annotation, labeler.features_, chosen=chosen.tier, raw=pair.raw, **options
            )
            prepared.notices = tuple(dict.fromkeys((*chosen.notices, *prepared.notices)))
        except Unusable as unusable:
            fail(unusable.file, unusable.error)
            continue
        except (PhonechainError, OSError) as error:
            fail(file if not _of_sound(error) else pair.audio, error)
            continue
        form = default_format or (annotation.format if annotation.format in FORMATS else "textgrid")
        own = file.suffix if file.suffix.lower() in FORMATS[form].suffixes else conversion.suffix(form)
        target = (out or root) / pair.audio.relative_to(root)
        target = target.with_name(target.stem + own)
        ready.append(Work(replace(pair, annotations=[file], parts=[]), prepared, form, target))
    return ready


def _of_sound(error: Exception) -> bool:
    from phonechain.features.errors import AudioError

    return isinstance(error, AudioError)
