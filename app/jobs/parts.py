"""The answers of a part of a job, a range of a corpus's utterances, as one file.

The file is a zip: `rows.jsonl` with one utterance a line, and under `files/FORMAT/` the annotation files that were
asked for. It holds the answers of its range whatever worker made it, so a part done twice is the same part.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO

from phonechain.app.corpora.manifest import Line
from phonechain.app.labelling import conversion
from phonechain.app.storage.tables import FileError
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation
from phonechain.features.annotation.base import name_stem

ROWS = "rows.jsonl"
IN_MEMORY = 8 * 2**20
"""Bytes of rows from which on they are kept in a file: those with posteriors of hidden variables are large."""


def _spool() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)


@dataclass
class Part:
    """What a part has made so far; `segments` counts those of its rows."""

    rows: IO[bytes] = field(default_factory=_spool)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    segments: int = 0

    def add_row(self, row: str) -> None:
        """Add a line of JSON."""
        self.rows.write(row.encode() + b"\n")


def file_name(line: Line, format: str) -> str:
    """Where the annotation file goes in the result: as the corpus names it, with its suffix if the format has that.

    References have no common folder, so their place in the list keeps equal names apart.
    """
    outside = line.audio.startswith("/") or "://" in line.audio
    stem = f"{line.index:08d}-{name_stem(line.audio)}" if outside else str(PurePosixPath(line.audio).with_suffix(""))
    suffix = PurePosixPath(line.annotation).suffix
    if suffix.lower() not in notation.FORMATS[format].suffixes:
        suffix = conversion.suffix_of(format)
    return f"files/{format}/{stem}{suffix}"


def store(workspace: Workspace, part: Part) -> str:
    """The part's file, written the same from the same answers: entries have a fixed time."""
    with workspace.store.writing() as out:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            part.rows.seek(0)
            rows = zipfile.ZipInfo(ROWS)
            rows.compress_type = zipfile.ZIP_DEFLATED
            with file.open(rows, "w", force_zip64=True) as member:
                shutil.copyfileobj(part.rows, member)
            for name, data in part.files:
                file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        out.write(buffer.getbuffer())  # type: ignore[arg-type]
    return out.digest
