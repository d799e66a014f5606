"""Audacity label tracks: `start<TAB>end<TAB>label`, seconds.

Source: the Audacity manual, "Importing and exporting labels". A line that begins with a backslash has the frequencies
of the label before it and is passed over. A label whose start is its end is a point, and goes to a tier of points.
"""

from __future__ import annotations

import re

from phonechain.features.annotation.base import (
    SNIFFED,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    number,
    one_line,
    seconds,
)
from phonechain.features.annotation.tiers import main_tier
from phonechain.features.errors import AnnotationSyntaxError
from phonechain.features.segments import Segment

_TIME = re.compile(r"[+-]?[0-9]+[.,]?[0-9]*(?:[eE][+-]?[0-9]+)?")


def sniff(source: Source) -> int:
    """2 if tab-separated, 1 with other blanks. At least one time needs decimals; whole numbers are counts of something."""
    if source.typical_length is not None:
        return 0
    tabs, decimals, seen = True, False, 0
    for line in source.head.split("\n", SNIFFED)[:SNIFFED]:
        if line.isspace() or not line or line.startswith("\\"):
            continue
        words = line.split(None, 2)
        if len(words) < 2 or not (_TIME.fullmatch(words[0]) and _TIME.fullmatch(words[1])):
            return 0
        tabs = tabs and line.count("\t") >= 1
        decimals = decimals or bool(re.search("[.,]", words[0] + words[1]))
        seen += 1
    return 0 if not seen or not decimals else 2 if tabs else 1


def parse(source: Source) -> Annotation:
    """Read a label track. Raises AnnotationSyntaxError with the line."""
    intervals, points = Tier("labels", "interval"), Tier("points", "point")
    for at, line in source.lines():
        if line.startswith("\\"):
            continue
        words = line.strip().split("\t", 2) if "\t" in line else line.split(None, 2)
        if len(words) < 2:
            raise AnnotationSyntaxError(f"expected a start, an end and a label, got {excerpt(line.strip())}", line=at)
        start = number(words[0].strip().replace(",", "."), at, "a start")
        end = number(words[1].strip().replace(",", "."), at, "an end")
        tier = points if start == end else intervals
        tier.entries.append(Segment(start, end, words[2].strip() if len(words) == 3 else ""))
        tier.lines.append(at)
        check_count(len(intervals.entries) + len(points.entries), at)
    return source.annotation([t for t in (intervals, points) if t.entries] or [intervals], "audacity")


def write(annotation: Annotation) -> bytes:
    """One tier, the answer where there is one. UTF-8."""
    tier, _ = main_tier(annotation)
    lines = [f"{seconds(s.start)}\t{seconds(s.end)}\t{one_line(s.label)}\n" for s in tier.entries]
    if lines and not any("." in line.rsplit("\t", 1)[0] for line in lines):
        # Only whole numbers would look like samples.
        lines[0] = re.sub(r"^([0-9]+)\t", r"\1.0\t", lines[0])
    return "".join(lines).encode()


FORMAT = Format("audacity", "Audacity labels", (".txt",), "text/plain", sniff, parse, write, holds="one")
