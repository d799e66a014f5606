"""The inputs of a model for an utterance: features of its segments, the frames around them, and times of the segments.

T  segments       D  features of a segment       F  frames       B  log-mel bands
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phonechain.features.audio.reader import Audio, resample
from phonechain.features.errors import SettingsError
from phonechain.features.filterbank import log_mels
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.pooling import DIMENSION, extract
from phonechain.features.segments import Segment
from phonechain.features.statistics import SpeakerStatistics

MARGIN = 0.25
"""Sound before the first and after the last segment that a model sees (s)."""


Frames = NDArray[np.float32] | NDArray[np.float16]
"""Log-mel energies; those read from a cache have 16 bits."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """One utterance, or a part of it.

    Attributes:
        segments: [T, D] features of each segment; D = 0 for a model that reads frames alone.
        times: [T, 2] start and end of each segment, seconds from the centre of the first frame.
        frames: [F, B] log-mel energies, unnormalised, from `MARGIN` before the first segment to `MARGIN` after the last;
            [0, 0] for a model that reads segment features alone.
        period: seconds between two frames.
        speaker: statistics of all of the speaker's recordings, where they are known and more than those at hand.
    """

    segments: NDArray[np.float32]
    times: NDArray[np.float64]
    frames: Frames
    period: float
    speaker: SpeakerStatistics | None = None

    def __len__(self) -> int:
        """Number of segments."""
        return len(self.segments)

    def select(self, positions: Sequence[int]) -> Inputs:
        """The segments at the given positions, with all frames."""
        return replace(self, segments=self.segments[positions], times=self.times[positions])

    def reduce_to(self, settings: FeatureSettings) -> Inputs:
        """The same without anything that a model with these settings does not read."""
        if (settings.pooled or not self.segments.shape[1]) and (settings.bands or not len(self.frames)):
            return self
        rows = self.segments if settings.pooled else self.segments[:, :0]
        return replace(self, segments=rows, frames=self.frames if settings.bands else self.frames[:0])

    def part(self, begin: int, end: int) -> Inputs:
        """The segments from `begin` to before `end`, with the frames around them."""
        times = self.times[begin:end]
        if not len(self.frames) or not len(times):
            return replace(self, segments=self.segments[begin:end], times=times, frames=self.frames[:0])
        first, last = frames_around(times, len(self.frames), self.period)
        return replace(
            self,
            segments=self.segments[begin:end],
            times=times - first * self.period,
            frames=self.frames[first:last],
        )

    def split(self, starts: Sequence[int]) -> list[Inputs]:
        """The parts that begin at segment 0 and at each of `starts`."""
        return [self.part(*span) for span in pairwise((0, *starts, len(self)))] if starts else [self]


def extract_inputs(audio: Audio, segments: Sequence[Segment], settings: FeatureSettings) -> Inputs:
    """The inputs of a model with these settings for the segments of a recording; sound at another rate is resampled first.

    Raises:
        AudioError: see `phonechain.features.mfcc.frames`.
        SegmentError: see `phonechain.features.pooling.pool`.
    """
    rows = extract(audio, segments, settings) if settings.pooled else np.zeros((len(segments), 0), dtype=np.float32)
    times = np.asarray([(s.start, s.end) for s in segments], dtype=np.float64).reshape(-1, 2)
    if not settings.bands:
        return Inputs(rows, times, np.zeros((0, 0), dtype=np.float32), settings.frame_period)
    bands = log_mels(resample(audio.samples, audio.rate, settings.rate), settings)
    return Inputs(rows, times, bands, settings.frame_period).part(0, len(segments))


def from_array(x: ArrayLike) -> Inputs:
    """Inputs of a model without frames, from the features [T, D] of an utterance's segments.

    Raises:
        SettingsError: not two dimensions.
    """
    rows = np.asarray(x, dtype=np.float32)
    if rows.ndim != 2:
        raise SettingsError(f"expected features of shape [segments, features], got {list(rows.shape)}")
    return Inputs(rows, np.zeros((len(rows), 2)), np.zeros((0, 0), dtype=np.float32), 0.01)


def no_inputs(settings: FeatureSettings) -> Inputs:
    """Inputs of an utterance without segments."""
    rows = np.zeros((0, DIMENSION if settings.pooled else 0), dtype=np.float32)
    frames = np.zeros((0, settings.bands), dtype=np.float32)
    return Inputs(rows, np.zeros((0, 2)), frames, settings.frame_period)


def frames_around(times: NDArray[np.float64], count: int, period: float) -> tuple[int, int]:
    """(first, last + 1) of the frames, out of `count`, within `MARGIN` of segments at `times` [T, 2]; at least two.

    The first is even, so that an encoder that halves the rate treats a part as it does the whole.
    """
    first = max(0, int((times.min() - MARGIN) / period)) // 2 * 2
    last = min(count, int((times.max() + MARGIN) / period) + 2)
    first = min(first, max(0, count - 2) // 2 * 2)
    return first, max(last, min(count, first + 2))
