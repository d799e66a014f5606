"""Exact inference on a linear chain of labels, of order 1 or 2 (Eqs. pcrf, Zcrf and the messages after them).

Axes: see the package.

The recursions themselves are in first_order.py, second_order.py, single.py (one sequence of order 2) and logarithms.py, each
with a `sweep` that gives log Z and its gradients, which are the marginals; and in search.py (best sequences, samples).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from phonechain.model.chain import first_order, logarithms, second_order, single
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Gradients, Potentials, Want, sum_rows
from phonechain.model.chain.scaling import SAFE_RANGE
from phonechain.model.chain.search import k_best, sample, viterbi

__all__ = [
    "Marginals",
    "Potentials",
    "entropy",
    "k_best",
    "log_likelihood",
    "log_partition",
    "log_score",
    "marginals",
    "partial_log_likelihood",
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
    """[B] log Z (Eq. Zcrf), differentiable in every potential; -inf where no label sequence is possible.

    Examples:
        >>> potentials = Potentials(Packing((3, 2)), torch.zeros(5, 4))  # 4 labels: 4**3 and 4**2 sequences of equal weight
        >>> log_partition(potentials).exp().round()
        tensor([64., 16.])
    """
    return _NegativeLogLikelihood.apply(potentials.packing, None, *potentials.tensors())


def log_score(potentials: Potentials, labels: Tensor) -> Tensor:
    """[B] log-potential of the label sequences `labels` [N], differentiable."""
    return _score(potentials, labels, _codes(potentials, labels)).to(potentials.unary.dtype)


def _score(potentials: Potentials, labels: Tensor, codes: dict[int, Tensor]) -> Tensor:
    """[B], float64: the score and log Z may be large where their difference is small."""
    return sum_rows(row_scores(potentials, labels, codes), potentials.packing)


def row_scores(potentials: Potentials, labels: Tensor, codes: dict[int, Tensor] | None = None) -> Tensor:
    """[N], float64: for each position the sum of the log-potentials that end there, for the label sequences `labels` [N]."""
    codes = _codes(potentials, labels) if codes is None else codes
    rows = potentials.unary.gather(1, labels[:, None])[:, 0].double()
    for n, code in codes.items():
        first = potentials.packing.offsets[n - 1]
        shared, local = potentials.ngrams(n)
        if shared is not None:
            rows[first:] += shared.flatten().index_select(0, code)
        if local is not None:
            rows[first:] += local[first:].flatten(1).gather(1, code[:, None])[:, 0]
    return rows


def _codes(potentials: Potentials, labels: Tensor) -> dict[int, Tensor]:
    """By n, for n-grams that have potentials: each row's index into the flattened table; for the last rows, which have one."""
    packing = potentials.packing
    codes, code = {}, labels
    for n in range(2, min(potentials.order + 1, len(packing.batch_sizes)) + 1):
        first = packing.offsets[n - 1]
        earlier = labels.index_select(0, packing.neighbour(1 - n)[first:])
        code = earlier * potentials.labels ** (n - 1) + code[first - packing.rows :]
        if any(table is not None for table in potentials.ngrams(n)):
            codes[n] = code
    return codes


def log_likelihood(potentials: Potentials, labels: Tensor) -> Tensor:
    """[B] log p(y | x) of the label sequences `labels` [N] (Eq. pcrf), differentiable.

    Raises:
        ValueError: a sequence whose log-potentials leave no label sequence possible.

    Examples:
        >>> potentials = Potentials(Packing((3, 2)), torch.zeros(5, 4))
        >>> log_likelihood(potentials, torch.tensor([0, 1, 2, 3, 0])).exp()
        tensor([0.0156, 0.0625])
    """
    return -_NegativeLogLikelihood.apply(potentials.packing, labels, *potentials.tensors())


def partial_log_likelihood(potentials: Potentials, labels: Tensor) -> Tensor:
    """[B] log p of the known labels among [N], those of -1 summed out: constrained log Z minus log Z; differentiable.

    Raises:
        ValueError: a sequence whose log-potentials leave no label sequence possible.

    Examples:
        >>> potentials = Potentials(Packing((3,)), torch.zeros(3, 4))
        >>> partial_log_likelihood(potentials, torch.tensor([0, -1, 2])).exp()  # one of 4 labels, twice
        tensor([0.0625])
    """
    unary = potentials.unary
    unary = unary - unary.detach().amax(1, keepdim=True)  # a common offset would take digits of the difference
    others = torch.arange(potentials.labels, device=labels.device) != labels[:, None]
    known = unary.masked_fill(others & (labels >= 0)[:, None], -math.inf)
    total = log_partition(replace(potentials, unary=unary))
    check_possible(total.detach())
    return log_partition(replace(potentials, unary=known)) - total


