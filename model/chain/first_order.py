"""The sweeps of a chain of order 1 on scaled probabilities (scaling.py says when they are exact).

Axes: see the package.

    alpha_t[b, k]  =  p_t[b, k]  sum_j alpha_{t-1}[b, j] E[j, k]

A step is one matrix product. It is scaled as often as necessary (`_steps_without_scaling`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Gradients, Potentials, Want, shared_or_zero, sum_rows
from phonechain.model.chain.scaling import SAFE_RANGE, local_table


def sweep(potentials: Potentials, want: Want, weight: Tensor | None, spread: float) -> tuple[Tensor, Gradients]:
    """log Z [B], float64, and its gradients where wanted, weighted by sequence if given; `spread`: range of the bigrams, nats."""
    packing, y = potentials.packing, potentials.labels
    rest = _steps_without_scaling(spread, potentials.unary.dtype)
    shared, shift, local = _tables(potentials, spread)
    p, scale = _normalise(potentials.unary, shared.shape[0])
    if not any(want):
        return _forward(packing, p, scale, shared, shift, local, rest), Gradients()
    message, norm = _run_both(packing, p, shared, local, rest)
    alpha, v = message[0], message[1].index_select(0, packing.reversal)
    if norm is not None:
        scale.add_(norm[0, :, 0].log())
    log_z = _sum_logs(packing, scale, alpha.index_select(0, packing.last), shift, local)

    # p(y_t=k) is alpha_t[k] beta_t[k] over its sum. That is s_t[k] v_t[k], with s_t = alpha_{t-1} E and v_t = p_t beta_t, and
    # p(y_{t-1}=j, y_t=k) is alpha_{t-1}[j] E[j,k] v_t[k] over the same sum. Where p_t is zero, so is v_t.
    posterior = alpha / p.clamp_min_(torch.finfo(p.dtype).tiny)  # s_t
    if norm is not None:
        posterior.mul_(norm[0])
    v.div_((posterior * v).sum(1, keepdim=True))
    posterior.mul_(v)
    if weight is not None:
        per_row = weight[packing.sequence][:, None]
        posterior.mul_(per_row)
        v.mul_(per_row)
    bigram, edge = _pair_gradients(packing, alpha, v, shared, local, y, want)
    return log_z, Gradients(posterior[:, :y] if want.unary else None, bigram, edge)


def _run_both(
    packing: Packing, p: Tensor, shared: Tensor, local: _Local | None, rest: int
) -> tuple[Tensor, Tensor | None]:
    """Messages of both directions [2, N, Y], and what they were divided by [2, N, 1] if anything.

    Both have the same form, m_t = p_t * (m_{t-1} E), with E transposed for the backward one. They run side by side, the
    second over the reversed sequences, so that one batched product is a step of both. Each is scaled on its own.
    """
    sizes, offsets, width = packing.batch_sizes, packing.offsets, shared.shape[0]
    message = torch.stack([p, p.index_select(0, packing.reversal)])  # p_t as yet
    norm = p.new_ones(2, packing.rows, 1) if rest <= len(sizes) else None
    ways = torch.stack([shared, shared.T])
    room = p.new_empty(2 * sizes[0] * width)
    before = arriving = room[:0].view(2, 0, width)
    for t, (size, m_t) in enumerate(zip(sizes, message.split(sizes, 1), strict=True)):
        if t:
            if size != arriving.shape[1]:
                arriving = room[: 2 * size * width].view(2, size, width)
                before = before[:, :size]
            if local is None:
                torch.bmm(before, ways, out=arriving)
            else:
                _step_local(before, local[0], packing, t, arriving)
            m_t.mul_(arriving)
        if norm is not None and t % rest == rest - 1:
            c_t = norm[:, offsets[t] : offsets[t + 1]]
            torch.sum(m_t, 2, keepdim=True, out=c_t)
            m_t.div_(c_t)
        before = m_t
    return message, norm


def _pair_gradients(
    packing: Packing, alpha: Tensor, v: Tensor, shared: Tensor, local: _Local | None, y: int, want: Want
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the shared bigrams [Y, Y] and of the local ones [N, Y, Y], where wanted."""
    if not (want.bigram or want.edge):
        return None, None
    later = slice(packing.offsets[1], packing.offsets[-1])
    v = v[later]
    alpha = alpha.index_select(0, packing.neighbour(-1)[later])
    pair = bigram = None
    if local is not None or want.edge:
        pair = v.new_zeros(y, y, packing.rows)  # [j, k, N], the factors' own order
        table = shared[:y, :y, None] if local is None else local[0][:, :, later]
        torch.mul(table, alpha.T[:y, None, :] * v.T[None, :y, :], out=pair[:, :, later])
    if want.bigram and (local is None or pair is None):
        bigram = (alpha.T @ v).mul_(shared)[:y, :y]
    elif want.bigram and pair is not None:
        bigram = pair[:, :, later].sum(2)
    return bigram, pair.permute(2, 0, 1) if pair is not None and want.edge else None


