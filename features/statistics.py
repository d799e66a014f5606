"""Mean and variance of rows of features: of one recording, of a speaker's recordings, or of those of several parts together.

N  rows       D  features, or log-mel bands
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

ROWS = 1 << 15
"""Rows that are held at once in float64."""


class Rows(Protocol):
    """Rows [N, D] that can be read some at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Statistics:
    """Statistics of a speaker's or recording's rows: their number, mean and variance, [D] or [B]."""

    count: float
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[np.float32]) -> Statistics:
        """Of rows [N, D]."""
        return cls.of_blocks(lambda: blocks(rows), rows.shape[1])

    @classmethod
    def of_blocks(cls, blocks: Callable[[], Iterable[NDArray[np.float32]]], width: int) -> Statistics:
        """Of rows that come some at a time, [n, D], the same ones whenever they are asked for."""
        count, total, squares = 0, np.zeros(width), np.zeros(width)
        for block in blocks():
            count += len(block)
            total += block.sum(0, dtype=np.float64)
        if not count:
            return cls(0.0, total, np.ones(width))
        mean = total / count
        for block in blocks():
            squares += ((block - mean) ** 2).sum(0)
        return cls(float(count), mean, squares / count)

    def standardise(
        self, rows: NDArray[np.float32], prior: float, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Normalise rows [N, D], already normalised over the training set, with these statistics; into `out` if given."""
        weight = self.count / (self.count + prior)
        mean = weight * self.mean
        variance = weight * (self.variance + (self.mean - mean) ** 2) + (1 - weight)
        out = np.empty(rows.shape, dtype=np.float32) if out is None else out
        for block, place in zip(blocks(rows), blocks(out), strict=True):
            place[:] = (block - mean) / np.sqrt(variance)
        return out

    @classmethod
    def merge(cls, parts: Sequence[Statistics]) -> Statistics:
        """Of the rows of all parts together; at least one part."""
        count = sum(part.count for part in parts)
        if not count:
            return parts[0]
        mean = sum(part.count * part.mean for part in parts) / count
        squares = sum(part.count * (part.variance + (part.mean - mean) ** 2) for part in parts)
        return cls(count, np.asarray(mean), np.asarray(squares / count))

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"count": self.count, "mean": self.mean.tolist(), "variance": self.variance.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Statistics:
        """From what `to_dict` gave."""
        return cls(stored["count"], np.asarray(stored["mean"], float), np.asarray(stored["variance"], float))


@dataclass(frozen=True, slots=True)
class SpeakerStatistics:
    """Statistics of all of a speaker's recordings, normalised over a model's training set.

    Attributes:
        segments: of the features of the segments.
        frames: of the log-mel frames; of no rows for a model that reads none.
    """

    segments: Statistics
    frames: Statistics

    @classmethod
    def merge(cls, parts: Sequence[SpeakerStatistics]) -> SpeakerStatistics:
        """Of the recordings of all parts together; at least one part."""
        return cls(Statistics.merge([p.segments for p in parts]), Statistics.merge([p.frames for p in parts]))

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"segments": self.segments.to_dict(), "frames": self.frames.to_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SpeakerStatistics:
        """From what `to_dict` gave."""
        return cls(Statistics.from_dict(stored["segments"]), Statistics.from_dict(stored["frames"]))


def blocks(rows: Rows) -> Iterator[NDArray[np.float32]]:
    """Some rows at a time: in float64 the frames of two hours would be 230 MB."""
    return (rows[at : at + ROWS] for at in range(0, len(rows), ROWS))
