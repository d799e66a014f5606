"""The table of a corpus: which speaker and which split each utterance has. TSV or CSV with a header line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from phonechain.features.annotation.base import MAX_BYTES, nfc
from phonechain.features.annotation.encoding import decode
from phonechain.features.errors import CorpusError, PhonechainError

NAMES = ("utterances.tsv", "utterances.csv")
"""Names of tables that are found automatically in the root of a corpus."""

_KEYS = ("utterance", "id", "file", "path", "audio", "filename", "name")
_SPEAKERS = ("speaker", "spk", "speaker_id", "client_id")
_SPLITS = ("split", "subset", "set", "partition")


@dataclass(frozen=True, slots=True)
class Row:
    """The row of an utterance, and its line."""

    line: int
    speaker: str | None
    split: str | None


class Table:
    """Rows by utterance, looked up by path below the root without suffix, then by the file's name."""

    def __init__(self, file: Path, rows: dict[str, Row], columns: tuple[str | None, str | None]) -> None:
        self.file = file
        self.rows = rows
        self.speakers, self.splits = columns
        self.used: set[str] = set()

    def find(self, stem: str) -> Row | None:
        """The row of an utterance whose path below the root, without suffix, is `stem`."""
        for key in (stem, stem.rsplit("/", 1)[-1]):
            if row := self.rows.get(nfc(key)):
                self.used.add(nfc(key))
                return row
        return None

    def find_unused(self) -> list[tuple[str, Row]]:
        return [(k, r) for k, r in self.rows.items() if k not in self.used]


def read(file: Path) -> Table:
    """Read a table.

    Raises:
        CorpusError: there is no such file, or it has no column for the utterance, or neither speaker nor split.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CorpusError(f"expected a table of utterances at {file}, got: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise CorpusError(
            f"expected a table of at most {MAX_BYTES // 2**20} MB, got {len(data) / 2**20:.1f} MB: {file}"
        )
    try:
        text = decode(data)[0]
    except PhonechainError as error:
        raise CorpusError(f"expected a table of utterances at {file}: {error}") from None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    delimiter = max("\t,;", key=lines[0].count)
    header = [c.strip().casefold() for c in next(_cells(lines[:1], delimiter), [])]
    key, speaker, split = (next((n for n in names if n in header), None) for names in (_KEYS, _SPEAKERS, _SPLITS))
    if key is None:
        raise CorpusError(
            "expected a table whose first line names a column 'utterance', 'id' or 'file', "
            f"got {', '.join(header)[:200] or 'nothing'}: {file}"
        )
    rows: dict[str, Row] = {}
    try:
        for at, values in enumerate(_cells(lines[1:], delimiter), 2):
            entry = dict(zip(header, (v.strip() for v in values), strict=False))
            if not entry.get(key):
                continue
            stem = _stem(entry[key])
            rows[nfc(stem)] = Row(at, entry.get(speaker or "") or None, entry.get(split or "") or None)
    except csv.Error as error:
        raise CorpusError(f"expected a table of utterances at {file}, got: {error}") from None
    return Table(file, rows, (speaker, split))


def _cells(lines: list[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of each line. In a TSV a quotation mark is an ordinary character."""
    return (line.split("\t") for line in lines) if delimiter == "\t" else csv.reader(lines, delimiter=delimiter)


def _stem(name: str) -> str:
    path = PurePosixPath(name.replace("\\", "/").removeprefix("./"))
    # An id may contain a dot; only what looks like a suffix is removed.
    known = len(path.suffix) in range(2, 10) and not path.suffix[1:].isdecimal()
    return str(path.with_suffix("")) if known else str(path)
