"""The frame network: convolutions and a recurrent network over log-mel frames, pooled over each segment.

    B  sequences      F  frames of the longest      C  bands or channels      N  packed rows (segments)      U  units

Half the frame rate is enough: the second convolution has a stride of two. A segment gets the exact means of the states over
the parts of a 3:4:3 split, as for the 92 features, and the interpolated states at its two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phonechain.features.inputs import Frames
from phonechain.features.pooling import MIN_DURATION, PARTS
from phonechain.model.chain.packing import Packing
from phonechain.model.encoders.long import LONG_CHUNK, Chunks, count_chunks, rows_of, run_layers
from phonechain.model.encoders.recurrent import (
    CHUNK,
    Bidirectional,
    Halves,
    drop,
    groups_of,
    reset_linear,
    saves_padding,
)
from phonechain.model.encoders.rows import Convolutions, index_rows, pool_rows
from phonechain.model.settings import EncoderSettings

WIDTH = 5
"""Width of a convolution, in frames."""

POOLED = 5
"""States of a segment: three means and two ends."""

TYPICAL = -2.5
"""Log of a usual duration in seconds, which is subtracted."""


@dataclass(frozen=True)
class FrameBatch:
    """Frames of a batch of sequences, in the packing's order.

    Attributes:
        frames: for each sequence [F_b, C], normalised.
        times: [N, 2] start and end of each packed segment, seconds from its sequence's first frame.
        period: seconds between two frames.
    """

    frames: tuple[Tensor, ...]
    times: Tensor
    period: float

    @classmethod
    def of(
        cls,
        frames: Sequence[Frames],
        times: Sequence[NDArray[np.float64]],
        packing: Packing,
        period: float,
        device: torch.device,
    ) -> FrameBatch:
        """From the frames [F_b, C] and times [T_b, 2] of each sequence, in the packing's order."""
        when = torch.from_numpy(np.concatenate(times)).to(device)[packing.from_concatenated]
        if device.type == "cpu":
            return cls(tuple(torch.from_numpy(np.ascontiguousarray(f)) for f in frames), when, period)
        together = torch.from_numpy(np.concatenate(frames)).to(device)  # over in one piece
        return cls(together.split([len(f) for f in frames]), when, period)


