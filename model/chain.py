"""Exact inference on a linear chain of labels, of order 1 or 2 (Eqs. pcrf, Zcrf and the messages after them).

    N  packed rows (see packing.py)      B  sequences      Y  labels      T  longest sequence
    i, j, k  labels of positions t-2, t-1, t

The sweeps run on probabilities scaled position by position, so a step is one matrix product and holds no logarithm:

    order 1   alpha_t[b, k]    =  p_t[b, k]  sum_j alpha_{t-1}[b, j]     E[j, k]
    order 2   alpha_t[b, j, k] =  p_t[b, k]  sum_i alpha_{t-1}[b, i, j]  E[i, j, k]     (one product a middle label j)

with p = exp(unary - its maximum), E = exp(n-gram log-potentials - their maximum). The gradient of log Z is the marginals:
one forward and one backward sweep give both.

Why scaling is safe. A label is lost at a position only if its p underflows: if it lies e^-87 (float32) or e^-708 (float64)
below the best one there. Its n-grams can lift it again by the range of E, once for each n-gram that it takes part in: twice
in a chain of order 1, three times in one of order 2. If they cannot lift it to where it counts, nothing is lost, however
large the unary potentials are. So the range of the n-gram log-potentials alone decides whether float32 is exact, or float64
is needed, or (beyond that) sums of logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from model.packing import Packing

# n-gram range in nats up to which what a dtype loses is less than its own rounding: (87 - 15) and (708 - 36) nats, over 2 or 3
_SAFE_RANGE = {(1, torch.float32): 36.0, (1, torch.float64): 336.0, (2, torch.float32): 24.0, (2, torch.float64): 224.0}


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
        for table, posterior, shared, skip in (
            (p.bigram, post.pair, True, 1), (p.edge, post.pair, False, 1),
            (p.trigram, post.triple, True, 2), (p.hyperedge, post.triple, False, 2),
        ):  # fmt: skip
            if table is not None and posterior is not None:
                rows = slice(p.packing.offsets[min(skip, len(p.packing.offsets) - 1)], None)
                expected[rows] += ((table if shared else table[rows]) * posterior[rows]).flatten(1).sum(1)
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
    """Nats between the largest and the smallest n-gram log-potential of a position (an upper bound where tables add up)."""
    spread = 0.0
    for table in (potentials.bigram, potentials.trigram):
        if table is not None:
            spread += float(table.amax() - table.amin())
    offsets = potentials.packing.offsets
    for table, start in ((potentials.edge, offsets[1]), (potentials.hyperedge, offsets[min(2, len(offsets) - 1)])):
        if table is not None and start < table.shape[0]:
            rows = table[start:].flatten(1)
            spread += float((rows.amax(1) - rows.amin(1)).max())
    return spread


def _sweep_first(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    # Both directions have one form, m_t = p_t * (m_{t-1} E), with E transposed for the way back. They run side by side as
    # rows of 2Y, the second half over the sequences turned round: one product with a block matrix is a step of both. Each
    # half is scaled on its own, and the products of halves row by row afterwards.
    packing, unary = potentials.packing, potentials.unary
    y, sizes = potentials.labels, list(packing.batch_sizes)
    later = slice(packing.offsets[1], packing.offsets[-1])
    table = _shared_or_zero(potentials.bigram, unary, 2)
    shift = table.max()
    shared = torch.exp(table - shift)  # [j, k]
    if not any(want):
        return _forward_first(potentials, shared, shift), (None,) * 5
    back = packing.reversal
    top = unary.amax(1)
    p = torch.exp(unary - top[:, None])
    local = None if potentials.edge is None else _local_table(potentials.edge, shared)
    both_p = torch.cat([p, p.index_select(0, back)], 1)
    arrived = torch.ones_like(both_p)  # m_{t-1} E, before p_t comes in
    message = torch.empty_like(both_p)
    norm = p.new_empty(packing.rows, 2, 1)
    ways = torch.block_diag(shared, shared.T)
    before = both_p
    pieces = (x.split(sizes) for x in (both_p, arrived, message, message.view(-1, 2, y), norm))
    for t, (p_t, s_t, m_t, halves, c_t) in enumerate(zip(*pieces, strict=True)):
        if t:
            if sizes[t] < len(before):
                before = before[: sizes[t]]
            if local is None:
                torch.mm(before, ways, out=s_t)
            else:
                _step_local(before, local[0], packing, t, s_t)
        torch.mul(s_t, p_t, out=m_t)
        torch.sum(halves, 2, keepdim=True, out=c_t)
        halves.div_(c_t)
        before = m_t
    rows = norm[:, 0, 0].log() + top
    rows[later] += shift
    if local is not None:
        rows[later] += local[1][later]
    log_z = _sum_rows(rows, packing)

    turned = back[later]
    beta = arrived[:, y:].index_select(0, back)
    posterior = message[:, :y] * beta
    total = posterior.sum(1, keepdim=True)
    posterior.div_(total)
    # p(y_{t-1}=j, y_t=k) is alpha_{t-1}[j] E[j,k] v[k] over its sum, which is that of alpha_{t-1} beta_{t-1}
    previous = packing.neighbour(-1)[later]
    alpha = message[:, :y].index_select(0, previous)
    v = message[:, y:].index_select(0, turned)
    pair = bigram = None
    if local is not None and (want[1] or want[2]):
        pair = p.new_zeros(y, y, packing.rows)  # [j, k, N], the factors' own order
        torch.mul(local[0][:, :, later], alpha.T[:, None, :] * v.T[None, :, :], out=pair[:, :, later])
        pair[:, :, later] /= pair[:, :, later].sum((0, 1))
        pair = pair.permute(2, 0, 1)
    elif want[1] or want[2]:
        alpha.div_(total.index_select(0, previous))
        if want[2]:
            pair = p.new_zeros(packing.rows, y, y)
            torch.mul(shared, alpha[:, :, None] * v[:, None, :], out=pair[later])
    if weight is not None:
        per_row = weight[packing.sequence]
        posterior.mul_(per_row[:, None])
        v.mul_(per_row[later, None])
        pair = pair if pair is None else pair * per_row[:, None, None]
    if want[1]:
        bigram = (alpha.T @ v).mul_(shared) if local is None else pair[later].sum(0)  # type: ignore[index]
    return log_z, (posterior, bigram, pair if want[2] else None, None, None)


def _forward_first(potentials: Potentials, shared: Tensor, shift: Tensor) -> Tensor:
    """[B] log Z alone."""
    packing, unary = potentials.packing, potentials.unary
    top = unary.amax(1)
    message = torch.exp(unary - top[:, None])
    local = None if potentials.edge is None else _local_table(potentials.edge, shared)
    norm = torch.empty_like(top)
    before: Tensor | None = None
    for t, size in enumerate(packing.batch_sizes):
        here = slice(packing.offsets[t], packing.offsets[t + 1])
        m = message[here]
        if before is not None:
            arriving = (
                before[:size] @ shared if local is None else (before[:size].T[:, None] * local[0][:, :, here]).sum(0).T
            )
            m.mul_(arriving)
        torch.sum(m, 1, out=norm[here])
        m.div_(norm[here, None])
        before = m
    rows = norm.log() + top
    rows[packing.offsets[1] :] += shift
    if local is not None:
        rows[packing.offsets[1] :] += local[1][packing.offsets[1] :]
    return _sum_rows(rows, packing)


def _local_table(edge: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
    """([j, k, N] exp of shared and local log-potentials less the local maximum, [N] that maximum)."""
    turned = edge.permute(1, 2, 0).contiguous()  # no copy where the factor made it in this order
    top = turned.flatten(0, 1).amax(0)
    return torch.exp(turned - top).mul_(shared[:, :, None]), top


def _step_local(before: Tensor, table: Tensor, packing: Packing, t: int, out: Tensor) -> None:
    """One step of both directions, [b, 2Y], where each position has a table of its own, [j, k, N]."""
    y, size = table.shape[0], before.shape[0]
    here = slice(packing.offsets[t], packing.offsets[t + 1])
    torch.sum(before[:, :y].T[:, None, :] * table[:, :, here], 0, out=out[:, :y].T)
    # the t-th row of a sequence turned round is reached over the edge of the row before it
    rows = packing.reversal[packing.offsets[t - 1] : packing.offsets[t - 1] + size]
    torch.sum(before[:, y:].T[None, :, :] * table[:, :, rows], 1, out=out[:, y:].T)


def _sweep_second(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    # States are pairs. Arrays of position t are [y_{t-1}, y_t, sequence], sequences last: the step to t+1 is then, for each
    # middle label, a product with a matrix that lies in memory as the library wants it, so nothing is ever turned round.
    if potentials.labels % 4 and potentials.edge is None and potentials.hyperedge is None and not (want[2] or want[4]):
        return _sweep_second_padded(potentials, want, weight)
    packing, unary = potentials.packing, potentials.unary
    y, sizes, offsets = potentials.labels, packing.batch_sizes, packing.offsets
    steps, widest = len(sizes), sizes[0]
    later, third = slice(offsets[1], offsets[-1]), slice(offsets[min(2, steps)], offsets[-1])
    top = unary.amax(1)
    p = torch.exp(unary - top[:, None]).T.contiguous()  # [k, N]
    bigram = _shared_or_zero(potentials.bigram, unary, 2)
    both = _shared_or_zero(potentials.trigram, unary, 3) + bigram
    shift = both.max()
    table = torch.exp(both - shift)  # [i, j, k]
    onward = table.permute(1, 2, 0).contiguous()  # [j, k, i]
    inward = table.permute(1, 0, 2).contiguous()  # [j, i, k]
    first = torch.exp(bigram - bigram.max())  # [j, k], used once, at the second position
    edge = edge_top = hyper = hyper_top = None
    if potentials.edge is not None:
        edge, edge_top = _local_table(potentials.edge, unary.new_ones(y, y))
    if potentials.hyperedge is not None:
        turned = potentials.hyperedge.permute(1, 2, 3, 0)
        hyper_top = turned.flatten(0, 2).amax(0)
        hyper = torch.exp(turned - hyper_top)  # [i, j, k, N]

    norm = torch.empty_like(top)
    start = p[:, :widest] / p[:, :widest].sum(0)  # [j, b]
    norm[:widest] = p[:, :widest].sum(0)
    alpha: list[Tensor] = []  # of position t >= 1, [j, k, b]
    store = unary.new_empty(y * y * (packing.rows - widest) if steps > 1 else 0)
    for t in range(1, steps):
        here, size = slice(offsets[t], offsets[t + 1]), sizes[t]
        at = (offsets[t] - widest) * y * y
        s = store[at : at + y * y * size].view(y, y, size)
        if t == 1:
            torch.mul(start[:, None, :size], first[:, :, None], out=s)
        elif hyper is None:
            torch.bmm(onward, alpha[-1].transpose(0, 1)[:, :, :size], out=s)
        else:
            torch.sum(alpha[-1][:, :, None, :size] * hyper[..., here] * table[..., None], 0, out=s)
        s.mul_(p[:, here])
        if edge is not None:
            s.mul_(edge[:, :, here])
        torch.sum(s.view(y * y, size), 0, out=norm[here])
        s.div_(norm[here])
        alpha.append(s)
    rows = norm.log() + top
    if steps > 1:
        rows[offsets[1] : offsets[2]] += bigram.max()
        rows[third] += shift
        if edge_top is not None:
            rows[later] += edge_top[later]
        if hyper_top is not None:
            rows[third] += hyper_top[third]
    log_z = _sum_rows(rows, packing)
    if not any(want):
        return log_z, (None,) * 5

    scale = None if weight is None else weight[packing.sequence]
    p.div_(norm)  # from here on p_t / c_t
    unary_grad = torch.empty(y, packing.rows, dtype=unary.dtype, device=unary.device)
    pair = torch.zeros(y, y, packing.rows, dtype=unary.dtype, device=unary.device) if want[2] else None
    triple = unary.new_zeros(y, y, y, packing.rows) if want[4] else None
    expected = torch.zeros_like(inward) if want[1] or want[3] else None  # [j, i, k], without the factor `table`
    expected_first = torch.zeros_like(first)
    beta = unary.new_ones(y, y, widest)  # of position t, as [y_t, y_{t-1}, b]: what the step back brings
    room_v, room_m = unary.new_empty(y * y * widest), unary.new_empty(y * y * widest)
    for t in range(steps - 1, 0, -1):
        here, size = slice(offsets[t], offsets[t + 1]), sizes[t]
        now = beta[:, :, :size].transpose(0, 1)  # [j, k, b]; ones where a sequence ends
        v = torch.mul(now, p[:, here], out=room_v[: y * y * size].view(y, y, size))
        if edge is not None:
            v.mul_(edge[:, :, here])
        joint = torch.mul(alpha[t - 1], now, out=room_m[: y * y * size].view(y, y, size))  # p(y_{t-1}=j, y_t=k | x)
        if scale is not None:
            joint.mul_(scale[here])
            v_weighted = v * scale[here]
        else:
            v_weighted = v
        torch.sum(joint, 0, out=unary_grad[:, here])
        if pair is not None:
            pair[:, :, here] = joint
        if t == 1:
            expected_first = torch.einsum("jb,jkb->jk", start[:, :size], v_weighted) * first
            tail = unary.new_ones(y, widest)
            tail[:, :size] = (v * first[:, :, None]).sum(1)
            unary_grad[:, :widest] = start * tail
            continue
        left = alpha[t - 2][:, :, :size]  # [i, j, b]
        if hyper is None:
            if expected is not None:
                expected.baddbmm_(left.transpose(0, 1), v_weighted.transpose(1, 2))
            if triple is not None:
                triple[..., here] = left[:, :, None] * table[..., None] * v_weighted
            fresh = torch.bmm(inward, v)  # [j, i, b]
        else:
            full = hyper[..., here] * table[..., None]
            if expected is not None or triple is not None:
                moved = left[:, :, None] * full * v_weighted
                if expected is not None:
                    expected += (moved.sum(3) / table).permute(1, 0, 2)
                if triple is not None:
                    triple[..., here] = moved
            fresh = (full * v).sum(2).transpose(0, 1)
        beta[:, :, :size] = fresh
    if steps == 1:
        unary_grad[:] = start
    if scale is not None:
        unary_grad[:, :widest] *= scale[:widest]
    grad_bigram = grad_trigram = None
    if expected is not None:
        expected.mul_(inward)
        grad_bigram = expected.sum(1) + expected_first if want[1] else None
        grad_trigram = expected.permute(1, 0, 2) if want[3] else None
    return log_z, (
        unary_grad.T,
        grad_bigram,
        None if pair is None else pair.permute(2, 0, 1),
        grad_trigram,
        None if triple is None else triple.permute(3, 0, 1, 2),
    )


def _sweep_second_padded(
    potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None
) -> tuple[Tensor, Gradients]:
    """The same with labels of probability zero added up to a multiple of four: the products are a third faster for it."""
    y = potentials.labels
    extra = -y % 4
    tables = [
        None if x is None else nn.functional.pad(x, (0, extra) * n)
        for x, n in ((potentials.bigram, 2), (potentials.trigram, 3))
    ]
    unary = nn.functional.pad(potentials.unary, (0, extra), value=float("-inf"))
    log_z, grads = _sweep_second(Potentials(potentials.packing, unary, tables[0], None, tables[1]), want, weight)
    return log_z, tuple(
        None if g is None else (g[:, :y] if n == 0 else g[(slice(0, y),) * g.dim()]) for n, g in enumerate(grads)
    )  # type: ignore[return-value]


def _by_logs(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """The same by sums of logs and automatic differentiation: slow, and right for any finite potentials."""
    with torch.enable_grad():
        n, y = potentials.unary.shape
        shapes = ((n, y), (y, y), (n, y, y), (y, y, y), (n, y, y, y))
        leaves = [  # a wanted marginal whose table is absent is the gradient in a table of zeros
            None
            if x is None and not wanted
            else (potentials.unary.new_zeros(shape) if x is None else x.detach().clone())
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
