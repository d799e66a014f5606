"""A part of a labelling job: every utterance of a range labelled, in batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution
from phonechain.app.jobs.outage import Throttle
from phonechain.app.jobs.parts import Part, file_name
from phonechain.app.labelling import pipeline
from phonechain.app.labelling.extras import Extras
from phonechain.app.labelling.pipeline import Gaps
from phonechain.app.labelling.sequences import describe
from phonechain.app.labelling.speakers import (
    find_normalisation,
    list_speaker_inputs,
    number_speakers,
    prepare_speakers,
    render,
)
from phonechain.app.schemas.classify import folding_to_json, gaps_to_json, segment_to_json
from phonechain.app.storage.tables import Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation
from phonechain.features.annotation.base import name_stem
from phonechain.features.errors import PhonechainError
from phonechain.features.statistics import SpeakerStatistics

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.normaliser import Mode

BATCH = 16
"""Utterances labelled at once, at least: all of a speaker that follow each other are."""
MOST_SECONDS = 3 * 3600.0
"""Sound labelled at once, about: a speaker with more is measured first, so that the recordings can be labelled apart."""


def measure(
    workspace: Workspace, job: Job, lines: Sequence[Line], files: Files, still_wanted: Throttle
) -> dict[str, SpeakerStatistics]:
    """The statistics of the speakers of these lines, if the job normalises by speaker. Raises Cancelled, Fenced.

    Lines that cannot be used have no part in them; `run` says why they cannot.
    """
    labeler, mode, _ = _load(workspace, job)
    if mode != "speaker":
        return {}
    found: dict[str, SpeakerStatistics] = {}
    for line in lines:
        still_wanted()
        if line.speaker is None:
            continue
        try:
            [own] = _prepare(line, files, labeler, job.spec["options"])
        except (PhonechainError, OSError):
            continue
        if own.segments:
            one = labeler.model_.normaliser.measure(own.inputs.split(own.starts), labeler.features_)
            before = found.get(line.speaker)
            found[line.speaker] = one if before is None else SpeakerStatistics.merge([before, one])
    return found


def _load(workspace: Workspace, job: Job) -> tuple[PhoneLabeler, Mode, bool]:
    """The job's model, over what it normalises, and whether the speakers of the corpus's lines are those of the sound."""
    options = job.spec["options"]
    # A job that was taken by an earlier version has few of these.
    labeler = execution.load_labeler(workspace, job.spec["model"]["blob"], options.get("precision", "float32"))
    # Tiers of several speakers are each a speaker's; nothing says whose recordings belong together.
    known_speakers = not options.get("all_speakers", False)
    return labeler, labeler.normalisation(options.get("normalise"), known_speakers=known_speakers), known_speakers


def run(
    workspace: Workspace,
    job: Job,
    lines: Sequence[Line],
    files: Files,
    still_wanted: Throttle,
    measured: Mapping[str, SpeakerStatistics],
) -> Part:
    """The labels of the utterances of these lines. Raises Cancelled, Fenced.

    `measured` are the speakers whose recordings are spread over parts of the job; others' are all among these lines, and
    follow each other.
    """
    labeler, mode, known_speakers = _load(workspace, job)
    options, known = job.spec["options"], dict(measured)
    extras = Extras(options.get("sequences", 0), options.get("words", False), options.get("hidden", False))
    part = Part()

    def prepare(line: Line) -> list[Prepared] | None:
        still_wanted()
        try:
            return _prepare(line, files, labeler, options)
        except (PhonechainError, OSError) as error:
            part.errors.append(execution.make_file_error(job.id, line.index, line.id, error))
            return None

    by_speaker = mode == "speaker" and known_speakers
    for ready in _batches(lines, prepare, lambda speaker: by_speaker and speaker not in known):
        last = ready[-1][0]
        if by_speaker and last.speaker not in known:
            whole = [line for line in lines if line.speaker == last.speaker]
            if last.speaker is not None and whole[-1].index > last.index:  # more than is labelled at once
                known.update(measure(workspace, job, whole, files, still_wanted))
        for line, own in ready if by_speaker else ():
            for one in own:
                one.inputs = replace(one.inputs, speaker=known.get(line.speaker or ""))
        tiers = [one for _, own in ready for one in own]
        groups = number_speakers(line.speaker if known_speakers else None for line, own in ready for _ in own)
        answers = pipeline.label_sequences(
            labeler.model_,
            [(one.inputs, one.segments, one.starts) for one in tiers],
            n_best=options["n_best"],
            decode=options["decode"],
            mode=mode,
            comparisons=[one.comparison for one in tiers],
            groups=groups,
        )
        place = 0
        for line, own in ready:
            here = slice(place, place + len(own))
            place = here.stop
            labelled = list(zip(own, answers[here], strict=True))
            try:
                described: list[dict[str, Any]] = []
                for n, (one, labels) in enumerate(labelled, here.start) if extras else ():
                    still_wanted()
                    beside = list_speaker_inputs(tiers, groups, n, mode)
                    described.append(describe(labeler, one, labels, extras, normalise=mode, beside=beside))
                made = [(file_name(line, format), _render(labelled, format)) for format in options["formats"]]
            except PhonechainError as error:  # such as a format that cannot hold these labels
                part.errors.append(execution.make_file_error(job.id, line.index, line.id, error))
                continue
            part.files += made
            for (one, labels), more in zip(labelled, described or [{}] * len(own), strict=True):
                one.normalised = find_normalisation(mode, line.speaker if known_speakers else None)
                part.add_row(_row(line, one, labels, more, entropy=options.get("entropy", False)))
                part.segments += len(labels)
    still_wanted.action()
    return part


def _batches(
    lines: Iterable[Line], prepare: Callable[[Line], list[Prepared] | None], together: Callable[[str], bool]
) -> Iterator[list[tuple[Line, list[Prepared]]]]:
    """The lines that can be prepared, in batches; those of a speaker that belong `together` in one if they follow each other."""
    batch: list[tuple[Line, list[Prepared]]] = []
    seconds = 0.0
    for line in lines:
        goes_on = (
            bool(batch) and line.speaker is not None and line.speaker == batch[-1][0].speaker and together(line.speaker)
        )
        if (len(batch) >= BATCH and not goes_on) or seconds > MOST_SECONDS:
            yield batch
            batch, seconds = [], 0.0
        if (own := prepare(line)) is not None:
            batch.append((line, own))
            seconds += own[0].duration
    if batch:
        yield batch


def _prepare(line: Line, files: Files, labeler: PhoneLabeler, options: dict[str, Any]) -> list[Prepared]:
    """The tier of a line's annotation, or with `all_speakers` all of them, ready to be labelled."""
    annotation = notation.read(
        files.read(line.annotation), name=PurePosixPath(line.annotation).name, audio=name_stem(line.audio)
    )
    audio = files.read(line.audio)
    common: dict[str, Any] = {
        "channel": options["channel"],
        "fix": options["fix"],
        "on_bad_segment": options.get("on_bad_segment", "refuse"),
        "gaps": Gaps(options.get("gaps", "across"), options.get("max_gap", pipeline.MAX_GAP)),
        "max_seconds": options["max_seconds"],
        "max_segments": options["max_segments"],
        "known": labeler.label_set_.with_map(options.get("map")),
        "recording": name_stem(line.audio),
    }
    if not options.get("all_speakers", False):
        tiers = [pipeline.prepare_utterance(audio, annotation, labeler.features_, tier=options["tier"], **common)]
    else:
        tiers = prepare_speakers(labeler, audio, annotation, **common)
        pipeline.check_count(sum(len(one.segments) for one in tiers), options["max_segments"])
    for one in tiers:
        one.notices += pipeline.note_precision(labeler.model_)
    return tiers


def _render(labelled: Sequence[tuple[Prepared, Sequence[LabelledSegment]]], format: str) -> bytes:
    """The annotation with the labels of its tiers. Raises AnnotationError."""
    return pipeline.render_annotation(*labelled[0], format) if len(labelled) == 1 else render(labelled, format)


def _row(
    line: Line, prepared: Prepared, labelled: Sequence[LabelledSegment], more: dict[str, Any], *, entropy: bool
) -> str:
    row = {
        "place": line.index,
        "utterance": line.id,
        "speaker": line.speaker,
        "split": line.split,
        "duration": round(prepared.duration, 6),
        "tier": prepared.tier.name,
        "segments": [
            segment_to_json(segment, entropy=entropy, lone=False)
            for segment in pipeline.insert_skipped(prepared, labelled)
        ],
        "normalised": prepared.normalised,
        **folding_to_json(prepared.comparison),
        "gaps": gaps_to_json(prepared.gaps, len(prepared.starts) + 1),
        **more,
        "warnings": [notice.as_dict() for notice in prepared.notices],
    }
    return json.dumps(row, ensure_ascii=False, allow_nan=False)
