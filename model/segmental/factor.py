"""The factor of every candidate segment at once: a sum-product network whose leaves are cumulated, not recomputed.

    B  recordings   T  frames   N  grid steps   D  longest duration, steps   C  channels   K  labels
    L = H I K  leaves: H states of each of I hidden variables of each label

A leaf of the sum-product network (Eq. Qsp, one layer) is linear in the features of its segment: means of the track over the
parts of a 3:4:3 split, its sum over the segment, its values at both ends (the 92 features of the paper are of this form,
but for the duration, which has a table of its own). So each frame is projected once for each role and leaf, the projections
of parts are cumulated along time, and a candidate's leaf is a difference of a few of these sums. Time is continuous, as
in `phonechain.features.pooling`: a frame stands for the 10 ms around its centre, and integrals between frames are exact.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from phonechain.features.pooling import PARTS

ROLES = ("mean1", "mean2", "mean3", "sum", "begin", "end")
"""How a leaf reads a channel: its mean over a part of the segment, its sum over all of it, or its value at one end."""

SUM_SCALE = 0.1
"""Weight of a frame in a sum: one over 100 ms counts as much as a mean does."""


class SegmentFactor(nn.Module):
    """Log-potentials of all candidate segments from a track of frames.

    Args:
        channels: C.
        labels: K.
        products: I, hidden variables of a label.
        states: H, states of each.
        scale: standard deviation of the weights at the start.

    Shape:
        track [B, T, C] -> scores [B, N, D, K] as `sums.Lattice` wants them, with T > N * frames_per_step.
    """

    def __init__(self, channels: int, labels: int, *, products: int, states: int, scale: float = 0.02) -> None:
        super().__init__()
        self.channels, self.labels, self.products, self.states = channels, labels, products, states
        self.leaves = states * products * labels
        self.weight = nn.Parameter(torch.randn(len(ROLES), self.leaves, channels) * scale)
        self.bias = nn.Parameter(torch.randn(self.leaves) * scale)

    def forward(self, track: Tensor, steps: int, durations: int, frames_per_step: int) -> Tensor:
        """Scores for `steps` grid steps (N) and `durations` (D)."""
        b, t, c = track.shape
        s = frames_per_step
        if t <= steps * s:
            raise ValueError(f"expected more than {steps * s} frames for {steps} steps, got {t}")
        projected = (track @ self.weight.reshape(-1, c).T).view(b, t, len(ROLES), self.leaves)
        integral = _integral(projected[:, :, :4])  # [B, 2T - 1, 4, L]
        one, two, three = (integral[:, :, r] / PARTS[r] for r in range(3))
        grid = slice(0, 2 * s * steps + 1, 2 * s)
        whole = integral[:, grid, 3] * SUM_SCALE
        points = slice(0, s * steps + 1, s)
        begin = projected[:, points, 4] - whole + self.bias
        end = projected[:, points, 5] + whole
        shape = (self.states, self.products, self.labels)
        return _Scores.apply(-one[:, grid], three[:, grid], one - two, two - three, begin, end, durations, s, shape)

    def placed(self, track: Tensor, begin: Tensor, end: Tensor, labels: Tensor) -> Tensor:
        """Scores of few candidates, of a label each, on the grid of frames; those that last less than a frame get 0.

        Args:
            track: [B, T, C], with T larger than any end.
            begin, end: [B, P, W] frames where a segment may begin and end.
            labels: [B, P] of the segments.

        Returns:
            [B, P, W, W] by begin and end.
        """
        b, t, c = track.shape
        projected = (track @ self.weight.reshape(-1, c).T).view(b, t, len(ROLES), self.leaves)
        integral = _integral(projected[:, :, :4])
        one, two, three = (integral[:, :, r] / PARTS[r] for r in range(3))
        whole = integral[:, ::2, 3] * SUM_SCALE
        leaf = (
            torch.arange(self.states * self.products, device=labels.device) * self.labels + labels[..., None]
        )  # [B, P, H I]
        lasts = (end[:, :, None, :] - begin[:, :, :, None])[..., None]  # [B, P, W, W, 1]
        first, last = begin.to(track.dtype), end.to(track.dtype)

        def read(values: Tensor, at: Tensor) -> Tensor:
            """Rows `at` [B, P, ...] of [B, X, L] at the leaves of each segment: [B, P, ..., H I]."""
            extra = at.dim() - 2
            columns = leaf.view(*leaf.shape[:2], *(1 for _ in range(extra)), leaf.shape[2])
            index = at[..., None] * self.leaves + columns
            return values.flatten(1).gather(1, index.flatten(1)).view(index.shape)

        leaves = read(three[:, ::2], end)[:, :, None] - read(one[:, ::2], begin)[:, :, :, None]
        for values, part in ((one - two, PARTS[0]), (two - three, PARTS[0] + PARTS[1])):
            at = 2.0 * (first[:, :, :, None] * (1 - part) + last[:, :, None, :] * part)
            low = torch.floor(at + 1e-6)
            share = (at - low).clamp_min(0.0)[..., None]
            row = low.long()
            leaves = leaves + torch.lerp(read(values, row), read(values, (row + 1).clamp_max(2 * t - 2)), share)
        leaves = leaves / lasts.clamp_min(1)
        leaves = leaves + read(projected[:, :, 4] - whole + self.bias, begin)[:, :, :, None]
        leaves = leaves + read(projected[:, :, 5] + whole, end)[:, :, None]
        sums = torch.logsumexp(leaves.unflatten(-1, (self.states, self.products)), -2).sum(-1)
        return torch.where(lasts[..., 0] > 0, sums, 0.0)


def _integral(x: Tensor) -> Tensor:
    """[B, T, ...] -> [B, 2T - 1, ...]: from the first frame's centre to each centre and to each border between cells."""
    before = torch.cumsum(x, 1) - x - 0.5 * x[:, :1]  # up to the left border of each cell
    both = torch.stack([before + 0.5 * x, before + x], 2).flatten(1, 2)
    return both[:, :-1]