def marginals(potentials: Potentials, *, pairs: bool = False, triples: bool = False) -> Marginals:
    """Label posteriors by one forward and one backward sweep; no gradient.

    Args:
        pairs: also p(y_{t-1}, y_t | x).
        triples: also p(y_{t-2}, y_{t-1}, y_t | x); order 2 only.

    Raises:
        ValueError: a sequence whose log-potentials leave no label sequence possible.

    Examples:
        >>> unary = torch.tensor([[0.0, 0.0], [0.0, 2.0]])  # one sequence of two positions, two labels
        >>> sticky = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # staying in a label scores 1
        >>> marginals(Potentials(Packing((2,)), unary, bigram=sticky)).unary
        tensor([[0.3240, 0.6760],
                [0.1192, 0.8808]])
    """
    with torch.no_grad():
        want = Want(unary=True, edge=pairs, hyperedge=triples and potentials.order == 2)
        log_z, grads = log_z_and_gradients(potentials, want)
    check_possible(log_z)
    assert grads.unary is not None
    return Marginals(log_z.to(potentials.unary.dtype), grads.unary, grads.edge, grads.hyperedge)


def check_possible(log_z: Tensor) -> None:
    """Raise ValueError for a sequence whose log-potentials leave no label sequence possible."""
    if float(log_z.sum()) == -math.inf:
        sequence = int(log_z.isneginf().nonzero()[0])
        raise ValueError(f"no label sequence is possible: all log-potentials of packed sequence {sequence} end in -inf")


def entropy(potentials: Potentials) -> Tensor:
    """[B] entropy of p(y | x) in nats, sequence by sequence; no gradient.

    Raises:
        ValueError: a sequence whose log-potentials leave no label sequence possible.

    Examples:
        >>> entropy(Potentials(Packing((1,)), torch.zeros(1, 2)))  # a fair coin, in nats
        tensor([0.6931])
    """
    with torch.no_grad():
        p = potentials.detach().to(torch.float64)
        values = [_entropy(p.select_sequence(n).without_offsets()[0]) for n in range(len(p.packing.lengths))]
    return torch.stack(values).to(potentials.unary.dtype)


def _entropy(potentials: Potentials) -> Tensor:
    """log Z minus the expected score of one sequence; in float64, for both are large where their difference is small."""
    tables = potentials.tensors()
    log_z, expected = log_z_and_gradients(potentials, Want(*(table is not None for table in tables)))
    check_possible(log_z)
    value = log_z[0]
    for table, counts in zip(tables, expected, strict=True):
        if table is not None and counts is not None:  # a count of 0 adds nothing, even where the potential is -inf
            value = value - torch.where(counts > 0, table * counts, 0.0).sum()
    return value.clamp_min(0.0)


def log_z_and_gradients(potentials: Potentials, want: Want, weight: Tensor | None = None) -> tuple[Tensor, Gradients]:
    """log Z [B], float64, and its gradients with respect to the five potentials where wanted, weighted by sequence if given.

    Potentials of -inf are handled exactly, in logarithms; a sequence without any possible labels has log Z = -inf and
    gradients of zero.
    """
    dtype = potentials.unary.dtype
    spread = ngram_range(potentials)
    order = potentials.order
    if dtype == torch.float32 and not spread <= SAFE_RANGE[order, torch.float32]:
        wide = None if weight is None else weight.double()
        log_z, grads = log_z_and_gradients(potentials.to(torch.float64), want, wide)
        return log_z, grads.map(lambda g: g.to(dtype))
    if not spread <= SAFE_RANGE[order, torch.float64]:
        return _all_nan(potentials, want) if _has_nan(potentials) else logarithms.sweep(potentials, want, weight)
    if order == 1:
        log_z, grads = first_order.sweep(potentials, want, weight, spread)
    elif len(potentials.packing.lengths) == 1:
        log_z, grads = single.sweep(potentials, want, weight)
    else:
        log_z, grads = second_order.sweep(potentials, want, weight)
    if math.isfinite(float(log_z.sum())) or _has_nan(potentials):
        return log_z, grads
    wide = None if weight is None else weight.double()  # unaries of -inf at all labels of a position
    log_z, grads = logarithms.sweep(potentials.to(torch.float64), want, wide)
    return log_z, grads.map(lambda g: g.to(dtype))


