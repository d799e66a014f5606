"""ELAN's `.eaf`: XML, milliseconds, tiers that hang on other tiers.

Source: "ELAN Annotation Format (EAF), Schema version 3.0", The Language Archive. Alignable annotations refer to time
slots; a slot without a value lies between its neighbours, and is put there evenly. Annotations that refer to another
one have its time, or, where several do, an even part of it. `TIME_ORIGIN` is the time in the recording at which the
time line begins, so it is added. XML with a document type is refused, and nothing outside the file is fetched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from operator import attrgetter
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from features.annotation.base import MAX_SECONDS, Annotation, Format, Source, Tier, check_count, number, shown
from features.errors import AnnotationSyntaxError, Notice
from features.segments import Segment

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_by_time = attrgetter("start", "end")
_TEXT = "ANNOTATION_VALUE"
Entry = dict[str, str]
"""The attributes of one annotation, and under _TEXT what it says."""
Slots = dict[str, float | None]
"""Milliseconds on the time line; None for a slot without a value."""
Times = dict[str, tuple[float, float]]
"""Start and end of annotations, milliseconds."""


def sniff(source: Source) -> int:
    return 3 if "<ANNOTATION_DOCUMENT" in source.head else 0


def parse(source: Source) -> Annotation:
    """Read an ELAN file. Raises AnnotationSyntaxError with the line."""
    document = _Document(source.text)
    slots = document.slots
    if any(ms is not None and abs(ms) > 1000 * MAX_SECONDS for ms in slots.values()):
        raise AnnotationSyntaxError("expected times in milliseconds, got one of more than 14 digits")
    interpolated = _interpolate(slots, document.aligned) if None in slots.values() else 0
    inherited = _inherit(slots, document) if any(document.referring) else {}
    origin = _origin(document)
    tiers, lost = [], 0
    for title, aligned, referring in zip(document.titles, document.aligned, document.referring, strict=True):
        placed = []
        for entry in aligned:
            start, end = slots.get(entry.get("TIME_SLOT_REF1", "")), slots.get(entry.get("TIME_SLOT_REF2", ""))
            if start is not None and end is not None:
                placed.append(Segment((start + origin) / 1000, (end + origin) / 1000, entry.get(_TEXT, "")))
        for entry in referring:
            if (span := inherited.get(entry.get("ANNOTATION_ID", ""))) is not None:
                placed.append(Segment((span[0] + origin) / 1000, (span[1] + origin) / 1000, entry.get(_TEXT, "")))
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


class _Document:
    """What the XML holds: slots, and for each tier its annotations' attributes, the text among them."""

    def __init__(self, text: str) -> None:
        self.slots: Slots = {}
        self.titles: list[str] = []
        self.aligned: list[list[Entry]] = []
        self.referring: list[list[Entry]] = []
        self.media: list[tuple[Entry, int]] = []
        check_count(text.count("<") // 8)  # an annotation has about that many tags; bounds what is kept below
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        self._listen(parser)
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            said = f"expected XML, got {expat.errors.messages[error.code]} (column {error.offset + 1})"
            raise AnnotationSyntaxError(said, line=error.lineno) from None

    def _listen(self, parser: expat.XMLParserType) -> None:
        """Set the handlers. They are most of the time that reading takes: so closures, frequent elements first."""
        slots, said = self.slots, list[str]()
        last: Entry = {}
        rooted = False

        def start(name: str, given: Entry) -> None:
            nonlocal last, rooted
            if name == "TIME_SLOT":
                try:
                    slots[given["TIME_SLOT_ID"]] = int(given["TIME_VALUE"])
                except (ValueError, KeyError):
                    if "TIME_SLOT_ID" not in given or "TIME_VALUE" in given:
                        refuse("expected a TIME_SLOT with an id and a time in milliseconds, got " + listed(given))
                    slots[given["TIME_SLOT_ID"]] = None
            elif name == "ANNOTATION":
                pass
            elif name == "ANNOTATION_VALUE":
                parser.CharacterDataHandler, parser.EndElementHandler = said.append, end
            elif name == "ALIGNABLE_ANNOTATION" or name == "REF_ANNOTATION":
                if not self.titles:
                    refuse("expected an annotation inside a TIER, got one outside")
                (self.aligned if name == "ALIGNABLE_ANNOTATION" else self.referring)[-1].append(given)
                last = given
            elif name == "TIER":
                self.titles.append(given.get("TIER_ID") or f"tier {len(self.titles) + 1}")
                self.aligned.append([])
                self.referring.append([])
            elif name == "MEDIA_DESCRIPTOR":
                self.media.append((given, parser.CurrentLineNumber))
            elif not rooted and name != "ANNOTATION_DOCUMENT":
                refuse(f"expected an ANNOTATION_DOCUMENT, got {shown(name)}")
            rooted = True

        def end(name: str) -> None:
            # Set only while a value is read: other elements' ends say nothing.
            if name == "ANNOTATION_VALUE":
                parser.CharacterDataHandler = parser.EndElementHandler = None
                last[_TEXT] = "".join(said)
                said.clear()

        def doctype(name: str, *_: object) -> None:
            # Without a document type there are no entities to expand or to fetch; ELAN writes none.
            refuse(f"expected XML without a document type, got one for {shown(name)}")

        def listed(given: Entry) -> str:
            return ", ".join(f"{k}={shown(v)}" for k, v in given.items()) or "neither"

        def refuse(message: str) -> NoReturn:
            raise AnnotationSyntaxError(message, line=parser.CurrentLineNumber)

        parser.StartElementHandler = start
        parser.StartDoctypeDeclHandler = doctype


def _origin(document: _Document) -> float:
    """The time in the recording, ms, at which the time line begins: of the sound, if several media are linked."""
    sound = [m for m in document.media if m[0].get("MIME_TYPE", "").startswith("audio")] or document.media
    return number(sound[0][0].get("TIME_ORIGIN", "0"), sound[0][1], "a TIME_ORIGIN", 1000) if sound else 0.0


def _interpolate(slots: Slots, tiers: list[list[Entry]]) -> int:
    """Give a value to each slot without one that has one before it and one after it in its tier; how many got one."""
    filled = 0
    for entries in tiers:
        order: list[str] = []
        for entry in entries:
            for key in ("TIME_SLOT_REF1", "TIME_SLOT_REF2"):
                slot = entry.get(key, "")
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


def _inherit(slots: Slots, document: _Document) -> Times:
    """Times of annotations that refer to others: the other's, or an even part of it where several of a tier do."""
    times: Times = {}
    for entry in (entry for entries in document.aligned for entry in entries):
        start, end = slots.get(entry.get("TIME_SLOT_REF1", "")), slots.get(entry.get("TIME_SLOT_REF2", ""))
        if start is not None and end is not None:
            times[entry.get("ANNOTATION_ID", "")] = start, end
    by_parent: dict[str, list[list[str]]] = defaultdict(list)
    for entries in document.referring:
        siblings: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            siblings[entry.get("ANNOTATION_REF", "")].append(entry.get("ANNOTATION_ID", ""))
        for parent, ids in siblings.items():
            by_parent[parent].append(ids)
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
