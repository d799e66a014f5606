"""Exact sums over all segmentations: log Z, marginals, likelihood with its gradient.

    B  recordings      N  grid steps of the longest      D  longest duration, steps      K  labels

A first-order segmental CRF (Sarawagi and Cohen 2004). `scores[b, n, d, y]` belongs to the segment labelled y that ends at
grid point n + 1 and lasts d + 1 steps; scores of segments that would begin before the recording may be anything finite. With
g and alpha in logs,

    alpha_t[y] = LSE_d  g_{t-d}[y] + scores[t-1, d-1, y]        a segment y ends at t
    g_t[y]     = LSE_y' alpha_t[y'] + bigram[y', y]             a segment y begins at t;  g_0 = first

so that a step costs D K + K^2, and nothing of size N D K^2 exists. The forward sweep replaces each score by the probability
of its duration, given its end and label. The backward sweep multiplies by these probabilities and by those of the preceding
labels. It works with probabilities throughout, needing neither exponentials nor scaling, so that the marginals are as exact
for potentials of hundreds of nats as for small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phonechain.model.device import CPU

NEVER = -1e30
"""The log-potential of what cannot be; finite, so that differences of two of them are numbers."""

SAFE_SPREAD = 300.0
"""Range of bigram log-potentials (nats) up to which exp in double precision keeps every product that matters."""


@dataclass(frozen=True)
class Lattice:
    """Log-potentials of all segmentations of a batch.

    Attributes:
        scores: [B, N, D, K], see above.
        bigram: [K, K] of a label after another.
        first, last: [K] of a recording's first and last label.
        steps: [B] grid steps of each recording, 1 to N.
    """

    scores: Tensor
    bigram: Tensor
    first: Tensor
    last: Tensor
    steps: Tensor

    def __post_init__(self) -> None:
        b, n, _, k = self.scores.shape
        shapes = [tuple(t.shape) for t in (self.bigram, self.first, self.last, self.steps)]
        if shapes != [(k, k), (k,), (k,), (b,)]:
            raise ValueError(f"expected shapes {[(k, k), (k,), (k,), (b,)]} beside scores of {k} labels, got {shapes}")
        least, most = torch.stack(self.steps.aminmax()).cpu().tolist()
        if least < 1 or most > n:
            raise ValueError(f"expected 1 to {n} steps, got {least} to {most}")

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """scores, bigram, first, last."""
        return self.scores, self.bigram, self.first, self.last


@dataclass(frozen=True)
class Marginals:
    """log Z [B]; posteriors of segments [B, N, D, K]; expected bigrams [B, K, K]; first and last labels [B, K]."""

    log_z: Tensor
    segments: Tensor
    bigrams: Tensor
    first: Tensor
    last: Tensor

    def boundaries(self) -> Tensor:
        """[B, N] posterior that a segment ends at each grid point 1 .. N."""
        return self.segments.sum((2, 3))


@dataclass(frozen=True)
class Segmentation:
    """Segments of a batch as index tensors [M]: recording, grid point of the end less one, duration less one, label.

    In order of recording and time. Which are the first [B] and the last [B] of a recording, and which are followed by
    another one of it [M - B], is found on the host: boolean masks as indices would wait for a GPU.
    """

    recording: Tensor
    end: Tensor
    duration: Tensor
    label: Tensor
    first: Tensor
    last: Tensor
    followed: Tensor

    @classmethod
    def of(cls, recordings: list[list[tuple[int, int, int]]], device: torch.device = CPU) -> Segmentation:
        """From (start, end, label) of each recording, in grid points."""
        rows = [(b, j - 1, j - i - 1, y) for b, segments in enumerate(recordings) for i, j, y in segments]
        table = torch.tensor(rows, dtype=torch.int64).reshape(-1, 4)
        same = torch.cat([table[1:, 0] == table[:-1, 0], torch.zeros(min(1, len(rows)), dtype=torch.bool)])
        borders = (~same.roll(1), ~same, same)
        return cls(*table.to(device).unbind(1), *(mask.nonzero()[:, 0].to(device) for mask in borders))


def log_z(lattice: Lattice) -> Tensor:
    """[B] log of the sum over all segmentations; differentiable."""
    return -_LogProbability.apply(lattice.steps, None, *lattice.tensors)


def log_likelihood(lattice: Lattice, gold: Segmentation) -> Tensor:
    """[B] log p(segmentation | sound), differentiable; value and gradient come from the same two sweeps."""
    return _LogProbability.apply(lattice.steps, gold, *lattice.tensors)


def score(lattice: Lattice, gold: Segmentation) -> Tensor:
    """[B] log-potential of one segmentation per recording, in double precision."""
    total = lattice.scores.new_zeros(len(lattice.steps), dtype=torch.float64)
    total.index_add_(
        0, gold.recording, lattice.scores[gold.recording, gold.end, gold.duration, gold.label].to(torch.float64)
    )
    for weights, where in ((lattice.first, gold.first), (lattice.last, gold.last)):
        total.index_add_(0, gold.recording[where], weights[gold.label[where]].to(torch.float64))
    pairs = lattice.bigram[gold.label[gold.followed], gold.label[gold.followed + 1]]
    total.index_add_(0, gold.recording[gold.followed], pairs.to(torch.float64))
    return total


def marginals(lattice: Lattice) -> Marginals:
    """Posteriors by one sweep each way; no gradient."""
    with torch.no_grad():
        return _sweeps(lattice)


class _LogProbability(torch.autograd.Function):
    """log p of a segmentation, or -log Z without one."""

    @staticmethod
    def forward(ctx: Any, steps: Tensor, gold: Segmentation | None, *tensors: Tensor) -> Tensor:
        scores, bigram, first, last = tensors
        lattice = Lattice(scores, bigram, first, last, steps)
        if not any(ctx.needs_input_grad):
            value = -forward(lattice).log_z
        else:
            post = _sweeps(lattice)
            value = -post.log_z
            grads = [post.segments.neg_(), -post.bigrams, -post.first, -post.last]
            if gold is not None:
                one = grads[0].new_ones(())
                at = (gold.recording, gold.end, gold.duration, gold.label)
                grads[0].index_put_(at, one, accumulate=True)
                pairs = (gold.recording[gold.followed], gold.label[gold.followed], gold.label[gold.followed + 1])
                grads[1].index_put_(pairs, one.to(grads[1].dtype), accumulate=True)
                for grad, where in ((grads[2], gold.first), (grads[3], gold.last)):
                    grad.index_put_((gold.recording[where], gold.label[where]), one, accumulate=True)
            ctx.save_for_backward(*grads)
        if gold is not None:
            value = value + score(lattice, gold)
        return value.to(lattice.scores.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = outputs
        scores, bigrams, first, last = ctx.saved_tensors
        dtype = scores.dtype
        return (
            None,
            None,
            scores * (weight[0] if weight.stride(0) == 0 else weight[:, None, None, None]),
            torch.einsum("b,bij->ij", weight.to(bigrams.dtype), bigrams).to(dtype),
            (weight[None] @ first)[0],
            (weight[None] @ last)[0],
        )


@dataclass(frozen=True)
class Forward:
    """The result of the forward sweep.

    Attributes:
        log_z: [B] in double precision.
        alpha: [B, N + 1, K], each row less its maximum; entry 0 is never reached.
        begin: [B, N + D, K] g in reverse time: g_t is at N - 1 - t, so that a window of it runs along D.
        offset: [B, N + D] what was subtracted from alpha_t and g_t, in double precision and the order of `begin`: without
            it, sums over a long recording would exceed what single precision resolves.
        durations: [B, N, D, K] p(d | end, label), or None.
    """

    log_z: Tensor
    alpha: Tensor
    begin: Tensor
    offset: Tensor
    durations: Tensor | None


def forward(lattice: Lattice, *, durations: bool = False) -> Forward:
    """The sums over everything before each grid point; with the posteriors of durations if `durations` is set."""
    scores, steps = lattice.scores, lattice.steps
    b, n, d, k = scores.shape
    alpha = scores.new_full((b, n + 1, k), NEVER)
    begin = scores.new_full((b, n + d, k), NEVER)
    begin[:, n - 1] = lattice.first
    offset = scores.new_zeros(b, n + d, dtype=torch.float64)
    ends = scores.new_zeros(b, n + 1, dtype=torch.float64)
    kept = torch.empty_like(scores) if durations else None
    room = scores.new_empty(b, d, k)
    product = _Product(lattice.bigram)
    for t in range(1, n + 1):
        window = slice(n - t, n - t + d)
        w = room if kept is None else kept[:, t - 1]
        torch.add(scores[:, t - 1], begin[:, window], out=w)
        w.add_((offset[:, window] - offset[:, n - t, None]).to(w.dtype)[:, :, None])
        top = w.amax(1, keepdim=True)
        total = w.sub_(top).exp_().sum(1, keepdim=True)
        if kept is not None:
            w.div_(total)
        a_t = top[:, 0] + total[:, 0].log_()
        high = a_t.amax(1, keepdim=True)
        torch.sub(a_t, high, out=alpha[:, t])
        ends[:, t] = offset[:, n - t] + high[:, 0]
        if t < n:
            begin[:, n - 1 - t] = product.forward(alpha[:, t])
            offset[:, n - 1 - t] = ends[:, t]
    here = torch.arange(b, device=scores.device)
    final = alpha[here, steps].to(torch.float64) + lattice.last
    return Forward(torch.logsumexp(final, 1) + ends[here, steps], alpha, begin, offset, kept)


def _sweeps(lattice: Lattice) -> Marginals:
    scores, steps = lattice.scores, lattice.steps
    b, n, d, k = scores.shape
    way = forward(lattice, durations=True)
    segments = way.durations
    assert segments is not None
    last = torch.softmax(way.alpha[torch.arange(b, device=scores.device), steps] + lattice.last, 1)
    beginning = scores.new_zeros(b, n + d, k)  # posterior that a segment begins, in reverse time as `begin`
    product = _Product(lattice.bigram)
    bigrams = scores.new_zeros(b, k, k, dtype=torch.float64)
    for t in range(n, 0, -1):
        ending = last * (steps == t)[:, None]
        if t < n:
            ending += product.backward(way.alpha[:, t], way.begin[:, n - 1 - t], beginning[:, n - 1 - t], bigrams)
        segments[:, t - 1].mul_(ending[:, None])
        beginning[:, n - t : n - t + d] += segments[:, t - 1]
    return Marginals(way.log_z, segments, product.complete_bigrams(bigrams), beginning[:, n - 1].clone(), last)


class _Product:
    """The sum over the preceding label, g[y] = LSE_y' alpha[y'] + bigram[y', y], and its backward pass.

    Computed as a product of exponentials in double precision, which loses nothing that matters while the range of the
    bigrams is below SAFE_SPREAD; above it, term by term.
    """

    def __init__(self, bigram: Tensor) -> None:
        self.bigram = bigram.detach().to(torch.float64)
        self.top = self.bigram.max()
        self.safe = bool(self.top - self.bigram.min() <= SAFE_SPREAD)
        self.table = (self.bigram - self.top).exp()

    def forward(self, alpha: Tensor) -> Tensor:
        a = alpha.to(torch.float64)
        if not self.safe:
            return torch.logsumexp(a[:, :, None] + self.bigram, 1).clamp_min_(NEVER)
        return (a.exp() @ self.table).log_().add_(self.top).clamp_min_(NEVER)

    def backward(self, alpha: Tensor, begin: Tensor, beginning: Tensor, bigrams: Tensor) -> Tensor:
        """[B, K] posterior of the label that ends where one begins; adds to `bigrams` what `complete_bigrams` completes."""
        a, g, p = alpha.to(torch.float64), begin.to(torch.float64), beginning.to(torch.float64)
        if not self.safe:
            pairs = (a[:, :, None] + self.bigram - g[:, None, :]).clamp_max_(0.0).exp_() * p[:, None, :]
            bigrams += pairs
            return pairs.sum(2).to(alpha.dtype)
        before = a.exp()
        after = torch.where(p > 0, p * (self.top - g).exp_(), 0.0)
        bigrams.baddbmm_(before[:, :, None], after[:, None, :])
        return (before * (after @ self.table.T)).to(alpha.dtype)

    def complete_bigrams(self, bigrams: Tensor) -> Tensor:
        """Expected bigrams from the sums of `backward`."""
        return bigrams.mul_(self.table) if self.safe else bigrams
