"""Exact inference on a linear chain of labels, of order 1 or 2 (Eqs. pcrf, Zcrf and the messages after them).

    N  packed rows (see packing.py)      B  sequences      Y  labels
    i, j, k  labels of positions t-2, t-1, t

The recursions themselves are in sweeps.py (sums) and search.py (best sequences, samples).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.packing import Packing
from model.potentials import Potentials, sum_rows
from model.search import k_best, sample, viterbi
from model.sweeps import log_z_and_gradients

__all__ = [
    "Marginals",
    "Potentials",
    "entropy",
    "k_best",
    "log_likelihood",
    "log_partition",
    "log_score",
    "marginals",
    "sample",
    "viterbi",
]


@dataclass(frozen=True)
class Marginals:
    """Posterior probabilities and log Z of a batch of chains.

    Attributes:
        log_z: [B] log partition function.
        unary: [N, Y] p(y_t | x).
        pair: [N, Y, Y] p(y_{t-1}, y_t | x); zero in the rows of first positions. None unless asked for.
        triple: [N, Y, Y, Y] p(y_{t-2}, y_{t-1}, y_t | x), order 2 only; None unless asked for.
    """

    log_z: Tensor
    unary: Tensor
    pair: Tensor | None = None
    triple: Tensor | None = None


def log_partition(potentials: Potentials) -> Tensor:
    """[B] log Z (Eq. Zcrf), differentiable in every potential."""
    return _LogPartition.apply(potentials.packing, *potentials.tensors())


def log_score(potentials: Potentials, labels: Tensor) -> Tensor:
    """[B] log-potential of the label sequences `labels` [N], differentiable."""
    packing = potentials.packing
    rows = potentials.unary.gather(1, labels[:, None])[:, 0]
    first, second = packing.offsets[1], packing.offsets[min(2, len(packing.batch_sizes))]
    if rows.shape[0] > first and (potentials.bigram is not None or potentials.edge is not None):
        k, j = labels[first:], labels.index_select(0, packing.neighbour(-1)[first:])
        pair = torch.zeros_like(rows[first:])
        if potentials.bigram is not None:
            pair = pair + potentials.bigram[j, k]
        if potentials.edge is not None:
            pair = pair + potentials.edge[first:].flatten(1).gather(1, (j * potentials.labels + k)[:, None])[:, 0]
        rows = torch.cat([rows[:first], rows[first:] + pair])
    if rows.shape[0] > second and potentials.order == 2:
        i, j, k = labels[packing.neighbour(-2)[second:]], labels[packing.neighbour(-1)[second:]], labels[second:]
        triple = torch.zeros_like(rows[second:])
        if potentials.trigram is not None:
            triple = triple + potentials.trigram[i, j, k]
        if potentials.hyperedge is not None:
            triple = triple + potentials.hyperedge[torch.arange(second, rows.shape[0], device=rows.device), i, j, k]
        rows = torch.cat([rows[:second], rows[second:] + triple])
    return sum_rows(rows, packing)


def log_likelihood(potentials: Potentials, labels: Tensor) -> Tensor:
    """[B] log p(y | x) of the label sequences `labels` [N] (Eq. pcrf), differentiable."""
    return log_score(potentials, labels) - log_partition(potentials)


def marginals(potentials: Potentials, *, pairs: bool = False, triples: bool = False) -> Marginals:
    """Label posteriors by one forward and one backward sweep; no gradient.

    Args:
        pairs: also p(y_{t-1}, y_t | x).
        triples: also p(y_{t-2}, y_{t-1}, y_t | x); order 2 only.
    """
    with torch.no_grad():
        want = (True, False, pairs, False, triples and potentials.order == 2)
        log_z, grads = log_z_and_gradients(potentials.detach(), want)
    assert grads[0] is not None
    return Marginals(log_z, grads[0], grads[2], grads[4])


def entropy(potentials: Potentials) -> Tensor:
    """[B] entropy of p(y | x) in nats: log Z less the expected score; no gradient."""
    with torch.no_grad():
        p = potentials.detach()
        need_pair = p.bigram is not None or p.edge is not None
        post = marginals(p, pairs=need_pair, triples=p.order == 2)
        expected = (p.unary * post.unary).sum(1)
        for table, posterior, shared, skip in (
            (p.bigram, post.pair, True, 1), (p.edge, post.pair, False, 1),
            (p.trigram, post.triple, True, 2), (p.hyperedge, post.triple, False, 2),
        ):  # fmt: skip
            if table is not None and posterior is not None:
                rows = slice(p.packing.offsets[min(skip, len(p.packing.offsets) - 1)], None)
                expected[rows] += ((table if shared else table[rows]) * posterior[rows]).flatten(1).sum(1)
        return post.log_z - sum_rows(expected, p.packing)


class _LogPartition(torch.autograd.Function):
    """log Z whose backward pass is a multiplication: the marginals are computed with it."""

    @staticmethod
    def forward(ctx: Any, packing: Packing, *tensors: Tensor | None) -> Tensor:
        potentials = Potentials(packing, *tensors)  # type: ignore[arg-type]
        want = tuple(ctx.needs_input_grad[1:])
        with torch.no_grad():
            log_z, grads = log_z_and_gradients(potentials, want)
        grads = tuple(g if wanted else None for g, wanted in zip(grads, want, strict=True))  # type: ignore[assignment]
        ctx.packing = packing
        ctx.wanted = want
        ctx.per_sequence = any(g is not None and n in (1, 3) for n, g in enumerate(grads))
        ctx.potentials = potentials if ctx.per_sequence else None
        ctx.save_for_backward(*(g for g in grads if g is not None))
        return log_z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = outputs
        saved = iter(ctx.saved_tensors)
        grads = [next(saved) if wanted else None for wanted in ctx.wanted]
        if bool((weight == weight[0]).all()):  # the usual case: a sum or mean over the batch
            return (None, *(None if g is None else g * weight[0] for g in grads))
        # shared tables hold sums over sequences, so unequal weights need the sweeps once more, weighted
        if ctx.per_sequence:
            with torch.no_grad():
                _, weighted = log_z_and_gradients(ctx.potentials, ctx.wanted, weight)
            return (None, *weighted)
        rows = weight[ctx.packing.sequence]
        return (None, *(None if g is None else g * rows.view(-1, *[1] * (g.dim() - 1)) for g in grads))
