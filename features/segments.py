"""Segments and utterances: the words that every other module speaks.

`validate` says what is wrong, all of it, and changes nothing; `fix` repairs by stated rules and says what it did. A
segment may reach past the end of the sound by `TOLERANCE` without being an error: annotation tools round differently
from recorders.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

TOLERANCE = 0.010
"""Seconds by which a segment may overrun the sound, and (in `fix`) two segments may overlap."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of sound. `start` and `end` in seconds; `label` is None where nothing was written."""

    start: float
    end: float
    label: str | None = None


@dataclass(slots=True)
class Utterance:
    """One recording with its segments in order.

    `audio` is the file it comes from; `annotation` the file of the segments, for messages. `speaker` is None if unknown;
    `split` is a name such as "train", "dev", "test", or None.
    """

    id: str
    audio: Path
    segments: list[Segment] = field(default_factory=list)
    speaker: str | None = None
    split: str | None = None
    annotation: Path | None = None
