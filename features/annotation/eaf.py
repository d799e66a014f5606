"""ELAN's `.eaf`: XML, milliseconds, tiers that hang on other tiers.

Source: "ELAN Annotation Format (EAF), Schema version 3.0", The Language Archive. Alignable annotations refer to time
slots; a slot without a value lies between its neighbours, and is put there evenly. Annotations that refer to another
one have its time, or, where several do, an even part of it. `TIME_ORIGIN` is the time in the recording at which the
time line begins, so it is added. XML that declares entities is refused, and nothing outside the file is fetched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from xml.parsers import expat
from xml.sax.saxutils import escape

from features.annotation.base import Annotation, Format, Source, Tier, check_count, number, shown
from features.errors import AnnotationSyntaxError, Notice
from features.segments import Segment

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class _Entry:
    """One annotation: two time slots, or the annotation that it refers to."""

    id: str
    slots: tuple[str, str] | None
    parent: str | None = None
    text: list[str] = field(default_factory=list)


class _Handler:
    """Collects slots, tiers and annotations while expat runs."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.EntityDeclHandler = self.entity
        self.slots: dict[str, float | None] = {}
        self.tiers: list[tuple[str, list[_Entry]]] = []
        self.media: list[tuple[str, float]] = []
        self.entries: dict[str, _Entry] = {}
        self.root: str | None = None

    @property
    def line(self) -> int:
        return self.parser.CurrentLineNumber

    def entity(self, name: str, *_: object) -> None:
        raise AnnotationSyntaxError(
            f"expected XML without entity declarations, got one for {shown(name)}", line=self.line
        )

    def start(self, name: str, given: dict[str, str]) -> None:
        if self.root is None:
            self.root = name
            if name != "ANNOTATION_DOCUMENT":
                raise AnnotationSyntaxError(f"expected an ANNOTATION_DOCUMENT, got {shown(name)}", line=self.line)
        elif name == "ANNOTATION_VALUE":
            if self.tiers and self.tiers[-1][1]:
                self.parser.CharacterDataHandler = self.tiers[-1][1][-1].text.append
        elif name == "TIME_SLOT":
            value = given.get("TIME_VALUE")
            self.slots[self.need(given, "TIME_SLOT_ID")] = (
                None if value is None else number(value, self.line, "a TIME_VALUE")
            )
        elif name == "TIER":
            self.tiers.append((self.need(given, "TIER_ID"), []))
        elif name in ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION"):
            if not self.tiers:
                raise AnnotationSyntaxError("expected an annotation inside a TIER, got one outside", line=self.line)
            entry = _Entry(self.need(given, "ANNOTATION_ID"), None)
            if name == "REF_ANNOTATION":
                entry.parent = self.need(given, "ANNOTATION_REF")
            else:
                entry.slots = self.need(given, "TIME_SLOT_REF1"), self.need(given, "TIME_SLOT_REF2")
            self.tiers[-1][1].append(entry)
            self.entries[entry.id] = entry
            check_count(len(self.entries), self.line)
        elif name == "MEDIA_DESCRIPTOR":
            origin = number(given.get("TIME_ORIGIN", "0"), self.line, "a TIME_ORIGIN")
            self.media.append((given.get("MIME_TYPE", ""), origin))

    def end(self, name: str) -> None:
        if name == "ANNOTATION_VALUE":
            self.parser.CharacterDataHandler = None

    def need(self, given: dict[str, str], key: str) -> str:
        if key not in given:
            raise AnnotationSyntaxError(
                f"expected an attribute {key}, got {', '.join(given) or 'none'}", line=self.line
            )
        return given[key]


def sniff(source: Source) -> int:
    return 3 if "<ANNOTATION_DOCUMENT" in source.head else 0


