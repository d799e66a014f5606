"""Ragged sequences as one packed array: all first positions, then all second ones, and so on.

Sequences are sorted by length, longest first, so that position t holds the rows of the first `batch_sizes[t]` sequences.
Nothing is padded: a row is a segment, and one matrix product scores all segments of a batch. Axes: see the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Packing:
    """The position of each segment of each sequence in the packed rows.

    Args:
        lengths: segments of each sequence, longest first, all >= 1.
        device: where the index tensors live.

    Examples:
        >>> packing = Packing((3, 2))  # two sequences, of 3 and 2 positions
        >>> packing.batch_sizes, packing.rows
        ((2, 2, 1), 5)
        >>> packing.sequence.tolist(), packing.time.tolist()
        ([0, 1, 0, 1, 0], [0, 0, 1, 1, 2])
    """

    lengths: tuple[int, ...]
    device: torch.device = CPU

    @classmethod
    def longest_first(
        cls, lengths: Sequence[int] | NDArray[np.int64], device: torch.device = CPU
    ) -> tuple[NDArray[np.int64], Packing]:
        """The order that puts the longest of these sequences first, and their packing in that order.

        Equal lengths keep their order.

        Examples:
            >>> order, packing = Packing.longest_first([2, 5, 3])
            >>> order.tolist(), packing.lengths
            ([1, 2, 0], (5, 3, 2))
        """
        order = sort_by_length(lengths)
        return order, cls(tuple(np.asarray(lengths)[order].tolist()), device)

    def __post_init__(self) -> None:
        if not self.lengths or self.lengths[-1] < 1 or any(a < b for a, b in pairwise(self.lengths)):
            raise ValueError(f"expected lengths >= 1, longest first, got {list(self.lengths)[:8]}")

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        """[T] sequences that have a position t."""
        sizes: list[int] = []
        for b in range(len(self.lengths), 0, -1):  # the first b sequences last until the shortest of them ends
            sizes += [b] * (self.lengths[b - 1] - len(sizes))
        return tuple(sizes)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """[T + 1] first row of each position; the last entry is N."""
        return tuple(accumulate(self.batch_sizes, initial=0))

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.asarray(self.offsets, np.int64)

    @property
    def rows(self) -> int:
        """N."""
        return self.offsets[-1]

    @cached_property
    def time_and_sequence(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[N] `time` and `sequence`, as arrays."""
        time = np.repeat(np.arange(len(self.batch_sizes)), self.batch_sizes)
        return time, np.arange(self.rows) - self._offsets[time]

    @cached_property
    def sequence(self) -> Tensor:
        """[N] which sequence a row belongs to."""
        return torch.from_numpy(self.time_and_sequence[1]).to(self.device)

    @cached_property
    def time(self) -> Tensor:
        """[N] which position of its sequence a row is."""
        return torch.from_numpy(self.time_and_sequence[0]).to(self.device)

    @cached_property
    def last(self) -> Tensor:
        """[B] the last row of each sequence."""
        rows = self._offsets[np.asarray(self.lengths) - 1] + np.arange(len(self.lengths))
        return torch.from_numpy(rows).to(self.device)

    def rows_of(self, sequence: int) -> Tensor:
        """[T_b] the packed rows of one sequence, in order."""
        rows = self._offsets[: self.lengths[sequence]] + sequence
        return torch.from_numpy(rows).to(self.device)

    def neighbour(self, step: int) -> Tensor:
        """[N] row of the segment `step` positions later in the same sequence (earlier if negative), or -1 past an edge."""
        if step not in self._neighbours:
            far = min(abs(step), len(self.batch_sizes))
            later = np.arange(self.offsets[far], self.rows)  # all rows with a row `far` positions earlier
            time, sequence = (x[self.offsets[far] :] for x in self.time_and_sequence)
            earlier = self._offsets[time - far] + sequence
            rows = np.full(self.rows, -1)
            if step < 0:
                rows[later] = earlier
            else:
                rows[earlier] = later
            self._neighbours[step] = torch.from_numpy(rows).to(self.device)
        return self._neighbours[step]

    @cached_property
    def _neighbours(self) -> dict[int, Tensor]:
        return {}

    @cached_property
    def reversal(self) -> Tensor:
        """[N] for each packed row, the row that takes its place when every sequence is reversed; its own inverse."""
        time, sequence = self.time_and_sequence
        rows = self._offsets[np.asarray(self.lengths)[sequence] - 1 - time] + sequence
        return torch.from_numpy(rows).to(self.device)

    @cached_property
    def from_concatenated(self) -> Tensor:
        """[N] for each packed row, its row in the concatenation of the sequences (in the packing's order)."""
        time, sequence = self.time_and_sequence
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        return torch.from_numpy(starts[sequence] + time).to(self.device)

    def split(self, packed: Tensor) -> list[Tensor]:
        """Packed rows [N, ...] as one tensor [T_b, ...] per sequence, in the packing's order."""
        concatenated = torch.empty_like(packed)
        concatenated[self.from_concatenated.to(packed.device)] = packed
        return list(concatenated.split(list(self.lengths)))


def sort_by_length(lengths: Sequence[int] | NDArray[np.int64]) -> np.ndarray:
    """Order that puts the longest sequence first; equal lengths keep their order.

    Examples:
        >>> sort_by_length([2, 5, 3]).tolist()
        [1, 2, 0]
    """
    return np.argsort(-np.asarray(lengths), kind="stable")
