"""Praat TextGrids, read by the grammar that Praat itself uses.

Source: the Praat manual, pages "TextGrid file formats" and "Text file formats". Only free-standing numbers, "quoted
strings" (quotes doubled inside) and <flags> carry meaning, and a `!` that begins a word begins a comment; every other
word is noise. So one reader takes the long form, the short form, the old short header and what ELAN and others write.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

from phonechain.features.annotation.base import (
    MAX_SECONDS,
    MAX_TIERS,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    is_number,
    number,
    seconds,
)
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError, Notice
from phonechain.features.segments import ROUNDING, Segment

MOST_ODD = 20
"""Most numbers in an unusual spelling that are reported one by one."""

# Space, comments, noise. Possessive throughout, so that no input causes backtracking.
_NOISE = r"""(?:\s++|![^\n]*+|[^\s"<!+\-0-9]\S*+)*+"""
_TOKEN = re.compile(
    _NOISE
    + r"""(?: "(?P<text>[^"]*+(?:""[^"]*+)*+)(?P<close>"?+)
      | (?P<number>[+\-0-9]\S*+)
      | <(?P<flag>[^>\s]*+)>?+
      | (?P<stop>\Z) )""",
    re.VERBOSE,
)
_PLAIN_NUMBER = r"([+\-]?[0-9]{1,11}+(?:\.[0-9]*+)?(?:[eE]-[0-9]{1,2})?)(?!\S)"
_INTERVAL = re.compile(rf"""{_NOISE}{_PLAIN_NUMBER}{_NOISE}{_PLAIN_NUMBER}{_NOISE}"([^"]*+(?:""[^"]*+)*+)\"""")
_PLAIN = re.compile(_PLAIN_NUMBER)
_REAL = r"([+\-]?[0-9]++(?:\.[0-9]*+)?)([eE][+\-]?[0-9]*+)?(%?)"
_ODD_NUMBER = re.compile(rf"{_REAL}(?:/{_REAL})?")
_KINDS = {"text": "a quoted text", "number": "a number", "flag": "a <flag>", "stop": "the end of the file"}


def praat_number(text: str) -> float:
    """A number as Praat reads it: a leading number, a percentage, a fraction of two numbers; NaN for anything else.

    Examples:
        >>> [praat_number(text) for text in ("200%", "1/4", "3/4%", "0x3", "12abc")]
        [2.0, 0.25, 75.0, 0.0, 12.0]
    """
    match = _ODD_NUMBER.match(text)
    if match is None:
        return math.nan
    first = _real(*match.groups()[:3])
    if match[4] is None:
        return math.nan if text[match.end() : match.end() + 1] == "/" else first
    second = _real(*match.groups()[3:])
    return first / second if second else math.nan


def _real(digits: str, exponent: str | None, percent: str) -> float:
    if exponent is not None and not exponent[-1].isdigit():
        return math.nan
    return float(digits + (exponent or "")) * (0.01 if percent else 1.0)


class Reader:
    """Reads the tokens of a file, each of the kind that the grammar expects next."""

    def __init__(self, text: str, start: int) -> None:
        self.source = text
        self.at = start
        self.match: re.Match[str] | None = None
        self.odd: list[Notice] = []
        self.total = 0
        """Entries of all tiers so far, according to the sizes in the file."""

    def line(self) -> int:
        """The line of the last token, from 1."""
        if self.match is None:
            return 1
        kind = self.kind()
        at = len(self.source.rstrip()) if kind == "stop" else self.match.start(kind)
        return self.source.count("\n", 0, at) + 1

    def kind(self) -> str:
        """The kind of the last token."""
        return next((k for k in _KINDS if self.match is not None and self.match[k] is not None), "stop")

    def next(self) -> re.Match[str]:
        match = self.match = _TOKEN.match(self.source, self.at)
        assert match is not None  # the end of the text is a token as well
        self.at = match.end()
        return match

    def _expect(self, kind: str, what: str) -> str:
        match = self.next()
        value: str | None = match[kind]
        if value is None:
            said = f" {excerpt(match[self.kind()])}" if match[self.kind()] else ""
            raise AnnotationSyntaxError(f"expected {what}, got {_KINDS[self.kind()]}{said}", line=self.line())
        return value

    def text(self, what: str) -> str:
        value = self._expect("text", what)
        if self.match is not None and not self.match["close"]:
            raise AnnotationSyntaxError(f"expected a closing quote after {excerpt(value)}, got none", line=self.line())
        return value.replace('""', '"') if '"' in value else value

    def number(self, what: str) -> float:
        """The next number, as Praat reads it. Raises AnnotationSyntaxError: another token, or too large a time."""
        value = self._expect("number", what)
        if _PLAIN.fullmatch(value):
            return float(value)
        taken = praat_number(value[:400])
        if is_number(value) or not abs(taken) <= MAX_SECONDS:
            return number(value, self.line(), what)  # the line is counted only where it is told
        if len(self.odd) < MOST_ODD:
            message = f"line {self.line()}: {excerpt(value)} was read as {seconds(taken)}, as Praat reads it"
            self.odd.append(Notice("number-odd", message, f"line {self.line()}", value[:40]))
        return taken

    def count(self, what: str) -> int:
        value = self.number(what)
        if value < 0 or value != int(value):
            message = f"expected {what} as a whole number of 0 or more, got {value:g}"
            raise AnnotationSyntaxError(message, line=self.line())
        return int(value)

    def size(self, what: str) -> int:
        """The number of entries of a tier. Raises AnnotationSyntaxError: with those before more than MAX_ENTRIES."""
        size = self.count(what)
        self.total += size
        check_count(self.total, self.line())
        return size

    def flag(self, what: str) -> str:
        return self._expect("flag", what)

    def end(self, what: str) -> None:
        """Check that nothing is left over, which means that a wrong size or number has shifted what was read before."""
        self._expect("stop", what)

    def interval(self) -> Segment:
        if plain := _INTERVAL.match(self.source, self.at):  # three tokens in one go
            start, end, text = plain.groups()
            self.at = plain.end()
            return Segment(float(start), float(end), text.replace('""', '"') if '"' in text else text)
        start, end = self.number("the start of an interval"), self.number("the end of an interval")
        return Segment(start, end, self.text("the text of an interval"))

    def point(self) -> Segment:
        time = self.number("the time of a point")
        return Segment(time, time, self.text("the mark of a point"))


def sniff(source: Source) -> int:
    head = source.data[:400].replace(b"\0", b"")  # as good as decoded, whatever the encoding
    return 3 if b"ooTextFile" in head or b"Praat chronological TextGrid" in head else 0


def parse(source: Source) -> Annotation:
    """Read a TextGrid in any of its text forms.

    Raises:
        AnnotationSyntaxError: with the line, where something else stands than the grammar expects.
        AnnotationError: a Praat text file of another class.
    """
    text = source.text
    first = re.search(r"ooTextFile[^\n]*|Praat chronological TextGrid[^\n]*", text)
    if first is None:
        raise AnnotationSyntaxError('expected a first line with "ooTextFile", got something else', line=1)
    reader = Reader(text, first.end())
    if first[0].startswith("Praat"):
        return _chronological(reader, source)
    what = reader.text('the object class "TextGrid"')
    if what.split(" ")[0] != "TextGrid":
        raise AnnotationError(
            f"expected a Praat TextGrid, got a Praat {excerpt(what)}", pointer=f"line {reader.line()}"
        )
    start, end = reader.number("the start of the file"), reader.number("the end of the file")
    size = reader.count("the number of tiers") if reader.flag("<exists>") == "exists" else 0
    tiers: list[Tier] = []
    for _ in range(size):
        kind = reader.text('the class of a tier, "IntervalTier" or "TextTier"')
        if kind not in ("IntervalTier", "TextTier"):
            raise AnnotationSyntaxError(
                f'expected a tier of class "IntervalTier" or "TextTier", got {excerpt(kind)}', line=reader.line()
            )
        name = reader.text("the name of a tier")
        tier = Tier(name, "interval" if kind == "IntervalTier" else "point")
        reader.number("the start of a tier")
        reader.number("the end of a tier")
        count = reader.size("the number of intervals" if tier.kind == "interval" else "the number of points")
        one = reader.interval if tier.kind == "interval" else reader.point
        tier.entries = [one() for _ in range(count)]
        tiers.append(tier)
    reader.end(f"the end of the file after its {size} tiers, as their sizes and times say")
    return source.annotation(
        tiers,
        "textgrid" if is_long(text, first.end()) else "textgrid-short",
        start=start,
        end=end,
        notices=[*reader.odd, *zero_lengths(tiers)],
    )


def is_long(text: str, begin: int) -> bool:
    """Whether the numbers have names, judged from the times before the first <flag>."""
    return "xmin" in text[begin : text.find("<", begin)]


def _chronological(reader: Reader, source: Source) -> Annotation:
    """The chronological form: entries of all tiers in order of time, each after the number of its tier."""
    start, end = reader.number("the start of the file"), reader.number("the end of the file")
    tiers: list[Tier] = []
    for _ in range(reader.count("the number of tiers")):
        kind = reader.text("the class of a tier")
        tiers.append(Tier(reader.text("the name of a tier"), "point" if kind == "TextTier" else "interval"))
        reader.number("the start of a tier")
        reader.number("the end of a tier")
    total = 0
    while True:
        token = reader.next()
        if token["stop"] is not None:
            break
        place = token["number"]
        if place is None or not place.isdecimal() or not 1 <= int(place[:9]) <= len(tiers):
            got = excerpt(token[reader.kind()])
            raise AnnotationSyntaxError(f"expected a tier from 1 to {len(tiers)}, got {got}", line=reader.line())
        total += 1
        check_count(total)
        tier = tiers[int(place) - 1]
        tier.entries.append(reader.interval() if tier.kind == "interval" else reader.point())
    return source.annotation(tiers, "textgrid", start=start, end=end, notices=[*reader.odd, *zero_lengths(tiers)])


def zero_lengths(tiers: list[Tier]) -> list[Notice]:
    """One Notice per tier with intervals of zero length: they are kept, but cannot be labelled."""
    notices = []
    for tier in tiers:
        empty = [i for i, s in enumerate(tier.entries) if s.start == s.end] if tier.kind == "interval" else []
        if empty:
            at = tier.entries[empty[0]].start
            count = "1 interval" if len(empty) == 1 else f"{len(empty)} intervals"
            first = f"the first (number {empty[0] + 1})" if len(empty) > 1 else f"number {empty[0] + 1}"
            message = f"tier {excerpt(tier.name)}: {count} of zero length, {first} at {at} s"
            notices.append(Notice("zero-length-interval", message, f"tiers/{tier.name}/{empty[0]}", at))
    return notices


def write_long(annotation: Annotation) -> bytes:
    """The long form, with names for the numbers, as Praat's "Save as text file" writes it. UTF-8."""
    start, end = annotation.extent
    times = _Times()
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        f"xmin = {times[start]} ",
        f"xmax = {times[end]} ",
    ]
    tiers = fill_gaps(annotation)
    lines += ["tiers? <exists> ", f"size = {len(tiers)} ", "item []: "]
    for i, tier in enumerate(tiers, 1):
        interval = tier.kind == "interval"
        lines += [
            f"    item [{i}]:",
            f'        class = "{"IntervalTier" if interval else "TextTier"}" ',
            f"        name = {quote(tier.name)} ",
            f"        xmin = {times[start]} ",
            f"        xmax = {times[end]} ",
            f"        {'intervals' if interval else 'points'}: size = {len(tier.entries)} ",
        ]
        if interval:
            lines += [
                f"        intervals [{j}]:\n            xmin = {times[s.start]} \n"
                f"            xmax = {times[s.end]} \n            text = {quote(s.label)} "
                for j, s in enumerate(tier.entries, 1)
            ]
        else:
            lines += [
                f"        points [{j}]:\n            number = {times[s.start]} \n            mark = {quote(s.label)} "
                for j, s in enumerate(tier.entries, 1)
            ]
    return ("\n".join(lines) + "\n").encode()


class _Times(dict[float, str]):
    """The text of each time, made once: the tiers of an answer share theirs."""

    def __missing__(self, time: float) -> str:
        self[time] = text = seconds(time)
        return text


def write_short(annotation: Annotation) -> bytes:
    """The short form: values alone, one per line. UTF-8."""
    start, end = annotation.extent
    tiers = fill_gaps(annotation)
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        seconds(start),
        seconds(end),
        "<exists>",
        str(len(tiers)),
    ]
    for tier in tiers:
        interval = tier.kind == "interval"
        lines += [f'"{"IntervalTier" if interval else "TextTier"}"', quote(tier.name), seconds(start), seconds(end)]
        lines.append(str(len(tier.entries)))
        for s in tier.entries:
            lines += (
                [seconds(s.start), seconds(s.end), quote(s.label)] if interval else [seconds(s.start), quote(s.label)]
            )
    return ("\n".join(lines) + "\n").encode()


