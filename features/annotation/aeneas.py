"""The JSON of aeneas, an aligner of texts: fragments with times in seconds, which may contain smaller ones.

Source: the aeneas manual, "Synchronization map formats", JSON. Times are decimals in quotes. Each level of the text
(paragraphs, sentences, words) becomes a tier.
"""

from __future__ import annotations

from typing import Any

from phonechain.features.annotation.base import (
    MAX_TIERS,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    number,
    printable,
)
from phonechain.features.annotation.json import json_number, kind_of, load
from phonechain.features.errors import AnnotationSyntaxError
from phonechain.features.segments import Segment


def sniff(source: Source) -> int:
    head = source.head
    return 3 if head.lstrip()[:1] == "{" and '"fragments"' in head and ('"begin"' in head or '"lines"' in head) else 0


def parse(source: Source) -> Annotation:
    """Read a synchronisation map. Raises AnnotationSyntaxError with a pointer."""
    value = load(source.text)
    levels: list[Tier] = []
    count = 0
    waiting = [(value.get("fragments") if isinstance(value, dict) else None, 0, "fragments")]
    while waiting:
        given, level, at = waiting.pop()
        if not isinstance(given, list):
            raise AnnotationSyntaxError(f"expected fragments as a list, got {kind_of(given)}", pointer=at)
        if level == MAX_TIERS:
            raise AnnotationSyntaxError(f"expected at most {MAX_TIERS} levels, got more", pointer=at)
        if level == len(levels):
            levels.append(Tier("fragments" if level == 0 else f"fragments {level + 1}", "interval"))
        for i, fragment in enumerate(given):
            where = f"{at}/{i}"
            if not isinstance(fragment, dict):
                raise AnnotationSyntaxError(f"expected a fragment as an object, got {kind_of(fragment)}", pointer=where)
            start, end = (_time(fragment.get(key), f"{where}/{key}") for key in ("begin", "end"))
            lines = fragment.get("lines")
            said = " ".join(t for t in lines if isinstance(t, str)) if isinstance(lines, list) else ""
            levels[level].entries.append(Segment(start, end, said))
            count += 1
            check_count(count)
            if fragment.get("children"):
                waiting.append((fragment["children"], level + 1, f"{where}/children"))
    for tier in levels:
        tier.entries.sort(key=lambda s: (s.start, s.end))
    return source.annotation(printable(levels), "aeneas")


def _time(value: Any, at: str) -> float:
    return number(value, None, f"a time at {at}") if isinstance(value, str) else json_number(value, at)


FORMAT = Format("aeneas", "aeneas JSON", (".json",), "application/json", sniff, parse)
