"""Pronunciation dictionaries: CMUdict, which comes with the package, and users' own in the format of MFA and Kaldi.

A line is a word and its phones, separated by blanks or a tab; further lines with the same word are variants:

    WORD  P1 P2 P3
    WORD  0.8  P1 P2 P3                    with the variant's probability
    WORD  0.8  0.2  1.1  0.9  P1 P2 P3     and those of silences around it, which are ignored
    word(2)  P1 P2 P3                      CMUdict's way to number variants

Words are compared in lower case and Unicode NFC. CMUdict's data (BSD-2, its notice is in cmudict.LICENSE) is beside this file,
compressed and without its comments.
"""

from __future__ import annotations

import lzma
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from phonechain.features.annotation.encoding import decode
from phonechain.features.errors import AnnotationSyntaxError, SettingsError

CMUDICT = "CMUdict"
"""The name of the dictionary that comes with the package."""

MAX_BYTES = 64 * 2**20
"""Largest dictionary file that is read."""

MAX_VARIANTS = 16
"""Most pronunciations of a word that are kept; the first ones."""

_NUMBERED = re.compile(r"(.+)\((\d+)\)")
_NUMBER = re.compile(r"\d+(\.\d*)?([eE]-?\d+)?|\.\d+")


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """Phones of a word, and their probability relative to its other variants."""

    phones: tuple[str, ...]
    probability: float = 1.0


class Dictionary:
    """Words and their pronunciations.

    Args:
        entries: by word, see `key`.
        name: for messages.
    """

    def __init__(self, entries: Mapping[str, Sequence[Pronunciation]], name: str = "the dictionary") -> None:
        self.entries, self.name = entries, name

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and key(word) in self.entries

    def lookup(self, word: str) -> list[Pronunciation]:
        """Pronunciations of a word in the order of the dictionary; none for an unknown word."""
        return list(self.entries.get(key(word), ()))

    def phones(self) -> set[str]:
        """Every phone that occurs."""
        return {p for variants in self.entries.values() for v in variants for p in v.phones}


def key(word: str) -> str:
    """The form in which a word is looked up: NFC, lower case, straight apostrophes."""
    return unicodedata.normalize("NFC", word).replace("’", "'").replace("‘", "'").casefold()


def read(source: Path | bytes, *, name: str | None = None) -> Dictionary:
    """Read a dictionary file.

    Raises:
        SettingsError: it cannot be read, is too large, or empty.
        AnnotationSyntaxError: a line without phones, with its number.
    """
    name = name or (source.name if isinstance(source, Path) else "the dictionary")
    if isinstance(source, Path):
        try:
            if (size := source.stat().st_size) > MAX_BYTES:
                raise SettingsError(
                    f"{name}: expected a dictionary of at most {MAX_BYTES} bytes, got {size}", value=size
                )
            source = source.read_bytes()
        except OSError as error:
            raise SettingsError(f"expected a dictionary file, got {name}: {error.strerror or error}") from error
    if len(source) > MAX_BYTES:
        raise SettingsError(f"{name}: expected a dictionary of at most {MAX_BYTES} bytes, got {len(source)}")
    entries = parse(decode(source)[0].splitlines(), name)
    if not entries:
        raise SettingsError(f"expected words and their phones, got none in {name}")
    return Dictionary(entries, name)


def parse(lines: Iterable[str], name: str = "the dictionary") -> dict[str, list[Pronunciation]]:
    """Entries by word. Raises AnnotationSyntaxError."""
    entries: dict[str, list[Pronunciation]] = {}
    for number, line in enumerate(lines, 1):
        text = line.lstrip("\ufeff").strip()
        if not text or text.startswith((";;;", "#")):
            continue
        word, *rest = text.split()
        if match := _NUMBERED.fullmatch(word):
            word = match[1]
        probability, phones = _probability(rest)
        if not phones:
            raise AnnotationSyntaxError(f"expected phones after {word[:40]!r}, got none in {name}", line=number)
        if not 0.0 < probability <= 1.0:
            raise AnnotationSyntaxError(
                f"expected a probability above 0 and up to 1 for {word[:40]!r}, got {probability:g}", line=number
            )
        variants = entries.setdefault(key(word), [])
        if len(variants) < MAX_VARIANTS and phones not in [v.phones for v in variants]:
            variants.append(Pronunciation(phones, probability))
    return entries


def _probability(rest: Sequence[str]) -> tuple[float, tuple[str, ...]]:
    """The variant's probability, and the phones after the numbers, of which there may be one or four."""
    numbers = 0
    while numbers < min(len(rest), 4) and _NUMBER.fullmatch(rest[numbers]):
        numbers += 1
    if numbers not in (0, 1, 4):
        numbers = 1 if numbers else 0
    return (float(rest[0]) if numbers else 1.0), tuple(rest[numbers:])


class _LazyEntries(Mapping[str, Sequence[Pronunciation]]):
    """Entries whose pronunciations are parsed when they are looked up, as few of a large dictionary's ever are."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            if word.endswith(")") and (match := _NUMBERED.fullmatch(word)):
                word = match[1]
            self._lines.setdefault(word, []).append(rest)

    def __getitem__(self, word: str) -> Sequence[Pronunciation]:
        variants = dict.fromkeys(tuple(rest.split()) for rest in self._lines[word])
        return [Pronunciation(phones) for phones in variants][:MAX_VARIANTS]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@lru_cache(maxsize=1)
def english() -> Dictionary:
    """CMUdict, 126,000 words: ARPAbet with stress digits on the vowels."""
    packed = resources.files("phonechain.features").joinpath("words", "cmudict.dict.xz").read_bytes()
    return Dictionary(_LazyEntries(lzma.decompress(packed).decode("utf-8")), CMUDICT)
