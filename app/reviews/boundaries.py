"""The answer of `POST /align` or `POST /recognize` as the annotation of a file under review.

It is then labelled like any other; how certain each boundary is goes into the file's answer beside it. What came as an
annotation keeps its format and all its tiers: refined boundaries are written into the tier that they are of, words and phones
that were aligned become further tiers. A transcript that was typed, or sound alone, gives a TextGrid of words and phones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from phonechain.app.alignment.pipeline import at_rate_of, read_source
from phonechain.app.labelling import conversion
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import InvalidRequest
from phonechain.app.reviews.edits import ReviewSegment
from phonechain.app.reviews.export import rewrite
from phonechain.app.schemas.reviews import FoundPhone, FoundSegments
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier, tier_segments
from phonechain.features.annotation.base import ANSWER, name_stem
from phonechain.features.segments import Segment

ROUNDED = 0.0006
"""Seconds by which a format may have rounded a time; ELAN counts milliseconds."""


@dataclass(frozen=True, slots=True)
class Written:
    """An annotation file: its bytes, its name, and the tier under review."""

    data: bytes
    name: str
    tier: str


def parse(data: bytes) -> FoundSegments:
    """What was found, of the JSON document. Raises InvalidRequest with every finding."""
    try:
        return FoundSegments.model_validate_json(data)
    except ValidationError as error:
        entries = error.errors(include_url=False)[: problems.MOST_FINDINGS]
        placed = [{**entry, "loc": ("alignment", *entry["loc"])} for entry in entries]
        raise problems.invalid_request([problems.finding("body", entry) for entry in placed]) from None


def write(found: FoundSegments, sound: str, transcript: tuple[bytes, str] | None, rate: int | None) -> Written:
    """What was found as an annotation of the recording named `sound`; `transcript` (data, name) is what it was found from.

    Args:
        rate: sample rate of the recording (Hz), for annotations that count in samples.

    Raises:
        AnnotationError: a damaged transcript, segments that overlap, or labels that the format cannot hold.
        InvalidRequest: a refinement of another annotation.
    """
    source = None if transcript is None else read_source(*transcript, audio=name_stem(sound))
    if isinstance(source, Annotation) and transcript is not None:
        source = source if rate is None else at_rate_of(source, rate)
        if found.input == "refine":
            return _refine(found, sound, source, *transcript, rate)
        return _extend(found, sound, source, transcript[1], rate)
    tiers = [Tier("phones", "interval", _phones(found))]
    if found.words:
        tiers.insert(0, Tier("words", "interval", _words(found)))
    data = notation.write(Annotation(tiers, "textgrid", 0.0, _end(found)), "textgrid")
    return Written(data, f"{name_stem(sound)}.TextGrid", "phones")


def _refine(found: FoundSegments, sound: str, source: Annotation, data: bytes, name: str, rate: int | None) -> Written:
    """The boundaries of the source's own tier moved; labels and everything else stay."""
    tier, _ = notation.choose_tier(source, found.tier)
    known = {s.given_start: s for s in found.segments if s.given_start is not None}
    given = tier_segments(tier)
    rows = []
    for n, segment in enumerate(given):
        phone = known.get(segment.start)
        if phone is None:
            raise InvalidRequest(
                f"expected the refinement of {name[:80]!r}, got one without the segment that starts at {segment.start:.3f} s",
                pointer="alignment", value=segment.start,
            )  # fmt: skip
        # What follows the last segment is none of its own.
        end = segment.end if n == len(given) - 1 else phone.end
        rows.append(ReviewSegment(n, phone.start, end, segment.label))
    index = next(i for i, one in enumerate(source.tiers) if one is tier)
    to = source.format if source.format in notation.FORMATS else "textgrid"
    out = rewrite(data, source, index, rows, to, rate=rate, sound=sound, name=name)
    return Written(out.data, name if to == source.format else f"{name_stem(name)}.TextGrid", tier.name)


def _extend(found: FoundSegments, sound: str, source: Annotation, name: str, rate: int | None) -> Written:
    """The source with words and phones as further tiers, in its own format where that has room for them."""
    tiers = list(source.tiers)
    if found.words:
        tiers.append(Tier(_free(tiers, "words"), "interval", _words(found)))
    phones = _free(tiers, "phones")
    tiers.append(Tier(phones, "interval", _phones(found)))
    whole = replace(source, tiers=tiers, end=max(_end(found), source.extent[1]))
    own = source.format in notation.FORMATS and notation.FORMATS[source.format].holds == "all"
    data = conversion.render(whole, source.format if own else "textgrid", rate=rate, recording=name_stem(sound))
    return Written(data, name if own else f"{name_stem(name)}.TextGrid", phones)


def _free(tiers: Sequence[Tier], name: str) -> str:
    taken = {tier.name for tier in tiers}
    free, k = name if name not in taken else name + ANSWER, 2
    while free in taken:
        free, k = f"{name}{ANSWER} ({k})", k + 1
    return free


def _phones(found: FoundSegments) -> list[Segment]:
    return [Segment(s.start, s.end, s.label) for s in found.segments]


def _words(found: FoundSegments) -> list[Segment]:
    return [Segment(w.start, w.end, w.written) for w in found.words]


def _end(found: FoundSegments) -> float:
    return max(found.duration, found.segments[-1].end)


def columns(found: FoundSegments, segments: Sequence[Segment]) -> dict[str, list[Any]]:
    """How certain the start of each of `segments` is; null where it is none of those found.

    `within` is the probability that it lies within 20 ms of where it is put, `low` and `high` are the central interval
    (seconds) that holds 90 % of its posterior.
    """
    by_start = sorted(found.segments, key=lambda s: s.start)
    starts = [s.start for s in by_start]

    def find(time: float) -> FoundPhone | None:
        n = bisect_left(starts, time - ROUNDED)
        return by_start[n] if n < len(starts) and starts[n] <= time + ROUNDED else None

    rows = [find(segment.start) for segment in segments]
    return {
        "within": [None if row is None else round(row.within_20_ms, 4) for row in rows],
        "low": [None if row is None else row.start_interval[0] for row in rows],
        "high": [None if row is None else row.start_interval[1] for row in rows],
    }
