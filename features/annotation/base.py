"""Shared by all annotation formats: tiers, decoding of the text, limits.

A format is one file with `sniff`, `parse` and `write`; the package's `__init__` lists them. Parsers get a `Source`,
whose text is decoded once and has "\\n" line ends. Labels stay as they were spelled; they are compared in NFC.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from phonechain.features.annotation.encoding import decode
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError, Notice
from phonechain.features.segments import ROUNDING, Segment

MAX_BYTES = 64 * 2**20
MAX_ENTRIES = 1_000_000
"""Most intervals and points in one file. An hour of speech has about 50 000 phones."""
MAX_TIERS = 1000
MAX_LINES = 4_000_000
MAX_SECONDS = 1e11
"""Later times are taken for damage. Times in a wrong unit stay below; they get a hint when compared with the sound."""
SNIFFED = 12
"""Lines of a file that are read to recognise its format."""

ANSWER = " phonechain"
POSTERIOR = " posterior"
"""What `add_labels` appends to a tier's name for the labels and the posteriors that it adds."""
ANY = "*"
"""The name that matches any recording, in MLF."""
SCORE = " score"
"""Appended to a tier's name for the scores that a format (HTK, CTM) stores with its labels."""

_INTEGER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_DERIVED = re.compile(rf"(?:{ANSWER}|{POSTERIOR}|{SCORE})(?: \([0-9]+\))?\Z")


@dataclass(slots=True)
class Tier:
    """A named row of an annotation. `entries` are in the order of the file; a point has start == end. Seconds.

    `lines` has the line of each entry in the file, from 1, for formats with one entry per line; otherwise it is empty.
    """

    name: str
    kind: Literal["interval", "point"]
    entries: list[Segment] = field(default_factory=list)
    lines: list[int] = field(default_factory=list, compare=False, repr=False)

    def labelled(self) -> list[Segment]:
        """The entries whose label is not empty or blank."""
        return [s for s in self.entries if s.label and not s.label.isspace()]


@dataclass(slots=True)
class Annotation:
    """The contents of an annotation file. `start` and `end` bound its time line (seconds; `end` is None if unknown)."""

    tiers: list[Tier]
    format: str
    start: float = 0.0
    end: float | None = None
    encoding: str | None = None
    notices: tuple[Notice, ...] = ()
    channel: int | None = None
    """The channel of the sound that it belongs to, from 0; None if the file does not say."""

    def tier(self, name: str) -> Tier | None:
        """The first tier of that name, compared in Unicode NFC; None if there is none.

        Examples:
            >>> annotation = Annotation([Tier("phones", "interval"), Tier("tones", "point")], "textgrid")
            >>> annotation.tier("tones").kind
            'point'
        """
        wanted = nfc(name)
        return next((t for t in self.tiers if nfc(t.name) == wanted), None)

    def interval_tiers(self) -> list[Tier]:
        """The interval tiers, except those with answers or with numbers about another tier."""
        return [t for t in self.tiers if t.kind == "interval" and not is_derived(t.name)]

    @property
    def extent(self) -> tuple[float, float]:
        """Earliest and latest time, of the file or of any entry, seconds."""
        times = [s.end for t in self.tiers for s in t.entries]
        starts = [s.start for t in self.tiers for s in t.entries]
        end = max(times, default=self.start)
        return min([self.start, *starts]), max(end, self.end if self.end is not None else end)


@dataclass(slots=True)
class Options:
    """What a format may need and its file does not say."""

    rate: int | None = None
    """Samples per second, for formats that count in samples without stating the rate (TIMIT); None means the usual one."""
    utterance: str | None = None
    """Name of the recording, in formats with several per file (MLF, CTM, Label Studio)."""
    audio: str | None = None
    """Name of the sound without folders and suffix: the recording's name if `utterance` is None."""
    channel: int | None = None
    """Number of the channel, from 0, in formats that distinguish channels (CTM, RTTM)."""