def parse(source: Source) -> Annotation:
    """Read an ELAN file. Raises AnnotationSyntaxError with the line."""
    handler = _Handler()
    try:
        handler.parser.Parse(source.text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        said = expat.errors.messages[error.code]
        raise AnnotationSyntaxError(
            f"expected XML, got {said} (column {error.offset + 1})", line=error.lineno
        ) from None
    origin = next(
        (o for mime, o in handler.media if mime.startswith("audio")), handler.media[0][1] if handler.media else 0.0
    )
    interpolated = _interpolate(handler)
    times = _times(handler)
    tiers: list[Tier] = []
    lost = 0
    for title, entries in handler.tiers:
        placed = []
        for entry in entries:
            if (span := times.get(entry.id)) is None:
                lost += 1
            else:
                placed.append(Segment((span[0] + origin) / 1000, (span[1] + origin) / 1000, "".join(entry.text)))
        placed.sort(key=lambda s: (s.start, s.end))  # ELAN keeps them in the order in which they were made
        kind = "point" if placed and all(s.start == s.end for s in placed) else "interval"
        tiers.append(Tier(title, "point" if kind == "point" else "interval", placed))
    notices = []
    if origin:
        message = f"the time line begins at {origin:g} ms of the recording (TIME_ORIGIN), which was added to every time"
        notices.append(Notice("time-origin", message, None, origin / 1000))
    if interpolated:
        message = f"{interpolated} time slots without a value were put evenly between their neighbours"
        notices.append(Notice("slots-interpolated", message, None, float(interpolated)))
    if lost:
        message = f"{lost} annotations have no time and none to lie between; they were left out"
        notices.append(Notice("annotations-unaligned", message, None, float(lost)))
    return source.annotation(tiers, "eaf", notices=notices)


def _interpolate(handler: _Handler) -> int:
    """Give a value to each slot without one that has one before it and one after it in its tier; how many got one."""
    slots, filled = handler.slots, 0
    for _, entries in handler.tiers:
        order: list[str] = []
        for entry in entries:
            for slot in entry.slots or ():
                if not order or order[-1] != slot:
                    order.append(slot)
        known = [i for i, slot in enumerate(order) if slots.get(slot) is not None]
        for a, b in pairwise(known):
            first, last = slots[order[a]], slots[order[b]]
            if b - a < 2 or first is None or last is None or last < first:
                continue
            for i in range(a + 1, b):
                if order[i] in slots and slots[order[i]] is None:
                    slots[order[i]] = first + (last - first) * (i - a) / (b - a)
                    filled += 1
    return filled


def _times(handler: _Handler) -> dict[str, tuple[float, float]]:
    """Start and end, ms on the time line, of each annotation that has them or inherits them."""
    times: dict[str, tuple[float, float]] = {}
    children: dict[tuple[str, int], list[str]] = defaultdict(list)
    for k, (_, entries) in enumerate(handler.tiers):
        for entry in entries:
            if entry.slots is not None:
                start, end = (handler.slots.get(slot) for slot in entry.slots)
                if start is not None and end is not None:
                    times[entry.id] = (start, end)
            elif entry.parent is not None:
                children[entry.parent, k].append(entry.id)
    by_parent: dict[str, list[list[str]]] = defaultdict(list)
    for (parent, _), ids in children.items():
        by_parent[parent].append(ids)
    waiting = list(times)
    while waiting:  # from the aligned ones down; a circle of references is never entered
        parent = waiting.pop()
        start, end = times[parent]
        for ids in by_parent.pop(parent, ()):
            for i, child in enumerate(ids):
                if child not in times:
                    times[child] = (start + (end - start) * i / len(ids), start + (end - start) * (i + 1) / len(ids))
                    waiting.append(child)
    return times


def write(annotation: Annotation) -> bytes:
    """Every tier, each time-alignable; times are rounded to milliseconds, as ELAN keeps them. UTF-8."""
    slots: list[int] = []
    tiers: list[str] = []
    taken: dict[str, int] = defaultdict(int)
    count = 0
    for tier in annotation.tiers:
        taken[tier.name] += 1
        title = tier.name if taken[tier.name] == 1 else f"{tier.name} ({taken[tier.name]})"
        tiers.append(f'    <TIER LINGUISTIC_TYPE_REF="default-lt" TIER_ID="{_attribute(title)}">')
        for s in tier.entries:
            slots += [round(s.start * 1000), round(s.end * 1000)]
            count += 1
            tiers += [
                "        <ANNOTATION>",
                f'            <ALIGNABLE_ANNOTATION ANNOTATION_ID="a{count}" '
                f'TIME_SLOT_REF1="ts{len(slots) - 1}" TIME_SLOT_REF2="ts{len(slots)}">',
                f"                <ANNOTATION_VALUE>{_text(s.label or '')}</ANNOTATION_VALUE>",
                "            </ALIGNABLE_ANNOTATION>",
                "        </ANNOTATION>",
            ]
        tiers.append("    </TIER>")
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<ANNOTATION_DOCUMENT AUTHOR="" DATE="1970-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">',
        '    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/>',
        "    <TIME_ORDER>",
        *(f'        <TIME_SLOT TIME_SLOT_ID="ts{i}" TIME_VALUE="{ms}"/>' for i, ms in enumerate(slots, 1)),
        "    </TIME_ORDER>",
        *tiers,
        '    <LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID="default-lt" TIME_ALIGNABLE="true"/>',
        "</ANNOTATION_DOCUMENT>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _text(value: str) -> str:
    """Text as XML; what XML has no way to say becomes U+FFFD."""
    return escape(_NO_XML.sub("\ufffd", value), {"\r": "&#13;"})


def _attribute(value: str) -> str:
    return escape(_NO_XML.sub("\ufffd", value), {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


FORMAT = Format("eaf", "ELAN", (".eaf",), "application/xml", sniff, parse, write)
