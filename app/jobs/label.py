"""A part of a labelling job: every utterance of a range labelled, in batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
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

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler

BATCH = 16
"""Utterances labelled at once, at least: all of a speaker that follow each other are."""
MOST_SECONDS = 3 * 3600.0
"""Sound labelled at once, about: a speaker with more is normalised in parts."""


def run(workspace: Workspace, job: Job, lines: Sequence[Line], files: Files, still_wanted: Throttle) -> Part:
    """The labels of the utterances of these lines. Raises Cancelled, Fenced."""
    options = job.spec["options"]
    # A job that was taken by an earlier version has few of these.
    labeler = execution.load_labeler(workspace, job.spec["model"]["blob"], options.get("precision", "float32"))
    extras = Extras(options.get("sequences", 0), options.get("words", False), options.get("hidden", False))
    # Tiers of several speakers are each a speaker's; nothing says whose recordings belong together.
    known_speakers = not options.get("all_speakers", False)
    mode = labeler.normalisation(options.get("normalise"), known_speakers=known_speakers)
    part = Part()

    def prepare(line: Line) -> list[Prepared] | None:
        still_wanted()
        try:
            return _prepare(line, files, labeler, options)
        except (PhonechainError, OSError) as error:
            part.errors.append(execution.make_file_error(job.id, line.index, line.id, error))
            return None

    for ready in _batches(lines, prepare, by_speaker=mode == "speaker" and known_speakers):
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
    lines: Iterable[Line], prepare: Callable[[Line], list[Prepared] | None], *, by_speaker: bool
) -> Iterator[list[tuple[Line, list[Prepared]]]]:
    """The lines that can be prepared, in batches; with `by_speaker`, those of a speaker that follow each other in one."""
    batch: list[tuple[Line, list[Prepared]]] = []
    seconds = 0.0
    for line in lines:
        goes_on = by_speaker and bool(batch) and line.speaker is not None and line.speaker == batch[-1][0].speaker
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
