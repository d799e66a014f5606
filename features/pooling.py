"""The 92 features of a segment (the paper, "TIMIT Data Set", after Halberstadt and Glass 1997).

    0..38    means of the 13 static values (12 MFCCs, log energy) over the parts of a 3:4:3 split     39
    39..64   the 13 first and 13 second derivatives at the beginning of the first part                26
    65..90   the same at the end of the third part                                                    26
    91       log of the duration in seconds                                                            1

Time is continuous. For the means, frame `i` stands for the 10 ms around its centre, and each part is averaged over exactly the
time that it covers; for the derivatives, the two nearest frames are interpolated. So a segment's features change smoothly with
its boundaries, and segments shorter than a window or even a hop, or at the edge of the file, need no special rule. The frames
cover the time from half a period before the first to half a period after the last: means ignore anything beyond, and a part that
is wholly outside has the values of the nearest frame; derivatives are constant beyond the first and the last centre.

A segment's features depend on the sound up to `settings.reach + settings.frame_period` past its ends (62.5 ms by default) and on
nothing beyond: whatever is appended to the file, they keep every bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio, resample
from phonechain.features.errors import SegmentError
from phonechain.features.mfcc import CEPSTRA, STATIC, FeatureSettings, frames
from phonechain.features.segments import Segment

PARTS = (0.3, 0.4, 0.3)
"""Shares of a segment's duration that the three parts have."""

MIN_DURATION = 0.001
"""Shorter durations count as this one (s), so that the logarithm is finite."""

RATE_TOLERANCE = 0.1
"""How much a feature may change, in its standard deviations over a recording, if the sound comes at 44.1 or 48 kHz instead of
16 kHz: 99.9 % of the values stay within it, the rest within three times as much. The difference comes from 16-bit rounding in
near silence, and from the loss in a resampler's transition band (7.3 to 8 kHz) in the log energy of hisses.
"""

_VALUES = (*(f"mfcc{k}" for k in range(1, CEPSTRA + 1)), "log_energy")

FEATURE_NAMES: tuple[str, ...] = (
    *(f"{value}_mean{part}" for part in (1, 2, 3) for value in _VALUES),
    *(f"{value}_{order}_{edge}" for edge in ("begin", "end") for order in ("d1", "d2") for value in _VALUES),
    "log_duration",
)
"""Names of the features in their order: `mfcc1_mean1` ... `log_energy_d2_end`, `log_duration`."""

DIMENSION = len(FEATURE_NAMES)
"""92."""


def pool(track: NDArray[np.float32], segments: Sequence[Segment], settings: FeatureSettings) -> NDArray[np.float32]:
    """Features of segments from the frames of their recording.

    Args:
        track: `[F, 39]` as `mfcc.frames` gives them, F at least 1.
        segments: T of them, in seconds, in any order; they may overlap.
        settings: those that the frames were made with.

    Returns:
        `[T, 92]`, always finite.

    Raises:
        SegmentError: a time that is not finite, or an end before its start.

    Examples:
        >>> track = np.zeros((50, 39), dtype=np.float32)  # half a second of frames
        >>> pool(track, [Segment(0.0, 0.1), Segment(0.1, 0.5)], FeatureSettings()).shape
        (2, 92)
    """
    start = np.fromiter((s.start for s in segments), dtype=np.float64, count=len(segments))
    end = np.fromiter((s.end for s in segments), dtype=np.float64, count=len(segments))
    wrong = np.flatnonzero(~(np.isfinite(start) & np.isfinite(end) & (end >= start)))
    if wrong.size:
        at = int(wrong[0])
        raise SegmentError(
            f"expected finite times with start <= end, got {start[at]:g} to {end[at]:g} in segment {at}",
            pointer=f"segments/{at}",
        )
    out = np.empty((len(segments), DIMENSION), dtype=np.float32)
    edges = start[:, None] + (end - start)[:, None] * np.cumsum((0.0, *PARTS))  # [T, 4]
    edges[:, -1] = end
    period = settings.frame_period
    means = _means(track[:, :STATIC], edges / period)
    out[:, : 3 * STATIC] = means.reshape(len(segments), 3 * STATIC)
    slopes = track[:, STATIC:]
    out[:, 3 * STATIC : 5 * STATIC] = _at(slopes, start / period)
    out[:, 5 * STATIC : 7 * STATIC] = _at(slopes, end / period)
    out[:, -1] = np.log(np.maximum(end - start, MIN_DURATION))
    return out


def extract(
    audio: Audio, segments: Sequence[Segment], settings: FeatureSettings, *, warp: float = 1.0
) -> NDArray[np.float32]:
    """Features of the segments of a recording, `[T, 92]`; sound at another rate is resampled first; `warp` as in `frames`.

    Raises:
        AudioError: see `mfcc.frames`.
        SegmentError: see `pool`.

    Examples:
        >>> from phonechain.features.reading import read_audio, read_segments
        >>> audio, segments = read_audio("samples/LJ001-0002.flac"), read_segments("samples/LJ001-0002.TextGrid")
        >>> x = extract(audio, segments, FeatureSettings())
        >>> x.shape
        (23, 92)
        >>> duration = x[0, FEATURE_NAMES.index("log_duration")]
        >>> round(float(np.exp(duration)), 3)
        0.08
    """
    sound = resample(audio.samples, audio.rate, settings.rate)
    return pool(frames(sound, settings, warp=warp), segments, settings)


def _means(track: NDArray[np.float32], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of `track [F, C]` between consecutive `edges [T, P + 1]`, in frame periods -> `[T, P, C]`.

    With the cells' left borders on whole numbers, the integral from a to b is the sum of the cells that a and b lie in
    or between, less what is left of a, plus what of b's cell is left of b. It is taken relative to a's cell, so that a
    part inside one cell gets that cell's values exactly, however short it is.
    """
    count = len(track)
    border = np.clip(edges + 0.5, 0.0, count)
    cell = np.minimum(border.astype(np.intp), count - 1)
    sums = np.zeros((count + 1, track.shape[1]))
    np.cumsum(track, axis=0, dtype=np.float64, out=sums[1:])
    below = sums[cell]  # [T, P + 1, C]
    value = track[cell].astype(np.float64)
    share = (border - cell)[..., None]
    first, last = np.s_[:, :-1], np.s_[:, 1:]
    cells = (cell[last] - cell[first])[..., None]
    excess = below[last] - below[first] - cells * value[first] + share[last] * (value[last] - value[first])
    width = np.maximum(border[last] - border[first], 1e-9)[..., None]  # an empty part has no excess
    mean: NDArray[np.float64] = value[first] + excess / width
    return mean


def _at(track: NDArray[np.float32], when: NDArray[np.float64]) -> NDArray[np.float64]:
    """`track [F, C]` at the instants `when [T]`, in frame periods from the first frame's centre -> `[T, C]`."""
    when = np.clip(when, 0.0, len(track) - 1)
    before = np.minimum(when.astype(np.intp), max(len(track) - 2, 0))
    after = np.minimum(before + 1, len(track) - 1)
    share = (when - before)[:, None]
    between: NDArray[np.float64] = (1 - share) * track[before] + share * track[after]
    return between
