"""A part of a labelling job: every utterance of a range labelled, in batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution
from phonechain.app.jobs.outage import Throttle
from phonechain.app.jobs.parts import Part, file_name
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.pipeline import Gaps
from phonechain.app.schemas.classify import folding, gaps_to_json, segment_to_json
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
"""Utterances labelled at once: few enough that a cancel is heard soon."""


def run(workspace: Workspace, job: Job, lines: Sequence[Line], files: Files, still_wanted: Throttle) -> Part:
    """The labels of the utterances of these lines. Raises Cancelled, Fenced."""
    model, options = execution.labeler(workspace, job.spec["model"]["blob"]), job.spec["options"]
    mode = model.normalisation(options.get("normalise"), known_speakers=True)
    part = Part()
    for at in range(0, len(lines), BATCH):
        ready: list[tuple[Line, Prepared]] = []
        for line in lines[at : at + BATCH]:
            still_wanted()
            try:
                ready.append((line, _prepared(line, files, model, options)))
            except (PhonechainError, OSError) as error:
                part.errors.append(execution.file_error(job.id, line.index, line.id, error))
        speakers: dict[str, int] = {}
        answers = labelling.label_sequences(
            model.model_,
            [(prepared.inputs, prepared.segments, prepared.starts) for _, prepared in ready],
            n_best=options["n_best"],
            decode=options["decode"],
            mode=mode,
            comparisons=[prepared.comparison for _, prepared in ready],
            groups=[speakers.setdefault(line.speaker or f"\0{line.id}", len(speakers)) for line, _ in ready],
        )
        for (line, prepared), labelled in zip(ready, answers, strict=True):
            try:
                made = [
                    (file_name(line, format), labelling.render_annotation(prepared, labelled, format))
                    for format in options["formats"]
                ]
            except PhonechainError as error:  # a format that cannot hold these labels
                part.errors.append(execution.file_error(job.id, line.index, line.id, error))
                continue
            part.files += made
            part.rows.append(_row(line, prepared, labelled, options.get("entropy", False)))
            part.segments += len(labelled)
    still_wanted.action()
    return part


def _prepared(line: Line, files: Files, model: PhoneLabeler, options: dict[str, Any]) -> Prepared:
    annotation = notation.read(
        files.read(line.annotation), name=PurePosixPath(line.annotation).name, audio=name_stem(line.audio)
    )
    return labelling.prepare_utterance(
        files.read(line.audio),
        annotation,
        model.features_,
        tier=options["tier"],
        channel=options["channel"],
        fix=options["fix"],
        # A job that was taken by an earlier version has none of these.
        on_bad_segment=options.get("on_bad_segment", "refuse"),
        gaps=Gaps(options.get("gaps", "across"), options.get("max_gap", labelling.MAX_GAP)),
        max_seconds=options["max_seconds"],
        max_segments=options["max_segments"],
        known=model.label_set_.mapped(options.get("map")),
        recording=name_stem(line.audio),
    )


def _row(line: Line, prepared: Prepared, labelled: Sequence[LabelledSegment], entropy: bool) -> str:
    row = {
        "place": line.index,
        "utterance": line.id,
        "speaker": line.speaker,
        "split": line.split,
        "duration": round(prepared.duration, 6),
        "tier": prepared.tier.name,
        "segments": [
            segment_to_json(segment, entropy=entropy, lone=False)
            for segment in labelling.with_skipped(prepared, labelled)
        ],
        **folding(prepared.comparison),
        "gaps": gaps_to_json(prepared.gaps, len(prepared.starts) + 1),
        "warnings": [notice.as_dict() for notice in prepared.notices],
    }
    return json.dumps(row, ensure_ascii=False, allow_nan=False)
