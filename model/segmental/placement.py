"""How probable the right boundaries are where the labels in order are given: what an alignment is asked, as a loss.

The segmental likelihood asks for labels and boundaries at once, on the coarse grid. This one takes the labels as given and
asks where each begins, on the fine grid, in a window around the right place: only a few candidates of a label each are
scored, so that it costs a fraction of the other.

    B  recordings    P  segments of the longest    W  points of a window    L  leaves of the factor    H  states

What counts as right may be several points: a boundary known to 10 ms has three, one that is not to be trusted all of its
window, and then teaches nothing but that the others lie around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from phonechain.model.segmental.network import SemiCRF
from phonechain.model.segmental.sums import NEVER

WINDOW = 8
"""Points of the grid to either side of a boundary's right place that it competes with."""


@dataclass(frozen=True)
class Placed:
    """A recording's segments on the grid of frames.

    Attributes:
        at: [P + 1] grid points of the boundaries, of the recording's ends too.
        labels: [P] indices.
        tolerance: [P + 1] points to either side that are right too.
    """

    at: Sequence[int]
    labels: Sequence[int]
    tolerance: Sequence[int]


def place(at: Sequence[int], labels: Sequence[int], tolerance: Sequence[int], longest: int) -> Placed:
    """Segments on the grid; one of more than `longest` points is several pieces whose borders may be anywhere.

    Args:
        at: [P + 1] grid points of the boundaries.
        tolerance: [P + 1] of each.
    """
    points, names, free = [int(at[0])], list[int](), [int(tolerance[0])]
    for (i, j), label, right in zip(itertools.pairwise(at), labels, tolerance[1:], strict=True):
        count = max(1, -(-int(j - i) // longest))
        points += np.linspace(i, j, count + 1).round().astype(int)[1:].tolist()
        names += [label] * count
        free += [*[WINDOW] * (count - 1), int(right)]
    return Placed(points, names, free)


def log_likelihood(model: SemiCRF, track: Tensor, placed: Sequence[Placed], *, window: int = WINDOW) -> Tensor:
    """[B] log probability that every boundary is right, given the labels; the ends of a recording are where they are.

    Args:
        track: [B, T, C], as `SemiCRF.track` gives it, at least one frame longer than the grid.
    """
    device, most = track.device, max(len(p.labels) for p in placed)
    count = torch.tensor([len(p.labels) for p in placed], device=device)
    at = torch.stack([_filled(p.at, most + 1) for p in placed]).to(device)
    labels = torch.stack([_filled(p.labels, most) for p in placed]).to(device)
    tolerance = torch.stack([_filled(p.tolerance, most + 1) for p in placed]).to(device)
    offset = torch.arange(-window, window + 1, device=device)
    points = at[:, :, None] + offset  # [B, P + 1, W]
    last = at[:, -1, None, None]
    number = torch.arange(most + 1, device=device)
    ends = (number == 0) | (number >= count[:, None])  # [B, P + 1]
    possible = (points >= 0) & (points <= last) & (~ends[..., None] | (offset == 0))
    right = possible & (offset.abs() <= tolerance[..., None])
    inside = points.clamp(min=0).minimum(last)
    scores = model.placed_scores(track, inside[:, :-1], inside[:, 1:], labels)  # [B, P, W, W]
    both = torch.stack([right, possible])  # numerator and denominator, swept together
    alpha = torch.where(both[:, :, 0], 0.0, NEVER)
    found = []
    for p in range(most):
        alpha = torch.logsumexp(alpha[..., None] + scores[:, p], -2).clamp_min(NEVER)
        alpha = torch.where(both[:, :, p + 1], alpha, NEVER)
        found.append(alpha[..., window])
    total = torch.stack(found, -1)[:, torch.arange(len(placed), device=device), count - 1]
    likelihood: Tensor = total[0] - total[1]
    return likelihood


def _filled(values: Sequence[int], count: int) -> Tensor:
    """As a tensor, the last value repeated."""
    row = torch.tensor(list(values), dtype=torch.int64)
    return torch.cat([row, row[-1:].expand(count - len(row))])