class Source:
    """The bytes of a file and its text, which is decoded when first used."""

    def __init__(
        self, data: bytes, *, name: str | None = None, encoding: str | None = None, options: Options | None = None
    ) -> None:
        if len(data) > MAX_BYTES:
            raise AnnotationError(
                f"expected an annotation of at most {MAX_BYTES // 2**20} MB, got {len(data) / 2**20:.1f} MB",
                value=len(data),
                limit=MAX_BYTES,
            )
        self.data = data
        self.name = name
        self.options = options or Options()
        self._encoding = encoding

    @cached_property
    def _decoded(self) -> tuple[str, str, tuple[Notice, ...]]:
        text, encoding, notices = decode(self.data, self._encoding)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text, encoding, notices

    @property
    def text(self) -> str:
        return self._decoded[0]

    @property
    def encoding(self) -> str:
        return self._decoded[1]

    @property
    def notices(self) -> tuple[Notice, ...]:
        return self._decoded[2]

    @cached_property
    def head(self) -> str:
        """The first few thousand characters, up to the end of a line if there is one."""
        part = self.text[:8192]
        return part if len(part) == len(self.text) else part[: part.rfind("\n") + 1] or part

    @cached_property
    def typical_length(self) -> float | None:
        """Median of end - start over the first lines, each `int int name`; None if a line differs."""
        lengths = []
        for line in self.head.split("\n", SNIFFED)[:SNIFFED]:
            words = line.split(None, 2)
            if not words or words == ["///"]:
                continue
            if len(words) < 2 or not (_INTEGER.fullmatch(words[0]) and _INTEGER.fullmatch(words[1])):
                return None
            lengths.append(int(words[1]) - int(words[0]))
        middle = sorted(lengths)[len(lengths) // 2] if lengths else None
        return middle if middle is not None and middle >= 0 else None

    @cached_property
    def suffix(self) -> str:
        """Suffix of the name in lower case, with its dot; empty if there is no name."""
        _, dot, end = (self.name or "").rpartition(".")
        return dot + end.lower() if dot and "/" not in end else ""

    @property
    def stem(self) -> str | None:
        """The name without folders and suffix."""
        return name_stem(self.name) if self.name else None

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number from 1, line without its end) for each line that is not blank."""
        if self.text.count("\n") > MAX_LINES:
            raise AnnotationError(f"expected at most {MAX_LINES} lines, got more", limit=MAX_LINES)
        for number, line in enumerate(self.text.split("\n"), 1):
            if line and not line.isspace():
                yield number, line

    def annotation(self, tiers: list[Tier], format: str, **more: Any) -> Annotation:
        """An annotation with the source's encoding and notices."""
        if len(tiers) > MAX_TIERS:
            raise AnnotationError(
                f"expected at most {MAX_TIERS} tiers, got {len(tiers)}", value=len(tiers), limit=MAX_TIERS
            )
        notices = self.notices + tuple(more.pop("notices", ()))
        return Annotation(tiers, format, encoding=self.encoding, notices=notices, **more)


@dataclass(frozen=True, slots=True)
class Format:
    """One annotation format.

    `sniff` says how certainly the source has this format: 0 not at all, 1 perhaps, 2 by its grammar, 3 by a magic word.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    media_type: str
    sniff: Callable[[Source], int]
    parse: Callable[[Source], Annotation]
    write: Callable[..., bytes] | None = None
    """None for formats that are read only."""
    holds: Literal["all", "intervals", "same", "one"] = "all"
    """What a file has room for: every tier; those of intervals; the chosen one and those with the same intervals; one."""
    parse_all: Callable[[Source], dict[str, Annotation]] | None = None
    """For formats with several recordings per file: all of them, by name without folders and suffix."""
    names_sound: bool = False
    """True if `write` takes `recording` (a name) and `rate` (Hz) of the sound, either of which may be None."""

    @property
    def flat(self) -> bool:
        """True if a file has one main tier: the answer, else the tier that `choose_tier` picks."""
        return self.holds in ("same", "one")

    def read(self, data: bytes, *, name: str | None = None) -> Annotation:
        """Parse bytes of this format. Raises AnnotationError, AnnotationSyntaxError."""
        return self.parse(Source(data, name=name))


def printable(tiers: list[Tier]) -> list[Tier]:
    """Replace what no text file can hold, NUL and unpaired surrogates, by U+FFFD."""
    for tier in tiers:
        if _UNWRITABLE.search(tier.name):
            tier.name = _UNWRITABLE.sub("\ufffd", tier.name)
        for i, s in enumerate(tier.entries):
            if s.label and _UNWRITABLE.search(s.label):
                tier.entries[i] = Segment(s.start, s.end, _UNWRITABLE.sub("\ufffd", s.label))
    return tiers


def name_stem(path: str) -> str:
    """A file's name without folders and suffix."""
    base = path.replace("\\", "/").rsplit("/", 1)[-1]
    return base.rsplit(".", 1)[0] if "." in base[1:] else base


