"""ELAN's `.eaf`: XML, milliseconds, tiers that hang on other tiers.

Source: "ELAN Annotation Format (EAF), Schema version 3.0", The Language Archive. Alignable annotations refer to time
slots; a slot without a value lies between its neighbours, and is put there evenly. Annotations that refer to another
one have its time, or, where several do, an even part of it. `TIME_ORIGIN` is the time in the recording at which the
time line begins, so it is added. `eaf_xml` reads the XML.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from operator import attrgetter
from xml.sax.saxutils import escape  # nosec B406  writes XML, reads none

from phonechain.features.annotation.base import Annotation, Format, Source, Tier, number
from phonechain.features.annotation.eaf_xml import Aligned, Document
from phonechain.features.errors import Notice
from phonechain.features.segments import ROUNDING, Segment

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_by_time = attrgetter("start", "end")
Times = dict[str, tuple[float, float]]
"""Start and end of annotations, milliseconds."""


def sniff(source: Source) -> int:
    return 3 if "<ANNOTATION_DOCUMENT" in source.head else 0


def parse(source: Source) -> Annotation:
    """Read an ELAN file. Raises AnnotationSyntaxError with the line."""
    document = Document(source.text)
    slots = document.slots
    interpolated = _interpolate(document) if None in slots.values() else 0
    inherited = _inherit(document) if any(document.referring) else {}
    origin = time_origin(document)
    tiers, lost = [], 0
    for title, aligned, referring in zip(document.titles, document.aligned, document.referring, strict=True):
        placed = _timed_segments(aligned, slots, origin)
        for name, _, _, text in referring:
            if (span := inherited.get(name)) is not None:
                placed.append(Segment((span[0] + origin) / 1000, (span[1] + origin) / 1000, text))
        lost += len(aligned) + len(referring) - len(placed)
        placed.sort(key=_by_time)  # ELAN keeps them in the order in which they were made
        tiers.append(Tier(title, "point" if placed and all(s.start == s.end for s in placed) else "interval", placed))
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


def _timed_segments(aligned: list[Aligned], slots: dict[str, float | None], origin: float) -> list[Segment]:
    """The annotations whose two slots both have a time."""
    try:
        # Nearly every file: a slot that is not there, or has no value, is the exception.
        return [
            Segment((slots[first] + origin) / 1000, (slots[second] + origin) / 1000, text)  # type: ignore[operator]
            for _, first, second, text in aligned
        ]
    except (KeyError, TypeError):
        known = [entry for entry in aligned if None not in (slots.get(entry[1]), slots.get(entry[2]))]
        return _timed_segments(known, slots, origin)


def time_origin(document: Document) -> float:
    """Time in the recording (ms) at which the time line begins: in the sound, if several media are linked."""
    sound = [m for m in document.media if m[0].startswith("audio")] or document.media
    return number(sound[0][1], sound[0][2], "a TIME_ORIGIN", 1000) if sound else 0.0


def _interpolate(document: Document) -> int:
    """Interpolate each slot without a time between its neighbours in the tier; returns how many."""
    slots, filled = document.slots, 0
    for entries in document.aligned:
        order: list[str] = []
        for entry in entries:
            for slot in entry[1:3]:
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


def _inherit(document: Document) -> Times:
    """Times of annotations that refer to another: that one's, divided evenly if several of a tier refer to it."""
    times: Times = {}
    for name, first, second, _ in (entry for entries in document.aligned for entry in entries):
        start, end = document.slots.get(first), document.slots.get(second)
        if start is not None and end is not None:
            times[name] = start, end
    by_parent: dict[str, list[list[str]]] = defaultdict(list)
    for entries in document.referring:
        siblings: dict[str, dict[str, str]] = defaultdict(dict)
        for name, parent, before, _ in entries:
            siblings[parent][name] = before
        for parent, befores in siblings.items():
            by_parent[parent].append(_in_order(befores) if any(befores.values()) else list(befores))
    waiting = list(times)
    while waiting:  # from the aligned ones down; a circle of references is never entered
        parent = waiting.pop()
        start, end = times[parent]
        for ids in by_parent.pop(parent, ()):
            for i, child in enumerate(ids):
                if child not in times:
                    times[child] = start + (end - start) * i / len(ids), start + (end - start) * (i + 1) / len(ids)
                    waiting.append(child)
    return times


def _in_order(befores: dict[str, str]) -> list[str]:
    """The parts of a subdivision in the order of their links to the previous part, else in the order of the file."""
    after: dict[str, list[str]] = defaultdict(list)
    for name, before in befores.items():
        after[before if before in befores else ""].append(name)
    ordered: dict[str, None] = {}
    waiting = after[""][::-1]
    while waiting:
        name = waiting.pop()
        ordered[name] = None
        waiting += after.pop(name, [])[::-1]
    return list(ordered | dict.fromkeys(befores))  # those of a circle come last


def write(annotation: Annotation) -> bytes:
    """Every tier, each time-alignable; times are rounded to milliseconds, as ELAN keeps them. UTF-8.

    Neighbours that touch share a slot, so that rounding cannot make them overlap. A point is an annotation that ends where
    it starts.
    """
    slots: list[int] = []
    tiers: list[str] = []
    taken: dict[str, int] = defaultdict(int)
    count = 0
    for tier in annotation.tiers:
        taken[tier.name] += 1
        title = tier.name if taken[tier.name] == 1 else f"{tier.name} ({taken[tier.name]})"
        tiers.append(f'    <TIER LINGUISTIC_TYPE_REF="default-lt" TIER_ID="{_attribute(title)}">')
        previous = None
        for s in tier.entries:
            count += 1
            if previous is not None and abs(s.start - previous.end) <= ROUNDING:
                first = len(slots)
            else:
                slots.append(round(s.start * 1000))
                first = len(slots)
            if s.end != s.start:
                slots.append(max(round(s.end * 1000), slots[-1]) if s.end > s.start else round(s.end * 1000))
            previous = s
            tiers += [
                "        <ANNOTATION>",
                f'            <ALIGNABLE_ANNOTATION ANNOTATION_ID="a{count}" '
                f'TIME_SLOT_REF1="ts{first}" TIME_SLOT_REF2="ts{len(slots)}">',
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
    """Text escaped for XML; characters that XML cannot represent become U+FFFD."""
    return escape(_NO_XML.sub("\ufffd", value), {"\r": "&#13;"})


def _attribute(value: str) -> str:
    return escape(_NO_XML.sub("\ufffd", value), {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


FORMAT = Format("eaf", "ELAN", (".eaf",), "application/xml", sniff, parse, write)