def _between(track: Tensor, at: float, stride: int, count: int) -> tuple[Tensor, Tensor, float]:
    """Rows of a track [B, 2T - 1, L] before and after `at`, `at + stride`, ..., and the share of those after."""
    low = math.floor(at + 1e-9)
    share = max(0.0, at - low)
    reach = stride * (count - 1) + 1
    after = low + 1 if share > 1e-9 else low
    return track[:, low : low + reach : stride], track[:, after : after + reach : stride], share


class _Scores(torch.autograd.Function):
    """The leaves of one duration at a time, summed over their states at once, so that all leaves never exist together.

    leaf(i, d) = (begin_mean[i] + end_mean[i + d] + first[2s (i + .3 d)] + second[2s (i + .7 d)]) / (s d) + begin[i] + end[i + d]
    """

    @staticmethod
    def forward(
        ctx: Any, begin_mean: Tensor, end_mean: Tensor, first: Tensor, second: Tensor, begin: Tensor, end: Tensor,
        durations: int, s: int, shape: tuple[int, int, int],
    ) -> Tensor:  # fmt: skip
        b, points, _ = begin.shape
        n = points - 1
        states, products, labels = shape
        out = begin.new_zeros(b, n, durations, labels)
        kept = []
        want = any(ctx.needs_input_grad)
        for d in range(1, min(durations, n) + 1):
            m = n - d + 1
            leaf = begin_mean[:, :m] + end_mean[:, d:]
            for track, part in ((first, PARTS[0]), (second, PARTS[0] + PARTS[1])):
                low, high, share = _between(track, 2 * s * d * part, 2 * s, m)
                leaf += low if share == 0.0 else torch.lerp(low, high, share)
            leaf = torch.add(begin[:, :m], leaf, alpha=1.0 / (s * d)).add_(end[:, d:])
            value, posterior = _sum_states(leaf.view(b, m, states, products * labels), want)
            if posterior is not None:
                kept.append(posterior)
            if products == 1:
                out[:, d - 1 :, d - 1] = value
            else:
                torch.sum(value.view(b, m, products, labels), 2, out=out[:, d - 1 :, d - 1])
        ctx.save_for_backward(*kept)
        ctx.sizes = (begin.shape, first.shape, durations, s, shape)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Any, ...]:
        (grad,) = outputs
        points_shape, half_shape, _durations, s, (_, products, labels) = ctx.sizes
        b, points, leaves = points_shape
        n = points - 1
        begin_mean, end_mean, begin, end = (grad.new_zeros(points_shape) for _ in range(4))
        first, second = (grad.new_zeros(half_shape) for _ in range(2))
        for d, posterior in enumerate(ctx.saved_tensors, 1):
            m = n - d + 1
            value = grad[:, d - 1 :, d - 1]
            if products > 1:
                value = value[:, :, None, :].expand(b, m, products, labels).reshape(b, m, -1)
            leaf = _share(value, posterior).view(b, m, leaves)
            begin[:, :m] += leaf
            end[:, d:] += leaf
            leaf *= 1.0 / (s * d)
            begin_mean[:, :m] += leaf
            end_mean[:, d:] += leaf
            for track, part in ((first, PARTS[0]), (second, PARTS[0] + PARTS[1])):
                low, high, share = _between(track, 2 * s * d * part, 2 * s, m)
                low.add_(leaf, alpha=1.0 - share)
                if share:
                    high.add_(leaf, alpha=share)
        return begin_mean, end_mean, first, second, begin, end, None, None, None


def _sum_states(leaf: Tensor, want: bool) -> tuple[Tensor, Tensor | None]:
    """[..., H, L] -> the logarithm of the sum over the states [..., L]; if wanted, with the posterior of the states.

    Of two states the posterior of the second says everything, and the sum is a softplus of their difference.
    """
    if leaf.shape[-2] == 2:
        one, other = leaf.unbind(-2)
        difference = other - one
        return functional.softplus(difference).add_(one), torch.sigmoid(difference) if want else None
    top = leaf.amax(-2, keepdim=True)
    posterior = leaf.sub_(top).exp_()
    total = posterior.sum(-2, keepdim=True)
    value = total.log().add_(top).squeeze(-2)
    return value, posterior.div_(total) if want else None


def _share(value: Tensor, posterior: Tensor) -> Tensor:
    """The gradient of the sums [..., L], divided among the states [..., H, L]."""
    if posterior.dim() == value.dim():
        other = value * posterior
        return torch.stack([value - other, other], -2)
    return posterior * value[..., None, :]