def pick(source: Source, names: list[str]) -> str:
    """Choose a recording of a file: the requested one, the one with the sound's or the file's name, the only one, or any.

    Raises:
        AnnotationError: it is not there, or there are several and none is named.
    """
    asked = source.options.utterance
    if not names:
        raise AnnotationError("expected at least one recording in the file, got none")
    for wanted in (asked,) if asked is not None else (source.options.audio, source.stem):
        if wanted is not None and (found := next((n for n in names if nfc(n) == nfc(wanted)), None)) is not None:
            return found
    if asked is None and len(names) == 1:
        return names[0]
    if ANY in names:
        return ANY
    listing = ", ".join(excerpt(n) for n in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    wish = f"a recording named {excerpt(asked)}" if asked else f"to be told which of {len(names)} recordings is meant"
    raise AnnotationError(f"expected {wish}, got {listing}", pointer="utterance", value=asked)


def is_number(text: str) -> bool:
    """True for a decimal number, with or without an exponent."""
    return _NUMBER.fullmatch(text) is not None


def one_line(label: str | None, *forbidden: str) -> str:
    """The label for a format with one line per entry. Raises AnnotationError if the format cannot hold it."""
    text = (label or "").strip()
    for bad in ("\n", "\r", "\t", *forbidden):
        if bad in text:
            raise AnnotationError(f"expected labels that this format can hold, got {excerpt(text)} with {bad!r} in it")
    return text


def gapless(tier: Tier) -> list[Segment]:
    """The entries from 0 s, with unlabelled entries in the gaps, for formats that write ends only.

    Raises:
        AnnotationError: entries overlap or are out of order.
    """
    out: list[Segment] = []
    at = 0.0
    for s in tier.entries:
        if s.start < at - ROUNDING or s.end < s.start:
            raise AnnotationError(
                f"expected intervals one after the other in tier {excerpt(tier.name)}, "
                f"got {s.start:g}-{s.end:g} s after {at:g} s"
            )
        if s.start > at + ROUNDING:
            out.append(Segment(at, s.start, ""))
        out.append(s)
        at = s.end
    return out


def nfc(text: str) -> str:
    """The text in Unicode NFC, the form in which names and labels are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def number(text: str, line: int | None, what: str, unit: float = 1.0) -> float:
    """Parse a time in `unit`s per second. Raises AnnotationSyntaxError with the text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= MAX_SECONDS * unit or "_" in text:
        raise AnnotationSyntaxError(f"expected {what} as a number, got {excerpt(text)}", line=line, value=text[:40])
    return value


def excerpt(text: str) -> str:
    """A short quotation of a text, for messages."""
    text = text if len(text) <= 40 else text[:37] + "..."
    return "'" + "".join(c if c.isprintable() else "?" for c in text) + "'"


def check_count(count: int, line: int | None = None) -> None:
    """Raise AnnotationSyntaxError for more than MAX_ENTRIES."""
    if count > MAX_ENTRIES:
        raise AnnotationSyntaxError(
            f"expected at most {MAX_ENTRIES} intervals, got {count} or more", line=line, value=count, limit=MAX_ENTRIES
        )


def blank(label: str | None) -> bool:
    """True for a label that is None, empty or blank."""
    return not label or label.isspace()


def seconds(value: float) -> str:
    """A time as the shortest text that reads back as the same float, without an exponent."""
    text = repr(float(value))
    if "e" in text or "E" in text:
        text = f"{value:.20f}".rstrip("0")
        text += "0" if text.endswith(".") else ""
    return text[:-2] if text.endswith(".0") else text


def is_derived(name: str) -> bool:
    """True for names of tiers of answers, or of numbers about another tier."""
    return _DERIVED.search(name) is not None
