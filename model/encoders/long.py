"""Encoders over one long recording, some rows at a time: the input of the factors is computed when it is needed.

    T  segments      F'  states of the frame network, at half the frame rate      C  channels      E  width of the encoding

Any chunk of a bidirectional layer can be computed from the rows below it and the layer's states at the chunk's two ends, which
one pass in each direction finds. The rows below come from the layer below in the same way, so memory is that of a few chunks,
at the cost of computing lower layers more than once. `ChunkCache` holds as many chunks as there is room for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from phonechain.model.encoders.recurrent import CHUNK, Bidirectional

ROOM = 32 * 2**20
"""Bytes of chunks that a layer may keep: all of about ten minutes."""

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
    """Chunks, computed at most once while there is room for them; the last `RECENT` are always kept."""

    def __init__(self, make: Chunks, room: int = ROOM) -> None:
        self._make, self._room = make, room
        self._kept: dict[int, Tensor] = {}
        self._recent: dict[int, Tensor] = {}

    def __call__(self, number: int) -> Tensor:
        found = self._kept.get(number, self._recent.get(number))
        if found is None:
            found = self._make(number)
            if found.nbytes <= self._room:
                self._kept[number] = found
                self._room -= found.nbytes
            else:
                self._recent[number] = found
                if len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]
        return found


def count_chunks(length: int) -> int:
    """Number of chunks in a sequence of `length` rows."""
    return -(-length // CHUNK)


def run_layer(layer: Bidirectional, below: Chunks, count: int) -> Chunks:
    """The states [n, 2 U] of a layer over `count` chunks of rows."""
    state: State | None = None
    before: list[State | None] = []
    for k in range(count):
        before.append(state)
        _, state = layer.ahead(below(k), state)
    state = None
    after: list[State | None] = [None] * count
    for k in reversed(range(count)):
        after[k] = state
        _, state = layer.back(below(k).flip(0), state)

    def chunk(k: int) -> Tensor:
        x = below(k)
        return torch.cat([layer.ahead(x, before[k])[0], layer.back(x.flip(0), after[k])[0].flip(0)], 1)

    return ChunkCache(chunk)


def rows_of(chunks: Chunks, span: slice) -> Tensor:
    """Consecutive rows, at least one, from the chunks that hold them."""
    parts = []
    for k in range(span.start // CHUNK, (span.stop - 1) // CHUNK + 1):
        here = slice(max(0, span.start - k * CHUNK), min(CHUNK, span.stop - k * CHUNK))
        parts.append(chunks(k)[here])
    return parts[0] if len(parts) == 1 else torch.cat(parts)
