"""The sums of `sums` and `graph` for one recording in scaled probabilities: the same answers, several times faster.

    N  grid steps      D  longest duration, steps      K  labels      P  nodes of a graph      M  most arcs at a node

Sums over segmentations in logarithms spend their time on exp and log. Here each score is exponentiated once, after a gauge
has been subtracted: a constant per grid step, shared by all segmentations, that keeps the results near one. Rows of sums are
rescaled whenever they leave [1/ROOM, ROOM]. In double precision this loses only what is below about 1e-200 of the best at
its time. Where potentials are too large for that, the functions return None, and the caller uses logarithms.

A graph's sweep is also limited to the nodes whose sums are above exp(-BEAM) of the best at that time: a path that was ever
worse than the best by BEAM nats is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROOM = 1e80
"""Sums are rescaled when they leave [1 / ROOM, ROOM]."""

LARGEST = 100.0
"""Most nats of a score above the gauge."""

SPREAD = 200.0
"""Largest absolute weight of an n-gram or arc, in nats."""

BEAM = 150.0
"""A node of a graph is left out when it is this many nats below the best at that time."""

EVERY = 8
"""Grid steps between prunings of the nodes."""


@dataclass(frozen=True)
class Potentials:
    """exp(scores - gauge) of a recording; zero for segments that would begin before it.

    Attributes:
        padded: [N + D, D, K]; the last D rows are zero.
        gauge: [N + 1] what was subtracted from a segmentation up to each grid point.
    """

    padded: Array
    gauge: Array

    @classmethod
    def of(cls, scores: NDArray[np.floating]) -> Potentials | None:
        """From log-potentials [N, D, K]; None where they are too large for this module."""
        n, d, _ = scores.shape
        room = min(d, n)
        best = scores.max(2).astype(np.float64)  # [N, D]
        start = np.arange(1, n + 1)[:, None] - np.arange(1, d + 1)
        valid = start >= 0
        each = np.where(valid, best / np.arange(1, d + 1), -np.inf).max(1)
        if not np.isfinite(each).all():
            return None
        gauge = np.concatenate([[0.0], np.cumsum(each)])
        taken = gauge[1:, None] - gauge[np.maximum(start, 0)]
        if float(np.max(np.where(valid, best - taken, -np.inf))) > LARGEST:
            return None
        padded = np.zeros((n + d, d, scores.shape[2]))
        ending = padded[:n]
        with np.errstate(over="ignore"):  # of what begins before the recording
            np.exp(np.subtract(scores, taken[:, :, None], out=ending), out=ending)
        ending[:room][~valid[:room]] = 0.0
        return cls(padded, gauge)

    @property
    def ending(self) -> Array:
        """[N, D, K] by the grid point of the end, as `sums.Lattice` has them."""
        return self.padded[: len(self.gauge) - 1]

    @cached_property
    def beginning(self) -> Array:
        """[N, D, K] by the grid point of the start; zero for segments that would end after the recording."""
        a, b, c = self.padded.strides
        return as_strided(self.padded, self.ending.shape, (a, a + b, c))


def free_posteriors(
    p: Potentials, bigram: Array, first: Array, last: Array
) -> tuple[float, NDArray[np.float32]] | None:
    """log Z of all segmentations and the posteriors of all segments [N, D, K]; None where the weights are too large."""
    n, d, k = p.ending.shape
    if max(float(np.abs(w).max()) for w in (bigram, first, last)) > SPREAD:
        return None
    table = np.exp(bigram)
    back = np.ascontiguousarray(table.T)
    g, g_scale = np.zeros((n + d, k)), np.zeros(n + d)  # reverse time, as in `sums.forward`
    g[n - 1] = np.exp(first)
    alpha = np.zeros(k)
    room = np.empty((d, k))
    scale = 0.0
    for t in range(1, n + 1):
        np.multiply(p.ending[t - 1], g[n - t : n - t + d], out=room)
        np.add.reduce(room, 0, out=alpha)
        if t == n:
            break
        row = n - 1 - t
        np.dot(alpha, table, out=g[row])
        renewed = _rescale(g[row : row + d], g_scale[row : row + d], scale)
        if renewed is None:
            return None
        scale = renewed
    total = float(alpha @ np.exp(last))
    if not 0.0 < total < np.inf:
        return None
    log_z = float(np.log(total)) + scale
    h, h_scale = np.zeros((n + d + 1, k)), np.zeros(n + d + 1)  # h[t]: what follows a segment that ends at t
    h[n] = np.exp(last)
    scale = 0.0
    for t in range(n - 1, 0, -1):
        np.multiply(p.beginning[t], h[t + 1 : t + 1 + d], out=room)
        np.dot(np.add.reduce(room, 0), back, out=h[t])
        renewed = _rescale(h[t : t + d], h_scale[t : t + d], scale)
        if renewed is None:
            return None
        scale = renewed
    a, b = g[n - 1 :].strides
    began = as_strided(g[n - 1 :], (n, d, k), (-a, a, b))
    (c,) = g_scale.strides
    scales = as_strided(g_scale[n - 1 :], (n, d), (-c, c)) + h_scale[1 : n + 1, None] - log_z
    shares = p.ending * h[1 : n + 1, None]
    shares *= began
    shares *= np.exp(np.clip(scales, -700.0, 700.0))[:, :, None]
    return log_z + float(p.gauge[n]), shares.astype(np.float32)


def _rescale(rows: Array, scales: Array, scale: float) -> float | None:
    """Bring the newest message, `rows[0]`, back into range, together with the older ones that are still in use.

    Returns the logarithm of what the messages have been divided by so far, which `scales` keep for each of them; None where
    the message has vanished or overflowed.
    """
    top = float(rows[0].max())
    if 1 / ROOM < top < ROOM:
        scales[0] = scale
        return scale
    if not 0.0 < top < np.inf:
        return None
    scale += np.log(top)
    rows /= top
    scales[:] = scale
    return scale


@dataclass(frozen=True)
class Arcs:
    """A graph's weights, as factors.

    Attributes:
        labels: [P] label of each node.
        before, before_weight: [P, M] nodes before each (P means none) and the factor of each arc.
        after, after_weight: the same for the nodes after.
        start, final, loop: [P] factors of being first, being last, and of one more piece.
        reach: [P] the last node that this one or an earlier one leads to.
    """

    labels: NDArray[np.int64]
    before: NDArray[np.int64]
    before_weight: Array
    after: NDArray[np.int64]
    after_weight: Array
    start: Array
    final: Array
    loop: Array
    reach: NDArray[np.int64]


def graph_posteriors(
    p: Potentials, arcs: Arcs, prior: Array | None, ranges: list[slice] | None
) -> tuple[float, Array, Array] | None:
    """log Z of a graph, and posteriors of its nodes' starts and ends, [P, N + 1] each; None where scaling fails.

    Args:
        prior: [N + 1, P] factor of a node that begins at a grid point.
        ranges: active nodes at each grid point; None lets the beam find them.
    """
    n, d, _ = p.ending.shape
    nodes = len(arcs.labels)
    g = np.zeros((n + d, nodes))
    alpha, enter = np.zeros((n + 1, nodes + 1)), np.zeros((n + 1, nodes))
    g[n - 1] = arcs.start if prior is None else arcs.start * prior[0]
    a_scale = np.zeros(n + 1)
    scale, faint = 0.0, float(np.exp(-BEAM))
    found: list[slice] = [slice(0, nodes)] * (n + 1) if ranges is None else list(ranges)
    some = np.flatnonzero(g[n - 1])
    if not len(some):
        return None
    low, high = int(some[0]), int(some[-1]) + 1
    for t in range(1, n + 1):
        here = slice(low, high) if ranges is None else ranges[t]
        a = alpha[t, here]
        np.einsum("dp,dp->p", p.ending[t - 1].take(arcs.labels[here], 1), g[n - t : n - t + d, here], out=a)
        a_scale[t] = scale
        if t == n:
            found[t] = here
            break
        if ranges is None:
            loud = np.flatnonzero(a > faint * a.max())
            if len(loud):
                high = max(high, int(arcs.reach[low + int(loud[-1])]) + 1)
            found[t] = there = slice(low, high)
        else:
            there = here
        e = np.einsum("pm,pm->p", alpha[t].take(arcs.before[there]), arcs.before_weight[there])
        enter[t, there] = e
        if prior is not None:
            e = e * prior[t, there]
        e += alpha[t, :-1][there] * arcs.loop[there]
        row = n - 1 - t
        g[row, there] = e
        top = float(e.max()) if len(e) else 0.0
        if top > ROOM or 0.0 < top < 1 / ROOM:
            scale += np.log(top)
            g[row : row + d] /= top
        if ranges is None and t % EVERY == 0:
            column = g[row : row + d, low:high].max(0)
            loud = np.flatnonzero(column > faint * column.max())
            if not len(loud):
                return None
            low, high = low + int(loud[0]), low + int(loud[-1]) + 1
    last = alpha[n, :-1] * arcs.final
    total = float(last.sum())
    if not 0.0 < total < np.inf:
        return None
    log_z = float(np.log(total)) + scale
    return _back(p, arcs, prior, found, alpha, enter, a_scale, last / total, log_z)


def _back(
    p: Potentials, arcs: Arcs, prior: Array | None, ranges: list[slice], alpha: Array, enter: Array, a_scale: Array,
    last: Array, log_z: float,
) -> tuple[float, Array, Array] | None:  # fmt: skip
    n, d, _ = p.ending.shape
    nodes = len(arcs.labels)
    h = np.zeros((n + d + 1, nodes))
    h[n] = arcs.final
    arriving, leaving = np.zeros((n + 1, nodes + 1)), np.zeros((n + 1, nodes))
    scales = np.zeros(n + 1)
    scale = 0.0
    for t in range(n - 1, 0, -1):
        here = ranges[t]
        b = np.einsum("dp,dp->p", p.beginning[t].take(arcs.labels[here], 1), h[t + 1 : t + 1 + d, here])
        scales[t] = scale
        arriving[t, here] = b if prior is None else b * prior[t, here]
        leaves = leaving[t, here]
        np.einsum("pm,pm->p", arriving[t].take(arcs.after[here]), arcs.after_weight[here], out=leaves)
        b *= arcs.loop[here]
        b += leaves
        h[t, here] = b
        top = float(b.max()) if len(b) else 0.0
        if top > ROOM or 0.0 < top < 1 / ROOM:
            scale += np.log(top)
            h[t : t + d] /= top
    first = np.einsum("dp,dp->p", p.beginning[0].take(arcs.labels, 1), h[1 : 1 + d])
    first *= arcs.start if prior is None else arcs.start * prior[0]
    first *= float(np.exp(np.clip(scale - log_z, -700.0, 700.0)))
    shares = np.exp(np.clip(scales + a_scale - log_z, -700.0, 700.0))[:, None]
    begins, ends = enter * arriving[:, :-1] * shares, alpha[:, :-1] * leaving * shares
    begins[0], ends[n] = first, last
    if not np.isfinite(begins).all() or not np.isfinite(ends).all():
        return None
    return log_z + float(p.gauge[n]), begins.T, ends.T
