"""The sweeps of a chain of order 2 on scaled probabilities (scaling.py says when they are exact).

Axes: see the package.

    alpha_t[b, j, k]  =  p_t[b, k]  sum_i alpha_{t-1}[b, i, j] E[i, j, k]

A step is one matrix product per middle label j. Every position is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Gradients, Potentials, Want, shared_tables, sum_rows
from phonechain.model.chain.scaling import local_table


def sweep(potentials: Potentials, want: Want, weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """log Z [B], float64, and its gradients where wanted, weighted by sequence if given."""
    by_products = potentials.hyperedge is None and not want.hyperedge
    if potentials.labels % 4 and by_products:
        return _sweep_padded(potentials, want, weight)
    forward = _forward(potentials, by_products)
    return forward.log_z, (_backward(forward, want, weight) if any(want) else Gradients())


@dataclass(frozen=True)
class _Tables:
    """exp of the n-gram log-potentials, less their maxima.

    Attributes:
        both, begin: [i, j, k] and [j, k] of the shared ones, of a position and of the second one.
        edge, hyper: [j, k, N] of the local bigrams, and [i, j, k, N] of the local trigrams times `both`, or None.
        shift, begin_shift: log of what the shared ones were divided by.
        edge_top, hyper_top: [N] of the local ones, or None.
    """

    both: Tensor
    begin: Tensor
    edge: Tensor | None
    hyper: Tensor | None
    shift: Tensor
    begin_shift: Tensor
    edge_top: Tensor | None
    hyper_top: Tensor | None

    @classmethod
    def of(cls, potentials: Potentials) -> _Tables:
        bigram, trigram = shared_tables(potentials)
        begin_shift, shift = bigram.max(), trigram.max()
        both = torch.exp((trigram - shift) + (bigram - begin_shift))  # one by one: digits are lost far from zero
        edge = edge_top = hyper = hyper_top = None
        if potentials.edge is not None:
            edge, edge_top = local_table(potentials.edge)
        if potentials.hyperedge is not None:
            turned = potentials.hyperedge.permute(1, 2, 3, 0)
            hyper_top = turned.flatten(0, 2).amax(0)
            hyper = torch.exp(turned - hyper_top).mul_(both[..., None])
        begin = torch.exp(bigram - begin_shift)
        return cls(both, begin, edge, hyper, shift.double() + begin_shift, begin_shift, edge_top, hyper_top)

    def add_shifts(self, rows: Tensor, offsets: tuple[int, ...]) -> None:
        """Add to [N], float64, what the tables of each row were divided by."""
        if len(offsets) < 3:
            return
        rows[offsets[1] : offsets[2]] += self.begin_shift
        rows[offsets[2] :] += self.shift
        if self.edge_top is not None:
            rows[offsets[1] :] += self.edge_top[offsets[1] :]
        if self.hyper_top is not None:
            rows[offsets[2] :] += self.hyper_top[offsets[2] :]


@dataclass(frozen=True)
class _Forward:
    """The result of the forward sweep of order 2, as the backward sweep needs it.

    States are pairs. Arrays of position t are [y_t, y_{t-1}, sequence], because y_t is the middle label of the next step, and
    a step is one product per middle label. The products leave out a factor that depends on one label only; the result is
    multiplied by it when it is copied to its place, where the labels have changed their order:

        a_t[j, k] = alpha_t[j, k] / p_t[k]        a_{t+1}[k, l] = p_t[k] sum_j E[j, k, l] a_t[j, k]
        v_t[j, k] = p_t[k] beta_t[j, k]           v_{t-1}[i, j] = sum_k E[i, j, k] u_t[j, k],   u_t = p_{t-1}[j] v_t

    a_t v_t is then p(y_{t-1}, y_t | x), and E a_{t-1} u_t that of three labels. Local bigrams go into a_t and u_t, local
    trigrams into E.

    Attributes:
        widths: sequences computed at position t, batch_sizes[t] or more: from 12 up a multiple of eight, on which the products
            take half the time. The added ones have p = 1 and beta = 0, and do not affect the result.
        columns: [N] column of each packed row where these are more, else None.
        log_z: [B], float64.
        p: for each position [k, widths[t]], scaled.
        a: for each position [k, j, widths[t]]; the first is not used.
    """

    packing: Packing
    widths: list[int]
    columns: Tensor | None
    log_z: Tensor
    p: tuple[Tensor, ...]
    a: list[Tensor]
    tables: _Tables


def _width(sequences: int) -> int:
    return sequences if sequences < 12 else -(-sequences // 8) * 8


def _forward(potentials: Potentials, by_products: bool) -> _Forward:
    packing, unary = potentials.packing, potentials.unary
    y, sizes, offsets = potentials.labels, packing.batch_sizes, packing.offsets
    widths = [_width(n) for n in sizes] if by_products else list(sizes)
    steps = len(sizes)
    top = unary.amax(1)
    packed = torch.exp(unary - top[:, None]).T.contiguous()  # [k, N]
    columns = None
    if widths != list(sizes):
        starts = torch.tensor([0, *widths[:-1]], device=unary.device).cumsum(0)
        columns = starts[packing.time] + packing.sequence
        packed = packed.new_ones(y, sum(widths)).index_copy_(1, columns, packed)
    p = packed.split(widths, 1)
    tables = _Tables.of(potentials)
    onward = tables.both.permute(1, 2, 0).contiguous()  # [j, k, i]

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
                torch.mul(before, tables.begin[:, :, None], out=reached_by)
            else:
                s = room[: y * y * width].view(y, y, width)
                if tables.hyper is None:
                    torch.bmm(onward, a[-1][:, :, :width], out=s)
                else:
                    torch.sum(a[-1].transpose(0, 1)[:, :, None, :width] * tables.hyper[..., here], 0, out=s)
                torch.mul(s, before, out=reached_by)
            if tables.edge is not None:
                reached_by[:, :, : sizes[t]].mul_(tables.edge[:, :, here])
            a.append(kept)
            reached = kept.sum(1)
        torch.sum(reached.mul_(p[t]), 0, out=norm[t])
        p[t].div_(norm[t])
    rows = (norms if columns is None else norms[columns]).log().double() + top
    tables.add_shifts(rows, offsets)
    return _Forward(packing, widths, columns, sum_rows(rows, packing), p, a, tables)


class _Expectations:
    """The marginals that the backward sweep collects: by position, and summed over positions."""

    def __init__(self, forward: _Forward, want: Want) -> None:
        self.forward, self.want = forward, want
        table, rows = forward.tables.both, forward.packing.rows
        y, self.sizes, self.offsets = len(table), forward.packing.batch_sizes, forward.packing.offsets
        self.columns = table.new_empty(y, sum(forward.widths))
        self.unary = self.columns.split(forward.widths, 1)
        self.pair = table.new_zeros(y, y, rows) if want.edge else None
        self.triple = table.new_zeros(y, y, y, rows) if want.hyperedge else None
        self.inward = table.permute(1, 0, 2).contiguous()  # [j, i, k]
        self.counts = torch.zeros_like(self.inward) if want.bigram or want.trigram else None  # [j, i, k], without E
        self.begin = torch.zeros_like(forward.tables.begin)

    def add_pairs(self, t: int, joint: Tensor) -> None:
        """p(y_{t-1}, y_t) of position t, [k, j, b]."""
        torch.sum(joint, 1, out=self.unary[t])
        if self.pair is not None:
            here = slice(self.offsets[t], self.offsets[t + 1])
            self.pair[:, :, here] = joint[:, :, : self.sizes[t]].transpose(0, 1)
        if t == 1:
            self.begin = joint.sum(2).T
            torch.sum(joint, 0, out=self.unary[0][:, : joint.shape[2]])

    def add_triples(self, t: int, left: Tensor, u: Tensor) -> None:
        """p(y_{t-2}, y_{t-1}, y_t) of position t from a_{t-1} [j, i, b] and u_t [j, k, b], with the shared trigrams."""
        if self.counts is not None:
            self.counts.baddbmm_(left, u.transpose(1, 2))
        if self.triple is not None:
            here = slice(self.offsets[t], self.offsets[t + 1])
            shared = self.forward.tables.both[..., None]
            self.triple[..., here] = left.transpose(0, 1)[:, :, None] * shared * u

    def add_local_triples(self, t: int, left: Tensor, moved: Tensor) -> None:
        """The same from a_{t-1} [j, i, b] and E u_t [i, j, k, b], with the position's own trigrams; overwrites `moved`."""
        if self.counts is None and self.triple is None:
            return
        moved.mul_(left.transpose(0, 1)[:, :, None])
        if self.counts is not None:
            self.counts += (moved.sum(3) / self.forward.tables.both).permute(1, 0, 2)
        if self.triple is not None:
            self.triple[..., self.offsets[t] : self.offsets[t + 1]] = moved

    def gradients(self, ends: Tensor) -> Gradients:
        """All gradients; `ends` [B] is the value that each sequence starts from at its last position."""
        alone = slice(self.sizes[1] if len(self.sizes) > 1 else 0, self.sizes[0])  # sequences of one position
        self.unary[0][:, alone] = self.forward.p[0][:, alone] * ends[alone]
        columns, where = self.columns, self.forward.columns
        bigram = trigram = None
        if self.counts is not None:
            self.counts.mul_(self.inward)
            bigram = self.counts.sum(1) + self.begin if self.want.bigram else None
            trigram = self.counts.permute(1, 0, 2) if self.want.trigram else None
        return Gradients(
            (columns if where is None else columns.index_select(1, where)).T if self.want.unary else None,
            bigram,
            None if self.pair is None else self.pair.permute(2, 0, 1),
            trigram,
            None if self.triple is None else self.triple.permute(3, 0, 1, 2),
        )