def fill_gaps(annotation: Annotation) -> list[Tier]:
    """The tiers as Praat needs them: contiguous intervals from start to end, with empty ones in the gaps.

    Intervals that overlap cannot stand in one tier; they go to a further tier of the same name with a number.

    Raises:
        AnnotationError: an interval that ends before it starts, or more tiers than are read again.
    """
    start, end = annotation.extent
    tiers = []
    for tier in annotation.tiers:
        if tier.kind == "point":
            tiers.append(Tier(tier.name, "point", sorted(tier.entries, key=lambda s: s.start)))
            continue
        for k, row in enumerate(_rows(tier), 1):
            full, at = [], start
            for s in row:
                if s.start > at + ROUNDING:
                    full.append(Segment(at, s.start, ""))
                full.append(s)
                if s.end > at:
                    at = s.end
            if end > at + ROUNDING or not full:
                full.append(Segment(at, end, ""))
            tiers.append(Tier(tier.name if k == 1 else f"{tier.name} ({k})", "interval", full))
    if len(tiers) > MAX_TIERS:
        raise AnnotationError(
            f"expected at most {MAX_TIERS} tiers, got {len(tiers)}, since intervals that overlap go to tiers of their own"
        )
    return tiers


def _rows(tier: Tier) -> list[list[Segment]]:
    if all(s.start <= s.end for s in tier.entries) and all(a.end <= b.start for a, b in pairwise(tier.entries)):
        return [tier.entries]  # as a rule: in order, and none overlaps the next
    rows: list[list[Segment]] = [[]]
    for s in sorted(tier.entries, key=lambda s: (s.start, s.end)):
        if s.end < s.start:
            raise AnnotationError(
                f"expected intervals that end after they start, got {s.start:g}-{s.end:g} s in tier {excerpt(tier.name)}"
            )
        row = next((r for r in rows if not r or r[-1].end <= s.start + ROUNDING), None)
        if row is None:
            if len(rows) == MAX_TIERS:
                raise AnnotationError(
                    f"expected at most {MAX_TIERS} intervals that overlap, each in a tier of its own, got more in tier "
                    f"{excerpt(tier.name)}"
                )
            rows.append(row := [])
        row.append(s)
    return rows


def quote(text: str | None) -> str:
    """Quote a text as Praat does."""
    return '"' + (text or "").replace('"', '""') + '"'


LONG = Format("textgrid", "Praat TextGrid (long text)", (".textgrid",), "text/praat-textgrid", sniff, parse, write_long)
SHORT = Format(
    "textgrid-short",
    "Praat TextGrid (short text)",
    (".textgrid",),
    "text/praat-textgrid",
    lambda _: 0,
    parse,
    write_short,
)
