"""From the posterior of a boundary on a grid to a time, an interval, and the probability that the time is close enough.

P  boundaries      N  grid points; each stands for half a step to either side of it
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 0.020
"""Seconds within which a boundary is usually called correct."""

INTERVAL = 0.90
"""Probability of the interval reported for each boundary."""


@dataclass(frozen=True)
class Boundaries:
    """Times in seconds, [P] each.

    Attributes:
        time: median of the posterior, which has the least expected absolute error.
        low, high: ends of the central interval that holds 90 % of the posterior.
        within: posterior probability that the boundary lies within 20 ms of `time`.
    """

    time: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    within: NDArray[np.float64]


def summarise(posterior: NDArray[np.float64], step: float, *, tolerance: float = TOLERANCE) -> Boundaries:
    """Median, interval and certainty of each row of `posterior` [P, N], with grid points every `step` seconds from 0.

    Rows need not sum to one; they are normalised, that is, conditioned on the boundary's existence. A row of zeros gives NaN.
    """
    total = posterior.sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        cumulated = np.concatenate([np.zeros_like(total), np.cumsum(posterior, 1) / total], 1)  # at n - 1/2
    tail = (1 - INTERVAL) / 2
    time, low, high = (quantile(cumulated, q, step) for q in (0.5, tail, 1 - tail))
    within = _below(cumulated, time + tolerance, step) - _below(cumulated, time - tolerance, step)
    return Boundaries(time, low, high, within)


def share_near(
    posterior: NDArray[np.float64], times: NDArray[np.float64], step: float, *, tolerance: float = TOLERANCE
) -> NDArray[np.float64]:
    """[P] share of each row of `posterior` [P, N] that lies within `tolerance` seconds of the time given for it."""
    total = posterior.sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        cumulated = np.concatenate([np.zeros_like(total), np.cumsum(posterior, 1) / total], 1)
    found: NDArray[np.float64] = _below(cumulated, times + tolerance, step) - _below(cumulated, times - tolerance, step)
    return found


def quantile(cumulated: NDArray[np.float64], share: float, step: float) -> NDArray[np.float64]:
    """[P] time below which `share` of each row lies; `cumulated` [P, N + 1] is at the borders between grid points."""
    count = cumulated.shape[1] - 1
    after = np.clip((cumulated < share).sum(1), 1, count)
    rows = np.arange(len(cumulated))
    below, above = cumulated[rows, after - 1], cumulated[rows, after]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(above > below, (share - below) / (above - below), 0.5)
    found: NDArray[np.float64] = np.clip((after - 1 + part - 0.5) * step, 0.0, (count - 1) * step)
    return np.where(np.isnan(cumulated[:, -1]), np.nan, found)


def _below(cumulated: NDArray[np.float64], time: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """[P] share of each row that lies before the time given for it."""
    at = np.clip(np.nan_to_num(time / step + 0.5), 0, cumulated.shape[1] - 1)
    low = np.minimum(at.astype(int), cumulated.shape[1] - 2)
    rows = np.arange(len(cumulated))
    share = at - low
    between: NDArray[np.float64] = (1 - share) * cumulated[rows, low] + share * cumulated[rows, low + 1]
    return between
