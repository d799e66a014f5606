"""One tier of a text TextGrid replaced in place: every other byte of the file stays as it is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence

from phonechain.features.annotation.base import Annotation, Source, Tier, seconds
from phonechain.features.annotation.textgrid import Reader, fill_gaps, is_long, quote
from phonechain.features.segments import Segment

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def replace_tier(data: bytes, index: int, entries: Sequence[Segment]) -> bytes | None:
    """The file with other intervals in its tier number `index` (from 0), in the file's own encoding and line ends.

    Args:
        data: a TextGrid in the long or the short text form.
        entries: intervals in order, without overlaps; gaps become intervals without text, as Praat needs them.

    Returns:
        None where the file is in the chronological form, or its encoding lacks a character of the labels: it has to be
        written anew.
    """
    source = Source(data)
    if source.encoding.startswith("utf-32"):
        return None
    text = source.text
    first = re.search(r"ooTextFile[^\n]*", text)
    if first is None:
        return None
    reader = Reader(text, first.end())
    reader.text("the object class")
    reader.number("the start of the file"), reader.number("the end of the file")
    reader.flag("<exists>")
    for place in range(reader.count("the number of tiers")):
        interval = reader.text("the class of a tier") == "IntervalTier"
        reader.text("the name of a tier")
        start, end = reader.number("the start of a tier"), reader.number("the end of a tier")
        count = reader.count("the number of intervals")
        assert reader.match is not None
        size = reader.match.span("number")
        begin = reader.at
        for _ in range(count):
            if interval:
                reader.interval()
            else:
                reader.point()
        if place != index:
            continue
        if not interval:
            return None
        rows = fill_gaps(Annotation([Tier("", "interval", list(entries))], "textgrid", start, end))
        if len(rows) != 1:
            return None  # they overlap
        old = text[begin : reader.at]
        block = (_long if is_long(text, first.end()) else _short)(rows[0].entries, old, _spellings(old))
        edited = text[: size[0]] + str(len(rows[0].entries)) + text[size[1] : begin] + block + text[reader.at :]
        return _encode(edited, data, source.encoding)
    return None


def _spellings(old: str) -> dict[float, str]:
    """How times were written ("0.10"), so that boundaries that did not move stay as they were to the letter."""
    found = re.findall(r"(?:^|=)[ \t]*([0-9]+(?:\.[0-9]+)?)[ \t]*$", old, re.MULTILINE)
    return {float(text): text for text in found}


def _long(entries: Sequence[Segment], old: str, spelt: Mapping[float, str]) -> str:
    """The block of intervals with names beside the numbers, indented as the block that it replaces."""
    indent = match[1] if (match := re.match(r"\s*?\n([ \t]*)intervals", old)) else " " * 8
    blank = " " if re.search(r"=[^\n]* \n", old) or not old.strip() else ""
    inner = indent + " " * 4
    if match := re.search(r"intervals[^\n]*\n([ \t]*)xmin", old):
        inner = match[1]
    colon = ":" if not old.strip() or re.search(r"\]:[ \t]*\n", old) else ""
    lines = []
    for number, s in enumerate(entries, 1):
        lines += [
            f"{indent}intervals [{number}]{colon}",
            f"{inner}xmin = {_time(s.start, spelt)}{blank}",
            f"{inner}xmax = {_time(s.end, spelt)}{blank}",
            f"{inner}text = {quote(s.label)}{blank}",
        ]
    lead = match[0] if (match := re.match(r"[ \t]*\n", old)) else "\n"
    return (lead + "\n".join(lines)).removesuffix(blank)


def _short(entries: Sequence[Segment], old: str, spelt: Mapping[float, str]) -> str:
    """The block of intervals, one value per line."""
    values = [value for s in entries for value in (_time(s.start, spelt), _time(s.end, spelt), quote(s.label))]
    lead = match[0] if (match := re.match(r"[ \t]*\n", old)) else "\n"
    return lead + "\n".join(values)


def _time(value: float, spelt: Mapping[float, str]) -> str:
    return spelt.get(value) or seconds(value)


def _encode(text: str, data: bytes, encoding: str) -> bytes | None:
    """Text as bytes in the encoding, with the mark and the line ends, of `data`."""
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    original = data[len(mark) :].decode(encoding, errors="replace")
    if "\r\n" in original:
        text = text.replace("\n", "\r\n")
    elif "\r" in original:
        text = text.replace("\n", "\r")
    try:
        return mark + text.encode(encoding)
    except UnicodeEncodeError:
        return None
