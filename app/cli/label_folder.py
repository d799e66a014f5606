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
from phonechain.app.labelling.extras import NOTHING, Extras
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
    """One recording, ready to be labelled: a tier, or those of all speakers; and the format and file of its answer."""

    pair: Pair
    tiers: list[Prepared]
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
    all_speakers: bool = False,
    extras: Extras = NOTHING,
) -> None:
    """Label every pair below `root`, and write the answers to the same tree below `out`, with the `extras` asked for.

    Exits with 1 if some files could not be used, with 2 if none could.
    """
    from phonechain.app.labelling.pipeline import label_sequences
    from phonechain.app.labelling.sequences import describe
    from phonechain.app.labelling.speakers import list_speaker_inputs, number_speakers
    from phonechain.features.corpora import folder
    from phonechain.features.corpora.base import NoticeCount

    form = _check_arguments(root, out, format, doubtful, table)
    if extras and (out is None or form != "json"):
        raise SettingsError(
            f"--sequences, --words and --hidden: a folder's answers need --format json and --out DIR, got "
            f"{form or 'no format'}{'' if out is not None else ' and no folder'}"
        )
    pairs, problems = folder.pairs(root, raw=options.pop("raw", None))
    labeler = common.load_model(model)
    # tiers of several speakers are each a speaker's; nothing says whose recordings belong together
    mode = labeler.normalisation(normalise, known_speakers=not all_speakers)
    decoding = {name: options.pop(name) for name in ("n_best", "decode")}
    if options.pop("utterance", None) is not None:
        raise SettingsError("--utterance cannot be given with a folder: the names of its recordings decide")
    options["known"] = labeler.label_set_.with_map(options.pop("mapping"))
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
            work = _prepare(pairs[at : at + BATCH], root, out, form, labeler, options, fail, all_speakers)
            tiers = [ready for one in work for ready in one.tiers]
            owners = [n for n, one in enumerate(work) for _ in one.tiers]
            groups = number_speakers(None if all_speakers else work[owner].pair.speaker for owner in owners)
            batch = label_sequences(
                labeler.model_,
                [(ready.inputs, ready.segments, ready.starts) for ready in tiers],
                comparisons=[ready.comparison for ready in tiers],
                groups=groups,
                mode=mode,
                support=bool(doubtful) or table is not None,
                **decoding,
            )
            for ready in tiers:
                ready.normalised = mode
            for n, one in enumerate(work):
                file = one.pair.file
                own = [k for k, owner in enumerate(owners) if owner == n]
                labelled = [(tiers[k], batch[k]) for k in own]
                try:
                    if out is not None:
                        more = [
                            describe(
                                labeler,
                                tiers[k],
                                batch[k],
                                extras,
                                normalise=mode,
                                beside=list_speaker_inputs(tiers, groups, k, mode),
                            )
                            for k in (own if extras else ())
                        ]
                        data = answers.render_tiers(
                            labeler, model, labelled, one.format, all_speakers=all_speakers,
                            entropy=entropy or extras.sequences > 0, gop=gop, more=more,
                        )  # fmt: skip
                        one.target.parent.mkdir(parents=True, exist_ok=True)
                        common.write_output(data, one.target)
                except (PhonechainError, OSError) as error:
                    fail(file, error)
                    continue
                done += 1
                for ready, labels in labelled:
                    name = printable_path(file)
                    ranking.add(f"{name}#{ready.tier.name}" if all_speakers else name, ready, labels)
                notices.add(file, tuple(dict.fromkeys(notice for ready in one.tiers for notice in ready.notices)))
            bars.update("label", min(at + BATCH, len(pairs)), len(pairs))
    common.warn(notices.notices())
    ranking.output(doubtful, table)
    wrong = f"; {common.count_noun(failed, 'file')} could not be used" if failed else ""
    where = f" to {out}" if out is not None else ""
    print(
        f"labelled {len(ranking.rows)} segments of {common.count_noun(done, 'recording')}{where}{wrong}",
        file=sys.stderr,
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
    all_speakers: bool,
) -> list[Work]:
    """Read, decode and compute features; files that cannot be used are reported and left out."""
    from phonechain.app.labelling import conversion, pipeline
    from phonechain.app.labelling.speakers import prepare_speakers
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
            if all_speakers:
                tiers = prepare_speakers(
                    labeler, pair.audio, annotation, raw=pair.raw, **{k: v for k, v in options.items() if k != "tier"}
                )
            else:
                tiers = [
                    pipeline.prepare_utterance(
                        pair.audio, annotation, labeler.features_, chosen=chosen.tier, raw=pair.raw, **options
                    )
                ]
                tiers[0].notices = tuple(dict.fromkeys((*chosen.notices, *tiers[0].notices)))
        except Unusable as unusable:
            fail(unusable.file, unusable.error)
            continue
        except (PhonechainError, OSError) as error:
            fail(file if not _is_audio_error(error) else pair.audio, error)
            continue
        form = default_format or (annotation.format if annotation.format in FORMATS else "textgrid")
        own = file.suffix if file.suffix.lower() in FORMATS[form].suffixes else conversion.suffix_of(form)
        target = (out or root) / pair.audio.relative_to(root)
        target = target.with_name(target.stem + own)
        ready.append(Work(replace(pair, annotations=[file], parts=[]), tiers, form, target))
    return ready


def _is_audio_error(error: Exception) -> bool:
    from phonechain.features.errors import AudioError

    return isinstance(error, AudioError)
