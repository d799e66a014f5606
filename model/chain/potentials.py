"""Log-potentials of a batch of chains, and the steps in the log domain that the simple, slow algorithms consist of.

Axes: see the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from phonechain.model.chain.packing import Packing


class Want(NamedTuple):
    """The potentials whose gradients are wanted."""

    unary: bool = False
    bigram: bool = False
    edge: bool = False
    trigram: bool = False
    hyperedge: bool = False


class Gradients(NamedTuple):
    """Gradients of log Z with respect to the potentials, of the same shapes; None where not wanted.

    Those of `unary`, `edge` and `hyperedge` are the marginals of one, two and three labels; those of the shared tables are
    sums of these.
    """

    unary: Tensor | None = None
    bigram: Tensor | None = None
    edge: Tensor | None = None
    trigram: Tensor | None = None
    hyperedge: Tensor | None = None

    def ngrams(self, n: int) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of the shared table of n-grams and of the input-dependent one, n = 2 or 3."""
        return (self.bigram, self.edge) if n == 2 else (self.trigram, self.hyperedge)

    def map(self, function: Callable[[Tensor], Tensor]) -> Gradients:
        """Apply a function to each gradient."""
        return Gradients(*(None if x is None else function(x) for x in self))


@dataclass(frozen=True)
class Potentials:
    """Log-potentials of a batch of chains. `order` is 2 if there is any trigram table.

    Args:
        packing: positions of the rows.
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
        """The five tables, in their order."""
        return (self.unary, self.bigram, self.edge, self.trigram, self.hyperedge)

    def ngrams(self, n: int) -> tuple[Tensor | None, Tensor | None]:
        """The shared table of n-grams and the input-dependent one, n = 2 or 3."""
        return (self.bigram, self.edge) if n == 2 else (self.trigram, self.hyperedge)

    def map(self, function: Callable[[Tensor], Tensor]) -> Potentials:
        """Apply a function to each table."""

        def each(table: Tensor | None) -> Tensor | None:
            return None if table is None else function(table)

        return Potentials(
            self.packing, function(self.unary), each(self.bigram), each(self.edge), each(self.trigram), each(self.hyperedge)
        )  # fmt: skip

    def detach(self) -> Potentials:
        return self.map(Tensor.detach)

    def to(self, dtype: torch.dtype) -> Potentials:
        return self.map(lambda table: table.to(dtype))

    def scale(self, factor: float) -> Potentials:
        """All log-potentials times `factor`: the chain at temperature 1 / factor."""
        return self.map(lambda table: table * factor)

    def without_offsets(self) -> tuple[Potentials, Tensor]:
        """The same distribution, the maximum of each row or shared table subtracted; and their sums [B], float64."""
        packing = self.packing
        rows = self.unary.new_zeros(packing.rows, dtype=torch.float64)
        tables: list[Tensor | None] = []
        for table, first, local in zip(self.tensors(), (0, 1, 1, 2, 2), (True, False, True, False, True), strict=True):
            if table is None:
                tables.append(None)
                continue
            top = table.flatten(1).amax(1) if local else table.max()
            top = torch.where(top.isfinite(), top, 0.0)
            tables.append(table - top.view(-1, *[1] * (table.dim() - 1)))
            here = slice(packing.offsets[min(first, len(packing.batch_sizes))], None)
            rows[here] += top[here] if local else top
        unary, *others = tables
        assert unary is not None
        return Potentials(packing, unary, *others), sum_rows(rows, packing)

    def cut(self, starts: Tensor) -> tuple[Potentials, Tensor]:
        """The pieces of all sequences as sequences of their own, and the rows [N] here that theirs are made of; differentiable.

        Args:
            starts: [N] true for each row where a piece begins; first positions need not be.
        """
        packing = self.packing
        rows = torch.empty_like(packing.from_concatenated)
        rows[packing.from_concatenated] = torch.arange(packing.rows, device=packing.device)
        begins = (starts | (packing.time == 0))[rows].nonzero()[:, 0].cpu().numpy()
        order, pieces = Packing.longest_first(np.diff(np.append(begins, packing.rows)), packing.device)
        time, piece = pieces.time_and_sequence
        rows = rows[torch.from_numpy(begins[order][piece] + time).to(packing.device)]
        local = [None if x is None else x.index_select(0, rows) for x in (self.unary, self.edge, self.hyperedge)]
        assert local[0] is not None
        return Potentials(pieces, local[0], self.bigram, local[1], self.trigram, local[2]), rows

    def select_sequence(self, sequence: int) -> Potentials:
        """One sequence as a batch of its own."""
        rows = self.packing.rows_of(sequence)
        local = [None if x is None else x.index_select(0, rows) for x in (self.edge, self.hyperedge)]
        packing = Packing((len(rows),), self.packing.device)
        return Potentials(packing, self.unary.index_select(0, rows), self.bigram, local[0], self.trigram, local[1])


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
    """The table itself, or if it is None zeros [Y] * dims with the dtype and device of `like` [N, Y]."""
    return like.new_zeros((like.shape[1],) * dims) if table is None else table


def shared_tables(potentials: Potentials) -> tuple[Tensor, Tensor]:
    """The shared tables of bigrams [Y, Y] and trigrams [Y, Y, Y], zeros where there are none."""
    unary = potentials.unary
    return shared_or_zero(potentials.bigram, unary, 2), shared_or_zero(potentials.trigram, unary, 3)


def sum_rows(rows: Tensor, packing: Packing) -> Tensor:
    """[N] -> [B]: the sum over the rows of each sequence, in float64: in float32 a thousand equal terms drift."""
    zeros = rows.new_zeros(len(packing.lengths), dtype=torch.float64)
    return zeros.index_add(0, packing.sequence, rows.double())


def log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """log sum exp over `dim`, whose gradient is zero, not NaN, where everything is -inf."""
    return _LogSumExp.apply(x, dim)


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        total = torch.logsumexp(x, dim)
        ctx.save_for_backward(x, total)
        ctx.dim = dim
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None]:
        x, total = ctx.saved_tensors
        possible = total.masked_fill(total.isneginf(), 0.0).unsqueeze(ctx.dim)
        return (x - possible).exp_().mul_(outputs[0].unsqueeze(ctx.dim)), None
