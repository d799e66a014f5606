"""`phonechain label FOLDER`: label every recording of a folder, and list the least certain segments."""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from phonechain.app.cli import answers, common
from phonechain.app.cli.certainty import Ranking
from phonechain.app.labelling.extras import NOTHING, Extras
from phonechain.features.errors import AudioError, Notice, PhonechainError, SettingsError
from phonechain.features.files import printable_path

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.features.corpora.folder import Pair
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.device import Precision
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.normaliser import Mode

BATCH = 32
"""Recordings per batch, about: those of a speaker stay together."""
MOST_IN_BATCH = 512
"""Recordings per batch at most: a speaker with more is normalised in parts."""
MANY = 48
"""Recordings from which on further processes save more time than they take to start."""

_ALONE = re.compile("beside it|passed over")
"""In the message about a file without its counterpart, which is reported but no failure."""


@dataclass(slots=True)
class Work:
    """One recording, ready to be labelled: a tier, or those of all speakers; and the format and file of its answer."""

    pair: Pair
    tiers: list[Prepared]
    format: str
    target: Path


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every recording: the arguments of `label_folder`, checked."""

    root: Path
    out: Path | None
    model: str
    device: str
    precision: Precision
    format: str | None
    options: dict[str, Any]
    decoding: dict[str, Any]
    mode: Mode
    entropy: bool
    gop: bool
    all_speakers: bool
    ranked: bool
    extras: Extras


@dataclass(slots=True)
class Outcome:
    """What came of a batch: lines about failures, recordings with their notices, segments, and how certain these are.

    `given` is the number of labels that came with the segments; `unknown`, those that the model does not know, by file.
    """

    recordings: int
    failures: list[str] = field(default_factory=list)
    labelled: list[tuple[Path, tuple[Notice, ...]]] = field(default_factory=list)
    segments: int = 0
    given: int = 0
    unknown: list[tuple[Path, Counter[str]]] = field(default_factory=list)
    ranking: Ranking = field(default_factory=Ranking)


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
    device: str = "cpu",
    precision: Precision = "float32",
) -> None:
    """Label every pair below `root`, and write the answers to the same tree below `out`, with the `extras` asked for.

    Exits with 1 if some files could not be used, with 2 if none could.
    """
    from phonechain.features.corpora import folder
    from phonechain.features.corpora.base import NoticeCount

    form = _check_arguments(root, out, format, doubtful, table)
    if extras and (out is None or form != "json"):
        raise SettingsError(
            f"--sequences, --words and --hidden: a folder's answers need --format json and --out DIR, got "
            f"{form or 'no format'}{'' if out is not None else ' and no folder'}"
        )
    pairs, problems = folder.pairs(root, raw=options.pop("raw", None))
    _loaded.clear()  # the file may have changed since this process read it
    labeler = _load(model, device, precision)
    # tiers of several speakers are each a speaker's; nothing says whose recordings belong together
    mode = labeler.normalisation(normalise, known_speakers=not all_speakers)
    decoding = {name: options.pop(name) for name in ("n_best", "decode")}
    if options.pop("utterance", None) is not None:
        raise SettingsError(
            "--utterance cannot be used with a folder: annotations are matched by the names of its recordings"
        )
    options["known"] = labeler.label_set_.with_map(options.pop("mapping"))
    ranked = bool(doubtful) or table is not None
    task = Task(
        root, out, model, device, precision, form, options, decoding, mode, entropy, gop, all_speakers, ranked, extras
    )
    ranking, notices, failed, done, read, segments = Ranking(), NoticeCount(), 0, 0, 0, 0
    unknown, given = [], 0
    workers = _count_workers(labeler, len(pairs))
    batches = _make_batches(pairs, by_speaker=mode == "speaker" and not all_speakers, workers=workers)
    label, workers = partial(_label_batch, task), max(1, min(workers, len(batches)))
    with common.map_in_processes(label, batches, workers) as outcomes, common.bars() as bars:
        for problem in problems:
            alone = _ALONE.search(problem.message) is not None
            bars.line(f"{'left out' if alone else 'failed'} {problem}")
            failed += not alone
        for outcome in outcomes:
            for line in outcome.failures:
                bars.line(f"failed {line}")
            failed += len(outcome.failures)
            done += len(outcome.labelled)
            segments += outcome.segments
            ranking.rows += outcome.ranking.rows
            for file, found in outcome.labelled:
                notices.add(file, [notice for notice in found if notice.code != "labels-unknown"])
            unknown += outcome.unknown
            given += outcome.given
            read += outcome.recordings
            bars.update("label", read, len(pairs))
    common.warn([*notices.notices(), *_sum_unknown(unknown, given)])
    ranking.output(doubtful, table)
    wrong = f"; {common.count_noun(failed, 'file')} could not be used" if failed else ""
    where = f" to {out}" if out is not None else ""
    print(f"labelled {segments} segments of {common.count_noun(done, 'recording')}{where}{wrong}", file=sys.stderr)
    if failed or not done:
        raise typer.Exit(1 if done else 2)


def _make_batches(pairs: Sequence[Pair], *, by_speaker: bool, workers: int = 1) -> list[list[Pair]]:
    """Recordings in their order; those of a speaker that follow each other are in one batch.

    There are as many batches for each worker, and of the same size as far as speakers allow, so that none waits for another.
    """
    count = workers * max(1, round(len(pairs) / (workers * BATCH)))
    batches: list[list[Pair]] = [[]]
    ended = full = 0  # recordings, and how many of the batches of equal size they fill
    for _, own in groupby(pairs, key=lambda pair: (pair.speaker or pair.audio) if by_speaker else pair.audio):
        for pair in own:
            if len(batches[-1]) >= MOST_IN_BATCH:
                batches.append([])
            batches[-1].append(pair)
            ended += 1
        if ended * count // len(pairs) > full:
            full = ended * count // len(pairs)
            batches.append([])
    return [batch for batch in batches if batch]


_loaded: dict[tuple[str, str, Precision], PhoneLabeler] = {}
"""The model by its name, device and precision, once for each process; one that is forked finds what was loaded before."""


def _load(model: str, device: str, precision: Precision = "float32") -> PhoneLabeler:
    if (model, device, precision) not in _loaded:
        from phonechain.app.labelling.batcher import set_threads

        set_threads(1)  # further ones would be of no use to batches of this size, and do not survive a fork
        common.keep_freed_memory()
        _loaded[model, device, precision] = common.load_model(model, device, precision)
        gc.freeze()  # what is loaded stays: looking for garbage in it would take time, and memory in each forked process
    return _loaded[model, device, precision]


def _count_workers(labeler: PhoneLabeler, recordings: int) -> int:
    """A process for each core where there are many recordings; on a GPU one, since a forked one could not use it."""
    from phonechain.app.settings import cores

    return 1 if labeler.device_.type != "cpu" or recordings < MANY else cores()


def _label_batch(task: Task, pairs: list[Pair]) -> Outcome:
    """Read, label and write some recordings; what cannot be used is left out."""
    from phonechain.app.labelling.pipeline import label_sequences, note_precision
    from phonechain.app.labelling.speakers import find_normalisation, number_speakers

    labeler, outcome = _load(task.model, task.device, task.precision), Outcome(len(pairs))
    work = _prepare(task, pairs, labeler, outcome)
    tiers = [ready for one in work for ready in one.tiers]
    owners = [n for n, one in enumerate(work) for _ in one.tiers]
    groups = number_speakers(None if task.all_speakers else work[owner].pair.speaker for owner in owners)
    batch = label_sequences(
        labeler.model_,
        [(ready.inputs, ready.segments, ready.starts) for ready in tiers],
        comparisons=[ready.comparison for ready in tiers],
        groups=groups,
        mode=task.mode,
        support=task.ranked,
        **task.decoding,
    )
    for ready, owner in zip(tiers, owners, strict=True):
        speaker = None if task.all_speakers else work[owner].pair.speaker
        ready.normalised = find_normalisation(task.mode, speaker)
        ready.notices += note_precision(labeler.model_)
    for n, one in enumerate(work):
        own = [k for k, owner in enumerate(owners) if owner == n]
        labelled = [(tiers[k], batch[k]) for k in own]
        if task.out is not None:
            try:
                more = [_describe(task, labeler, tiers, batch[k], groups, k) for k in (own if task.extras else ())]
                _write(task, one, labeler, labelled, more)
            except (PhonechainError, OSError) as error:
                outcome.failures.append(common.file_line(one.pair.file, error))
                continue
        name = printable_path(one.pair.file)
        for ready, labels in labelled:
            outcome.segments += len(labels) + len(ready.skipped)
            if task.ranked:
                outcome.ranking.add(f"{name}#{ready.tier.name}" if task.all_speakers else name, ready, labels)
        comparisons = [ready.comparison for ready in one.tiers if ready.comparison is not None]
        outcome.given += sum(comparison.total for comparison in comparisons)
        unknown = sum((Counter(comparison.unknown) for comparison in comparisons), Counter[str]())
        if unknown:
            outcome.unknown.append((one.pair.file, unknown))
        outcome.labelled.append(
            (one.pair.file, tuple(dict.fromkeys(notice for ready in one.tiers for notice in ready.notices)))
        )
    return outcome


def _sum_unknown(files: Sequence[tuple[Path, Counter[str]]], given: int) -> list[Notice]:
    """One notice for the whole folder about labels unknown to the model, of so many given labels."""
    from phonechain.features.corpora.base import describe_files
    from phonechain.features.phones.comparison import unknown_notice

    if not files:
        return []
    total = sum((labels for _, labels in files), Counter[str]())
    notice = unknown_notice(dict(total.most_common()), given)
    return [replace(notice, message=f"{describe_files(len(files), files[0][0])}: {notice.message}")]


def _describe(
    task: Task,
    labeler: PhoneLabeler,
    tiers: list[Prepared],
    labels: Sequence[LabelledSegment],
    groups: list[int],
    n: int,
) -> dict[str, Any]:
    from phonechain.app.labelling.sequences import describe
    from phonechain.app.labelling.speakers import list_speaker_inputs

    beside = list_speaker_inputs(tiers, groups, n, task.mode)
    return describe(labeler, tiers[n], labels, task.extras, normalise=task.mode, beside=beside)


def _write(
    task: Task,
    one: Work,
    labeler: PhoneLabeler,
    labelled: Sequence[tuple[Prepared, Sequence[LabelledSegment]]],
    more: list[dict[str, Any]],
) -> None:
    """Raises PhonechainError, OSError."""
    data = answers.render_tiers(
        labeler, task.model, labelled, one.format, all_speakers=task.all_speakers,
        entropy=task.entropy or task.extras.sequences > 0, gop=task.gop, more=more,
    )  # fmt: skip
    try:
        common.write_output(data, one.target, durable=False)
    except FileNotFoundError:  # the first of its folder
        one.target.parent.mkdir(parents=True, exist_ok=True)
        common.write_output(data, one.target, durable=False)


def _check_arguments(root: Path, out: Path | None, format: str | None, doubtful: int, table: Path | None) -> str | None:
    """The format asked for. Raises SettingsError."""
    from phonechain.features.annotation import FORMATS, format_named

    common.check_folder_output(root, out, doubtful, table, "answers inside would be read as its annotations")
    form = format_named(format) if format is not None else None
    if format is not None and form is None:
        raise SettingsError(f"--format: expected one of {', '.join(FORMATS)} for a folder, got {format!r}")
    return form.name if form is not None else None


def _prepare(task: Task, pairs: Sequence[Pair], labeler: PhoneLabeler, outcome: Outcome) -> list[Work]:
    """Read, decode and compute features; files that cannot be used are reported and left out."""
    from phonechain.app.labelling import conversion, pipeline
    from phonechain.app.labelling.speakers import prepare_speakers
    from phonechain.features.annotation import FORMATS
    from phonechain.features.corpora.candidates import Unusable, annotation_of

    ready = []
    options = dict(task.options)
    by = options.pop("shift", 0.0)
    for pair in pairs:
        file = pair.file
        try:
            chosen = annotation_of(pair, options.get("tier"), by)
            file, annotation = chosen.file, chosen.annotation
            if task.all_speakers:
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
            outcome.failures.append(common.file_line(unusable.file, unusable.error))
            continue
        except (PhonechainError, OSError) as error:
            outcome.failures.append(common.file_line(pair.audio if isinstance(error, AudioError) else file, error))
            continue
        form = task.format or (annotation.format if annotation.format in FORMATS else "textgrid")
        own = file.suffix if file.suffix.lower() in FORMATS[form].suffixes else conversion.suffix_of(form)
        below = pair.audio.parts[len(task.root.parts) : -1]
        target = Path(task.out or task.root, *below, pair.audio.stem + own)
        ready.append(Work(replace(pair, annotations=[file], parts=[]), tiers, form, target))
    return ready
