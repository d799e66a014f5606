"""The OCR letters of Kassel, as prepared by Taskar: handwritten words as sequences of 16 x 8 binary pixels.

A line a letter, tab-separated, packed with gzip or not: id, letter, next_id (-1 ends a word), word_id, position, fold,
128 pixels row by row. The first letter of each word, a capital, was left out by the set's authors.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import CorpusError

NAMES = ("letter.data.gz", "letter.data")
PIXELS = 128
"""Pixels of a letter: 16 rows of 8."""
LABELS = tuple("abcdefghijklmnopqrstuvwxyz")
MAX_BYTES = 256 * 2**20
"""Largest size after unpacking. The set has 14 MB."""


@dataclass(frozen=True, slots=True)
class LetterWords:
    """Words, concatenated.

    Attributes:
        x: uint8 [N, 128], pixels, 0 or 1.
        y: int64 [N], index of each letter in LABELS.
        lengths: int64 [W], letters of each word; they add up to N.
        folds: int64 [W], 0 to 9.
        words: the W words as spelled.
    """

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    lengths: NDArray[np.int64]
    folds: NDArray[np.int64]
    words: list[str]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64 [W + 1]: word w has the letters starts[w] to starts[w + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def sequences(
        self, which: NDArray[np.bool_] | NDArray[np.int64] | None = None
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """(x [T, 128], y [T]) of each word, or of those chosen by a mask or by indices."""
        starts = self.starts
        for w in np.arange(len(self)) if which is None else np.arange(len(self))[which]:
            yield self.x[starts[w] : starts[w + 1]], self.y[starts[w] : starts[w + 1]]

    def held_out_words(self, groups: int = 10, seed: int = 0) -> NDArray[np.int64]:
        """int64 [W], the group of each word: all occurrences of a spelling are in the same one.

        The spellings, in alphabetical order, are shuffled by the seed and dealt out in turn, so that a model tested on one
        group has never seen its words.
        """
        spellings = sorted(set(self.words))
        order = np.random.default_rng(seed).permutation(len(spellings))
        group = {spellings[i]: k % groups for k, i in enumerate(order)}
        return np.array([group[word] for word in self.words], dtype=np.int64)


def read(path: Path | str) -> LetterWords:
    """Read the set from its file, or from a folder that contains it under its usual name.

    Raises:
        CorpusError: no such file, or a line that is otherwise, with its number.
    """
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in NAMES if (path / name).is_file()), path / NAMES[0])
    lines = _text(path).split("\n")
    letters: list[int] = []
    pixels: list[str] = []
    lengths: list[int] = []
    folds: list[int] = []
    words: list[str] = []
    spelled = ""
    for at, line in enumerate(lines, 1):
        if not line:
            continue
        fields = line.split("\t", 6)
        image = fields[6].replace("\t", "") if len(fields) == 7 else ""
        if len(image) != PIXELS or image.strip("01"):
            raise CorpusError(
                f"line {at}: expected 6 fields and {PIXELS} pixels of 0 or 1: {path}", pointer=f"line {at}"
            )
        _, letter, following, _, position, fold, _ = fields
        if letter not in LABELS or not fold.isdecimal() or position != str(len(spelled) + 1):
            expected = f"a letter from a to z, position {len(spelled) + 1} and a fold"
            got = f"{letter[:10]!r}, {position[:10]!r} and {fold[:10]!r}"
            raise CorpusError(f"line {at}: expected {expected}, got {got}: {path}", pointer=f"line {at}")
        letters.append(ord(letter) - ord("a"))
        pixels.append(image)
        spelled += letter
        if following == "-1":
            lengths.append(len(spelled))
            folds.append(int(fold))
            words.append(spelled)
            spelled = ""
    if spelled or not words:
        raise CorpusError(
            f"expected words that end with next_id -1, got {'none' if not words else 'an unfinished one'}: {path}"
        )
    x = np.frombuffer("".join(pixels).encode("ascii"), dtype=np.uint8).reshape(-1, PIXELS) - ord("0")
    return LetterWords(x, np.array(letters), np.array(lengths), np.array(folds), words)


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise CorpusError(f"expected the letters ({' or '.join(NAMES)}) at {path}, got: {said}") from None
    if len(data) > MAX_BYTES:
        raise CorpusError(
            f"expected letters of at most {MAX_BYTES // 2**20} MB unpacked, got more: {path}", limit=MAX_BYTES
        )
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"expected the letters as ASCII text, got byte {data[error.start]} at {error.start}: {path}"
        ) from None
