"""The sweeps of a chain of order 2 on scaled probabilities (scaling.py says when they are exact).

    N  packed rows (see packing.py)      B  sequences      Y  labels      T  longest sequence
    i, j, k  labels of positions t-2, t-1, t

    alpha_t[b, j, k]  =  p_t[b, k]  sum_i alpha_{t-1}[b, i, j] E[i, j, k]

A step is one matrix product a middle label j. Every position is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials, shared_or_zero, sum_rows
from phonechain.model.chain.scaling import Gradients, local_table


def sweep(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """log Z [B] and its gradients where wanted, weighted by sequence if asked."""
    by_products = potentials.hyperedge is None and not want[4]
    if potentials.labels % 4 and by_products:
        return _padded(potentials, want, weight)
    forward = _forward(potentials, by_products)
    return forward.log_z, (_backward(forward, want, weight) if any(want) else (None,) * 5)


@dataclass(frozen=True)
class _Forward:
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


def _forward(potentials: Potentials, by_products: bool) -> _Forward:
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
        edge, edge_top = local_table(potentials.edge)
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
    return _Forward(packing, widths, places, sum_rows(rows, packing), p, a, table, first, edge, hyper)


def _backward(forward: _Forward, want: tuple[bool, ...], weight: Tensor | None) -> Gradients:
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


def _padded(potentials: Potentials, want: tuple[bool, ...], weight: Tensor | None) -> tuple[Tensor, Gradients]:
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
    log_z, grads = sweep(padded, want, weight)
    rows = slice(None)
    cuts = ((rows, slice(y)), (slice(y),) * 2, (rows, *(slice(y),) * 2), (slice(y),) * 3, ())
    return log_z, tuple(None if g is None else g[cut] for g, cut in zip(grads, cuts, strict=True))  # type: ignore[return-value]
