"""Where a file of a review comes from: an upload, an utterance of a corpus, or what a job found in one."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import ValidationError

from phonechain.app.corpora import contents
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import queries
from phonechain.app.jobs import repository as jobs
from phonechain.app.jobs.parts import ROWS
from phonechain.app.problems.errors import InvalidRequest, NoResult
from phonechain.app.reviews import boundaries
from phonechain.app.reviews.bundle import Others
from phonechain.app.schemas.reviews import FoundSegments
from phonechain.app.storage.tables import SPLIT, Corpus, Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features.corpora.base import rate_of


@dataclass(frozen=True, slots=True)
class Source:
    """A recording with its segments: `sound` is the digest of its file, `found` what the service itself found in it."""

    sound: str
    name: str
    annotation: bytes
    annotation_name: str
    found: FoundSegments | None = None
    speaker: str | None = None
    tier: str | None = None
    channel: int | Literal["mix"] = "mix"


def from_corpus(workspace: Workspace, corpus_id: str, place: int, owner: str | None) -> Source:
    """Utterance `place` (from 0) of a corpus, with its annotation.

    Raises:
        UnknownCorpus, InvalidRequest, CorpusError, StorageFull.
    """
    corpus = _get_corpus(workspace, corpus_id, owner)
    _check_segments(corpus, "corpus")
    return _read_source(workspace, corpus, place, corpus.options.get("tier"))


def from_job(workspace: Workspace, job_id: str, place: int, owner: str | None) -> Source:
    """Utterance `place` (from 0) of a job's corpus, with the segments that the job labelled or found.

    Raises:
        UnknownJob, UnknownCorpus, InvalidRequest, NoResult, AnnotationError, CorpusError, StorageFull.
    """
    job = jobs.get(workspace.db, job_id, owner)
    if job.kind not in SPLIT:
        raise InvalidRequest(
            f"expected a job of kind label, align or recognize, got {job.kind}", pointer="job", value=job.kind
        )
    corpus = _get_corpus(workspace, job.spec["corpus"], owner)
    options = job.spec["options"]
    line = _get_line(workspace, corpus, place)
    row = _read_row(workspace, job, line)
    if job.kind == "label":
        return _read_source(workspace, corpus, place, options["tier"], options["channel"])
    try:
        found = FoundSegments.model_validate(row)
    except ValidationError:
        raise NoResult(f"no segments were found in {line.id[:80]!r}", details={"utterance": line.id[:80]}) from None
    name, files = PurePosixPath(line.audio).name, contents.open_files(workspace, corpus)
    transcript = None
    if job.kind == "align":
        transcript = files.read(line.annotation), PurePosixPath(line.annotation).name
    audio = files.path(line.audio)
    written = boundaries.write(found, name, transcript, rate_of(audio))
    return Source(
        sound=workspace.store.put(audio), name=name,
        annotation=written.data, annotation_name=written.name, found=found,
        speaker=line.speaker, tier=written.tier, channel=options["channel"],
    )  # fmt: skip


def read_others(workspace: Workspace, corpus_id: str, owner: str | None) -> tuple[Others, dict[str, Any]]:
    """(the utterances of a corpus, how it is read but for its layout and table, which are those of its own folders).

    Raises:
        UnknownCorpus, InvalidRequest, CorpusError, StorageFull.
    """
    corpus = _get_corpus(workspace, corpus_id, owner)
    _check_segments(corpus, "with_corpus")
    kept = {k: v for k, v in corpus.options.items() if k in ("tier", "fix", "on_bad_segment", "drop")}
    return Others(list(contents.read_lines(workspace, corpus)), contents.open_files(workspace, corpus)), kept


def _check_segments(corpus: Corpus, pointer: str) -> None:
    if (holds := corpus.options.get("holds") or "segments") != "segments":
        raise InvalidRequest(
            f"expected a corpus of segments, got one that was added with holds={holds}: align or recognise it first",
            pointer=pointer,
            value=holds,
        )


def _get_corpus(workspace: Workspace, id: str, owner: str | None) -> Corpus:
    with workspace.db.read() as session:
        return corpora.get(session, id, owner)


def _get_line(workspace: Workspace, corpus: Corpus, place: int) -> Line:
    for line in contents.read_lines(workspace, corpus, place, 1):
        return line
    raise InvalidRequest(
        f"place: expected a number below {corpus.utterances}, got {place}",
        pointer="place",
        value=place,
        limit=corpus.utterances,
    )


def _read_row(workspace: Workspace, job: Job, line: Line) -> dict[str, Any]:
    """The answer of a job to one utterance. Raises NoResult."""
    number = line.index // job.spec["part"]
    for part in queries.list_shards(workspace.db, job.id):
        if part.number not in (number, number - 1):  # the one before, if it ends with this line's speaker
            continue
        with zipfile.ZipFile(workspace.store.local(part.blob)) as file, file.open(ROWS) as rows:
            for text in rows:
                row: dict[str, Any] = json.loads(text)
                if row["place"] == line.index:
                    return row
    raise NoResult(
        f"no result for {line.id[:80]!r}: the job is {job.state}",
        details={"state": job.state, "utterance": line.id[:80]},
    )


def _read_source(
    workspace: Workspace, corpus: Corpus, place: int, tier: str | None, channel: int | Literal["mix"] = "mix"
) -> Source:
    line, files = _get_line(workspace, corpus, place), contents.open_files(workspace, corpus)
    return Source(
        sound=workspace.store.put(files.path(line.audio)), name=PurePosixPath(line.audio).name,
        annotation=files.read(line.annotation),
        annotation_name=PurePosixPath(line.annotation).name, speaker=line.speaker, tier=tier, channel=channel,
    )  # fmt: skip
