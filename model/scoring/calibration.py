"""Calibration of posteriors, and how well low ones point to errors. Pure functions on arrays.

N  segments       Y  labels of the model
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from phonechain.model.scoring.significance import Interval, share_intervals

BINS = 15
"""Bins of the calibration table; each holds as many segments as the next (ties stay together)."""
DOUBT_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
TOP = (1, 2, 3, 5)
SMALLEST = float(np.finfo(np.float32).tiny)
"""A posterior of 0 is counted as this in the log-likelihood: one segment must not make it infinite."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ReliabilityBin:
    """Segments whose label's posterior lies in [low, high]: the mean posterior, and the accuracy.

    `interval` is that of the accuracy, over speakers or utterances; None where those were not given.
    """

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float
    interval: Interval | None = None

    @property
    def calibrated(self) -> bool | None:
        """Whether the mean posterior lies within the interval of the accuracy; None without one."""
        if self.interval is None or self.interval.low is None or self.interval.high is None:
            return None
        return self.interval.low <= self.confidence <= self.interval.high


@dataclass(frozen=True)
class DoubtRow:
    """The least certain `share` of the segments: how often they are wrong, and how many of all errors they hold.

    Where the edge falls among equally certain segments, `errors` is the expected number in a random choice of them.
    """

    share: float
    segments: int
    below: float
    errors: float
    error_rate: float
    share_of_errors: float | None


def reliability_table(
    confidence: ArrayLike,
    right: ArrayLike,
    bins: int = BINS,
    *,
    units: Sequence[Any] | None = None,
    level: float = 0.95,
    seed: int = 1,
) -> list[ReliabilityBin]:
    """Mean confidence and accuracy of bins of equal size; equally confident segments share a bin; no bin is empty.

    Args:
        confidence: [N] posterior of the given label.
        right: [N] whether it is the true one.
        units: [N] the speaker or utterance of each, for intervals of the shares.
        level: of the intervals.
        seed: of their bootstrap.

    Examples:
        >>> table = reliability_table([0.5, 0.6, 0.9, 0.95], [False, True, True, True], bins=2)
        >>> [(bin.count, round(bin.confidence, 3), bin.accuracy) for bin in table]
        [(2, 0.55, 0.5), (2, 0.925, 1.0)]
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=bool)
    _, group, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2  # rank of the middle of each group of equals: no order among them matters
    bin_of = np.minimum((middle / len(confidence) * bins).astype(np.int64), bins - 1)[group.reshape(-1)]
    _, bin_of = np.unique(bin_of, return_inverse=True)
    bin_of = bin_of.reshape(-1)
    intervals: Sequence[Interval | None] = [None] * (int(bin_of.max()) + 1)
    if units is not None:
        intervals = share_intervals(right, bin_of, units, level=level, seed=seed)
    table = []
    for b, interval in enumerate(intervals):
        inside = bin_of == b
        c = confidence[inside]
        share = float(right[inside].mean())
        table.append(
            ReliabilityBin(float(c.min()), float(c.max()), int(inside.sum()), float(c.mean()), share, interval)
        )
    return table


def calibration_error(table: Sequence[ReliabilityBin]) -> float:
    """Expected calibration error: mean distance of confidence and accuracy over the bins, by their sizes.

    Examples:
        >>> round(calibration_error(reliability_table([0.5, 0.6, 0.9, 0.95], [False, True, True, True], bins=2)), 4)
        0.0625
    """
    total = sum(b.count for b in table)
    return sum(b.count * abs(b.confidence - b.accuracy) for b in table) / total


def chance_calibration_error(confidence: ArrayLike, bins: int = BINS, *, draws: int = 100, seed: int = 1) -> float:
    """The calibration error that a perfectly calibrated model would show on so many segments, by chance: the mean over draws.

    Args:
        confidence: [N] posterior of the given label.

    Examples:
        >>> round(chance_calibration_error([0.7] * 100), 3), round(chance_calibration_error([0.7] * 10000), 3)
        (0.038, 0.003)
    """
    p = np.sort(np.asarray(confidence, dtype=np.float64))
    first = np.asarray([0, *np.cumsum([b.count for b in reliability_table(p, np.zeros(len(p)), bins)])[:-1]])
    random = np.random.default_rng(seed)
    gaps = [np.abs(np.add.reduceat((random.random(len(p)) < p) - p, first)).sum() for _ in range(draws)]
    return float(np.mean(gaps) / len(p))


def brier(true: Ints, posterior: Floats) -> float:
    """Mean squared distance of the posterior [N, Y] from the truth [N]; an unknown label (-1) counts as a further label.

    Examples:
        >>> brier(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
        0.25
    """
    return float(np.mean((posterior**2).sum(1) + 1.0 - 2.0 * of_true(true, posterior)))


def doubt_table(confidence: ArrayLike, wrong: ArrayLike, shares: Sequence[float] = DOUBT_SHARES) -> list[DoubtRow]:
    """Error rates among the least certain segments, for growing shares of all segments.

    Args:
        confidence: [N] posterior of the given label.
        wrong: [N] whether it is not the true one.

    Examples:
        >>> [row] = doubt_table([0.3, 0.9, 0.8, 0.99], [True, False, False, False], shares=(0.25,))
        >>> row.error_rate, row.share_of_errors
        (1.0, 1.0)
    """
    confidence, wrong = np.asarray(confidence, dtype=np.float64), np.asarray(wrong, dtype=bool)
    order = np.argsort(confidence, kind="stable")
    ranked, errors = confidence[order], np.concatenate([[0], np.cumsum(wrong[order])])
    total = int(errors[-1])
    rows = []
    for share in shares:
        k = min(len(ranked), max(1, int(np.ceil(share * len(ranked) - 1e-9))))
        edge = ranked[k - 1]
        first, last = np.searchsorted(ranked, edge, "left"), np.searchsorted(ranked, edge, "right")
        found = float(errors[first] + (errors[last] - errors[first]) * (k - first) / (last - first))
        rows.append(DoubtRow(share, k, float(edge), found, found / k, found / total if total else None))
    return rows


def doubt_auc(confidence: Floats, wrong: NDArray[np.bool_]) -> float | None:
    """Mann and Whitney's statistic of the confidences of right against wrong segments; ties count half."""
    n_wrong, n_right = int(wrong.sum()), int((~wrong).sum())
    if not n_wrong or not n_right:
        return None
    above = stats.rankdata(confidence)[~wrong].sum() - n_right * (n_right + 1) / 2
    return float(above / (n_wrong * n_right))


def of_true(y: Ints, p: Floats) -> Floats:
    """[N] posterior of the true label, 0 where the model does not have it."""
    return np.where(y >= 0, p[np.arange(len(y)), y], 0.0)


def log_loss(y: Ints, p: Floats) -> float | None:
    """Mean negative log posterior [N, Y] of the true label [N], in nats, over the known ones; None without any.

    Examples:
        >>> round(log_loss(np.array([0, 1]), np.array([[0.5, 0.5], [0.5, 0.5]])), 4)
        0.6931
    """
    known = y >= 0
    return float(-np.log(np.maximum(of_true(y, p)[known], SMALLEST)).mean()) if known.any() else None


def top_shares(y: Ints, p: Floats) -> dict[int, float]:
    """Share of the segments whose true label is among the n most probable, for n in TOP. Ties count against it."""
    rank = (p >= of_true(y, p)[:, None]).sum(1)
    return {n: float(((rank <= n) & (y >= 0)).mean()) for n in TOP if n <= p.shape[1]}
