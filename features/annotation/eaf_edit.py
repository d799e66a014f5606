"""Change one tier inside the XML of an ELAN file: media, types, vocabularies, parents and all other tiers stay."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree  # nosec B405  documents with a type, and so with entities, are refused
from collections.abc import Sequence

from phonechain.features.annotation.base import Source
from phonechain.features.annotation.eaf import time_origin
from phonechain.features.annotation.eaf_xml import Document

Row = tuple[int, float, float, str | None]
"""Index of the annotation in the original tier (a new one has a higher number), start and end (s), label."""

ElementTree.register_namespace("xsi", "http://www.w3.org/2001/XMLSchema-instance")


def edit_tier(data: bytes, index: int, rows: Sequence[Row]) -> bytes | None:
    """The file with tier number `index` (from 0) as `rows` say; UTF-8, times in milliseconds.

    An annotation keeps its id. Those that refer to one that is gone refer to the one that lies there now. Boundaries that
    move get time slots of their own, since other tiers may hang on the old ones.

    Returns:
        None where it cannot be done: slots without a time, or another time for an annotation that has its parent's.
    """
    source = Source(data)
    if "<!DOCTYPE" in source.text:
        return None
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(source.text.encode("utf-8"), parser)  # nosec B314  no document type
    tier = root.findall("TIER")[index]
    slots = _Slots(root, time_origin(Document(source.text)))
    known = _annotations(tier, slots)
    if known is None:
        return None
    kept = {number: (start, end, label) for number, start, end, label in rows if number < len(known)}
    for number, (start, end, label) in kept.items():
        element, was = known[number].find("*"), slots.times(known[number])
        assert element is not None
        value = element.find("ANNOTATION_VALUE")
        if value is None:
            value = ElementTree.SubElement(element, "ANNOTATION_VALUE")
        if (value.text or "").strip() != (label or ""):
            value.text = label or ""
        for attribute, time, before in (("TIME_SLOT_REF1", start, was[0]), ("TIME_SLOT_REF2", end, was[1])):
            if abs(time - before) > 5e-4:
                element.set(attribute, slots.at(time))
    gone = [n for n in range(len(known)) if n not in kept]
    names = _Names(root)
    made = {}
    for number, start, end, label in rows:
        if number >= len(known):
            made[number] = _make(names.next(), slots.at(start), slots.at(end), label or "")
    nodes = {**dict(enumerate(known)), **made}
    for place, (number, *_) in enumerate(rows):
        if number in made:
            here = list(tier).index(nodes[rows[place - 1][0]]) + 1 if place else 0
            tier.insert(here, made[number])
    for number in gone:
        start, end = slots.times(known[number])
        middle = (start + end) / 2
        heir = next((n for n, low, high, _ in rows if low <= middle <= high), None)
        if heir is None:
            return None
        _point_to(root, _id(known[number]), _id(nodes[heir]))
        tier.remove(known[number])
    names.finish()
    out: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return out + b"\n"


def _annotations(tier: ElementTree.Element, slots: _Slots) -> list[ElementTree.Element] | None:
    """The annotations in the order of the reader, by time; None for those without their own times."""
    found = tier.findall("ANNOTATION")
    if any(a.find("ALIGNABLE_ANNOTATION") is None or slots.missing(a) for a in found):
        return None
    return sorted(found, key=slots.times)


class _Slots:
    """The time slots of a document, in seconds of the recording."""

    def __init__(self, root: ElementTree.Element, origin: float) -> None:
        order = root.find("TIME_ORDER")
        self.order = order if order is not None else ElementTree.SubElement(root, "TIME_ORDER")
        self.origin = origin
        self.values = {s.get("TIME_SLOT_ID", ""): s.get("TIME_VALUE") for s in self.order.findall("TIME_SLOT")}
        self.made: dict[int, str] = {}

    def missing(self, annotation: ElementTree.Element) -> bool:
        """Whether one of the annotation's two slots has no time."""
        return any(self.values.get(name) is None for name in self._names(annotation))

    def times(self, annotation: ElementTree.Element) -> tuple[float, float]:
        """Start and end."""
        first, second = (float(self.values[name] or 0) for name in self._names(annotation))
        return (first + self.origin) / 1000, (second + self.origin) / 1000

    def at(self, time: float) -> str:
        """The slot for a time, created if necessary; neighbours share it."""
        value = round(1000 * time - self.origin)
        if value not in self.made:
            number = len(self.values) + 1
            while f"ts{number}" in self.values:
                number += 1
            name = self.made[value] = f"ts{number}"
            self.values[name] = str(value)
            # Slots are in order of time; those without a time stay between their neighbours.
            place = next(
                (i for i, s in enumerate(self.order) if float(s.get("TIME_VALUE") or "-inf") > value), len(self.order)
            )
            slot = ElementTree.Element("TIME_SLOT", {"TIME_SLOT_ID": name, "TIME_VALUE": str(value)})
            slot.tail = self.order[place - 1].tail if place else self.order.text
            self.order.insert(place, slot)
        return self.made[value]

    @staticmethod
    def _names(annotation: ElementTree.Element) -> tuple[str, str]:
        element = annotation.find("ALIGNABLE_ANNOTATION")
        assert element is not None
        return element.get("TIME_SLOT_REF1", ""), element.get("TIME_SLOT_REF2", "")


class _Names:
    """Ids for new annotations, and the property in which ELAN remembers the last one."""

    def __init__(self, root: ElementTree.Element) -> None:
        self.known = {e.get("ANNOTATION_ID", "") for e in root.iter() if e.get("ANNOTATION_ID")}
        self.last = max((int(n[1:]) for n in self.known if n[:1] == "a" and n[1:].isdecimal()), default=0)
        properties = root.findall("HEADER/PROPERTY")
        self.property = next((p for p in properties if p.get("NAME") == "lastUsedAnnotationId"), None)
        if self.property is not None and (self.property.text or "").strip().isdecimal():
            self.last = max(self.last, int(self.property.text or 0))

    def next(self) -> str:
        """A new id."""
        self.last += 1
        return f"a{self.last}"

    def finish(self) -> None:
        """Write the last id where ELAN looks for it."""
        if self.property is not None:
            self.property.text = str(self.last)


def _make(name: str, first: str, second: str, label: str) -> ElementTree.Element:
    annotation = ElementTree.Element("ANNOTATION")
    given = {"ANNOTATION_ID": name, "TIME_SLOT_REF1": first, "TIME_SLOT_REF2": second}
    element = ElementTree.SubElement(annotation, "ALIGNABLE_ANNOTATION", given)
    ElementTree.SubElement(element, "ANNOTATION_VALUE").text = label
    return annotation


def _id(annotation: ElementTree.Element) -> str:
    element = annotation.find("*")
    return "" if element is None else element.get("ANNOTATION_ID", "")


def _point_to(root: ElementTree.Element, old: str, new: str) -> None:
    for element in root.iter("REF_ANNOTATION"):
        if element.get("ANNOTATION_REF") == old:
            element.set("ANNOTATION_REF", new)
