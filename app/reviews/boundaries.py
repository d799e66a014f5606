"""The answer of `POST /align` or `POST /recognize` as the annotation of a file under review.

Its words and phones become a TextGrid, which is then labelled like any other; how certain each boundary is goes into the
file's answer beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from phonechain.app.problems import documents as problems
from phonechain.app.schemas.reviews import FoundSegments
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.segments import Segment

PHONES = "phones"
"""The tier under review."""


def parse(data: bytes) -> FoundSegments:
    """What was found, of the JSON document. Raises InvalidRequest with every finding."""
    try:
        return FoundSegments.model_validate_json(data)
    except ValidationError as error:
        entries = error.errors(include_url=False)[: problems.MOST_FINDINGS]
        placed = [{**entry, "loc": ("alignment", *entry["loc"])} for entry in entries]
        raise problems.invalid_request([problems.finding("body", entry) for entry in placed]) from None


def render(found: FoundSegments) -> bytes:
    """A TextGrid with the words, where there are some, and the phones.

    Raises:
        AnnotationError: segments that overlap or labels that a TextGrid cannot hold.
    """
    tiers = [Tier(PHONES, "interval", [Segment(s.start, s.end, s.label) for s in found.segments])]
    if found.words:
        tiers.insert(0, Tier("words", "interval", [Segment(w.start, w.end, w.written) for w in found.words]))
    end = max(found.duration, found.segments[-1].end)
    return notation.FORMATS["textgrid"].write(Annotation(tiers, "textgrid", 0.0, end))  # type: ignore[misc]


def columns(found: FoundSegments, segments: Sequence[Segment]) -> dict[str, list[Any]]:
    """How certain the start of each of `segments` is; null where it is none of those found.

    `within` is the probability that it lies within 20 ms of where it is put, `low` and `high` are the central interval
    (seconds) that holds 90 % of its posterior.
    """
    known = {s.start: s for s in found.segments}
    rows = [known.get(segment.start) for segment in segments]
    return {
        "within": [None if row is None else round(row.within_20_ms, 4) for row in rows],
        "low": [None if row is None else row.start_interval[0] for row in rows],
        "high": [None if row is None else row.start_interval[1] for row in rows],
    }
