"""What every annotation format shares: tiers, the text behind the bytes, the caps.

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
"""Intervals and points in one file. An hour of speech has about 50 000 phones."""
MAX_TIERS = 1000
MAX_LINES = 4_000_000
MAX_SECONDS = 1e11
"""Times beyond this are damage. It leaves room for times in a wrong unit, which get a hint where they meet the sound."""
SNIFFED = 12
"""Lines of a file that are looked at to tell its format."""

ANSWER = " phonechain"
POSTERIOR = " posterior"
"""What `add_labels` appends to a tier's name for the labels and the posteriors that it adds."""
ANY = "*"
"""The name of a recording that stands for any, in MLF."""
SCORE = " score"
"""Appended to a tier's name for the numbers that a format (HTK, CTM) keeps beside its labels."""

_INTEGER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_DERIVED = re.compile(rf"(?:{ANSWER}|{POSTERIOR}|{SCORE})(?: \([0-9]+\))?\Z")


@dataclass(slots=True)
class Tier:
    """A named row of an annotation. `entries` are in the order of the file; a point has start == end. Seconds.

    `lines` has the line of the file, from 1, on which each entry stands, in formats that have an entry a line; else it
    is empty.
    """

    name: str
    kind: Literal["interval", "point"]
    entries: list[Segment] = field(default_factory=list)
    lines: list[int] = field(default_factory=list, compare=False, repr=False)

    def labelled(self) -> list[Segment]:
        """The entries with something other than blanks as a label."""
        return [s for s in self.entries if s.label and not s.label.isspace()]


@dataclass(slots=True)
class Annotation:
    """What one annotation file says. `start` and `end` bound its time line (seconds; `end` None if it does not say)."""

    tiers: list[Tier]
    format: str
    start: float = 0.0
    end: float | None = None
    encoding: str | None = None
    notices: tuple[Notice, ...] = ()
    channel: int | None = None
    """The channel of the sound that it is about, from 0, where the file says one."""

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
        """The tiers of intervals, without those that hold an answer or numbers about another tier."""
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
    """What a format may need and a file does not say."""

    rate: int | None = None
    """Samples per second, for formats that count in samples without naming the rate (TIMIT); None takes the usual one."""
    utterance: str | None = None
    """Which one is meant, in formats that hold several (MLF, CTM, Label Studio)."""
    audio: str | None = None
    """The name of the sound without folders and suffix: what is meant where `utterance` does not say it."""
    channel: int | None = None
    """Which channel is meant, from 0, in formats that tell channels apart (CTM, RTTM)."""


class Source:
    """The bytes of a file and, decoded when first asked for, its text."""

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
        """The first few thousand characters, ending with a whole line where there is one."""
        part = self.text[:8192]
        return part if len(part) == len(self.text) else part[: part.rfind("\n") + 1] or part

    @cached_property
    def typical_length(self) -> float | None:
        """Median of end - start over the first lines of `int int name`; None if a line is otherwise."""
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
        """Lower case, with its dot; empty if there is no name."""
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
        """The result of a parser, with the source's encoding and notices put in."""
        if len(tiers) > MAX_TIERS:
            raise AnnotationError(
                f"expected at most {MAX_TIERS} tiers, got {len(tiers)}", value=len(tiers), limit=MAX_TIERS
            )
        notices = self.notices + tuple(more.pop("notices", ()))
        return Annotation(tiers, format, encoding=self.encoding, notices=notices, **more)


@dataclass(frozen=True, slots=True)
class Format:
    """One annotation format.

    `sniff` says how surely the source is of this format: 0 not at all, 1 perhaps, 2 by its grammar, 3 by a magic word.
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
    """Where a file may hold many recordings: all of them, by name without folders and suffix."""
    names_sound: bool = False
    """True where `write` takes `recording` (a name) and `rate` (Hz) of the sound, each perhaps None."""

    @property
    def flat(self) -> bool:
        """True where a file is about one tier: the answer, else the tier that `choose_tier` picks."""
        return self.holds in ("same", "one")

    def read(self, data: bytes, *, name: str | None = None) -> Annotation:
        """Parse bytes of this format. Raises AnnotationError, AnnotationSyntaxError."""
        return self.parse(Source(data, name=name))


def printable(tiers: list[Tier]) -> list[Tier]:
    """The tiers, with U+FFFD for what no text file can hold: NUL and halves of UTF-16 pairs, from escapes or bytes."""
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
    """Which of a file's recordings is meant: the one asked for, that of the sound's name or of the file's, the only one, any.

    Raises:
        AnnotationError: it is not there, or it is not said which is.
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
    """The label for a format that keeps it on one line. Raises AnnotationError if it cannot be kept there."""
    text = (label or "").strip()
    for bad in ("\n", "\r", "\t", *forbidden):
        if bad in text:
            raise AnnotationError(f"expected labels that this format can hold, got {excerpt(text)} with {bad!r} in it")
    return text


def gapless(tier: Tier) -> list[Segment]:
    """The entries from 0 s on, with entries without label in the gaps, for formats that write ends only.

    Raises:
        AnnotationError: they overlap or are out of order.
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
    """The text in Unicode's composed form, in which names and labels are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def number(text: str, line: int | None, what: str, unit: float = 1.0) -> float:
    """A number that can be a time, or an AnnotationSyntaxError that names it. `unit`: how many make a second."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= MAX_SECONDS * unit or "_" in text:
        raise AnnotationSyntaxError(f"expected {what} as a number, got {excerpt(text)}", line=line, value=text[:40])
    return value


def excerpt(text: str) -> str:
    """A short quotation of offending text."""
    text = text if len(text) <= 40 else text[:37] + "..."
    return "'" + "".join(c if c.isprintable() else "?" for c in text) + "'"


def check_count(count: int, line: int | None = None) -> None:
    """Raises AnnotationSyntaxError for more than MAX_ENTRIES."""
    if count > MAX_ENTRIES:
        raise AnnotationSyntaxError(
            f"expected at most {MAX_ENTRIES} intervals, got {count} or more", line=line, value=count, limit=MAX_ENTRIES
        )


def blank(label: str | None) -> bool:
    """True where nothing, or nothing but blanks, was written."""
    return not label or label.isspace()


def seconds(value: float) -> str:
    """A time as text: the shortest that reads back as the same float, never with an exponent."""
    text = repr(float(value))
    if "e" in text or "E" in text:
        text = f"{value:.20f}".rstrip("0")
        text += "0" if text.endswith(".") else ""
    return text[:-2] if text.endswith(".0") else text


def is_derived(name: str) -> bool:
    """True for tiers that hold an answer or numbers about another tier."""
    return _DERIVED.search(name) is not None
