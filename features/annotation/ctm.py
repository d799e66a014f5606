"""CTM, the time-marked conversation files of NIST: `recording channel start duration label [confidence]`, seconds.

Source: the NIST SCTK documentation, "ctm" file format. Lines that begin with `;;` are comments, those with `*` for
times bracket alternatives. Entries without a label are written as `<eps>` and read back as none.
"""

from __future__ import annotations

import re

from phonechain.features.annotation.base import (
    SCORE,
    SNIFFED,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    is_number,
    number,
    seconds,
)
from phonechain.features.annotation.channels import read_each, read_one
from phonechain.features.annotation.tiers import main_tier
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError
from phonechain.features.segments import Segment

_EMPTY = "<eps>"


def sniff(source: Source) -> int:
    seen = 0
    for line in source.head.split("\n", SNIFFED)[:SNIFFED]:
        words = line.split()
        if not words or line.startswith(";;") or "*" in words[2:4]:
            continue
        if not (5 <= len(words) <= 8 and is_number(words[2]) and is_number(words[3])):
            return 0
        if is_number(words[0]) and is_number(words[1]) and "." not in words[2] + words[3] and source.suffix != ".ctm":
            return 0
        seen += 1
    return 2 if seen else 0


Rows = list[tuple[float, float, str, str | None, int]]
"""start, end, label, confidence, line"""


def _recordings(source: Source) -> dict[str, dict[str, Rows]]:
    """The lines of each recording by its channels, both in the order of the file."""
    recordings: dict[str, dict[str, Rows]] = {}
    count = 0
    for at, line in source.lines():
        if line.startswith(";;"):
            continue
        words = line.split()
        if len(words) < 5:
            message = f"expected a recording, a channel, a start, a duration and a label, got {excerpt(line.strip())}"
            raise AnnotationSyntaxError(message, line=at)
        if words[2] == "*":
            continue
        start, length = number(words[2], at, "a start"), number(words[3], at, "a duration")
        label = "" if words[4] == _EMPTY else words[4]
        confidence = words[5] if len(words) > 5 and is_number(words[5]) else None
        rows = recordings.setdefault(words[0], {}).setdefault(words[1], [])
        # Both numbers are decimals, so their sum is rounded to what decimals can say.
        rows.append((start, round(start + length, 9), label, confidence, at))
        count += 1
        check_count(count, at)
    return recordings


def _tiers(rows: Rows) -> list[Tier]:
    tiers = [Tier("labels", "interval", [Segment(a, b, label) for a, b, label, _, _ in rows])]
    tiers[0].lines = [r[4] for r in rows]
    if any(r[3] is not None for r in rows):
        tiers.append(Tier("labels" + SCORE, "interval", [Segment(a, b, c or "") for a, b, _, c, _ in rows]))
    return tiers


def parse(source: Source) -> Annotation:
    """Read one recording of the file, and if it has several channels one of them.

    Raises:
        AnnotationSyntaxError: with the line.
        AnnotationError: the recording or channel that is meant is not there, or it is not said which is.
    """
    return read_one(source, _recordings(source), _tiers, "ctm")


def parse_all(source: Source) -> dict[str, Annotation]:
    """Every recording of the file by its name, with the channel after a blank for channels other than the first."""
    return read_each(source, _recordings(source), _tiers, "ctm")


def write(annotation: Annotation, recording: str | None = None, rate: int | None = None) -> bytes:
    """One tier: the answer with its posteriors as confidences where there is one. UTF-8.

    Raises:
        AnnotationError: a label with a blank in it, which a CTM cannot hold.
    """
    tier, numbers = main_tier(annotation)
    name = re.sub(r"\s+", "_", recording) if recording else "recording"  # a field ends at a blank
    lines = []
    for s, confidence in zip(tier.entries, numbers, strict=True):
        label = (s.label or "").strip() or _EMPTY
        if re.search(r"\s", label):
            raise AnnotationError(f"expected labels without blanks, which a CTM cannot hold, got {excerpt(label)}")
        length = seconds(round(s.end - s.start, 9))
        lines.append(f"{name} 1 {seconds(s.start)} {length} {label}" + (f" {confidence}" if confidence else "") + "\n")
    return "".join(lines).encode()


FORMAT = Format(
    "ctm", "CTM", (".ctm",), "text/plain", sniff, parse, write, holds="one", parse_all=parse_all, names_sound=True
)
