"""Log-potentials of a batch of chains, and the steps in the log domain that everything slow but simple is made of.

N  packed rows (see packing.py)      B  sequences      Y  labels      T  longest sequence
i, j, k  labels of positions t-2, t-1, t
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phonechain.model.chain.packing import Packing


@dataclass(frozen=True)
class Potentials:
    """Log-potentials of a batch of chains. `order` is 2 if there is any trigram table.

    Args:
        packing: where the rows belong.
        unary: [N, Y] of the label of each row.
        bigram: [Y, Y] of (y_{t-1}, y_t), the same at every position; or None.
        edge: [N, Y, Y] of (y_{t-1}, y_t), dependent on the input; the rows of first positions are not read; or None.
        trigram: [Y, Y, Y] of (y_{t-2}, y_{t-1}, y_t), the same at every position; or None.
        hyperedge: [N, Y, Y, Y] as trigram, dependent on the input; the rows of the first two positions are not read; or None.
    """

    packing: Packing
    unary: Tensor
    bigram: Tensor | None = None
    edge: Tensor | None = None
    trigram: Tensor | None = None
    hyperedge: Tensor | None = None

    @property
    def order(self) -> int:
        return 2 if self.trigram is not None or self.hyperedge is not None else 1

    @property
    def labels(self) -> int:
        """Y."""
        return self.unary.shape[1]

    def tensors(self) -> tuple[Tensor | None, ...]:
        return (self.unary, self.bigram, self.edge, self.trigram, self.hyperedge)

    def ngrams(self, n: int) -> tuple[Tensor | None, Tensor | None]:
        """The shared table of n-grams and the one that depends on the input, n = 2 or 3."""
        return (self.bigram, self.edge) if n == 2 else (self.trigram, self.hyperedge)

    def detach(self) -> Potentials:
        return Potentials(self.packing, *(x if x is None else x.detach() for x in self.tensors()))  # type: ignore[arg-type]

    def to(self, dtype: torch.dtype) -> Potentials:
        return Potentials(self.packing, *(x if x is None else x.to(dtype) for x in self.tensors()))  # type: ignore[arg-type]

    def scaled(self, factor: float) -> Potentials:
        """All log-potentials times `factor`: the chain at temperature 1 / factor."""
        return Potentials(self.packing, *(x if x is None else x * factor for x in self.tensors()))  # type: ignore[arg-type]


def log_step(potentials: Potentials, state: Tensor | None, t: int, reduce: Any) -> Tensor:
    """One position in the log domain: [b, k] (order 1, and position 0) or [b, j, k] (order 2); `reduce` sums i or j out."""
    packing = potentials.packing
    here, size = slice(packing.offsets[t], packing.offsets[t + 1]), packing.batch_sizes[t]
    unary = potentials.unary[here]
    if t == 0 or state is None:
        return unary
    edge = edge_table(potentials, here)
    if potentials.order == 1:
        return reduce(state[:size, :, None] + edge, 1) + unary
    if t == 1:
        return state[:size, :, None] + edge + unary[:, None, :]
    return reduce(state[:size, :, :, None] + triple_table(potentials, here), 1) + edge + unary[:, None, :]


def edge_table(potentials: Potentials, here: slice) -> Tensor:
    """[b or 1, j, k] all bigram log-potentials of the rows `here`."""
    table = shared_or_zero(potentials.bigram, potentials.unary, 2)[None]
    return table if potentials.edge is None else table + potentials.edge[here]


def triple_table(potentials: Potentials, here: slice) -> Tensor:
    """[b or 1, i, j, k] all trigram log-potentials of the rows `here`."""
    table = shared_or_zero(potentials.trigram, potentials.unary, 3)[None]
    return table if potentials.hyperedge is None else table + potentials.hyperedge[here]


def shared_or_zero(table: Tensor | None, like: Tensor, dims: int) -> Tensor:
    """The table itself, or zeros [Y] * dims of the kind of `like` [N, Y] where there is none."""
    return like.new_zeros((like.shape[1],) * dims) if table is None else table


def sum_rows(rows: Tensor, packing: Packing) -> Tensor:
    """[N] -> [B]: the sum over the rows of each sequence, in float64: in float32 a thousand equal terms drift."""
    zeros = rows.new_zeros(len(packing.lengths), dtype=torch.float64)
    return zeros.index_add(0, packing.sequence, rows.double()).to(rows.dtype)