def _backward(forward: _Forward, want: Want, weight: Tensor | None) -> Gradients:
    packing, widths, p, a, tables = forward.packing, forward.widths, forward.p, forward.a, forward.tables
    y, sizes, offsets = len(tables.both), packing.batch_sizes, packing.offsets
    steps = len(sizes)
    expected = _Expectations(forward, want)
    # everything is linear in the value that a sequence starts from at its last position: one, or its weight
    ends = p[0].new_ones(sizes[0]) if weight is None else weight
    v_room, u_room, room = (ends.new_empty(y * y * widths[min(1, steps - 1)]) for _ in range(3))
    v = ends.new_empty(y, y, 0)  # [k, j, b]
    for t in range(steps - 1, 0, -1):
        here, size, width = slice(offsets[t], offsets[t + 1]), sizes[t], widths[t]
        going_on = sizes[t + 1] if t + 1 < steps else 0
        shape = (y, y, width)
        scratch = room[: y * y * width].view(shape)
        if width > v.shape[2]:  # more sequences have this position than the next one
            scratch[:, :, :going_on] = v[:, :, :going_on]
            scratch[:, :, size:] = 0.0
            v, v_room, room, scratch = scratch, room, v_room, v_room[: y * y * width].view(shape)
        if going_on < size:
            v[:, :, going_on:size] = (p[t][:, going_on:size] * ends[going_on:size])[:, None]
        expected.add_pairs(t, torch.mul(a[t], v, out=scratch))
        if t == 1:
            break
        u = torch.mul(v.transpose(0, 1), p[t - 1][:, None, :width], out=u_room[: y * y * width].view(shape))
        if tables.edge is not None:
            u[:, :, :size].mul_(tables.edge[:, :, here])
        left = a[t - 1][:, :, :width]  # [j, i, b]
        v = v_room[: y * y * width].view(shape)  # of t - 1, [j, i, b]
        if tables.hyper is None:
            expected.add_triples(t, left, u)
            torch.bmm(expected.inward, u, out=v)
        else:
            moved = tables.hyper[..., here] * u
            torch.sum(moved, 2, out=v.transpose(0, 1))
            expected.add_local_triples(t, left, moved)
    return expected.gradients(ends)


def _sweep_padded(potentials: Potentials, want: Want, weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """`sweep` with labels of probability zero added, up to a multiple of four, which makes the products a third faster."""
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
    return log_z, Gradients(
        None if grads.unary is None else grads.unary[:, :y],
        None if grads.bigram is None else grads.bigram[:y, :y],
        None if grads.edge is None else grads.edge[:, :y, :y],
        None if grads.trigram is None else grads.trigram[:y, :y, :y],
    )