def ngram_range(potentials: Potentials, *, begins: bool = True) -> float:
    """Nats between the largest and the smallest n-gram log-potential of a position (an upper bound where tables add up).

    `begins` says whether the first positions begin their sequences, so that their n-grams are not read.
    """
    spread: list[Tensor] = []
    for table in (potentials.bigram, potentials.trigram):
        if table is not None:
            low, high = table.aminmax()
            spread.append(high - low)
    offsets = potentials.packing.offsets if begins else (0, 0, 0)
    for table, start in ((potentials.edge, offsets[1]), (potentials.hyperedge, offsets[min(2, len(offsets) - 1)])):
        if table is not None and start < table.shape[0]:
            rows = table[start:].flatten(1)
            spread.append((rows.amax(1) - rows.amin(1)).max())
    return float(sum(spread[1:], spread[0])) if spread else 0.0


def _has_nan(potentials: Potentials) -> bool:
    return any(x is not None and bool(x.isnan().any()) for x in potentials.tensors())


def _all_nan(potentials: Potentials, want: Want) -> tuple[Tensor, Gradients]:
    """NaN as log Z and as every wanted gradient."""
    unary = potentials.unary
    n, y = unary.shape
    shapes = ((n, y), (y, y), (n, y, y), (y, y, y), (n, y, y, y))
    grads = (unary.new_full(shape, torch.nan) if wanted else None for shape, wanted in zip(shapes, want, strict=True))
    return unary.new_full((len(potentials.packing.lengths),), torch.nan, dtype=torch.float64), Gradients(*grads)


class _NegativeLogLikelihood(torch.autograd.Function):
    """-log p(y | x) of the given labels, or log Z without any; the backward pass is a multiplication.

    The gradient of log Z is the expected counts, which the same sweeps compute; that of -log p(y | x) is the expected counts
    minus those of the labels.
    """

    @staticmethod
    def forward(
        ctx: Any,
        packing: Packing,
        labels: Tensor | None,
        unary: Tensor,
        bigram: Tensor | None,
        edge: Tensor | None,
        trigram: Tensor | None,
        hyperedge: Tensor | None,
    ) -> Tensor:
        potentials = Potentials(packing, unary, bigram, edge, trigram, hyperedge)
        want = Want(*ctx.needs_input_grad[2:])
        with torch.no_grad():
            value, grads = _value_and_gradients(potentials, labels, want)
        ctx.packing = packing
        ctx.want = want
        again = want.bigram or want.trigram
        ctx.save_for_backward(*grads, *((labels, *potentials.tensors()) if again else ()))
        return value.to(unary.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = outputs
        grads, again = Gradients(*ctx.saved_tensors[:5]), ctx.saved_tensors[5:]
        if weight.stride(0) == 0 or bool((weight == weight[0]).all()):  # as a rule: of a sum or mean over the batch
            return (None, None, *grads.map(lambda g: g * weight[0]))
        # shared tables hold sums over sequences, so unequal weights need the sweeps once more, weighted
        if again:
            with torch.no_grad():
                labels, *tensors = again
                _, weighted = _value_and_gradients(Potentials(ctx.packing, *tensors), labels, ctx.want, weight)
            return (None, None, *weighted)
        rows = weight[ctx.packing.sequence]
        return (None, None, *grads.map(lambda g: g * rows.view(-1, *[1] * (g.dim() - 1))))


def _value_and_gradients(
    potentials: Potentials, labels: Tensor | None, want: Want, weight: Tensor | None = None
) -> tuple[Tensor, Gradients]:
    """log Z [B], or -log p(y | x) of the labels [N], and its gradients where wanted, weighted by sequence if asked."""
    log_z, grads = log_z_and_gradients(potentials, want, weight)
    if labels is None:
        return log_z, grads
    check_possible(log_z)
    packing, y = potentials.packing, potentials.labels
    minus = potentials.unary.new_full((packing.rows,), -1.0) if weight is None else -weight[packing.sequence]
    if grads.unary is not None:
        grads.unary.scatter_add_(1, labels[:, None], minus[:, None])
    codes = _codes(potentials, labels)
    for n, code in codes.items():
        here = slice(packing.offsets[n - 1], None)
        shared, local = grads.ngrams(n)
        if shared is not None:
            counts = shared.new_zeros(shared.numel()).index_add_(0, code, minus[here])  # bincount waits for the device
            shared += counts.view(shared.shape)
        if local is not None:
            rows = torch.arange(packing.offsets[n - 1], packing.rows, device=code.device)
            at = [code // y**back % y for back in range(n - 1, -1, -1)]
            local.index_put_((rows, *at), minus[here], accumulate=True)
    return log_z - _score(potentials, labels, codes), grads
