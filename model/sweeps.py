"""The forward and backward sweeps of a chain: log Z and its gradients, which are the marginals.

    N  packed rows (see packing.py)      B  sequences      Y  labels      T  longest sequence
    i, j, k  labels of positions t-2, t-1, t

The sweeps run on scaled probabilities, so a step is one matrix product and holds no logarithm:

    order 1   alpha_t[b, k]    =  p_t[b, k]  sum_j alpha_{t-1}[b, j]     E[j, k]
    order 2   alpha_t[b, j, k] =  p_t[b, k]  sum_i alpha_{t-1}[b, i, j]  E[i, j, k]     (one product a middle label j)

with p = exp(unary) and E = exp(n-gram log-potentials), both scaled. The gradient of log Z is the marginals: one forward and
one backward sweep give both. Order 2 scales every position, order 1 as often as it needs (`_steps_without_scaling`).

Why scaling is safe. A label is lost at a position only if its p underflows: if it lies e^-87 (float32) or e^-708 (float64)
below the best one there. Its n-grams can lift it again by the range of E, once for each n-gram that it takes part in: twice
in a chain of order 1, three times in one of order 2. If they cannot lift it to where it counts, nothing is lost, however
large the unary potentials are. So the range of the n-gram log-potentials alone decides whether float32 is exact, or float64
is needed, or (beyond that) sums of logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.packing import Packing
from model.potentials import Potentials, log_step, shared_or_zero, sum_rows

# n-gram range in nats up to which what a dtype loses is less than its own rounding: (87 - 15) and (708 - 36) nats, over 2 or 3
_SAFE_RANGE = {(1, torch.float32): 36.0, (1, torch.float64): 336.0, (2, torch.float32): 24.0, (2, torch.float64): 224.0}

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def log_z_and_gradients(
    potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None = None
) -> tuple[Tensor, Gradients]:
    """log Z [B] and its gradients in the five potentials (None where not wanted), weighted by sequence if asked.

    The shared tables' gradients are sums over rows; the others' are marginals.
    """
    dtype = potentials.unary.dtype
    spread = _ngram_range(potentials)
    order = potentials.order
    if dtype == torch.float32 and spread > _SAFE_RANGE[order, torch.float32]:
        log_z, grads = log_z_and_gradients(
            potentials.to(torch.float64), want, None if weight is None else weight.to(torch.float64)
        )
        return log_z.to(dtype), tuple(None if g is None else g.to(dtype) for g in grads)  # type: ignore[return-value]
    if not spread <= _SAFE_RANGE[order, torch.float64]:
        return _by_logs(potentials, want, weight)
    return _sweep_first(potentials, want, weight, spread) if order == 1 else _sweep_second(potentials, want, weight)


def _ngram_range(potentials: Potentials) -> float:
    """Nats between the largest and the smallest n-gram log-potential of a position (an upper bound where tables add up)."""
    spread = 0.0
    for table in (potentials.bigram, potentials.trigram):
        if table is not None:
            low, high = table.aminmax()
            spread += float(high - low)
    offsets = potentials.packing.offsets
    for table, start in ((potentials.edge, offsets[1]), (potentials.hyperedge, offsets[min(2, len(offsets) - 1)])):
        if table is not None and start < table.shape[0]:
            rows = table[start:].flatten(1)
            spread += float((rows.amax(1) - rows.amin(1)).max())
    return spread


def _sweep_first(
    potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None, spread: float
) -> tuple[Tensor, Gradients]:
    # Both directions have one form, m_t = p_t * (m_{t-1} E), with E transposed for the way back. They run side by side, the
    # second over the sequences turned round: a pair of products is a step of both. Each is scaled on its own, and what is
    # made of the two row by row afterwards.
    packing, y = potentials.packing, potentials.labels
    sizes, offsets = packing.batch_sizes, packing.offsets
    later = slice(offsets[1], offsets[-1])
    rest = _steps_without_scaling(spread, potentials.unary.dtype)
    shared, shift, local = _tables(potentials, spread)
    width = shared.shape[0]
    p, scale = _normalised(potentials.unary, width)
    if not any(want):
        return _forward_first(packing, p, scale, shared, shift, local, rest), (None,) * 5
    back = packing.reversal
    message = torch.stack([p, p.index_select(0, back)])  # [2, N, Y], p_t as yet
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
    alpha, v = message[0], message[1].index_select(0, back)
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
    pair = bigram = None
    if want[1] or want[2]:
        v = v[later]
        alpha = alpha.index_select(0, packing.neighbour(-1)[later])
        if local is not None or want[2]:
            pair = p.new_zeros(y, y, packing.rows)  # [j, k, N], the factors' own order
            table = shared[:y, :y, None] if local is None else local[0][:, :, later]
            torch.mul(table, alpha.T[:y, None, :] * v.T[None, :y, :], out=pair[:, :, later])
            pair = pair.permute(2, 0, 1)
        if want[1]:
            bigram = (alpha.T @ v).mul_(shared)[:y, :y] if local is None else pair[later].sum(0)  # type: ignore[index]
    return log_z, (posterior[:, :y], bigram, pair if want[2] else None, None, None)


def _forward_first(
    packing: Packing, message: Tensor, scale: Tensor, shared: Tensor, shift: Tensor, local: _Local | None, rest: int
) -> Tensor:
    """[B] log Z alone; `message` is p, and is written over."""
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
            row_scale.add_(c[:, 0].log_())
        before = m
    return _sum_logs(packing, scale, message.index_select(0, packing.last), shift, local)


_Local = tuple[Tensor, Tensor]
"""exp of the bigram log-potentials of each position [j, k, N], less their maxima [N]."""


def _tables(potentials: Potentials, spread: float) -> tuple[Tensor, Tensor, _Local | None]:
    """exp of the bigram log-potentials, scaled to lie within e^(+-spread/2): shared [j, k], log of their scale, local.

    Without local ones the labels are padded to a multiple of four by zeros: a product takes two thirds of the time for it.
    """
    table = shared_or_zero(potentials.bigram, potentials.unary, 2)
    shift = table.max() - spread / 2
    shared = torch.exp(table - shift)
    if potentials.edge is not None:
        return shared, shift, _local_table(potentials.edge, shared)
    return nn.functional.pad(shared, (0, -len(table) % 4) * 2), shift, None


def _normalised(unary: Tensor, labels: int) -> tuple[Tensor, Tensor]:
    """exp(unary) [N, Y] as rows that sum to one, padded by zeros to so many labels; [N] log of their sums."""
    low, high = unary.aminmax()
    as_it_is = max(float(high), -float(low)) <= _SAFE_RANGE[1, unary.dtype]  # as a rule; else each row less its maximum
    top = unary.new_zeros(()) if as_it_is else unary.amax(1, keepdim=True)
    shifted = unary if as_it_is else unary - top
    p = nn.functional.pad(shifted, (0, labels - unary.shape[1]), value=float("-inf")).exp_()
    total = p.sum(1, keepdim=True)
    return p.div_(total), (total.log() + top)[:, 0]


def _steps_without_scaling(spread: float, dtype: torch.dtype) -> int:
    """Steps of a chain of order 1 from one scaling to the next, at least two.

    Each moves the sum of a message, and what arrives, by spread / 2 at most, for p sums to one. The product of what arrives
    from both sides has twice that, and keeps what the safe range keeps as long as all steps move it by twice that range.
    """
    return int(2 * _SAFE_RANGE[1, dtype] / max(spread, 1e-3))


def _sum_logs(packing: Packing, scale: Tensor, ends: Tensor, shift: Tensor, local: _Local | None) -> Tensor:
    """[B] log Z: all that rows were divided by, as logs [N], and the log of what is left in the last ones [B, Y]."""
    later = slice(packing.offsets[1], packing.offsets[-1])
    scale[later] += shift if local is None else shift + local[1][later]
    return sum_rows(scale, packing) + ends.sum(1).log()


def _local_table(edge: Tensor, shared: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """([j, k, N] exp of the local log-potentials less their maximum, times `shared` [j, k] if given; [N] that maximum)."""
    turned = edge.permute(1, 2, 0).contiguous()  # no copy where the factor made it in this order
    top = turned.flatten(0, 1).amax(0)
    table = torch.exp(turned - top)
    return (table if shared is None else table.mul_(shared[:, :, None])), top


def _step_local(before: Tensor, table: Tensor, packing: Packing, t: int, out: Tensor) -> None:
    """One step of both directions, [2, b, Y], where each position has a table of its own, [j, k, N]."""
    size = before.shape[1]
    here = slice(packing.offsets[t], packing.offsets[t + 1])
    torch.sum(before[0].T[:, None, :] * table[:, :, here], 0, out=out[0].T)
    # the t-th row of a sequence turned round is reached over the edge of the row before it
    rows = packing.reversal[packing.offsets[t - 1] : packing.offsets[t - 1] + size]
    torch.sum(before[1].T[None, :, :] * table[:, :, rows], 1, out=out[1].T)


def _sweep_second(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    by_products = potentials.hyperedge is None and not want[4]
    if potentials.labels % 4 and by_products:
        return _sweep_second_padded(potentials, want, weight)
    forward = _forward_second(potentials, by_products)
    return forward.log_z, (_backward_second(forward, want, weight) if any(want) else (None,) * 5)


@dataclass(frozen=True)
class _ForwardSecond:
    """What the forward sweep of order 2 leaves for the backward one.

    States are pairs. Arrays of position t are [y_t, y_{t-1}, sequence], for y_t is the middle label of the next step, and a
    step is a product for each middle label. The products leave out a factor that depends on one label only; it is multiplied
    into what they give on the way to its place, where the labels have changed their order:

        a_t[j, k] = alpha_t[j, k] / p_t[k]        a_{t+1}[k, l] = p_t[k] sum_j E[j, k, l] a_t[j, k]
        v_t[j, k] = p_t[k] beta_t[j, k]           v_{t-1}[i, j] = sum_k E[i, j, k] u_t[j, k],   u_t = p_{t-1}[j] v_t

    a_t v_t is then p(y_{t-1}, y_t | x), and E a_{t-1} u_t that of three labels. Local bigrams come into a_t and u_t, local
    trigrams into E.

    Attributes:
        widths: sequences that position t computes, batch_sizes[t] or more. The products take half the time on sequences in
            eights, and on 16 rather than fewer. What is added runs along with p = 1 and beta = 0, and comes into nothing.
        places: [N] column of each packed row where these are more, else None.
        p: for each position [k, widths[t]], scaled.
        a: for each position [k, j, widths[t]]; the first is not used.
        table, first: [i, j, k] and [j, k] exp of the shared log-potentials, of a position and of the second one.
        edge, hyper: [j, k, N] exp of the local ones, and [i, j, k, N] times `table`, or None.
    """

    packing: Packing
    widths: list[int]
    places: Tensor | None
    log_z: Tensor
    p: tuple[Tensor, ...]
    a: list[Tensor]
    table: Tensor
    first: Tensor
    edge: Tensor | None
    hyper: Tensor | None


def _forward_second(potentials: Potentials, by_products: bool) -> _ForwardSecond:
    packing, unary = potentials.packing, potentials.unary
    y, sizes, offsets = potentials.labels, packing.batch_sizes, packing.offsets
    widths = [max(16, -(-n // 8) * 8) for n in sizes] if by_products else list(sizes)
    steps = len(sizes)
    top = unary.amax(1)
    packed = torch.exp(unary - top[:, None]).T.contiguous()  # [k, N]
    places = None
    if widths != list(sizes):
        starts = torch.tensor([0, *widths[:-1]], device=unary.device).cumsum(0)
        places = starts[packing.time] + packing.sequence
        packed = packed.new_ones(y, sum(widths)).index_copy_(1, places, packed)
    p = packed.split(widths, 1)
    bigram = shared_or_zero(potentials.bigram, unary, 2)
    both = shared_or_zero(potentials.trigram, unary, 3) + bigram
    shift = both.max()
    table = torch.exp(both - shift)
    onward = table.permute(1, 2, 0).contiguous()  # [j, k, i]
    first = torch.exp(bigram - bigram.max())
    edge = edge_top = hyper = hyper_top = None
    if potentials.edge is not None:
        edge, edge_top = _local_table(potentials.edge)
    if potentials.hyperedge is not None:
        turned = potentials.hyperedge.permute(1, 2, 3, 0)
        hyper_top = turned.flatten(0, 2).amax(0)
        hyper = torch.exp(turned - hyper_top).mul_(table[..., None])

    norms = unary.new_empty(sum(widths))
    norm = norms.split(widths)
    store = unary.new_empty(y * y * sum(widths[1:])).split([y * y * n for n in widths[1:]])
    a = [store[0] if store else norms]
    room = unary.new_empty(y * y * widths[min(1, steps - 1)])
    reached = torch.ones_like(p[0])  # [k, b] all that leads to a label, but for its own p
    for t, width in enumerate(widths):
        if t:
            before, here = p[t - 1][:, None, :width], slice(offsets[t], offsets[t + 1])
            kept = store[t - 1].view(y, y, width)  # [k, j, b]
            reached_by = kept.transpose(0, 1)
            if t == 1:
                torch.mul(before, first[:, :, None], out=reached_by)
            else:
                s = room[: y * y * width].view(y, y, width)
                if hyper is None:
                    torch.bmm(onward, a[-1][:, :, :width], out=s)
                else:
                    torch.sum(a[-1].transpose(0, 1)[:, :, None, :width] * hyper[..., here], 0, out=s)
                torch.mul(s, before, out=reached_by)
            if edge is not None:
                reached_by[:, :, : sizes[t]].mul_(edge[:, :, here])
            a.append(kept)
            reached = kept.sum(1)
        torch.sum(reached.mul_(p[t]), 0, out=norm[t])
        p[t].div_(norm[t])
    rows = (norms if places is None else norms[places]).log() + top
    if steps > 1:
        rows[offsets[1] : offsets[2]] += bigram.max()
        rows[offsets[2] :] += shift
        if edge_top is not None:
            rows[offsets[1] :] += edge_top[offsets[1] :]
        if hyper_top is not None:
            rows[offsets[2] :] += hyper_top[offsets[2] :]
    return _ForwardSecond(packing, widths, places, sum_rows(rows, packing), p, a, table, first, edge, hyper)


def _backward_second(forward: _ForwardSecond, want: tuple[bool, ...], weight: Tensor | None) -> Gradients:
    packing, widths, p, a = forward.packing, forward.widths, forward.p, forward.a
    table, edge, hyper = forward.table, forward.edge, forward.hyper
    y, sizes, offsets = table.shape[0], packing.batch_sizes, packing.offsets
    steps = len(sizes)
    inward = table.permute(1, 0, 2).contiguous()  # [j, i, k]
    # everything is linear in what a sequence starts from at its last position: one, or its weight
    ends = table.new_ones(sizes[0]) if weight is None else weight
    unary_grad = table.new_empty(y, sum(widths))
    unary = unary_grad.split(widths, 1)
    pair = table.new_zeros(y, y, packing.rows) if want[2] else None
    triple = table.new_zeros(y, y, y, packing.rows) if want[4] else None
    expected = torch.zeros_like(inward) if want[1] or want[3] else None  # [j, i, k], without the factor E
    expected_first = torch.zeros_like(forward.first)
    v_room, u_room, room = (table.new_empty(y * y * widths[min(1, steps - 1)]) for _ in range(3))
    v = table.new_empty(y, y, 0)  # [k, j, b]
    for t in range(steps - 1, 0, -1):
        here, size, width = slice(offsets[t], offsets[t + 1]), sizes[t], widths[t]
        going_on = sizes[t + 1] if t + 1 < steps else 0
        shape = (y, y, width)
        scratch = room[: y * y * width].view(shape)
        if width > v.shape[2]:
            scratch[:, :, :going_on] = v[:, :, :going_on]
            scratch[:, :, size:] = 0.0
            v, v_room, room, scratch = scratch, room, v_room, v_room[: y * y * width].view(shape)
        if going_on < size:
            v[:, :, going_on:size] = (p[t][:, going_on:size] * ends[going_on:size])[:, None]
        joint = torch.mul(a[t], v, out=scratch)
        torch.sum(joint, 1, out=unary[t])
        if pair is not None:
            pair[:, :, here] = joint[:, :, :size].transpose(0, 1)
        if t == 1:
            expected_first = joint.sum(2).T
            torch.sum(joint, 0, out=unary[0][:, :width])
            break
        u = torch.mul(v.transpose(0, 1), p[t - 1][:, None, :width], out=u_room[: y * y * width].view(shape))
        if edge is not None:
            u[:, :, :size].mul_(edge[:, :, here])
        left = a[t - 1][:, :, :width]  # [j, i, b]
        v = v_room[: y * y * width].view(shape)  # of t - 1, [j, i, b]
        if hyper is None:
            if expected is not None:
                expected.baddbmm_(left, u.transpose(1, 2))
            if triple is not None:
                triple[..., here] = left.transpose(0, 1)[:, :, None] * table[..., None] * u
            torch.bmm(inward, u, out=v)
        else:
            moved = hyper[..., here] * u
            torch.sum(moved, 2, out=v.transpose(0, 1))
            if expected is not None or triple is not None:
                moved.mul_(left.transpose(0, 1)[:, :, None])
                if expected is not None:
                    expected += (moved.sum(3) / table).permute(1, 0, 2)
                if triple is not None:
                    triple[..., here] = moved
    alone = slice(sizes[1] if steps > 1 else 0, sizes[0])  # sequences of one position
    unary[0][:, alone] = p[0][:, alone] * ends[alone]
    grad_bigram = grad_trigram = None
    if expected is not None:
        expected.mul_(inward)
        grad_bigram = expected.sum(1) + expected_first if want[1] else None
        grad_trigram = expected.permute(1, 0, 2) if want[3] else None
    return (
        (unary_grad if forward.places is None else unary_grad.index_select(1, forward.places)).T,
        grad_bigram,
        None if pair is None else pair.permute(2, 0, 1),
        grad_trigram,
        None if triple is None else triple.permute(3, 0, 1, 2),
    )


def _sweep_second_padded(
    potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None
) -> tuple[Tensor, Gradients]:
    """The same with labels of probability zero added up to a multiple of four: the products are a third faster for it."""
    y, extra = potentials.labels, (0, -potentials.labels % 4)

    def pad(x: Tensor, by: tuple[int, ...]) -> Tensor:  # lower than anything else, so that it raises no maximum
        return nn.functional.pad(x, by, value=float("-inf"))

    bigram, trigram, edge = potentials.bigram, potentials.trigram, potentials.edge
    padded = Potentials(
        potentials.packing,
        pad(potentials.unary, extra),
        None if bigram is None else pad(bigram, extra * 2),
        None if edge is None else pad(edge.permute(1, 2, 0), (0, 0, *extra * 2)).permute(2, 0, 1),  # the factors' order
        None if trigram is None else pad(trigram, extra * 3),
    )
    log_z, grads = _sweep_second(padded, want, weight)
    rows = slice(None)
    cuts = ((rows, slice(y)), (slice(y),) * 2, (rows, *(slice(y),) * 2), (slice(y),) * 3, ())
    return log_z, tuple(None if g is None else g[cut] for g, cut in zip(grads, cuts, strict=True))  # type: ignore[return-value]


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
            state = log_step(local, state, t, torch.logsumexp)
            following = packing.batch_sizes[t + 1] if t + 1 < len(packing.batch_sizes) else 0
            ends.append(state[following:size].flatten(1).logsumexp(1))  # sequences whose last position is t
        log_z = torch.cat(ends[::-1])
        asked = [x for x in leaves if x is not None and x.requires_grad]
        total = (log_z if weight is None else log_z * weight).sum()
        # nothing depends on an n-gram table alone where no sequence is that long
        found = iter(
            torch.autograd.grad(total, asked, allow_unused=True) if total.requires_grad else [None] * len(asked)
        )
    grads: list[Tensor | None] = []
    for x in leaves:
        g = next(found) if x is not None and x.requires_grad else None
        grads.append(torch.zeros_like(x) if g is None and x is not None and x.requires_grad else g)
    return log_z.detach(), tuple(grads)  # type: ignore[return-value]
