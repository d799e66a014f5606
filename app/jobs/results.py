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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from phonechain.app.jobs import repository
from phonechain.app.jobs.label import ROWS
from phonechain.app.storage.tables import FileError, Shard
from phonechain.app.storage.workspace import Workspace

Format = Literal["zip", "jsonl", "csv"]
Sort = Literal["corpus", "doubt", "given"]
"""`doubt`: the least probable answers first. `given`: the least probable labels of the input first."""

COLUMNS = (
    "utterance", "speaker", "split", "start", "end", "label", "posterior", "given", "given_posterior", "given_rank",
    "compared_as", "skipped",
)  # fmt: skip
MEDIA_TYPES = {"zip": "application/zip", "jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
CHUNK = 1 << 16


def stream(workspace: Workspace, id: str, format: Format, sort: Sort) -> Iterator[bytes]:
    """The result in pieces."""
    parts = repository.shards(workspace.db, id)
    lines: Iterator[str]
    if format == "zip":
        yield from _zip(workspace, id, parts, sort)
        return
    lines = _json_lines(workspace, parts, sort) if format == "jsonl" else _csv_lines(workspace, parts, sort)
    yield from _gathered(line.encode() for line in lines)


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
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


def _json_lines(workspace: Workspace, parts: Sequence[Shard], sort: Sort) -> Iterator[str]:
    """An utterance a line; sorted by its most doubtful segment."""
    if sort == "corpus":
        return (json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(workspace, parts))
    return _sorted(
        workspace,
        (
            (
                min((_certainty(s, sort) for s in row["segments"]), default=2.0),
                json.dumps(row, ensure_ascii=False) + "\n",
            )
            for row in _rows(workspace, parts)
        ),
    )


def _csv_lines(workspace: Workspace, parts: Sequence[Shard], sort: Sort) -> Iterator[str]:
    """A segment a line, under a heading."""
    yield _csv(COLUMNS)
    lines = (
        (_certainty(segment, sort), _csv([{**row, **segment}.get(column, "") for column in COLUMNS]))
        for row in _rows(workspace, parts)
        for segment in row["segments"]
    )
    if sort == "corpus":
        yield from (line for _, line in lines)
    else:
        yield from _sorted(workspace, lines)


def _certainty(segment: dict[str, Any], sort: Sort) -> float:
    """What is sorted by. A label that the model does not know, or that is not given, comes after all others."""
    value = segment.get("given_posterior" if sort == "given" else "posterior")
    return 2.0 if value is None else float(value)


def _csv(values: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(["" if v is None else _plain(v) for v in values])
    return out.getvalue()


def _plain(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return (
        f"'{value}"
        if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") and len(value) > 1
        else value
    )


def _sorted(workspace: Workspace, lines: Iterator[tuple[float, str]]) -> Iterator[str]:
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


class _Out(io.RawIOBase):
    """Where a zip is written that is sent at once."""

    def __init__(self) -> None:
        self.pieces = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.pieces += data
        return len(data)

    def taken(self) -> bytes:
        """What has gathered since the last time."""
        out = bytes(self.pieces)
        self.pieces.clear()
        return out


def _zip(workspace: Workspace, id: str, parts: Sequence[Shard], sort: Sort) -> Iterator[bytes]:
    """The annotation files as the corpus names them, `segments.csv`, and `errors.csv` where there were any."""
    out = _Out()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for part in parts:
            with zipfile.ZipFile(workspace.store.local(part.blob)) as source:
                formats = {name.split("/")[1] for name in source.namelist() if name.startswith("files/")}
                for name in source.namelist():
                    if name.startswith("files/"):
                        plain = name.split("/", 2)[2] if len(formats) == 1 else name.split("/", 1)[1]
                        target.writestr(zipfile.ZipInfo(plain), source.read(name), zipfile.ZIP_DEFLATED)
                        if len(out.pieces) >= CHUNK:
                            yield out.taken()
        for name, lines in (
            ("segments.csv", _csv_lines(workspace, parts, sort)),
            ("errors.csv", _error_lines(workspace, id)),
        ):
            with target.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                for piece in _gathered(line.encode() for line in lines):
                    member.write(piece)
                    if len(out.pieces) >= CHUNK:
                        yield out.taken()
    yield out.taken()


def _error_lines(workspace: Workspace, id: str) -> Iterator[str]:
    yield _csv(("utterance", "type", "detail"))
    after, more = -2, True
    while more:
        rows: list[FileError]
        rows, more = repository.file_errors(workspace.db, id, after=after, limit=1000)
        for row in rows:
            yield _csv((row.utterance, row.type, row.detail))
            after = row.index
