"""One sequence of a chain of order 2, whole or in windows: both directions side by side, so that a step is one product.

    T  positions of the sequence, or of a window of it      Y  labels
    i, j, k  labels of positions t-2, t-1, t

    s_t[j, k]     =  sum_i E[i, j, k] x_{t-1}[i, j],     x_t = s_t w_t over its sum      (forward)
    b_{t-1}[i, j] =  sum_k E[i, j, k] u_t[j, k],         u_t = b_t w_t over its sum      (backward)

w_t[j, k] holds the position's own terms: p_t[k], and its local bigrams. s_t u_t is proportional to p(y_{t-1}, y_t | x), and
E x_{t-1} u_t to that of three labels. Both messages are kept with the middle label of the next product first: s as [j, k],
b as [j, i].

With windows, the forward messages at their beginnings are computed first, and then each window, the last one first, from the
forward message before it and the backward one after it. So memory is that of one window, at the cost of a second forward sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from phonechain.model.chain.potentials import Gradients, Potentials, Want, shared_tables


def sweep(potentials: Potentials, want: Want, weight: Tensor | None) -> tuple[Tensor, Gradients]:
    """log Z [1], float64, and its gradients where wanted, times the weight if given."""
    window = _Window.of(potentials, first=True)
    if not any(want):
        _, log_z = window.advance(None)
        return log_z[None], Gradients()
    log_z, grads, _ = window.sweep(None, None, want)
    return log_z[None], grads if weight is None else grads.map(lambda g: g * weight)


@dataclass(frozen=True)
class WindowMarginals:
    """The marginals of some positions in a row.

    Attributes:
        rows: which positions.
        potentials: theirs.
        marginals: of their labels, and of the pairs and triples of labels that end there.
        log_z: of the whole sequence, float64.
    """

    rows: slice
    potentials: Potentials
    marginals: Gradients
    log_z: Tensor


def sweep_windows(
    potentials_of: Callable[[slice], Potentials], length: int, size: int, want: Want
) -> Iterator[WindowMarginals]:
    """Marginals of a sequence of `length` positions, `size` of them at a time and the last ones first; no gradient.

    Args:
        potentials_of: the potentials of some positions, float64, of a range for which scaling is exact (see scaling.py).
            Called twice for each window; `edge` and `hyperedge` have to be those of the whole sequence.
        want: unary, edge and hyperedge; gradients of shared tables are those of the window.
    """
    starts = list(range(0, length, max(2, size)))
    if len(starts) > 1 and length - starts[-1] < 2:
        del starts[-1]
    spans = [slice(a, b) for a, b in zip(starts, [*starts[1:], length], strict=True)]
    before: list[Tensor | None] = [None]
    log_z = torch.zeros((), dtype=torch.float64)
    for span in spans[:-1]:
        message, scale = _Window.of(potentials_of(span), first=span.start == 0).advance(before[-1])
        before.append(message)
        log_z = log_z + scale
    after: Tensor | None = None
    for span, message_before in zip(reversed(spans), reversed(before), strict=True):
        potentials = potentials_of(span)
        window = _Window.of(potentials, first=span.start == 0)
        scale, grads, following = window.sweep(message_before, after, want)
        if after is None:
            log_z = log_z + scale
        after = following
        yield WindowMarginals(span, potentials, grads, log_z)


@dataclass(frozen=True)
class _Window:
    """Positions in a row, ready for the products.

    Attributes:
        first: whether they begin the sequence.
        p: [T, k] exp of the unaries, rows that sum to one.
        w: [T, j, k] p, times exp of the local bigrams less their maxima.
        scale: [T] log of what p and w were divided by, float64; that of E and of the bigrams at position 1 included.
        begin: [j, k] exp of the shared bigrams, for the second position of the sequence.
        onward, inward: [j, k, i] and [j, i, k], E, exp of the shared tables.
        hyper: [T, i, j, k] E times exp of the local trigrams, or None.
    """

    first: bool
    p: Tensor
    w: Tensor
    scale: Tensor
    begin: Tensor
    onward: Tensor
    inward: Tensor
    hyper: Tensor | None

    @classmethod
    def of(cls, potentials: Potentials, *, first: bool) -> _Window:
        unary = potentials.unary
        y = unary.shape[1]
        top = unary.amax(1, keepdim=True)
        p = torch.exp(unary - top)
        total = p.sum(1, keepdim=True)
        p.div_(total)
        scale = (total.log().double() + top)[:, 0]
        bigram, trigram = shared_tables(potentials)
        begin_shift, shift = bigram.max(), trigram.max()
        table = torch.exp((trigram - shift) + (bigram - begin_shift))  # one by one: digits are lost far from zero
        later = slice(1 if first else 0, None)
        w = p[:, None, :].expand(-1, y, -1)
        if potentials.edge is not None:
            edge = potentials.edge[later]
            edge_top = edge.flatten(1).amax(1)
            w = w.clone()
            w[later].mul_(torch.exp(edge - edge_top[:, None, None]))
            scale[later] += edge_top
        third = slice(2 if first else 0, None)
        scale[third] += shift.double() + begin_shift
        if first:
            scale[1:2] += begin_shift
        hyper = None
        if potentials.hyperedge is not None:
            raw = potentials.hyperedge[third]
            hyper = table.new_zeros(len(unary), y, y, y)
            hyper_top = raw.flatten(1).amax(1)
            torch.mul(torch.exp(raw - hyper_top[:, None, None, None]), table, out=hyper[third])
            scale[third] += hyper_top
        onward, inward = table.permute(1, 2, 0).contiguous(), table.permute(1, 0, 2).contiguous()
        return cls(first, p, w, scale, torch.exp(bigram - begin_shift), onward, inward, hyper)

    @property
    def origin(self) -> int:
        """The first position that has a message from before."""
        return 1 if self.first else 0

    def _start(self, before: Tensor | None) -> Tensor:
        """[j, k] s of the position `origin`."""
        if before is None:
            return self.p[0][:, None] * self.begin
        return self._forward(before, 0)

    def _forward(self, x: Tensor, t: int) -> Tensor:
        """s_t [j, k] from x_{t-1} [j, i]."""
        if self.hyper is None:
            return torch.bmm(x[:, None, :], self.inward)[:, 0]
        return (self.hyper[t] * x.T[:, :, None]).sum(0)

    def _backward(self, u: Tensor, t: int) -> Tensor:
        """b_{t-1} [j, i] from u_t [j, k]."""
        if self.hyper is None:
            return torch.bmm(u[:, None, :], self.onward)[:, 0]
        return (self.hyper[t] * u).sum(2).T

    def advance(self, before: Tensor | None) -> tuple[Tensor, Tensor]:
        """(x [j, i] of the last position, log of all that came into it: log Z if it is the sequence's end)."""
        log = self.scale.sum()
        if self.first and len(self.p) == 1:  # no pair: only a sequence of one position is such a window
            return self.p[0], log
        s, x = self._start(before), self.p[0]
        norms = []
        for t in range(self.origin, len(self.p)):
            if t > self.origin:
                s = self._forward(x, t)
            x = (s * self.w[t]).T
            norms.append(x.sum())
            x = x / norms[-1]
        return x, log + torch.stack(norms).log().double().sum()

    def sweep(self, before: Tensor | None, after: Tensor | None, want: Want) -> tuple[Tensor, Gradients, Tensor | None]:
        """(log of all that came to the end, marginals, b [i, j] of the position before, or None at the beginning)."""
        if self.first and len(self.p) == 1:
            return self.scale.sum(), self._gradients_of_one(want), None
        s, b, norms = self._messages(before, after)
        w = self.w[self.origin :]
        u = w * b  # [T, j, k] of the positions from `origin` on
        pair = s * u
        total = pair.sum((1, 2))
        u = u / total[:, None, None]
        pair = pair / total[:, None, None]
        x = (s * w).transpose(1, 2)  # [T, k, j]; a step on they are [j, i]
        last = x[-1].sum()
        x = x / x.sum((1, 2), keepdim=True)
        log = self.scale.sum() + norms.log().double().sum() + last.log().double()
        following = None if before is None else self._backward(u[0] / u[0].sum(), 0).T
        return log, self._gradients(want, pair, x, u, before), following

    def _messages(self, before: Tensor | None, after: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """s and b [T, j, k] of the positions from `origin` on, and what s was divided by on the way."""
        w = self.w[self.origin :]
        steps, y = len(w), self.w.shape[1]
        both = torch.stack([w[:-1].transpose(1, 2), w[1:].flip(0)], 1)  # [T-1, 2, ., .] as the products read them
        messages = w.new_empty(steps, 2, y, y)
        messages[0, 0] = self._start(before)
        messages[0, 1] = 1.0 if after is None else after.T
        norms = w.new_ones(steps - 1, 2, 1, 1)
        x = w.new_empty(2, y, y)
        # A row times a matrix: as a matrix times a column the same products take seven times as long.
        tables, row = torch.cat([self.inward, self.onward]), x.view(2 * y, 1, y)
        ahead = messages.view(steps, 2 * y, 1, y)
        turned = messages.transpose(2, 3).unbind()
        for n, (here, norm, out) in enumerate(zip(both.unbind(), norms.unbind(), ahead[1:].unbind(), strict=True)):
            torch.mul(turned[n], here, out=x)
            torch.sum(x, (1, 2), keepdim=True, out=norm)
            x.div_(norm)
            if self.hyper is None:
                torch.bmm(row, tables, out=out)
            else:
                messages[n + 1, 0] = self._forward(x[0], self.origin + n + 1)
                messages[n + 1, 1] = self._backward(x[1], len(self.p) - 1 - n)
        return messages[:, 0], messages[:, 1].flip(0).transpose(1, 2), norms[:, 0]

    def _gradients(self, want: Want, pair: Tensor, x: Tensor, u: Tensor, before: Tensor | None) -> Gradients:
        length, y = self.p.shape
        x = (
            x[:-1] if before is None else torch.cat([before[None], x[:-1]])
        )  # [., j, i], each with the u of the next position
        u = u[len(u) - len(x) :]
        unary = edge = bigram = trigram = triple = None
        if want.unary:
            unary = torch.cat([pair[0].sum(1)[None], pair.sum(1)]) if self.first else pair.sum(1)
        if want.edge:
            edge = torch.cat([pair.new_zeros(1, y, y), pair]) if self.first else pair
        if want.hyperedge or (self.hyper is not None and (want.bigram or want.trigram)):
            table = self.inward.transpose(0, 1) if self.hyper is None else self.hyper[length - len(x) :]
            triple = pair.new_zeros(length, y, y, y)
            torch.mul(table * x.transpose(1, 2)[..., None], u[:, None], out=triple[length - len(x) :])
        if want.bigram or want.trigram:
            if triple is not None:
                counts = triple.sum(0)
            else:
                counts = (torch.bmm(x.permute(1, 2, 0), u.transpose(0, 1)) * self.inward).transpose(0, 1)
            trigram = counts if want.trigram else None
            if want.bigram:
                bigram = counts.sum(0) + pair[0] if self.first else counts.sum(0)
        return Gradients(unary, bigram, edge, trigram, triple if want.hyperedge else None)

    def _gradients_of_one(self, want: Want) -> Gradients:
        y = self.p.shape[1]
        shapes = ((1, y), (y, y), (1, y, y), (y, y, y), (1, y, y, y))
        zeros = [self.p.new_zeros(shape) if wanted else None for shape, wanted in zip(shapes, want, strict=True)]
        return Gradients(self.p if want.unary else None, *zeros[1:])
