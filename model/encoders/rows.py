"""The frame network without padding, on a CPU and outside training: recordings one after the other as the rows of one array.

    R  rows      C  bands or channels      T  positions of the longest sequence      B  sequences      N  segments      U  units

What it computes is `FrameEncoder.states` and `pool_states` (frames.py), which work on padded batches: in a folder of sentences two
rows of five are padding. A convolution is a few matrix products over the rows as they lie in memory, some hundred rows at a
time, which stay in the second-level cache through both convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from phonechain.model.encoders.recurrent import Halves

BLOCK = 510
"""Rows of the second convolution's output that are computed at once, a multiple of `PERIODS[1]`."""

PERIODS = (5, 3)
"""Windows of a convolution (5 wide, of stride 1 and 2) that far apart do not overlap: they are the rows of a matrix."""


def lay_out(frames: Sequence[Tensor], margin: int) -> tuple[Tensor, list[int], list[int]]:
    """Recordings [F_b, C] one after the other, and the first row of each and where it ends.

    Each begins at an even row, with `margin` rows of zeros before it, or more, and after the last.
    """
    starts, ends, row = [], [], 0
    for own in frames:
        starts.append(row := row + margin + (row + margin) % 2)
        ends.append(row := row + len(own))
    rows = frames[0].new_zeros(row + margin, frames[0].shape[1])
    for own, start, end in zip(frames, starts, ends, strict=True):
        rows[start:end] = own
    return rows, starts, ends


class Convolutions:
    """Both convolutions of a frame encoder, each with its normalisation, as matrix products."""

    def __init__(
        self, first: nn.Conv1d, first_norm: nn.LayerNorm, second: nn.Conv1d, second_norm: nn.LayerNorm
    ) -> None:
        device = first.weight.device.type
        reduced = torch.is_autocast_enabled(device)
        self.dtype = torch.get_autocast_dtype(device) if reduced else first.weight.dtype
        self.norms = first_norm, second_norm
        self.weights = [self._matrix(layer) for layer in (first, second)]
        self.biases = [
            (layer.weight.new_zeros(1) if layer.bias is None else layer.bias).to(self.dtype)
            for layer in (first, second)
        ]
        self.width = first.weight.shape[2]

    def _matrix(self, layer: nn.Conv1d) -> Tensor:
        """[width C, C'] for windows whose rows lie one after the other."""
        return layer.weight.permute(2, 1, 0).flatten(0, 1).to(self.dtype).contiguous()

    def run(self, frames: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
        """Rows at half the rate, [R, C'], and where each recording begins in them; what lies between is meaningless."""
        half = self.width // 2
        # zeros enough for the window of the first convolution at the first row of the second one's
        rows, starts, ends = lay_out(frames, 2 * half)
        between = np.ones(len(rows), dtype=bool)
        for start, end in zip(starts, ends, strict=True):
            between[start:end] = False
        outside = np.flatnonzero(between)
        count = (len(rows) + 1) // 2
        found = rows.new_empty(count, self.weights[1].shape[1])
        for at in range(0, count, BLOCK):
            size = min(BLOCK, count - at)
            found[at : at + size] = self._run_block(rows, outside, at, size)
        return found, [start // 2 for start in starts]

    def _run_block(self, rows: Tensor, outside: np.ndarray, at: int, size: int) -> Tensor:
        """`size` rows of the output from number `at` on."""
        half = self.width // 2
        whole = -(-size // PERIODS[1]) * PERIODS[1]
        inner = -(-(2 * whole + 2 * PERIODS[1]) // PERIODS[0]) * PERIODS[0]  # rows of the first convolution
        first = 2 * at - half  # the first of them
        seen = _take(rows, first - half, inner + PERIODS[0]).to(self.dtype)
        middle = self._apply(0, seen, inner, 1)
        begin, end = np.searchsorted(outside, (first, first + inner))
        if first < 0:
            middle[:-first] = 0.0
        if begin < end:
            middle.index_fill_(0, torch.from_numpy(outside[begin:end] - first), 0.0)
        middle[max(0, len(rows) - first) :] = 0.0
        return self._apply(1, middle, whole, 2)[:size]

    def _apply(self, number: int, rows: Tensor, count: int, stride: int) -> Tensor:
        """[count, C'] normalised output of a convolution over windows that begin at every `stride`-th row."""
        weight, bias, norm, period = self.weights[number], self.biases[number], self.norms[number], PERIODS[number]
        out = rows.new_empty(count // period, period, weight.shape[1])
        step = period * stride
        for phase in range(period):
            windows = rows[phase * stride :][: count * stride].view(-1, step * rows.shape[1])[:, : len(weight)]
            torch.mm(windows, weight, out=out[:, phase])
        return functional.gelu(norm(out.view(count, -1).add_(bias)))


def _take(rows: Tensor, first: int, count: int) -> Tensor:
    """[count, C] rows from number `first` on; zeros where there are none."""
    if first >= 0 and first + count <= len(rows):
        return rows[first : first + count]
    here = rows[max(0, first) : max(0, first + count)]
    before = max(0, -first)
    return functional.pad(here, (0, 0, before, count - before - len(here)))


def index_rows(starts: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """[T, B] the row of each position of sequences that begin at `starts`; past a sequence's end its last one."""
    position = torch.arange(lengths[0])[:, None].minimum(torch.tensor(lengths) - 1)
    return position + torch.tensor(starts)


def pool_rows(
    states: Halves, means: tuple[Tensor, Tensor, Tensor], ends: tuple[Tensor, Tensor], column: Tensor
) -> Tensor:
    """[N, 5 * 2 U] pooled states of segments, as `pool_states` gives them.

    Args:
        means: the position and weight [M] of each state of each part of each segment in turn, and [3 N] how many each has.
        ends: positions and weights [2 N, 2] of the states around both ends of each segment in turn.
        column: [N] which sequence a segment is in.
    """
    position, weight, count = means
    sequence = torch.repeat_interleave(column.repeat_interleave(count.numel() // len(column)), count)
    offsets = count.cumsum(0) - count
    nearest, share = ends
    out = states.ahead.new_empty(len(column), count.numel() // len(column) + 2, 2, states.ahead.shape[1])
    for n, (half, at) in enumerate(((states.ahead, states.at_ahead), (states.back, states.at_back))):
        kind = half.dtype
        mean = functional.embedding_bag(
            at[position, sequence], half, offsets, mode="sum", per_sample_weights=weight.to(kind)
        )
        end = functional.embedding_bag(
            at[nearest, column.repeat_interleave(2)[:, None]], half, mode="sum", per_sample_weights=share.to(kind)
        )
        out[:, :-2, n] = mean.view(len(column), -1, half.shape[1])
        out[:, -2:, n] = end.view(len(column), 2, -1)
    return out.flatten(1)
