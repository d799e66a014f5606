"""Ragged sequences as one packed array: all first positions, then all second ones, and so on.

Sequences are sorted by length, longest first, so that position t holds the rows of the first `batch_sizes[t]` sequences.
Nothing is padded: a row is a segment, and one matrix product scores all segments of a batch.

    N  rows, that is segments of the batch       B  sequences        T  length of the longest sequence
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Packing:
    """Where each segment of each sequence lies in the packed rows.

    Args:
        lengths: segments of each sequence, longest first, all >= 1.
        device: where the index tensors live.
    """

    lengths: tuple[int, ...]
    device: torch.device = field(default=torch.device("cpu"))

    def __post_init__(self) -> None:
        lengths = np.asarray(self.lengths)
        if len(lengths) == 0 or lengths.min() < 1 or (np.diff(lengths) > 0).any():
            raise ValueError(f"expected lengths >= 1, longest first, got {list(self.lengths)[:8]}")

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        """[T] sequences that have a position t."""
        lengths = np.asarray(self.lengths)
        return tuple(int(n) for n in (lengths[None, :] > np.arange(lengths[0])[:, None]).sum(1))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """[T + 1] first row of each position; the last entry is N."""
        return tuple(int(n) for n in np.concatenate([[0], np.cumsum(self.batch_sizes)]))

    @property
    def rows(self) -> int:
        """N."""
        return self.offsets[-1]

    @cached_property
    def _time_sequence(self) -> tuple[np.ndarray, np.ndarray]:
        present = np.asarray(self.lengths)[None, :] > np.arange(self.lengths[0])[:, None]  # [T, B]
        time, sequence = np.nonzero(present)
        return time, sequence

    @cached_property
    def sequence(self) -> Tensor:
        """[N] which sequence a row belongs to."""
        return torch.from_numpy(self._time_sequence[1]).to(self.device)

    @cached_property
    def time(self) -> Tensor:
        """[N] which position of its sequence a row is."""
        return torch.from_numpy(self._time_sequence[0]).to(self.device)

    def neighbour(self, step: int) -> Tensor:
        """[N] row of the segment `step` positions later in the same sequence (earlier if negative), or -1 past an edge."""
        if step in self._neighbours:
            return self._neighbours[step]
        time, sequence = self._time_sequence
        to = time + step
        inside = (to >= 0) & (to < np.asarray(self.lengths)[sequence])
        rows = np.asarray(self.offsets)[np.clip(to, 0, self.lengths[0] - 1)] + sequence
        self._neighbours[step] = torch.from_numpy(np.where(inside, rows, -1)).to(self.device)
        return self._neighbours[step]

    @cached_property
    def _neighbours(self) -> dict[int, Tensor]:
        return {}

    @cached_property
    def reversal(self) -> Tensor:
        """[N] for each packed row, the row that takes its place when every sequence is turned round; its own inverse."""
        time, sequence = self._time_sequence
        mirrored = np.asarray(self.lengths)[sequence] - 1 - time
        return torch.from_numpy(np.asarray(self.offsets)[mirrored] + sequence).to(self.device)

    @cached_property
    def from_concatenated(self) -> Tensor:
        """[N] for each packed row, its row where the sequences lie one after the other (in the packing's order)."""
        time, sequence = self._time_sequence
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        return torch.from_numpy(starts[sequence] + time).to(self.device)

    def split(self, packed: Tensor) -> list[Tensor]:
        """Packed rows [N, ...] as one tensor [T_b, ...] a sequence, in the packing's order."""
        concatenated = torch.empty_like(packed)
        concatenated[self.from_concatenated] = packed
        return list(concatenated.split(list(self.lengths)))


def sort_by_length(lengths: Sequence[int] | NDArray[np.int64]) -> np.ndarray:
    """Order that puts the longest sequence first; equal lengths keep their order."""
    return np.argsort(-np.asarray(lengths), kind="stable")
