"""EMU-SDMS annotations (`NAME_annot.json`): levels of segments, events and items without times, and links between them.

Source: "The EMU-SDMS Manual", chapter "Annotation file". Times are in samples at `sampleRate`: a segment of `sampleDur` d
from `sampleStart` s ends where sample s + d + 1 begins. An item without times gets those of the items below it that it is
linked to. Labels beyond an item's first become tiers of their own.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from phonechain.features.annotation.base import Annotation, Format, Source, Tier, check_count, gapless, printable
from phonechain.features.annotation.json import kind_of, load
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment

RATE = 16000
"""Samples per second in files written for a sound of unknown rate."""

Span = tuple[float, float]


def sniff(source: Source) -> int:
    head = source.head
    return (
        3 if head.lstrip()[:1] == "{" and '"sampleRate"' in head and re.search(r'"(?:levels|annotates)"', head) else 0
    )


def parse(source: Source) -> Annotation:
    """Read an annotation file. Raises AnnotationSyntaxError with a pointer."""
    value = load(source.text)
    rate = _whole(value.get("sampleRate"), "sampleRate") if isinstance(value, dict) else 0
    levels = value.get("levels") if isinstance(value, dict) else None
    if not 0 < rate < 10_000_000:
        raise AnnotationSyntaxError(f"expected a sampleRate in Hz, got {rate}", pointer="sampleRate")
    spans: dict[int, Span] = {}
    items = [(i, level, _items(level, f"levels/{i}")) for i, level in enumerate(_list(levels, "levels"))]
    check_count(sum(len(found) for _, _, found in items))
    for i, _, found in items:
        for k, item in enumerate(found):
            if (span := _span(item, rate, f"levels/{i}/items/{k}")) is not None:
                spans[_whole(item.get("id"), f"levels/{i}/items/{k}/id")] = span
    _inherit(spans, _list(value.get("links", []), "links"))
    tiers: list[Tier] = []
    lost = 0
    for i, level, found in items:
        more, without = _tiers(level, found, spans, f"levels/{i}")
        tiers += more
        lost += without
    notices = []
    if lost:
        message = f"{lost} items are linked to none that has a time; they were left out"
        notices.append(Notice("annotations-unaligned", message, "levels", float(lost)))
    return source.annotation(printable(tiers), "emu", notices=notices)


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise AnnotationSyntaxError(f'expected "{at}" as a list, got {kind_of(value)}', pointer=at)
    return value


def _items(level: Any, at: str) -> list[dict[str, Any]]:
    if not isinstance(level, dict):
        raise AnnotationSyntaxError(f"expected a level as an object, got {kind_of(level)}", pointer=at)
    items = _list(level.get("items"), f"{at}/items")
    bad = next((k for k, item in enumerate(items) if not isinstance(item, dict)), None)
    if bad is not None:
        raise AnnotationSyntaxError(
            f"expected an item as an object, got {kind_of(items[bad])}", pointer=f"{at}/items/{bad}"
        )
    return items


def _whole(value: Any, at: str) -> int:
    number = value if type(value) in (int, float) and abs(value) < 1e15 else None
    if number is None or number != int(number):
        raise AnnotationSyntaxError(f"expected a whole number, got {kind_of(value)}", pointer=at)
    return int(number)


def _span(item: dict[str, Any], rate: int, at: str) -> Span | None:
    """Times of an item (s); None if it has none."""
    if "samplePoint" in item:
        point = _whole(item["samplePoint"], f"{at}/samplePoint") / rate
        return point, point
    if "sampleStart" not in item:
        return None
    start = _whole(item["sampleStart"], f"{at}/sampleStart")
    length = _whole(item.get("sampleDur"), f"{at}/sampleDur") + 1
    return start / rate, (start + length) / rate


def _inherit(spans: dict[int, Span], links: list[Any]) -> None:
    """Give items without times those of the items that they are linked to, from the timed ones up."""
    parents: dict[int, list[int]] = defaultdict(list)
    for i, link in enumerate(links):
        if not isinstance(link, dict):
            raise AnnotationSyntaxError(f"expected a link as an object, got {kind_of(link)}", pointer=f"links/{i}")
        ends = (_whole(link.get(key), f"links/{i}/{key}") for key in ("toID", "fromID"))
        child, parent = ends
        parents[child].append(parent)
    timed = set(spans)
    waiting = list(spans)
    steps = 0
    while waiting and steps < 20 * (len(links) + 1):  # a circle of links cannot go on for ever
        child = waiting.pop()
        for parent in parents.get(child, ()):
            steps += 1
            if parent in timed:
                continue
            start, end = spans[child]
            known = spans.get(parent, (start, end))
            wider = min(known[0], start), max(known[1], end)
            if spans.get(parent) != wider:
                spans[parent] = wider
                waiting.append(parent)


def _tiers(
    level: dict[str, Any], items: list[dict[str, Any]], spans: dict[int, Span], at: str
) -> tuple[list[Tier], int]:
    """One tier per label of the items, and the number of items without times."""
    name = level.get("name")
    title = name if isinstance(name, str) else at
    point = str(level.get("type", "")).upper() == "EVENT"
    tiers: dict[str, Tier] = {title: Tier(title, "point" if point else "interval")}
    lost = 0
    for k, item in enumerate(items):
        span = spans.get(_whole(item.get("id"), f"{at}/items/{k}/id"))
        if span is None:
            lost += 1
            continue
        labels = [label for label in _list(item.get("labels", []), f"{at}/items/{k}/labels") if isinstance(label, dict)]
        for n, label in enumerate(labels or [{}]):
            own = label.get("name")
            key = title if n == 0 or not isinstance(own, str) else f"{title} {own}"
            tier = tiers.setdefault(key, Tier(key, tiers[title].kind))
            said = label.get("value")
            tier.entries.append(Segment(*span, said if isinstance(said, str) else ""))
    for tier in tiers.values():
        tier.entries.sort(key=lambda s: (s.start, s.end))
    return list(tiers.values()), lost


def write(annotation: Annotation, recording: str | None = None, rate: int | None = None) -> bytes:
    """Every tier as a level of its own, in samples at `rate`, else at 16000 Hz. UTF-8.

    Gaps become segments without a label: in EMU's editor the segments of a level touch.

    Raises:
        AnnotationError: overlapping intervals.
    """
    hertz = rate or RATE
    levels = []
    count = 0
    for tier in annotation.tiers:
        items = []
        for s in tier.entries if tier.kind == "point" else gapless(tier):
            count += 1
            start = round(s.start * hertz)
            times = (
                {"samplePoint": start}
                if tier.kind == "point"
                else {"sampleStart": start, "sampleDur": max(round(s.end * hertz) - start - 1, 0)}
            )
            items.append({"id": count, **times, "labels": [{"name": tier.name, "value": s.label or ""}]})
        levels.append({"name": tier.name, "type": "EVENT" if tier.kind == "point" else "SEGMENT", "items": items})
    name = recording or "recording"
    value = {"name": name, "annotates": f"{name}.wav", "sampleRate": hertz, "levels": levels, "links": []}
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


FORMAT = Format("emu", "EMU annotation", ("_annot.json",), "application/json", sniff, parse, write, names_sound=True)
