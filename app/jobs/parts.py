"""Jobs in parts: each takes a range of a corpus's utterances and leaves one file of answers.

The file is a zip: `rows.jsonl` with one utterance a line, and under `files/FORMAT/` the annotation files that were
asked for. It holds the answers of its range whatever worker made it, so a part done twice is the same part.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from phonechain.app.corpora import contents
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution, repository
from phonechain.app.jobs.outage import Throttle, retry_database
from phonechain.app.labelling import conversion
from phonechain.app.storage import references
from phonechain.app.storage.tables import FileError, Job, Shard
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation
from phonechain.features.annotation.base import name_stem

ROWS = "rows.jsonl"


@dataclass
class Part:
    """What a part has made so far; `segments` counts those of its rows."""

    rows: list[str] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    segments: int = 0


def run_part(workspace: Workspace, id: str, number: int) -> None:
    """Do part `number` of a job, unless it is done or not wanted any more.

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
    size = spec["part"]
    lines = list(contents.lines(workspace, corpus, number * size, size))
    still_wanted = Throttle(lambda: repository.wanted(workspace.db, id))
    part = _work(workspace, job, lines, contents.files(workspace, corpus), still_wanted)
    with references.keeping(workspace) as keeping:
        digest = retry_database(_store, keeping.workspace, part)
        made = Shard(
            job=id, number=number, blob=digest, utterances=len(lines), segments=part.segments, failed=len(part.errors)
        )
        retry_database(
            repository.finish_shard, workspace.db, made, part.errors, spec["total"], workspace.store.size(digest)
        )


def _work(workspace: Workspace, job: Job, lines: Sequence[Line], files: Files, still_wanted: Throttle) -> Part:
    """The answers to the lines, by the job's kind."""
    if job.kind == "label":
        from phonechain.app.jobs import label

        return label.run(workspace, job, lines, files, still_wanted)
    from phonechain.app.jobs import align

    return align.run(workspace, job, lines, files, still_wanted)


def file_name(line: Line, format: str) -> str:
    """Where the annotation file goes in the result: as the corpus names it, with its suffix if the format has that.

    References have no common folder, so their place in the list keeps equal names apart.
    """
    outside = line.audio.startswith("/") or "://" in line.audio
    stem = f"{line.index:08d}-{name_stem(line.audio)}" if outside else str(PurePosixPath(line.audio).with_suffix(""))
    suffix = PurePosixPath(line.annotation).suffix
    if suffix.lower() not in notation.FORMATS[format].suffixes:
        suffix = conversion.suffix(format)
    return f"files/{format}/{stem}{suffix}"


def _store(workspace: Workspace, part: Part) -> str:
    """The part's file, written the same from the same answers: entries have a fixed time."""
    with workspace.store.writing() as out:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in [(ROWS, "".join(row + "\n" for row in part.rows).encode()), *part.files]:
                file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        out.write(buffer.getbuffer())  # type: ignore[arg-type]
    return out.digest
