"""The result of a labelling job, put together from its parts while it is sent: nothing is written, memory stays flat.

What a cancelled or failed job has finished can be had the same way.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from phonechain.app.alignment.tables import phone_to_row
from phonechain.app.jobs import queries
from phonechain.app.jobs.parts import ROWS
from phonechain.app.storage.tables import FileError, Job, Shard
from phonechain.app.storage.workspace import Workspace

Format = Literal["zip", "jsonl", "csv"]
Sort = Literal["corpus", "doubt", "given"]
"""`doubt`: the least certain answers first, of alignments the boundaries. `given`: the least probable labels of the input."""


@dataclass(frozen=True)
class Table:
    """The columns of a kind's segments, and which of their numbers each order sorts by, the lowest first."""

    columns: tuple[str, ...]
    sorts: Mapping[str, str]


LABELS = Table(
    (
        "utterance", "speaker", "split", "start", "end", "label", "posterior", "given", "given_posterior", "given_rank",
        "compared_as", "skipped", "tier",
    ),
    {"doubt": "posterior", "given": "given_posterior"},
)  # fmt: skip
ALIGNMENTS = Table(
    (
        "utterance", "speaker", "split", "start", "end", "label", "word", "guessed", "within_20_ms", "start_low",
        "start_high", "posterior", "given_start", "log_posterior_per_phone", "log_posterior", "fits_worst",
        "labelled", "labelled_posterior",
    ),
    {"doubt": "within_20_ms", "given": "posterior"},
)  # fmt: skip
WORDS = ("utterance", "speaker", "split", "tier", "start", "end", "label", "first", "last", "confidence")
SEQUENCES = (
    "utterance",
    "speaker",
    "split",
    "tier",
    "first",
    "last",
    "rank",
    "probability",
    "log_probability",
    "labels",
)
"""The columns of what was asked for beside the labels. `rank` 0: the answered labels as a sequence."""
MEDIA_TYPES = {"zip": "application/zip", "jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
CHUNK = 1 << 16


def stream(workspace: Workspace, job: Job, format: Format, sort: Sort) -> Iterator[bytes]:
    """The result in pieces."""
    parts, table = queries.list_shards(workspace.db, job.id), LABELS if job.kind == "label" else ALIGNMENTS
    lines: Iterator[str]
    if format == "zip":
        yield from _zip(workspace, job, parts, table, sort)
        return
    make = _json_lines if format == "jsonl" else _csv_lines
    lines = make(workspace, parts, table, sort)
    yield from _join_chunks(line.encode() for line in lines)


def _join_chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= CHUNK:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _rows(workspace: Workspace, parts: Sequence[Shard]) -> Iterator[dict[str, Any]]:
    for part in parts:
        with zipfile.ZipFile(workspace.store.local(part.blob)) as file, file.open(ROWS) as rows:
            for line in rows:
                yield json.loads(line)


def _json_lines(workspace: Workspace, parts: Sequence[Shard], table: Table, sort: Sort) -> Iterator[str]:
    """An utterance a line; sorted by its most doubtful segment."""
    if sort == "corpus":
        return (json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(workspace, parts))
    return _sort_lines(
        workspace,
        (
            (
                min((_certainty(s, table, sort) for s in row["segments"]), default=2.0),
                json.dumps(row, ensure_ascii=False) + "\n",
            )
            for row in _rows(workspace, parts)
        ),
    )


def _csv_lines(workspace: Workspace, parts: Sequence[Shard], table: Table, sort: Sort) -> Iterator[str]:
    """A segment a line, under a heading."""
    yield _csv(table.columns)
    lines = (
        (
            _certainty(segment, table, sort),
            _csv([{**row, **segment, **_phone_columns(row, n, table)}.get(c, "") for c in table.columns]),
        )
        for row in _rows(workspace, parts)
        for n, segment in enumerate(row["segments"])
    )
    if sort == "corpus":
        yield from (line for _, line in lines)
    else:
        yield from _sort_lines(workspace, lines)


def _word_lines(workspace: Workspace, parts: Sequence[Shard]) -> Iterator[str]:
    """A word a line, under a heading."""
    yield _csv(WORDS)
    for row in _rows(workspace, parts):
        for word in row["words"]:
            yield _csv([{**row, **word}[c] for c in WORDS])


def _sequence_lines(workspace: Workspace, parts: Sequence[Shard]) -> Iterator[str]:
    """A sequence a line, those of each chain by rank, under a heading."""
    yield _csv(SEQUENCES)
    for row in _rows(workspace, parts):
        for chain in row["sequences"]:
            answered = [
                s["label"] for s in row["segments"][chain["first"] : chain["last"] + 1] if s["label"] is not None
            ]
            for rank, one in enumerate([{**chain, "labels": answered}, *chain["n_best"]]):
                values = {**row, **chain, **one, "rank": rank, "labels": " ".join(one["labels"])}
                yield _csv([values[c] for c in SEQUENCES])


def _phone_columns(row: dict[str, Any], place: int, table: Table) -> dict[str, Any]:
    """What a phone of an alignment says in columns that its segment does not have by itself."""
    return phone_to_row(row, place) if table is ALIGNMENTS else {}


def _certainty(segment: dict[str, Any], table: Table, sort: Sort) -> float:
    """What is sorted by. A label that the model does not know, or that is not given, comes after all others."""
    value = segment.get(table.sorts[sort]) if sort in table.sorts else None
    return 2.0 if value is None else float(value)


def _csv(values: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(["" if v is None else _escape_formula(v) for v in values])
    return out.getvalue()


def _escape_formula(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return (
        f"'{value}"
        if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") and len(value) > 1
        else value
    )


def _sort_lines(workspace: Workspace, lines: Iterator[tuple[float, str]]) -> Iterator[str]:
    """The lines by their number, equal ones in their order, through a file: there may be millions."""
    with tempfile.TemporaryDirectory(dir=workspace.store.scratch(), prefix="sort-") as folder:
        connection = sqlite3.connect(Path(folder) / "lines.db", check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("CREATE TABLE line (certainty REAL, text TEXT)")
            connection.executemany("INSERT INTO line VALUES (?, ?)", lines)
            connection.execute("CREATE INDEX by_certainty ON line (certainty)")
            for (text,) in connection.execute("SELECT text FROM line ORDER BY certainty, rowid"):
                yield text
        finally:
            connection.close()


class _ZipBuffer(io.RawIOBase):
    """Where a zip is written that is sent at once."""

    def __init__(self) -> None:
        self.pieces = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.pieces += data
        return len(data)

    def take(self) -> bytes:
        """What has gathered since the last time."""
        out = bytes(self.pieces)
        self.pieces.clear()
        return out


def _zip(workspace: Workspace, job: Job, parts: Sequence[Shard], table: Table, sort: Sort) -> Iterator[bytes]:
    """The annotation files as the corpus names them, and tables: `segments.csv`, `errors.csv`, `words.csv`, `sequences.csv`.

    The last two are there if they were asked for.
    """
    asked = job.spec.get("options", {}) if job.kind == "label" else {}
    out = _ZipBuffer()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for part in parts:
            with zipfile.ZipFile(workspace.store.local(part.blob)) as source:
                formats = {name.split("/")[1] for name in source.namelist() if name.startswith("files/")}
                for name in source.namelist():
                    if name.startswith("files/"):
                        plain = name.split("/", 2)[2] if len(formats) == 1 else name.split("/", 1)[1]
                        target.writestr(zipfile.ZipInfo(plain), source.read(name), zipfile.ZIP_DEFLATED)
                        if len(out.pieces) >= CHUNK:
                            yield out.take()
        for name, lines in (
            ("segments.csv", _csv_lines(workspace, parts, table, sort)),
            ("errors.csv", _error_lines(workspace, job.id)),
            *([("words.csv", _word_lines(workspace, parts))] if asked.get("words") else []),
            *([("sequences.csv", _sequence_lines(workspace, parts))] if asked.get("sequences") else []),
        ):
            with target.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                for piece in _join_chunks(line.encode() for line in lines):
                    member.write(piece)
                    if len(out.pieces) >= CHUNK:
                        yield out.take()
    yield out.take()


def _error_lines(workspace: Workspace, id: str) -> Iterator[str]:
    yield _csv(("utterance", "type", "detail"))
    after, more = -2, True
    while more:
        rows: list[FileError]
        rows, more = queries.list_file_errors(workspace.db, id, after=after, limit=1000)
        for row in rows:
            yield _csv((row.utterance, row.type, row.detail))
            after = row.index