def _forward(
    packing: Packing, message: Tensor, scale: Tensor, shared: Tensor, shift: Tensor, local: _Local | None, rest: int
) -> Tensor:
    """[B] log Z alone; `message` is p, and is overwritten."""
    before = message
    for t, (m, row_scale) in enumerate(
        zip(message.split(packing.batch_sizes), scale.split(packing.batch_sizes), strict=True)
    ):
        if t:
            before = before[: len(m)]
            here = slice(packing.offsets[t], packing.offsets[t + 1])
            m.mul_(before @ shared if local is None else (before.T[:, None] * local[0][:, :, here]).sum(0).T)
        if t % rest == rest - 1:
            c = m.sum(1, keepdim=True)
            m.div_(c)
            row_scale.add_(c[:, 0].log())
        before = m
    return _sum_logs(packing, scale, message.index_select(0, packing.last), shift, local)


_Local = tuple[Tensor, Tensor]
"""exp of the bigram log-potentials of each position [j, k, N], less their maxima [N]."""


def _tables(potentials: Potentials, spread: float) -> tuple[Tensor, Tensor, _Local | None]:
    """exp of the bigram log-potentials, scaled to lie within e^(+-spread/2): shared [j, k], log of their scale, local.

    Without local ones the labels are padded with zeros to a multiple of four, which makes a product a third faster.
    """
    table = shared_or_zero(potentials.bigram, potentials.unary, 2)
    shift = table.max() - spread / 2
    shared = torch.exp(table - shift)
    if potentials.edge is not None:
        return shared, shift, local_table(potentials.edge, shared)
    return nn.functional.pad(shared, (0, -len(table) % 4) * 2), shift, None


def _normalise(unary: Tensor, labels: int) -> tuple[Tensor, Tensor]:
    """exp(unary) [N, Y] normalised to rows that sum to one, zero-padded to `labels`; and [N] log of the row sums, float64."""
    low, high = unary.aminmax()
    as_it_is = (
        float(torch.maximum(high, -low)) <= SAFE_RANGE[1, unary.dtype]
    )  # as a rule; else each row less its maximum
    top = unary.new_zeros(()) if as_it_is else unary.amax(1, keepdim=True)
    shifted = unary if as_it_is else unary - top
    p = nn.functional.pad(shifted, (0, labels - unary.shape[1]), value=float("-inf")).exp_()
    total = p.sum(1, keepdim=True)
    return p.div_(total), (total.log().double() + top)[:, 0]


def _steps_without_scaling(spread: float, dtype: torch.dtype) -> int:
    """Steps of a chain of order 1 from one scaling to the next, at least two.

    Each changes the sum of a message by spread / 2 at most, for p sums to one. The product of the two messages changes by
    twice that, and stays as exact as the safe range promises while all steps together change it by twice that range.
    """
    return int(2 * SAFE_RANGE[1, dtype] / max(spread, 1e-3))


def _sum_logs(packing: Packing, scale: Tensor, ends: Tensor, shift: Tensor, local: _Local | None) -> Tensor:
    """[B] log Z: the logs [N] of what the rows were divided by, and the log of the sums of the last ones [B, Y]."""
    later = slice(packing.offsets[1], packing.offsets[-1])
    scale[later] += shift if local is None else local[1][later].double() + shift
    return sum_rows(scale, packing) + ends.sum(1).log()


def _step_local(before: Tensor, table: Tensor, packing: Packing, t: int, out: Tensor) -> None:
    """One step of both directions, [2, b, Y], where each position has a table of its own, [j, k, N]."""
    size = before.shape[1]
    here = slice(packing.offsets[t], packing.offsets[t + 1])
    torch.sum(before[0].T[:, None, :] * table[:, :, here], 0, out=out[0].T)
    # the t-th row of a reversed sequence is reached over the edge of the row before it
    rows = packing.reversal[packing.offsets[t - 1] : packing.offsets[t - 1] + size]
    torch.sum(before[1].T[None, :, :] * table[:, :, rows], 1, out=out[1].T)
