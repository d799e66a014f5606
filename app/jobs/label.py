"""Labelling in parts: each takes a range of a corpus's utterances and leaves one file of answers.

The file is a zip: `rows.jsonl` with one utterance a line, and under `files/FORMAT/` the annotation files that were
asked for. It holds the answers of its range whatever worker made it, so a part done twice is the same part.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from phonechain.app.corpora import contents
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution, repository
from phonechain.app.jobs.outage import Throttle, retry_database
from phonechain.app.labelling import conversion
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.pipeline import Gaps
from phonechain.app.schemas.classify import folding, gaps_to_json, segment_to_json
from phonechain.app.storage import references
from phonechain.app.storage.tables import FileError, Job, Shard
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
ROWS = "rows.jsonl"


@dataclass
class _Part:
    """What a part has made so far."""

    rows: list[str] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    segments: int = 0


def run_part(workspace: Workspace, id: str, number: int) -> None:
    """Do part `number` of a labelling job, unless it is done or not wanted any more.

    Raises:
        Cancelled, Fenced, StorageFull, DatabaseAway, and whatever makes the whole job fail.
    """
    job = retry_database(repository.get, workspace.db, id)
    spec = job.spec
    retry_database(repository.begin, workspace.db, id, spec["total"], "utterances")
    retry_database(repository.wanted, workspace.db, id)
    if retry_database(repository.shard_done, workspace.db, id, number):
        return
    execution.one_thread()
    with workspace.db.read() as session:
        corpus = corpora.get(session, spec["corpus"])
    model = execution.labeler(workspace, spec["model"]["blob"])
    size = spec["part"]
    lines = list(contents.lines(workspace, corpus, number * size, size))
    still_wanted = Throttle(lambda: repository.wanted(workspace.db, id))
    part = _label(job, lines, contents.files(workspace, corpus), model, still_wanted)
    with references.keeping(workspace) as keeping:
        digest = retry_database(_store, keeping.workspace, part)
        made = Shard(
            job=id, number=number, blob=digest, utterances=len(lines), segments=part.segments, failed=len(part.errors)
        )
        retry_database(
            repository.finish_shard, workspace.db, made, part.errors, spec["total"], workspace.store.size(digest)
        )


def _label(job: Job, lines: Sequence[Line], files: Files, model: PhoneLabeler, still_wanted: Throttle) -> _Part:
    options = job.spec["options"]
    mode = model.normalisation(options.get("normalise"), known_speakers=True)
    part = _Part()
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
                    (_file_name(line, format), labelling.render_annotation(prepared, labelled, format))
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


def _file_name(line: Line, format: str) -> str:
    """Where the annotation file goes in the result: as the corpus names it, with its suffix if the format has that.

    References have no common folder, so their place in the list keeps equal names apart.
    """
    outside = line.audio.startswith("/") or "://" in line.audio
    stem = f"{line.index:08d}-{name_stem(line.audio)}" if outside else str(PurePosixPath(line.audio).with_suffix(""))
    suffix = PurePosixPath(line.annotation).suffix
    if suffix.lower() not in notation.FORMATS[format].suffixes:
        suffix = conversion.suffix(format)
    return f"files/{format}/{stem}{suffix}"


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


def _store(workspace: Workspace, part: _Part) -> str:
    """The part's file, written the same from the same answers: entries have a fixed time."""
    with workspace.store.writing() as out:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in [(ROWS, "".join(row + "\n" for row in part.rows).encode()), *part.files]:
                file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        out.write(buffer.getbuffer())  # type: ignore[arg-type]
    return out.digest
