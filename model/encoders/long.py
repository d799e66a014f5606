"""Encoders over one long recording, some rows at a time: what factors see of it is computed when it is asked for.

    T  segments      F'  states of the frame network, at half the frame rate      C  channels      E  what factors see

A bidirectional layer needs nothing of a chunk but its own states at both ends: one pass in each direction finds them, and then
any chunk is computed from the rows below it. Those come the same way from the layer below, so memory is that of some chunks,
in exchange for computing lower layers more than once. `Kept` holds as many chunks as there is room for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from phonechain.model.encoders.recurrent import CHUNK, Bidirectional

ROOM = 32 * 2**20
"""Bytes of chunks that a layer may keep: the whole of some ten minutes."""

RECENT = 2
"""Chunks that are kept besides: rows around a seam are asked for together."""

Chunks = Callable[[int], Tensor]
"""[n, C] of a chunk, by its number."""

State = tuple[Tensor, Tensor]
"""Of an LSTM between two chunks."""


@dataclass(frozen=True)
class LongRows:
    """What factors see of one long recording, [T, E], computed some rows at a time.

    Attributes:
        length, width: T and E.
        rows: [n, E] of some positions in a row.
    """

    length: int
    width: int
    rows: Callable[[slice], Tensor]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, span: slice) -> Tensor:
        return self.rows(slice(*span.indices(self.length)[:2]))


class Kept:
    """Chunks, computed at most once while there is room for them; the last `RECENT` in any case."""

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
    """Chunks of a sequence of so many rows."""
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

    return Kept(chunk)


def rows_of(chunks: Chunks, span: slice) -> Tensor:
    """Rows in a row, out of the chunks that hold them; at least one."""
    parts = []
    for k in range(span.start // CHUNK, (span.stop - 1) // CHUNK + 1):
        here = slice(max(0, span.start - k * CHUNK), min(CHUNK, span.stop - k * CHUNK))
        parts.append(chunks(k)[here])
    return parts[0] if len(parts) == 1 else torch.cat(parts)
