"""Exact inference on a linear chain of labels, of order 1 or 2 (Eqs. pcrf, Zcrf and the messages after them).

    N  packed rows (see packing.py)      B  sequences      Y  labels      T  longest sequence
    i, j, k  labels of positions t-2, t-1, t

The sweeps run on probabilities scaled position by position, so a step is one matrix product and holds no logarithm:

    order 1   alpha_t[b, k]    =  p_t[b, k]  sum_j alpha_{t-1}[b, j]     E[j, k]
    order 2   alpha_t[b, j, k] =  p_t[b, k]  sum_i alpha_{t-1}[b, i, j]  E[i, j, k]     (one product a middle label j)

with p = exp(unary - its maximum), E = exp(n-gram log-potentials - their maximum). The gradient of log Z is the marginals:
one forward and one backward sweep give both.

Why scaling is safe. A term is lost only if it lies e^-87 (float32) or e^-745 (float64) below the largest one of its
position. What happens later can lift it, against the others, by the range of E for as many steps as the chain remembers:
once for order 1, twice for order 2. Unary potentials lift all predecessors alike, however large they are. So the range of
the n-gram log-potentials alone decides whether float32 is exact, or float64 is needed, or (beyond that) sums of logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.packing import Packing

# n-gram range in nats up to which scaled probabilities of a dtype lose less than the dtype's own rounding (see above)
_SAFE_RANGE = {(1, torch.float32): 60.0, (1, torch.float64): 650.0, (2, torch.float32): 33.0, (2, torch.float64): 340.0}


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

    def detach(self) -> Potentials:
        return Potentials(self.packing, *(x if x is None else x.detach() for x in self.tensors()))  # type: ignore[arg-type]

    def to(self, dtype: torch.dtype) -> Potentials:
        return Potentials(self.packing, *(x if x is None else x.to(dtype) for x in self.tensors()))  # type: ignore[arg-type]

    def scaled(self, factor: float) -> Potentials:
        """All log-potentials times `factor`: the chain at temperature 1 / factor."""
        return Potentials(self.packing, *(x if x is None else x * factor for x in self.tensors()))  # type: ignore[arg-type]


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
    return _LogPartition.apply(potentials.packing, *potentials.tensors())  # type: ignore[no-any-return, no-untyped-call]


def log_score(potentials: Potentials, labels: Tensor) -> Tensor:
    """[B] log-potential of the label sequences `labels` [N], differentiable."""
    packing = potentials.packing
    rows = potentials.unary.gather(1, labels[:, None])[:, 0]
    first, second = packing.offsets[1], packing.offsets[min(2, len(packing.batch_sizes))]
    if rows.shape[0] > first and (potentials.bigram is not None or potentials.edge is not None):
        k, j = labels[first:], labels[packing.neighbour(-1)[first:]]
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
    return _sum_rows(rows, packing)


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
        log_z, grads = _log_z_and_gradients(potentials.detach(), want)
    assert grads[0] is not None
    return Marginals(log_z, grads[0], grads[2], grads[4])


def entropy(potentials: Potentials) -> Tensor:
    """[B] entropy of p(y | x) in nats: log Z less the expected score; no gradient."""
    with torch.no_grad():
        p = potentials.detach()
        need_pair = p.bigram is not None or p.edge is not None
        post = marginals(p, pairs=need_pair, triples=p.order == 2)
        expected = (p.unary * post.unary).sum(1)
        for table, posterior in (
            (p.bigram, post.pair), (p.edge, post.pair), (p.trigram, post.triple), (p.hyperedge, post.triple)
        ):  # fmt: skip
            if table is not None and posterior is not None:
                expected += (table * posterior).flatten(1).sum(1)
        return post.log_z - _sum_rows(expected, p.packing)


# ------------------------------------------------------------------------------------------------- the two sweeps


class _LogPartition(torch.autograd.Function):
    """log Z whose backward pass is a multiplication: the marginals are computed with it."""

    @staticmethod
    def forward(ctx: Any, packing: Packing, *tensors: Tensor | None) -> Tensor:
        potentials = Potentials(packing, *tensors)  # type: ignore[arg-type]
        want = tuple(ctx.needs_input_grad[1:])
        with torch.no_grad():
            log_z, grads = _log_z_and_gradients(potentials, want)
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
                _, grads = _log_z_and_gradients(ctx.potentials, ctx.wanted, weight)
            return (None, *grads)
        rows = weight[ctx.packing.sequence]
        return (None, *(None if g is None else g * rows.view(-1, *[1] * (g.dim() - 1)) for g in grads))


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def _log_z_and_gradients(
    potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None = None
) -> tuple[Tensor, Gradients]:
    """log Z [B] and its gradients in the five potentials (None where not wanted), weighted by sequence if asked.

    The shared tables' gradients are sums over rows; the others' are marginals.
    """
    dtype = potentials.unary.dtype
    spread = _ngram_range(potentials)
    order = potentials.order
    if dtype == torch.float32 and spread > _SAFE_RANGE[order, torch.float32]:
        log_z, grads = _log_z_and_gradients(
            potentials.to(torch.float64), want, None if weight is None else weight.to(torch.float64)
        )
        return log_z.to(dtype), tuple(None if g is None else g.to(dtype) for g in grads)  # type: ignore[return-value]
    if not spread <= _SAFE_RANGE[order, torch.float64]:
        return _by_logs(potentials, want, weight)
    return (_sweep_first if order == 1 else _sweep_second)(potentials, want, weight)


def _ngram_range(potentials: Potentials) -> float:
    """Nats between the largest and the smallest n-gram log-potential (an upper bound where tables add up)."""
    spread = 0.0
    first, second = potentials.packing.offsets[1], potentials.packing.offsets[min(2, len(potentials.packing.batch_sizes))]
    for table, start in zip(potentials.tensors()[1:], (0, first, 0, second), strict=True):
        if table is not None and table[start:].numel():
            low, high = torch.aminmax(table[start:])
            spread += float(high - low)
    return spread


def _sweep_first(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    packing, unary = potentials.packing, potentials.unary
    sizes, offsets = packing.batch_sizes, packing.offsets
    top = unary.amax(1)
    p = torch.exp(unary - top[:, None])
    table = _shared_or_zero(potentials.bigram, unary, 2)
    shift = table.max()
    shared = torch.exp(table - shift)  # [j, k]
    local = None  # [N, j, k]
    if potentials.edge is not None:
        local_top = potentials.edge.flatten(1).amax(1)
        local = torch.exp(potentials.edge - local_top[:, None, None]) * shared
    alpha = p.clone()
    norm = torch.empty_like(top)
    for t, size in enumerate(sizes):
        here = slice(offsets[t], offsets[t + 1])
        a = alpha[here]
        if t:
            before = alpha[offsets[t - 1] : offsets[t - 1] + size]
            if local is None:
                a.mul_(before @ shared)
            else:
                a.mul_(torch.bmm(before[:, None, :], local[here])[:, 0])
        torch.sum(a, 1, out=norm[here])
        a.div_(norm[here, None])
    rows = norm.log() + top
    rows[offsets[1] :] += shift
    if local is not None:
        rows[offsets[1] :] += local_top[offsets[1] :]
    log_z = _sum_rows(rows, packing)
    if not any(want):
        return log_z, (None,) * 5

    beta = torch.ones_like(p)
    p.div_(norm[:, None])  # from here on p_t / c_t, times beta_t from the last position down: the message v_t
    for t in range(len(sizes) - 1, -1, -1):
        here = slice(offsets[t], offsets[t + 1])
        v = p[here].mul_(beta[here])
        if t:
            before = slice(offsets[t - 1], offsets[t - 1] + sizes[t])
            if local is None:
                torch.mm(v, shared.T, out=beta[before])
            else:
                beta[before] = torch.bmm(local[here], v[:, :, None])[:, :, 0]
    later = slice(offsets[1], offsets[-1])
    previous = packing.neighbour(-1)[later]
    if weight is not None:
        p.mul_(weight[packing.sequence][:, None])
        beta.mul_(weight[packing.sequence][:, None])
    pair = bigram = None
    if local is not None:  # the pair marginals are needed for both tables
        pair = torch.zeros_like(local)
        torch.mul(local[later], alpha[previous][:, :, None] * p[later][:, None, :], out=pair[later])
        bigram = pair.sum(0) if want[1] else None
    elif want[2]:
        pair = unary.new_zeros(packing.rows, *shared.shape)
        torch.mul(shared, alpha[previous][:, :, None] * p[later][:, None, :], out=pair[later])
    if want[1] and bigram is None:
        bigram = (alpha[previous].T @ p[later]).mul_(shared)
    return log_z, (alpha.mul_(beta), bigram, pair if want[2] else None, None, None)


def _sweep_second(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    # states are pairs; arrays of position t are [last label k, b, label before it j], so that a step is a batched product
    packing, unary = potentials.packing, potentials.unary
    sizes, offsets = packing.batch_sizes, packing.offsets
    y = potentials.labels
    top = unary.amax(1)
    p = torch.exp(unary - top[:, None])
    bigram = _shared_or_zero(potentials.bigram, unary, 2)
    trigram = _shared_or_zero(potentials.trigram, unary, 3)
    first = torch.exp(bigram - bigram.max())  # [j, k], used once, at the second position
    both = trigram + bigram
    shift = both.max()
    step = torch.exp(both - shift).permute(1, 0, 2).contiguous()  # [j, i, k]
    edge_top = edge = hyper = hyper_top = None
    if potentials.edge is not None:
        edge_top = potentials.edge.flatten(1).amax(1)
        edge = torch.exp(potentials.edge - edge_top[:, None, None]).permute(1, 0, 2).contiguous()  # [j, N, k]
    if potentials.hyperedge is not None:
        hyper_top = potentials.hyperedge.flatten(1).amax(1)
        hyper = torch.exp(potentials.hyperedge - hyper_top[:, None, None, None])  # [N, i, j, k]

    norm = torch.empty_like(top)
    steps = len(sizes)
    alpha: list[Tensor] = []  # [k, b, j] of position t; position 0 has no pair
    start = p[: sizes[0]].clone()
    torch.sum(start, 1, out=norm[: sizes[0]])
    start.div_(norm[: sizes[0], None])
    for t in range(1, steps):
        here, size = slice(offsets[t], offsets[t + 1]), sizes[t]
        if t == 1:
            s = start[:size].T[:, :, None] * first[:, None, :]  # [j, b, k]
        elif hyper is None:
            s = torch.bmm(alpha[-1][:, :size], step)
        else:
            s = torch.einsum("jbi,jik,bijk->jbk", alpha[-1][:, :size], step, hyper[here])
        s.mul_(p[here])
        if edge is not None:
            s.mul_(edge[:, here])
        torch.sum(s, (0, 2), out=norm[here])
        s.div_(norm[here, None])
        alpha.append(s.permute(2, 1, 0).contiguous())
    rows = norm.log() + top
    if steps > 1:
        rows[offsets[1] :] += 0.0 if edge_top is None else edge_top[offsets[1] :]
        rows[offsets[1] : offsets[2]] += bigram.max()
        rows[offsets[2] :] += shift
        if hyper_top is not None:
            rows[offsets[2] :] += hyper_top[offsets[2] :]
    log_z = _sum_rows(rows, packing)
    if not any(want):
        return log_z, (None,) * 5

    pair = unary.new_zeros(packing.rows, y, y) if want[2] else None
    triple = unary.new_zeros(packing.rows, y, y, y) if want[4] else None
    grad_tri = torch.zeros_like(step) if want[1] or want[3] else None  # [j, i, k], without the factor `step`
    grad_first = torch.zeros_like(first)
    unary_grad = torch.empty_like(unary)
    beta: Tensor | None = None  # [k, b, j] of position t
    scale = None if weight is None else weight[packing.sequence]
    for t in range(steps - 1, 0, -1):
        here, size = slice(offsets[t], offsets[t + 1]), sizes[t]
        now = alpha[t - 1].new_ones(y, size, y)
        if beta is not None:
            now[:, : beta.shape[1]] = beta
        v = now.permute(2, 1, 0) * (p[here] / norm[here, None])  # [j, b, k]
        if edge is not None:
            v.mul_(edge[:, here])
        both_ways = alpha[t - 1] * now  # p(y_{t-1}=j, y_t=k | x) as [k, b, j]
        if scale is not None:
            both_ways *= scale[here, None]
        unary_grad[here] = both_ways.sum(2).T
        if pair is not None:
            pair[here] = both_ways.permute(1, 2, 0)
        if t == 1:
            before = (v * first[:, None, :]).sum(2).T  # [b, j]
            weighted = start[:size] if scale is None else start[:size] * scale[here, None]
            grad_first = torch.einsum("bj,jbk->jk", weighted, v) * first
            tail = unary.new_ones(sizes[0], y)
            tail[:size] = before
            unary_grad[: sizes[0]] = start * tail * (1.0 if scale is None else scale[: sizes[0], None])
            continue
        left = alpha[t - 2][:, :size]  # [j, b, i]
        weighted = left if scale is None else left * scale[here, None]
        if hyper is None:
            if grad_tri is not None:
                grad_tri.baddbmm_(weighted.transpose(1, 2), v)
            beta = torch.bmm(v, step.transpose(1, 2))  # [j, b, i]
            if triple is not None:
                triple[here] = torch.einsum("jbi,jik,jbk->bijk", weighted, step, v)
        else:
            full = torch.einsum("jbi,bijk,jbk->bijk", weighted, hyper[here], v)
            if grad_tri is not None:
                grad_tri += full.sum(0).permute(1, 0, 2)
            if triple is not None:
                triple[here] = full * step.permute(1, 0, 2)
            beta = torch.einsum("jik,bijk,jbk->jbi", step, hyper[here], v)
    if steps == 1:
        unary_grad[:] = start * (1.0 if scale is None else scale[:, None])
    grad_bigram = grad_trigram = None
    if grad_tri is not None:
        expected = grad_tri * step  # [j, i, k]
        grad_bigram = expected.sum(1) + grad_first if want[1] else None
        grad_trigram = expected.permute(1, 0, 2).contiguous() if want[3] else None
    return log_z, (unary_grad, grad_bigram, pair, grad_trigram, triple)


def _by_logs(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """The same by sums of logs and automatic differentiation: slow, and right for any finite potentials."""
    with torch.enable_grad():
        n, y = potentials.unary.shape
        shapes = ((n, y), (y, y), (n, y, y), (y, y, y), (n, y, y, y))
        leaves = [  # a wanted marginal whose table is absent is the gradient in a table of zeros
            None if x is None and not wanted else (potentials.unary.new_zeros(shape) if x is None else x.detach().clone())
            for x, wanted, shape in zip(potentials.tensors(), want, shapes, strict=True)
        ]
        for x, wanted in zip(leaves, want, strict=True):
            if x is not None:
                x.requires_grad_(wanted)
        packing = potentials.packing
        local = Potentials(packing, *leaves)  # type: ignore[arg-type]
        state: Tensor | None = None
        ends = []
        for t, size in enumerate(packing.batch_sizes):
            state = _log_step(local, state, t, torch.logsumexp)
            following = packing.batch_sizes[t + 1] if t + 1 < len(packing.batch_sizes) else 0
            ends.append(state[following:size].flatten(1).logsumexp(1))  # sequences whose last position is t
        log_z = torch.cat(ends[::-1])
        asked = [x for x in leaves if x is not None and x.requires_grad]
        total = (log_z if weight is None else log_z * weight).sum()
        found = iter(torch.autograd.grad(total, asked, allow_unused=True) if asked else ())
    grads: list[Tensor | None] = []
    for x in leaves:
        g = next(found) if x is not None and x.requires_grad else None
        grads.append(torch.zeros_like(x) if g is None and x is not None and x.requires_grad else g)
    return log_z.detach(), tuple(grads)  # type: ignore[return-value]


def _log_step(potentials: Potentials, state: Tensor | None, t: int, reduce: Any) -> Tensor:
    """One position in the log domain: [b, k] (order 1, and position 0) or [b, j, k] (order 2); `reduce` sums i or j out."""
    packing = potentials.packing
    here, size = slice(packing.offsets[t], packing.offsets[t + 1]), packing.batch_sizes[t]
    unary = potentials.unary[here]
    if t == 0 or state is None:
        return unary
    edge = _edge_table(potentials, here)
    if potentials.order == 1:
        return reduce(state[:size, :, None] + edge, 1) + unary  # type: ignore[no-any-return]
    if t == 1:
        return state[:size, :, None] + edge + unary[:, None, :]
    return reduce(state[:size, :, :, None] + _triple_table(potentials, here), 1) + edge + unary[:, None, :]  # type: ignore[no-any-return]


def _edge_table(potentials: Potentials, here: slice) -> Tensor:
    """[b or 1, j, k] all bigram log-potentials of the rows `here`."""
    table = _shared_or_zero(potentials.bigram, potentials.unary, 2)[None]
    return table if potentials.edge is None else table + potentials.edge[here]


def _triple_table(potentials: Potentials, here: slice) -> Tensor:
    """[b or 1, i, j, k] all trigram log-potentials of the rows `here`."""
    table = _shared_or_zero(potentials.trigram, potentials.unary, 3)[None]
    return table if potentials.hyperedge is None else table + potentials.hyperedge[here]


def _shared_or_zero(table: Tensor | None, like: Tensor, dims: int) -> Tensor:
    return like.new_zeros((like.shape[1],) * dims) if table is None else table


def _sum_rows(rows: Tensor, packing: Packing) -> Tensor:
    """[N] -> [B]: the sum over the rows of each sequence."""
    return rows.new_zeros(len(packing.lengths)).index_add(0, packing.sequence, rows)


# ---------------------------------------------------------------------------------------------- the best sequences


def viterbi(potentials: Potentials) -> tuple[Tensor, Tensor]:
    """Most probable label sequences: labels [N] and their log-potentials [B]; no gradient."""
    labels, scores = k_best(potentials, 1)
    return labels[0], scores[0]


def k_best(potentials: Potentials, k: int) -> tuple[Tensor, Tensor]:
    """The k most probable label sequences of each chain, best first; no gradient.

    Returns:
        labels [k, N] and log-potentials [k, B]; where a chain has fewer than k sequences, the score is -inf and the labels 0.
    """
    with torch.no_grad():
        p = potentials.detach()
        packing, y = p.packing, p.labels
        minus = float("-inf")
        # score[b, state, rank]; a state is a label (order 1, and position 0) or the pair (j, k) flattened
        score = p.unary.new_full((packing.batch_sizes[0], y, k), minus)
        score[:, :, 0] = p.unary[: packing.batch_sizes[0]]
        back: list[Tensor] = []  # of position t >= 1: [b, state, rank] -> previous label * k + previous rank
        finals: list[Tensor] = [score]
        for t in range(1, len(packing.batch_sizes)):
            here, size = slice(packing.offsets[t], packing.offsets[t + 1]), packing.batch_sizes[t]
            unary, edge = p.unary[here], _edge_table(p, here)
            if p.order == 1:
                grown = score[:size, :, None, :] + edge[..., None]  # [b, j, k, rank]
                flat = grown.permute(0, 2, 1, 3).reshape(size, y, y * k)
                best, where = flat.topk(min(k, y * k), -1)
                best = best + unary[:, :, None]
            elif t == 1:
                best = score[:size, :, None, :] + edge[..., None] + unary[:, None, :, None]
                where = torch.arange(k, device=best.device).expand_as(best).contiguous()
                best, where = best.flatten(1, 2), where.flatten(1, 2)
            else:
                pairs = score[:size].view(size, y, y, 1, k)  # [b, i, j, ., rank]
                grown = pairs + _triple_table(p, here)[..., None]
                flat = grown.permute(0, 2, 3, 1, 4).reshape(size, y * y, y * k)  # [b, (j k), i rank]
                best, where = flat.topk(min(k, y * k), -1)
                best = best + (edge + unary[:, None, :]).flatten(1)[..., None]
            score = best
            back.append(where)
            finals.append(score)
        return _follow(p, k, finals, back)


def _follow(p: Potentials, k: int, finals: list[Tensor], back: list[Tensor]) -> tuple[Tensor, Tensor]:
    packing, y = p.packing, p.labels
    labels = torch.zeros(k, packing.rows, dtype=torch.long, device=p.unary.device)
    scores = p.unary.new_full((k, len(packing.lengths)), float("-inf"))
    state = rank = torch.empty(0, dtype=torch.long)
    alive = 0
    for t in range(len(packing.batch_sizes) - 1, -1, -1):
        size = packing.batch_sizes[t]
        if size > alive:  # chains that end here start here
            ending = finals[t][alive:size]
            best, where = ending.flatten(1).topk(min(k, ending[0].numel()), -1)
            scores[: best.shape[1], alive:size] = best.T
            where = torch.nn.functional.pad(where, (0, k - where.shape[1]))
            new_state, new_rank = where // ending.shape[2], where % ending.shape[2]
            state = torch.cat([state, new_state]) if alive else new_state
            rank = torch.cat([rank, new_rank]) if alive else new_rank
            alive = size
        rows = slice(packing.offsets[t], packing.offsets[t + 1])
        pairs = p.order == 2 and t >= 1
        labels[:, rows] = (state % y if pairs else state).T
        if t:
            where = back[t - 1].flatten(1).gather(1, state * back[t - 1].shape[2] + rank)
            if p.order == 1:
                state, rank = where // k, where % k
            elif t == 1:
                state, rank = state // y, where
            else:
                state, rank = (where // k) * y + state // y, where % k
    return labels, scores


def sample(potentials: Potentials, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, N] label sequences drawn from p(y | x), each chain on its own: forward filtering, backward sampling; no gradient."""
    with torch.no_grad():
        p = potentials.detach().to(torch.float64)
        packing, y = p.packing, p.labels
        states: list[Tensor] = []
        for t in range(len(packing.batch_sizes)):
            states.append(_log_step(p, states[-1] if states else None, t, torch.logsumexp))
        labels = torch.zeros(n, packing.rows, dtype=torch.long, device=p.unary.device)

        def draw(logits: Tensor) -> Tensor:  # [n, states] -> [n]
            return torch.multinomial(torch.softmax(logits, -1), 1, generator=generator)[:, 0]

        for b, length in enumerate(packing.lengths):
            rows = [packing.offsets[t] + b for t in range(length)]
            last = draw(states[length - 1][b].flatten().expand(n, -1))
            labels[:, rows[-1]] = last % y
            if p.order == 2 and length > 1:
                labels[:, rows[-2]] = last // y
            for t in range(length - 1 - p.order, -1, -1):
                if p.order == 1:
                    table = _edge_table(p, slice(rows[t + 1], rows[t + 1] + 1))[0]
                    logits = states[t][b] + table[:, labels[:, rows[t + 1]]].T
                else:
                    table = _triple_table(p, slice(rows[t + 2], rows[t + 2] + 1))[0]
                    j, k = labels[:, rows[t + 1]], labels[:, rows[t + 2]]
                    logits = (states[t + 1][b][:, j] + table[:, j, k]).T
                labels[:, rows[t]] = draw(logits)
        return labels
