"""Every segmentation of a small lattice, one by one, in double precision."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from phonechain.model.segmental.sums import Lattice

Segments = list[tuple[int, int, int]]
"""(start, end, label) in grid points."""


def segmentations(n: int, d: int, k: int) -> Iterator[Segments]:
    """All of `n` steps into segments of at most `d` steps with one of `k` labels each."""

    def rest(t: int, so_far: Segments) -> Iterator[Segments]:
        if t == n:
            yield so_far
        for e in range(t + 1, min(t + d, n) + 1):
            for y in range(k):
                yield from rest(e, [*so_far, (t, e, y)])

    yield from rest(0, [])


def potential(lattice: Lattice, b: int, segments: Segments) -> Tensor:
    """Its log-potential, term by term, differentiable."""
    total = lattice.first[segments[0][2]] + lattice.last[segments[-1][2]]
    for i, j, y in segments:
        total = total + lattice.scores[b, j - 1, j - i - 1, y]
    for (_, _, x), (_, _, y) in itertools.pairwise(segments):
        total = total + lattice.bigram[x, y]
    return total


def everything(lattice: Lattice, b: int) -> tuple[list[Segments], Tensor]:
    """All segmentations of one recording and their log-potentials [M]."""
    _, _, d, k = lattice.scores.shape
    found = list(segmentations(int(lattice.steps[b]), d, k))
    return found, torch.stack([potential(lattice, b, s) for s in found])


def lattice(
    seed: int, steps: list[int], d: int, k: int, spread: float = 2.0, dtype: torch.dtype = torch.float64
) -> Lattice:
    """Random potentials; what would begin before the recording holds nonsense, as nobody may look at it."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=g, dtype=torch.float64) * spread).to(dtype)

    return Lattice(draw(len(steps), max(steps), d, k), draw(k, k), draw(k), draw(k), torch.tensor(steps))
