"""Praat TextGrids, by the grammar by which Praat itself reads text.

Source: the Praat manual, pages "TextGrid file formats" and "Text file formats". Only free-standing numbers, "quoted
strings" (quotes doubled inside) and <flags> carry meaning, and a `!` that begins a word begins a comment; every other
word is noise. So one reader takes the long form, the short form, the old short header and what ELAN and others write.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from features.annotation.base import Annotation, Format, Source, Tier, check_count, number, seconds, shown
from features.errors import AnnotationError, AnnotationSyntaxError, Notice
from features.segments import ROUNDING, Segment

_TOKEN = re.compile(
    r"""(?:\s++|![^\n]*+|[^\s"<!+\-0-9]\S*+)*+   # space, comments, noise; possessive: never tried twice
    (?: "(?P<text>[^"]*+(?:""[^"]*+)*+)(?P<close>"?+)
      | (?P<number>[+\-0-9]\S*+)
      | <(?P<flag>[^>\s]*+)>?+
      | (?P<stop>\Z) )""",
    re.VERBOSE,
)
_KINDS = {"text": "a quoted text", "number": "a number", "flag": "a <flag>", "stop": "the end of the file"}


class _Reader:
    """Hands out the tokens one by one, each of the kind that the grammar expects next."""

    def __init__(self, text: str, start: int) -> None:
        self.source = text
        self.tokens: Iterator[re.Match[str]] = _TOKEN.finditer(text, start)
        self.match: re.Match[str] | None = None
        self._breaks: list[int] | None = None

    def line(self) -> int:
        """The line, from 1, of the token read last."""
        if self.match is None:
            return 1
        if self._breaks is None:
            self._breaks = [m.start() for m in re.finditer("\n", self.source)]
        kind = "text" if self.match["text"] is not None else self.match.lastgroup or "stop"
        at = self.match.end() if kind == "stop" else self.match.start(kind)
        return bisect_right(self._breaks, max(at - 1, 0)) + 1

    def _next(self, kind: str, what: str) -> str:
        match = self.match = next(self.tokens, self.match)
        value = match[kind] if match else None
        if value is None:
            got = next((k for k in _KINDS if match and match[k] is not None), "stop")
            said = f" {shown(match[got])}" if match and match[got] else ""
            raise AnnotationSyntaxError(f"expected {what}, got {_KINDS[got]}{said}", line=self.line())
        return value

    def text(self, what: str) -> str:
        value = self._next("text", what)
        if self.match is not None and not self.match["close"]:
            raise AnnotationSyntaxError(f"expected a closing quote after {shown(value)}, got none", line=self.line())
        return value.replace('""', '"') if '"' in value else value

    def number(self, what: str) -> float:
        value = self._next("number", what)
        try:
            result = float(value)
        except ValueError:
            result = number(value, self.line(), what)
        if result - result != 0 or "_" in value:  # infinite or not a number
            result = number(value, self.line(), what)
        return result

    def count(self, what: str) -> int:
        value = self.number(what)
        if value < 0 or value != int(value):
            raise AnnotationSyntaxError(
                f"expected {what} as a whole number of 0 or more, got {value:g}", line=self.line()
            )
        check_count(int(value), self.line())
        return int(value)

    def flag(self, what: str) -> str:
        return self._next("flag", what)


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
    reader = _Reader(text, first.end())
    if first[0].startswith("Praat"):
        return _chronological(reader, source)
    what = reader.text('the object class "TextGrid"')
    if what.split(" ")[0] != "TextGrid":
        raise AnnotationError(f"expected a Praat TextGrid, got a Praat {shown(what)}", pointer=f"line {reader.line()}")
    start, end = reader.number("the start of the file"), reader.number("the end of the file")
    size = reader.count("the number of tiers") if reader.flag("<exists>") == "exists" else 0
    tiers: list[Tier] = []
    notices: list[Notice] = []
    for _ in range(size):
        kind = reader.text('the class of a tier, "IntervalTier" or "TextTier"')
        if kind not in ("IntervalTier", "TextTier"):
            raise AnnotationSyntaxError(
                f'expected a tier of class "IntervalTier" or "TextTier", got {shown(kind)}', line=reader.line()
            )
        name = reader.text("the name of a tier")
        tier = Tier(name, "interval" if kind == "IntervalTier" else "point")
        reader.number("the start of a tier")
        reader.number("the end of a tier")
        _entries(
            reader, tier, reader.count("the number of intervals" if tier.kind == "interval" else "the number of points")
        )
        check_count(sum(len(t.entries) for t in tiers) + len(tier.entries), reader.line())
        tiers.append(tier)
    notices += zero_lengths(tiers)
    long = "xmin" in text[first.end() : first.end() + 200]
    return source.annotation(tiers, "textgrid" if long else "textgrid-short", start=start, end=end, notices=notices)


def _entries(reader: _Reader, tier: Tier, size: int) -> None:
    add, number_, text_ = tier.entries.append, reader.number, reader.text
    if tier.kind == "interval":
        for _ in range(size):
            add(
                Segment(
                    number_("the start of an interval"),
                    number_("the end of an interval"),
                    text_("the text of an interval"),
                )
            )
    else:
        for _ in range(size):
            time = number_("the time of a point")
            add(Segment(time, time, text_("the mark of a point")))


def _chronological(reader: _Reader, source: Source) -> Annotation:
    """The form in which the tiers' entries are mixed, in order of time, each after the number of its tier."""
    start, end = reader.number("the start of the file"), reader.number("the end of the file")
    tiers: list[Tier] = []
    for _ in range(reader.count("the number of tiers")):
        kind = reader.text("the class of a tier")
        tiers.append(Tier(reader.text("the name of a tier"), "point" if kind == "TextTier" else "interval"))
        reader.number("the start of a tier")
        reader.number("the end of a tier")
    total = 0
    while True:
        reader.match = token = next(reader.tokens, None)
        if token is None or token["stop"] is not None:
            break
        place = number(token["number"] or "", reader.line(), "the number of a tier")
        if not 1 <= place <= len(tiers) or place != int(place):
            raise AnnotationSyntaxError(f"expected a tier from 1 to {len(tiers)}, got {place:g}", line=reader.line())
        total += 1
        check_count(total, reader.line())
        _entries(reader, tiers[int(place) - 1], 1)
    return source.annotation(tiers, "textgrid", start=start, end=end, notices=zero_lengths(tiers))


def zero_lengths(tiers: list[Tier]) -> list[Notice]:
    """One Notice a tier that has intervals without length: they are kept, and cannot be labelled."""
    notices = []
    for tier in tiers:
        empty = [i for i, s in enumerate(tier.entries) if s.start == s.end] if tier.kind == "interval" else []
        if empty:
            at = tier.entries[empty[0]].start
            message = f"tier {shown(tier.name)}: {len(empty)} intervals of zero length, "
            message += f"the first (number {empty[0] + 1}) at {at} s"
            notices.append(Notice("zero-length-interval", message, f"tiers/{tier.name}/{empty[0]}", at))
    return notices


def write_long(annotation: Annotation) -> bytes:
    """The form with names beside the numbers, as Praat's "Save as text file" writes it. UTF-8."""
    start, end = annotation.extent
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        f"xmin = {seconds(start)} ",
        f"xmax = {seconds(end)} ",
    ]
    tiers = filled(annotation)
    lines += ["tiers? <exists> ", f"size = {len(tiers)} ", "item []: "]
    for i, tier in enumerate(tiers, 1):
        interval = tier.kind == "interval"
        lines += [
            f"    item [{i}]:",
            f'        class = "{"IntervalTier" if interval else "TextTier"}" ',
            f"        name = {_quoted(tier.name)} ",
            f"        xmin = {seconds(start)} ",
            f"        xmax = {seconds(end)} ",
            f"        {'intervals' if interval else 'points'}: size = {len(tier.entries)} ",
        ]
        for j, s in enumerate(tier.entries, 1):
            if interval:
                lines += [
                    f"        intervals [{j}]:",
                    f"            xmin = {seconds(s.start)} ",
                    f"            xmax = {seconds(s.end)} ",
                    f"            text = {_quoted(s.label)} ",
                ]
            else:
                lines += [
                    f"        points [{j}]:",
                    f"            number = {seconds(s.start)} ",
                    f"            mark = {_quoted(s.label)} ",
                ]
    return ("\n".join(lines) + "\n").encode()


def write_short(annotation: Annotation) -> bytes:
    """The form with the values alone, one a line. UTF-8."""
    start, end = annotation.extent
    tiers = filled(annotation)
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
        lines += [f'"{"IntervalTier" if interval else "TextTier"}"', _quoted(tier.name), seconds(start), seconds(end)]
        lines.append(str(len(tier.entries)))
        for s in tier.entries:
            lines += (
                [seconds(s.start), seconds(s.end), _quoted(s.label)]
                if interval
                else [seconds(s.start), _quoted(s.label)]
            )
    return ("\n".join(lines) + "\n").encode()


def filled(annotation: Annotation) -> list[Tier]:
    """The tiers as Praat needs them: intervals that touch from start to end, gaps filled with empty ones.

    Intervals that overlap cannot stand in one tier; they go to a further tier of the same name with a number.

    Raises:
        AnnotationError: an interval that ends before it starts.
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
                at = max(at, s.end)
            if end > at + ROUNDING or not full:
                full.append(Segment(at, end, ""))
            tiers.append(Tier(tier.name if k == 1 else f"{tier.name} ({k})", "interval", full))
    return tiers


def _rows(tier: Tier) -> list[list[Segment]]:
    rows: list[list[Segment]] = [[]]
    for s in sorted(tier.entries, key=lambda s: (s.start, s.end)):
        if s.end < s.start:
            raise AnnotationError(
                f"expected intervals that end after they start, got {s.start:g}-{s.end:g} s in tier {shown(tier.name)}"
            )
        row = next((r for r in rows if not r or r[-1].end <= s.start + ROUNDING), None)
        if row is None:
            rows.append(row := [])
        row.append(s)
    return rows


def _quoted(text: str | None) -> str:
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
