"""Steps between the two passes of an alignment and its answer: priors, search masks, the best path, posteriors of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.model.segmental import scaled
from phonechain.model.segmental.graph import GraphPosteriors, PhoneGraph
from phonechain.model.segmental.sums import NEVER

KEPT = 1e-4
"""Least posterior of a grid point in the first pass for the second to search there."""


@dataclass(frozen=True)
class EncodedSound:
    """A recording as the model sees it: its track, the scores on the coarse grid with their exponentials, if usable, and
    those on the fine grid, where they were asked for (perhaps a few steps more than it has).
    """

    track: Tensor
    duration: float
    coarse: Tensor
    steps: int
    potentials: scaled.Potentials | None
    fine: Tensor | None = None


@dataclass(frozen=True)
class FreePosteriors:
    """The free chain's log Z, and its posteriors of all segments [N, D, K]."""

    log_z: float
    segments: NDArray[np.float32]


def best_path(graph: PhoneGraph, posteriors: GraphPosteriors) -> list[int]:
    """The nodes of the answer: the most probable variant of each word, and the silences that are more probable than not."""
    visited = posteriors.visited
    best: dict[int, tuple[float, int]] = {}
    for n, node in enumerate(graph.nodes):
        if node.word is not None and node.position == 0:
            best[node.word] = max(best.get(node.word, (-1.0, 0)), (float(visited[n]), -node.variant))
    chosen = []
    for n, node in enumerate(graph.nodes):
        if node.word is None:
            if visited[n] > 0.5:
                chosen.append(n)
        elif node.variant == -best[node.word][1]:
            chosen.append(n)
    return chosen


def start_prior(starts: Tensor, spread: float, window: float, steps: int, step: float) -> Tensor:
    """[P, N + 1] log weights: normal around given starts, NEVER outside the window; the first node begins the recording."""
    off = torch.arange(steps + 1, dtype=torch.float64) * step - starts[:, None]
    prior = torch.where(off.abs() <= max(window, step), -0.5 * (off / spread) ** 2, NEVER)
    prior[0, 0] = 0.0
    return prior


def search_mask(first: GraphPosteriors, fine: int, ratio: float) -> Tensor:
    """[P, fine + 1] log weights: 0 within a coarse step of where a node is still possible after the first pass, else NEVER."""
    kept = first.begin > KEPT * np.maximum(first.visited[:, None], KEPT)
    wide = kept.copy()
    wide[:, 1:] |= kept[:, :-1]
    wide[:, :-1] |= kept[:, 1:]
    coarse = np.clip(np.round(np.arange(fine + 1) / ratio).astype(int), 0, kept.shape[1] - 1)
    allowed = wide[:, coarse]
    allowed[:, 0] |= first.begin[:, 0] > 0
    return torch.where(torch.from_numpy(allowed), 0.0, NEVER).to(torch.float64)


def label_posteriors(segments: NDArray[np.float32]) -> NDArray[np.float64]:
    """[N, K] posterior of the label at each step of the grid, from the posteriors of segments [N, D, K]."""
    n, d, k = segments.shape
    change = np.zeros((n + 1, k))
    change[1:] -= segments.sum(1)
    for length in range(1, min(d, n) + 1):
        change[: n - length + 1] += segments[length - 1 :, length - 1]
    shares: NDArray[np.float64] = np.clip(change.cumsum(0)[:n], 0.0, 1.0)
    return shares


def mean_between(track: NDArray[np.float64], start: float, end: float, step: float) -> NDArray[np.float64]:
    """[K] mean between two times (s) of a track [N, K] over grid steps."""
    edges = np.arange(len(track) + 1) * step
    share = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0.0, None)
    if share.sum() <= 0.0:
        share[min(int(start / step), len(track) - 1)] = 1.0
    average: NDArray[np.float64] = share @ track / share.sum()
    return average
