"""Segments and utterances: the values that every other module works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from phonechain.features.audio.raw import RawFormat

ROUNDING = 1e-6
"""Seconds below which two times are the same: start + duration in floating point misses the next start by less."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of sound. `start` and `end` in seconds; `label` is None where there is none.

    Examples:
        >>> Segment(0.25, 0.31, "AE")
        Segment(start=0.25, end=0.31, label='AE')
    """

    start: float
    end: float
    label: str | None = None


@dataclass(slots=True)
class Utterance:
    """One recording with its segments in order.

    `audio` is its file; `annotation` the file of the segments, for messages. `speaker` is None if unknown; `split` is a name
    such as "train", "dev", "test", or None. `lines` are the lines of the annotation, from 1, that the segments are on; empty
    if unknown. `channel` is that of the sound, from 0, or "mix". `raw` is the format of a sound file without a header.

    Examples:
        >>> utterance = Utterance("u1", Path("u1.wav"), [Segment(0.0, 0.1, "HH"), Segment(0.1, 0.25, "AY")], speaker="amy")
        >>> [segment.label for segment in utterance.segments]
        ['HH', 'AY']
    """

    id: str
    audio: Path
    segments: list[Segment] = field(default_factory=list)
    speaker: str | None = None
    split: str | None = None
    annotation: Path | None = None
    lines: Sequence[int] = ()
    channel: int | Literal["mix"] = "mix"
    raw: RawFormat | None = None
