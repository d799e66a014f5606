"""Single segmentations: the most probable one, samples, and the one with the most expected correct segments.

B  recordings      N  grid steps      D  longest duration, steps      K  labels
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.model.segmental.sums import NEVER, Lattice, forward

Segments = list[tuple[int, int, int]]
"""(start, end, label index) in grid points, in order."""


def viterbi(lattice: Lattice) -> tuple[list[Segments], Tensor]:
    """The most probable segmentation of each recording, and its log-potential [B]; ties are broken arbitrarily."""
    scores, steps = lattice.scores.detach(), lattice.steps
    b, n, d, k = scores.shape
    best = scores.new_full((b, n + 1, k), NEVER, dtype=torch.float64)
    begin = scores.new_full((b, n + d, k), NEVER, dtype=torch.float64)
    begin[:, n - 1] = lattice.first
    bigram = lattice.bigram.detach().to(torch.float64)
    durations = torch.zeros(b, n + 1, k, dtype=torch.int64, device=scores.device)
    before = torch.zeros(b, n + 1, k, dtype=torch.int64, device=scores.device)
    for t in range(1, n + 1):
        best[:, t], durations[:, t] = (begin[:, n - t : n - t + d] + scores[:, t - 1]).max(1)
        if t < n:
            begin[:, n - 1 - t], before[:, t] = (best[:, t, :, None] + bigram).max(1)
    found = []
    values = best[torch.arange(b, device=scores.device), steps] + lattice.last.detach()
    lasted, preceding = durations.cpu().numpy(), before.cpu().numpy()  # over to the host once, not at every step back
    for r, (t, y) in enumerate(zip(steps.cpu().tolist(), values.argmax(1).cpu().tolist(), strict=True)):
        segments = []
        while t > 0:
            start = t - int(lasted[r, t, y]) - 1
            segments.append((start, t, y))
            y, t = int(preceding[r, start, y]), start
        found.append(segments[::-1])
    return found, values.amax(1)


def sample(lattice: Lattice, count: int, generator: torch.Generator | None = None) -> list[list[Segments]]:
    """`count` segmentations of each recording, drawn from p(segmentation | sound), on the host."""
    with torch.no_grad():
        way = forward(lattice, durations=True)
    assert way.durations is not None
    alpha, durations = way.alpha.cpu(), way.durations.cpu()
    bigram, last, steps = (t.detach().cpu() for t in (lattice.bigram, lattice.last, lattice.steps))

    def draw(weights: Tensor) -> int:
        return int(torch.multinomial(weights, 1, generator=generator))

    drawn: list[list[Segments]] = []
    for r, end in enumerate(steps.tolist()):
        ends = torch.softmax(alpha[r, end] + last, 0)
        drawn.append([])
        for _ in range(count):
            t, y, segments = end, draw(ends), []
            while t > 0:
                start = t - draw(durations[r, t - 1, :, y]) - 1
                segments.append((start, t, y))
                if start > 0:
                    y = draw(torch.softmax(alpha[r, start] + bigram[:, y], 0))
                t = start
            drawn[-1].append(segments[::-1])
    return drawn


def posteriors_within(posteriors: NDArray[np.floating], tolerance: int) -> NDArray[np.floating]:
    """[N, D, K]: posterior that there is a segment of that label with both ends within `tolerance` steps of these.

    From the posteriors of exact segments, [N, D, K]. An upper bound where two such segments of one label fit into the
    tolerance one after the other.
    """
    n, d, k = posteriors.shape
    w = tolerance
    # in ends and starts the window is a box: a sum over ends at each start, then over starts at each end
    padded = np.zeros((n + 2 * w, d + 4 * w, k), dtype=posteriors.dtype)
    padded[w : w + n, 2 * w : 2 * w + d] = posteriors
    # the same start at an end e steps later is a duration e steps longer
    ends = np.zeros((n, d + 2 * w, k), dtype=posteriors.dtype)
    for e in range(-w, w + 1):
        ends += padded[w + e : w + e + n, w + e : w + e + d + 2 * w]
    summed = np.zeros((n, d, k), dtype=posteriors.dtype)
    for e in range(-w, w + 1):
        summed += ends[:, w + e : w + e + d]
    return summed


def posterior_decoding(posteriors: NDArray[np.floating], *, tolerance: int = 1, cost: float = 0.2) -> Segments:
    """The segmentation with the most expected right segments, less `cost` for each segment.

    A segment counts as right if there is one of its label with both ends within `tolerance` steps. The cost is what
    keeps improbable segments out: one that is right with less probability than that loses.

    Args:
        posteriors: [N, D, K] of one recording; D is cut to N.
    """
    n, d = len(posteriors), min(posteriors.shape[1], len(posteriors))
    near = posteriors_within(posteriors[:, :d], tolerance)
    label = near.argmax(2)
    gain = near.max(2) - cost
    best, back = np.full(n + 1, NEVER), np.zeros(n + 1, dtype=int)
    best[0] = 0.0
    for t in range(1, n + 1):
        lengths = np.arange(1, min(d, t) + 1)
        total = best[t - lengths] + gain[t - 1, lengths - 1]
        back[t] = int(total.argmax()) + 1
        best[t] = total[back[t] - 1]
    segments, t = [], n
    while t > 0:
        start = t - int(back[t])
        segments.append((start, t, int(label[t - 1, back[t] - 1])))
        t = start
    return segments[::-1]


def merge_pieces(segments: Segments, longest: int, always: int | None = None) -> Segments:
    """Join pieces of one phone: neighbours with the same label that together outlast the longest candidate.

    Shorter ones are two phones ("bus stop"), unless the label is `always`: two silences in a row are one.
    """
    out: Segments = []
    for start, end, label in segments:
        if out and out[-1][2] == label and (label == always or end - out[-1][0] > longest):
            out[-1] = (out[-1][0], end, label)
        else:
            out.append((start, end, label))
    return out