class FrameRows(Protocol):
    """Frames of one recording, [F, C], normalised when they are asked for, or before."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> NDArray[np.floating]: ...


@dataclass(frozen=True)
class LongFrames:
    """Frames of one long recording, of which some are there at a time.

    Attributes:
        times: [T, 2] start and end of each segment, seconds from the first frame.
        period: seconds between two frames.
    """

    frames: FrameRows
    times: Tensor
    period: float

    def rows(self, span: slice) -> Tensor:
        """[1, n, C] of some frames in a row."""
        return torch.from_numpy(np.ascontiguousarray(self.frames[span]))[None].to(self.times.device)


class FrameEncoder(nn.Module):
    """Frames -> [N, 5 * 2 U + 1]: the pooled states of each segment, and the log of its duration."""

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        channels, units = settings.channels, settings.frame_units
        self.first = nn.Conv1d(settings.bands, channels, WIDTH, padding=WIDTH // 2)
        self.second = nn.Conv1d(channels, channels, WIDTH, padding=WIDTH // 2, stride=2)
        self.first_norm, self.second_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.layers = nn.ModuleList(
            Bidirectional(2 * units if n else channels, units) for n in range(settings.frame_layers)
        )
        self.width = POOLED * 2 * units + 1

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights."""
        for convolution in (self.first, self.second):
            reset_linear(convolution, generator)
        for norm in (self.first_norm, self.second_norm):
            norm.reset_parameters()
        for layer in self.layers:
            layer.reset(generator)  # type: ignore[operator]

    def forward(self, batch: FrameBatch, packing: Packing, noise: torch.Generator | None) -> Tensor:
        lengths = [len(f) for f in batch.frames]
        order = np.argsort(-np.asarray(lengths), kind="stable")
        ranked = [lengths[n] for n in order]
        length = _log_duration(batch.times).to(batch.frames[0].dtype)
        whole = batch.frames[0].new_zeros(packing.rows, self.width)
        pooled = whole[:, :-1]
        for begin, end in [(0, len(order))] if self.training else groups_of(ranked):
            chosen = order[begin:end]
            pool = self._pooling([batch.frames[n] for n in chosen], 2 * batch.period, noise)
            place = torch.full((len(lengths),), -1, device=pooled.device)
            place[torch.from_numpy(chosen.copy()).to(place.device)] = torch.arange(len(chosen), device=pooled.device)
            column = place[packing.sequence]
            rows = (column >= 0).nonzero()[:, 0]
            if self.training:
                pooled = pooled.index_put((rows,), pool(batch.times[rows], column[rows]))
                continue
            for some in rows.split(CHUNK):
                pooled[some] = pool(batch.times[some], column[some])
        if not self.training:
            whole[:, -1:] = length
            return whole
        pooled = drop(pooled, self.settings.frame_dropout, self.training, noise)
        return torch.cat([pooled, length], 1)

    def _pooling(
        self, frames: Sequence[Tensor], period: float, noise: torch.Generator | None
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """What pools the states of these recordings, longest first, over segments: by times [R, 2] and recordings [R]."""
        if not saves_padding(self, frames[0].device, len(frames)):
            states, counts = self.states(frames, noise)
            return lambda times, column: pool_states(states, counts, times, column, period)
        counts = torch.tensor([(len(f) + 1) // 2 for f in frames])
        halves = self.states_by_rows(frames)

        def pool(times: Tensor, column: Tensor) -> Tensor:
            last = counts[column] - 1
            borders = _borders(times, last, period)
            start, stop = borders[:, :-1].flatten(), borders[:, 1:].flatten()
            _, position, weight, count = _weigh(start, stop, last.repeat_interleave(len(PARTS)))
            lower, upper, share = _nearest(times.flatten(), last.repeat_interleave(2), period)
            ends = torch.stack([lower, upper], 1), torch.stack([1 - share, share], 1)
            return pool_rows(halves, (position, weight, count), ends, column)

        return pool

    def states_by_rows(self, frames: Sequence[Tensor]) -> Halves:
        """The same as `states`, without padding, of recordings longest first; outside training, on a CPU."""
        rows, starts = Convolutions(self.first, self.first_norm, self.second, self.second_norm).run(frames)
        counts = [(len(f) + 1) // 2 for f in frames]
        halves: Halves | None = None
        for layer in self.layers:
            assert isinstance(layer, Bidirectional)
            if halves is not None:  # of the layer below, recording by recording
                sequence = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
                starts = [0, *np.cumsum(counts)[:-1].tolist()]
                time = torch.arange(len(sequence)) - torch.tensor(starts)[sequence]
                rows = halves.rows(time, sequence)
            halves = layer.run_rows(rows, index_rows(starts, counts), counts)
        assert halves is not None
        return halves

    def states(self, frames: Sequence[Tensor], noise: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """([F', b, 2 U], [b]): the network's states at half the rate, and how many each sequence has."""
        lengths = torch.tensor([len(f) for f in frames], device=frames[0].device)
        longest = max(len(f) for f in frames)
        if len(frames) == 1:
            padded = frames[0][None]
        else:
            padded = frames[0].new_zeros(len(frames), longest, frames[0].shape[1])
            for n, own in enumerate(frames):
                padded[n, : len(own)] = own
        if self.training or longest <= CHUNK:
            x = self._convolve(padded, lengths, 0, noise).transpose(0, 1).contiguous()
        else:
            x = padded.new_empty((longest + 1) // 2, len(padded), self.settings.channels)
            for at in range(0, longest, CHUNK):
                piece = self._convolve_piece(lambda span: padded[:, span], longest, lengths, at, CHUNK)
                x[at // 2 : (at + CHUNK) // 2] = piece
        counts = (lengths + 1) // 2
        for n, layer in enumerate(self.layers):
            x = drop(x, self.settings.frame_dropout, self.training and n > 0, noise)
            x = layer(x, counts)
        return x, counts

    def _convolve_piece(
        self, rows: Callable[[slice], Tensor], length: int, lengths: Tensor, at: int, count: int
    ) -> Tensor:
        """[(n + 1) // 2, b, C'] of at most `count` frames from `at`, both even, as if the whole sequence were convolved."""
        halo = 2 * WIDTH // 2 * 2
        before, stop = min(halo, at), min(length, at + count)
        seen = rows(slice(at - before, min(length, stop + halo)))
        here = self._convolve(seen, lengths, at - before, None).transpose(0, 1)
        return here[before // 2 : (stop + 1) // 2 - (at - before) // 2]

    def pool_long(self, batch: LongFrames, rows: slice, states: Chunks) -> Tensor:
        """[n, 5 * 2 U + 1] of some segments of one recording, from the chunks of `run_long`."""
        times, period, length = batch.times[rows], 2 * batch.period, (len(batch.frames) + 1) // 2
        first = min(length - 1, max(0, int(times.min() / period) - 2))
        last = min(length, max(first + 1, int(times.max() / period) + 3))
        here = rows_of(states, slice(first, last))[:, None]
        counts = torch.tensor([length], device=times.device)
        column = torch.zeros(len(times), dtype=torch.long, device=times.device)
        pooled = pool_states(here, counts, times, column, period, first)
        return torch.cat([pooled, _log_duration(times).to(pooled.dtype)], 1)

    def run_long(self, batch: LongFrames) -> Chunks:
        """The network's states over one long recording, in chunks."""
        length = len(batch.frames)
        lengths = torch.tensor([length], device=batch.times.device)

        def convolve_chunk(k: int) -> Tensor:
            return self._convolve_piece(batch.rows, length, lengths, 2 * LONG_CHUNK * k, 2 * LONG_CHUNK)[:, 0]

        layers = [layer for layer in self.layers if isinstance(layer, Bidirectional)]
        return run_layers(layers, convolve_chunk, count_chunks((length + 1) // 2))

    def _convolve(self, x: Tensor, lengths: Tensor, first: int, noise: torch.Generator | None) -> Tensor:
        """[b, F, C] from frame `first` on -> [b, (F + 1) // 2, C']."""
        share = self.settings.convolution_dropout
        h = functional.gelu(self.first_norm(self.first(x.transpose(1, 2)).transpose(1, 2)))
        h = drop(h, share, self.training, noise)
        # zeros past a sequence's end, as past the batch's; otherwise padding would leak into the last frames
        at = torch.arange(first, first + h.shape[1], device=h.device)
        h = h * (at < lengths[:, None]).to(h.dtype)[:, :, None]
        h = functional.gelu(self.second_norm(self.second(h.transpose(1, 2)).transpose(1, 2)))
        return drop(h, share, self.training, noise)


def _log_duration(times: Tensor) -> Tensor:
    """[N, 1] log duration of segments at `times` [N, 2], near zero for a typical one."""
    return (times[:, 1:] - times[:, :1]).clamp_min(MIN_DURATION).log() - TYPICAL


def pool_states(states: Tensor, counts: Tensor, times: Tensor, column: Tensor, period: float, first: int = 0) -> Tensor:
    """Pooled states of segments, [R, 5 * W].

    Args:
        states: [F', b, W], a state every `period` seconds, of those from number `first` on.
        counts: [b] states of each sequence.
        times: [R, 2] of the segments, seconds from the first state.
        column: [R] which sequence a segment is in.
    """
    width, columns = states.shape[2], states.shape[1]
    flat = states.reshape(-1, width)
    last = counts[column] - 1
    borders = _borders(times, last, period)
    origin = column - first * columns
    parts = [_means(flat, borders[:, k], borders[:, k + 1], last, origin, columns) for k in range(len(PARTS))]
    for k in (0, 1):
        lower, upper, share = _nearest(times[:, k], last, period)
        share = share.to(flat.dtype)[:, None]
        parts.append(flat[lower * columns + origin] * (1 - share) + flat[upper * columns + origin] * share)
    return torch.cat(parts, 1)


def _borders(times: Tensor, last: Tensor, period: float) -> Tensor:
    """[R, 4] where the parts of segments begin and end, in states: the one at index i stands for [i, i + 1)."""
    shares = torch.tensor([0.0, *np.cumsum(PARTS)[:-1], 1.0], dtype=times.dtype, device=times.device)
    edges = times[:, :1] + (times[:, 1:] - times[:, :1]) * shares
    return (edges / period + 0.5).clamp_min(0).minimum((last + 1)[:, None].to(edges.dtype))


def _nearest(instants: Tensor, last: Tensor, period: float) -> tuple[Tensor, Tensor, Tensor]:
    """[R] the states before and after some instants, and the share of the latter."""
    at = (instants / period).clamp_min(0).minimum(last.to(instants.dtype))
    lower = at.long().minimum((last - 1).clamp_min(0))
    return lower, (lower + 1).minimum(last), at - lower


def _means(flat: Tensor, begin: Tensor, end: Tensor, last: Tensor, origin: Tensor, columns: int) -> Tensor:
    """[R, W] means of the states between two instants [R], each weighted by the time that it stands for.

    `origin` [R] is where in `flat` the state at 0 of each segment's sequence would be.
    """
    row, state, weight, _ = _weigh(begin, end, last)
    value = flat.index_select(0, state * columns + origin[row]) * weight.to(flat.dtype)[:, None]
    return flat.new_zeros(len(begin), flat.shape[1]).index_add(0, row, value)


def _weigh(begin: Tensor, end: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The states [M] between each two instants [R] in turn: which two, which state, its weight; and [R] how many each has."""
    first = begin.long().minimum(last)
    count = (end.ceil().long().minimum(last + 1) - first).clamp_min(1)
    row = torch.repeat_interleave(torch.arange(len(begin), device=begin.device), count)
    state = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row] + first[row]
    weight = end[row].minimum((state + 1).to(end.dtype)) - begin[row].maximum(state.to(begin.dtype))
    weight = weight.clamp_min(0) + 1e-6  # a part shorter than a state's time has that state
    return row, state, weight / torch.zeros_like(begin).index_add(0, row, weight)[row], count
