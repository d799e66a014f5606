"""Praat's binary TextGrids.

Source: the Praat manual, "Save as binary file...", and Praat's own files. Numbers are big-endian: times as doubles,
counts as 32-bit integers; a class name has its length in one byte, other text in two, where 0xFFFF says that the length
follows and the text is UTF-16.
"""

from __future__ import annotations

import re
import struct

from phonechain.features.annotation.base import (
    MAX_SECONDS,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    printable,
)
from phonechain.features.annotation.textgrid import fill_gaps, zero_lengths
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError
from phonechain.features.segments import Segment

_MAGIC = b"ooBinaryFile"
_HIGH_SURROGATE = re.compile(b"[\xd8-\xdb]")


class _Bytes:
    """A cursor that never reads past the end."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, count: int, what: str) -> bytes:
        if count > len(self.data) - self.at:
            raise AnnotationSyntaxError(f"expected {what}, got the end of the file", pointer=f"byte {self.at}")
        part = self.data[self.at : self.at + count]
        self.at += count
        return part

    def time(self, what: str) -> float:
        value: float = struct.unpack(">d", self.take(8, what))[0]
        if not abs(value) <= MAX_SECONDS:
            raise AnnotationSyntaxError(f"expected {what} as a number, got {value}", pointer=f"byte {self.at - 8}")
        return value

    def count(self, what: str) -> int:
        value: int = struct.unpack(">i", self.take(4, what))[0]
        if value < 0:
            raise AnnotationSyntaxError(f"expected {what}, got {value}", pointer=f"byte {self.at - 4}")
        check_count(value)
        return value

    def name(self, what: str) -> str:
        return self.take(self.take(1, what)[0], what).decode("latin-1")

    def text(self, what: str) -> str:
        length = int.from_bytes(self.take(2, what), "big")
        if length != 0xFFFF:
            return self.take(length, what).decode("latin-1")
        length = int.from_bytes(self.take(2, what), "big")
        # The length counts characters, and those above U+FFFF take two units.
        text, missing = b"", length
        while missing:
            part = self.take(2 * missing, what)
            text, missing = text + part, len(_HIGH_SURROGATE.findall(part[::2]))
        return text.decode("utf-16-be", "replace")


def sniff(source: Source) -> int:
    return 3 if source.data.startswith(_MAGIC) else 0


def parse(source: Source) -> Annotation:
    """Read a binary TextGrid. Raises AnnotationSyntaxError with the byte."""
    file = _Bytes(source.data, len(_MAGIC))
    what = file.name("the object class")
    if what.split(" ")[0] != "TextGrid":
        raise AnnotationError(f"expected a Praat TextGrid, got a Praat {excerpt(what)}")
    start, end = file.time("the start of the file"), file.time("the end of the file")
    size = file.count("the number of tiers") if file.take(1, "whether there are tiers")[0] else 0
    tiers: list[Tier] = []
    total = 0
    for _ in range(size):
        kind = file.name("the class of a tier")
        if kind not in ("IntervalTier", "TextTier"):
            message = f"expected a tier of class IntervalTier or TextTier, got {excerpt(kind)}"
            raise AnnotationSyntaxError(message, pointer=f"byte {file.at}")
        tier = Tier(file.text("the name of a tier"), "interval" if kind == "IntervalTier" else "point")
        file.time("the start of a tier")
        file.time("the end of a tier")
        count = file.count("the number of entries")
        total += count
        check_count(total)
        for _ in range(count):
            a = file.time("a time")
            b = file.time("a time") if tier.kind == "interval" else a
            tier.entries.append(Segment(a, b, file.text("the text of an entry")))
        tiers.append(tier)
    notices = tuple(zero_lengths(tiers))
    return Annotation(printable(tiers), "textgrid-binary", start, end, notices=notices)


def write(annotation: Annotation) -> bytes:
    """Every tier. Raises AnnotationError for a text of more than 65 534 characters."""
    start, end = annotation.extent
    tiers = fill_gaps(annotation)
    out = [_MAGIC, b"\x08TextGrid", struct.pack(">ddbi", start, end, 1, len(tiers))]
    for tier in tiers:
        name = b"IntervalTier" if tier.kind == "interval" else b"TextTier"
        out += [bytes([len(name)]), name, _text(tier.name), struct.pack(">ddi", start, end, len(tier.entries))]
        for s in tier.entries:
            out += [
                struct.pack(">dd", s.start, s.end) if tier.kind == "interval" else struct.pack(">d", s.start),
                _text(s.label or ""),
            ]
    return b"".join(out)


def _text(text: str) -> bytes:
    body = text.encode("ascii") if text.isascii() else text.encode("utf-16-be", "replace")
    length = len(text)
    if length >= 0xFFFF:
        raise AnnotationError(f"expected texts of at most 65534 characters in a binary TextGrid, got {length}")
    return struct.pack(">H", length) + body if text.isascii() else struct.pack(">HH", 0xFFFF, length) + body


FORMAT = Format(
    "textgrid-binary", "Praat TextGrid (binary)", (".textgrid",), "application/octet-stream", sniff, parse, write
)
