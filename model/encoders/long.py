"""Encoders over one long recording, some rows at a time: what factors see of it is computed when it is asked for.

    T  segments      F'  states of the frame network, at half the frame rate      C  channels      E  what factors see

A bidirectional layer needs nothing of a chunk but its own states at both ends. One pass in each direction finds the states at
the seams of blocks, and then any chunk is computed from the rows below it, its blocks side by side as if they were sequences
of a batch, which takes a fraction of the time of a pass. So memory is that of some chunks, in exchange for computing lower
layers more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phonechain.model.encoders.recurrent import Bidirectional

LONG_CHUNK = 1024
"""Rows of a chunk."""

BLOCKS = 8
"""Blocks of a chunk, at whose seams states are kept."""

RECENT = 2
"""Further chunks that are kept, for rows on both sides of a seam are read together."""

Chunks = Callable[[int], Tensor]
"""[n, C] of a chunk, by its number."""

State = tuple[Tensor, Tensor]
"""State of an LSTM between two chunks."""


@dataclass(frozen=True)
class LongRows:
    """The encoding of one long recording, [T, E], computed some rows at a time.

    Attributes:
        length, width: T and E.
        rows: [n, E] of consecutive positions.
    """

    length: int
    width: int
    rows: Callable[[slice], Tensor]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, span: slice) -> Tensor:
        return self.rows(slice(*span.indices(self.length)[:2]))


class ChunkCache:
    """Chunks, of which the last `RECENT` are at hand."""

    def __init__(self, make: Chunks) -> None:
        self._make = make
        self._recent: dict[int, Tensor] = {}

    def __call__(self, number: int) -> Tensor:
        found = self._recent.get(number)
        if found is None:
            found = self._recent[number] = self._make(number)
            if len(self._recent) > RECENT:
                del self._recent[next(iter(self._recent))]
        return found


def count_chunks(length: int) -> int:
    """Number of chunks in a sequence of `length` rows."""
    return -(-length // LONG_CHUNK)


def run_layers(layers: Sequence[Bidirectional], below: Chunks, count: int) -> Chunks:
    """The states [n, 2 U] of a stack of layers over `count` chunks of rows.

    The pass back over a layer has its rows at hand, and so takes the pass back over the layer above it along.
    """
    for n in range(0, len(layers), 2):
        below = ChunkCache(_run_pair(layers[n : n + 2], below, count))
    return below


def _run_pair(layers: Sequence[Bidirectional], below: Chunks, count: int) -> Chunks:
    """The same of one layer or of two."""
    runs = [_Run(layer) for layer in layers]
    for k in range(count) if len(runs) > 1 else ():
        runs[0].pass_ahead(k, below(k))
    for k in reversed(range(count)):
        x = below(k)
        for n, run in enumerate(runs):
            back = run.pass_back(k, x)
            if n + 1 < len(runs):
                x = torch.cat([run.repeat_ahead(k, x), back], 1)

    def chunk(k: int) -> Tensor:
        for before in range(len(runs[-1].before), k):  # those that nobody has asked for yet
            chunk(before)
        x = below(k)
        for run in runs:
            ahead = run.repeat_ahead(k, x) if k < len(run.before) else run.pass_ahead(k, x)
            x = torch.cat([ahead, run.repeat_back(k, x)], 1)
        return x

    return chunk


class _Run:
    """A layer over the chunks of one recording.

    Attributes:
        before, after: of each chunk, the state before each of its blocks in the direction of time, and against it.
    """

    def __init__(self, layer: Bidirectional) -> None:
        self.layer = layer
        self.before: list[list[State]] = []
        self.after: dict[int, list[State]] = {}
        units = layer.ahead.hidden_size
        nothing = next(layer.parameters()).new_zeros(1, units)
        self._ahead: State = (nothing, nothing)
        self._back: State = (nothing, nothing)

    def pass_ahead(self, k: int, x: Tensor) -> Tensor:
        """[n, U] of the chunk after all those that were passed so far."""
        assert k == len(self.before)
        self.before.append([])
        parts = []
        for block in x.split(_block()):
            self.before[k].append(self._ahead)
            part, self._ahead = self.layer.ahead(block, self._ahead)
            parts.append(part)
        return torch.cat(parts)

    def pass_back(self, k: int, x: Tensor) -> Tensor:
        """[n, U] of the chunk before all those that were passed so far."""
        self.after[k] = []
        parts: list[Tensor] = []
        for block in reversed(x.split(_block())):
            self.after[k].insert(0, self._back)
            part, self._back = self.layer.back(block.flip(0), self._back)
            parts.insert(0, part.flip(0))
        return torch.cat(parts)

    def repeat_ahead(self, k: int, x: Tensor) -> Tensor:
        """[n, U] of a chunk that was passed."""
        return _repeat(self.layer.ahead, x, self.before[k], turned=False)

    def repeat_back(self, k: int, x: Tensor) -> Tensor:
        """[n, U] of a chunk that was passed."""
        return _repeat(self.layer.back, x, self.after[k], turned=True)


def _block() -> int:
    return max(1, LONG_CHUNK // BLOCKS)


def _repeat(lstm: nn.LSTM, x: Tensor, states: Sequence[State], *, turned: bool) -> Tensor:
    """[n, U] of the rows [n, C] of a chunk, its whole blocks side by side."""
    size = _block()
    whole = len(x) // size
    parts = []
    if whole:
        side = x[: whole * size].view(whole, size, -1).transpose(0, 1)
        start = tuple(torch.stack(each, 1) for each in zip(*states[:whole], strict=True))
        found = lstm(side.flip(0) if turned else side.contiguous(), start)[0]
        parts.append((found.flip(0) if turned else found).transpose(0, 1).reshape(whole * size, -1))
    if len(x) > whole * size:
        rest = x[whole * size :]
        found = lstm(rest.flip(0) if turned else rest, states[whole])[0]
        parts.append(found.flip(0) if turned else found)
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def rows_of(chunks: Chunks, span: slice) -> Tensor:
    """Consecutive rows, at least one, from the chunks that hold them."""
    parts = []
    for k in range(span.start // LONG_CHUNK, (span.stop - 1) // LONG_CHUNK + 1):
        here = slice(max(0, span.start - k * LONG_CHUNK), min(LONG_CHUNK, span.stop - k * LONG_CHUNK))
        parts.append(chunks(k)[here])
    return parts[0] if len(parts) == 1 else torch.cat(parts)
