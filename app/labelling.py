"""From a recording and a segmentation to what a labeler takes, and from its labels back to a file.

The command line and the service both come through here, so both read the same files and say the same of bad ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from numpy import float32
from numpy.typing import NDArray

from app.errors import TooManySegments
from features import annotation as notation
from features import audio as sound
from features.annotation import Annotation, Tier
from features.errors import NoSegments, Notice
from features.mfcc import FeatureSettings
from features.pooling import extract
from features.segments import Segment, prepare

if TYPE_CHECKING:
    from model.labeler import LabelledSegment

LISTED = "json"
"""The format name of segments that came as a plain list."""


@dataclass(slots=True)
class Prepared:
    """One utterance, ready to be labelled.

    `segments` are in order and inside the sound; `features` is `[T, D]`, a row for each; `duration` is in seconds;
    `annotation` and `tier` are what the segments came from.
    """

    annotation: Annotation
    tier: Tier
    segments: list[Segment]
    features: NDArray[float32]
    duration: float
    notices: tuple[Notice, ...]


def listed(segments: Sequence[Segment]) -> Annotation:
    """Segments without a file, as an annotation of one tier."""
    return Annotation([Tier("phones", "interval", list(segments))], LISTED)


def check_count(count: int, limit: int | None) -> None:
    """Raises TooManySegments."""
    if limit is not None and count > limit:
        raise TooManySegments(
            f"expected at most {limit} segments, got {count}", pointer="segments", value=count, limit=limit
        )


def prepared(
    audio: bytes | Path,
    segmentation: Annotation,
    settings: FeatureSettings,
    *,
    tier: str | None = None,
    channel: int | Literal["mix"] = "mix",
    fix: bool = False,
    max_seconds: float = 3600.0,
    max_segments: int | None = None,
) -> Prepared:
    """Choose the tier, decode the sound, check the segments and compute their features.

    Raises:
        AnnotationError, AudioError, SegmentError, TooManySegments: what came cannot be used.
    """
    chosen, tier_notices = notation.choose_tier(segmentation, tier)
    segments = notation.tier_segments(chosen)
    if not segments:
        raise NoSegments("expected at least one segment, got none", pointer="segments", value=0, limit=1)
    check_count(len(segments), max_segments)
    decoded = sound.decode(audio, channel=channel, max_seconds=max_seconds)
    segments, segment_notices = prepare(segments, decoded.duration, fix=fix)
    return Prepared(
        segmentation,
        chosen,
        segments,
        extract(decoded, segments, settings),
        decoded.duration,
        (*segmentation.notices, *tier_notices, *decoded.notices, *segment_notices),
    )


def annotated(prepared: Prepared, labelled: Sequence[LabelledSegment], format: str) -> bytes:
    """The annotation with the labels and the posteriors added, in `format`; the input's tiers stay as they are.

    Where segments were repaired, the added tiers hold the times that were labelled. A format with room for one tier
    gets the labelled tier with those times.
    """
    source, tier = prepared.annotation, replace(prepared.tier, entries=prepared.segments)
    if notation.FORMATS[format].flat:
        source = replace(source, tiers=[tier if kept is prepared.tier else kept for kept in source.tiers])
    answer = notation.add_labels(
        source, tier, [segment.label for segment in labelled], [segment.posterior for segment in labelled]
    )
    return notation.write(answer, format)


def media_type(format: str) -> str:
    """The media type of an annotation format."""
    return notation.FORMATS[format].media_type


def suffix(format: str) -> str:
    """The usual file suffix of an annotation format, with its dot."""
    return notation.FORMATS[format].suffixes[0]
