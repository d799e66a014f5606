"""Confidence intervals of error rates, and tests of whether two systems differ on the same segments.

Errors within an utterance are correlated, so the unit that is drawn, or counted once, is the utterance or the speaker.
Everything is seeded: the same input gives the same intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

DRAWS = 2000
"""Bootstrap samples."""
FEWEST_UNITS = 3
"""Fewest units for an interval: a bootstrap of two speakers has only three different rates."""
EXACT_UNITS = 20
"""Units up to which the matched-pairs test enumerates all changes of sign; above that it uses Student's t."""


@dataclass(frozen=True)
class Interval:
    """A bootstrap confidence interval (percentiles).

    `low` and `high` are None where there are too few units for one; `reason` says so.
    """

    low: float | None
    high: float | None
    level: float
    units: int
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """Two systems, a and b, on the same segments.

    Attributes:
        segments, units: how many segments, and how many utterances or speakers.
        per_a, per_b: error rates, 0 to 1.
        difference: per_b - per_a; below 0 where b is better.
        interval: paired bootstrap interval of the difference, over the units.
        only_a_wrong, only_b_wrong, both_wrong: segments.
        mcnemar_exact, mcnemar_mid: two-sided p of "both err equally often", segments taken as independent (Fagerland,
            Lydersen and Laake 2013).
        bootstrap: two-sided p of the paired bootstrap.
        matched_pairs: two-sided p of the matched-pairs test (Gillick and Cox 1989) on the error counts of each unit, by
            all changes of sign or, of many units, by Student's t; None with fewer than two units.
        matched_t: its statistic; None where every unit has the same difference.
    """

    segments: int
    units: int
    per_a: float
    per_b: float
    difference: float
    interval: Interval
    only_a_wrong: int
    only_b_wrong: int
    both_wrong: int
    mcnemar_exact: float
    mcnemar_mid: float
    bootstrap: float | None
    matched_pairs: float | None
    matched_t: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable."""
        return asdict(self)


def interval(
    errors: Sequence[bool] | NDArray[np.bool_],
    units: Sequence[Any] | NDArray[Any],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 1,
) -> Interval:
    """Confidence interval of an error rate: whole units are drawn with replacement.

    Args:
        errors: [N] whether each segment is wrong.
        units: [N] the utterance or speaker of each segment.
        level: share of the bootstrap rates inside the interval.

    Examples:
        >>> errors = [True, False, False, True, False, False, False, False]
        >>> found = interval(errors, units=["amy", "amy", "bob", "bob", "cy", "cy", "di", "di"])
        >>> found.low <= 0.25 <= found.high, found.units
        (True, 4)
    """
    wrong, unit = _check_units(errors, units)
    wrongs, sizes = _per_unit(wrong, unit)
    if len(sizes) < FEWEST_UNITS:
        return _no_interval(level, len(sizes))
    counts = _draw(len(sizes), draws, seed)
    low, high = np.quantile((counts @ wrongs) / (counts @ sizes), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, len(sizes))


def share_intervals(
    hits: Sequence[bool] | NDArray[np.bool_],
    groups: Sequence[int] | NDArray[np.int64],
    units: Sequence[Any] | NDArray[Any],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 1,
) -> list[Interval]:
    """Confidence interval of the share of hits in each group, 0 to max(groups): whole units are drawn with replacement.

    Where few segments of a group are hits, or few are not, a bootstrap is too narrow (of a group of hits alone it is a
    point), so each interval also holds that of Clopper and Pearson (1934), which takes segments as independent.

    Args:
        hits: [N] whether each segment counts.
        groups: [N] the group of each.
        units: [N] the utterance or speaker of each.

    Examples:
        >>> units = ["amy", "amy", "bob", "bob", "cy", "cy"]
        >>> found = share_intervals([True, False] * 3, [0, 1] * 3, units)
        >>> [(round(one.low, 2), round(one.high, 2)) for one in found]
        [(0.29, 1.0), (0.0, 0.71)]
    """
    hit, unit = _check_units(hits, units)
    group = np.asarray(groups)
    shape = (int(unit.max()) + 1, int(group.max()) + 1)
    right, sizes = np.zeros(shape), np.zeros(shape)
    np.add.at(right, (unit, group), hit)
    np.add.at(sizes, (unit, group), 1)
    counts = _draw(shape[0], draws, seed)
    with np.errstate(invalid="ignore"):
        rates = (counts @ right) / (counts @ sizes)  # [draws, groups]; nan where none of a group's units were drawn
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = []
    for g in range(shape[1]):
        there = int((sizes[:, g] > 0).sum())
        if there < FEWEST_UNITS:
            found.append(_no_interval(level, there))
            continue
        low, high = np.nanquantile(rates[:, g], tails)
        exact = stats.binomtest(int(right[:, g].sum()), int(sizes[:, g].sum())).proportion_ci(level, "exact")
        found.append(Interval(float(min(low, exact.low)), float(max(high, exact.high)), level, there))
    return found


def compare(
    errors_a: Sequence[bool] | NDArray[np.bool_],
    errors_b: Sequence[bool] | NDArray[np.bool_],
    units: Sequence[Any] | NDArray[Any],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 1,
) -> Comparison:
    """Whether system b differs from system a, by three tests.

    Args:
        errors_a, errors_b: [N] whether each system is wrong on each segment, the same segments in the same order.
        units: [N] the utterance or speaker of each segment.

    Raises:
        ValueError: the lengths differ, or there are no segments.

    Examples:
        >>> a = [True, True, True, False, True, True, False, False]
        >>> b = [True, False, False, False, False, True, False, False]
        >>> found = compare(a, b, units=["amy", "amy", "bob", "bob", "cy", "cy", "di", "di"])
        >>> found.per_a, found.per_b, found.difference, found.only_a_wrong
        (0.625, 0.25, -0.375, 3)
    """
    a, unit = _check_units(errors_a, units)
    b, _ = _check_units(errors_b, units)
    only_a, only_b = int(np.sum(a & ~b)), int(np.sum(b & ~a))
    exact, mid = mcnemar(only_a, only_b)
    net, sizes = _per_unit(b.astype(np.int64) - a.astype(np.int64), unit)
    if len(sizes) >= FEWEST_UNITS:
        counts = _draw(len(sizes), draws, seed)
        rates = (counts @ net) / (counts @ sizes)
        low, high = (float(q) for q in np.quantile(rates, [(1 - level) / 2, (1 + level) / 2]))
        bounds = Interval(low, high, level, len(sizes))
        tail = min(int(np.sum(rates <= 0)), int(np.sum(rates >= 0)))
        bootstrap = min(1.0, 2 * (tail + 1) / (draws + 1))
    else:
        bounds, bootstrap = _no_interval(level, len(sizes)), None
    matched, t = matched_pairs(net)
    return Comparison(
        segments=len(a),
        units=len(sizes),
        per_a=float(a.mean()),
        per_b=float(b.mean()),
        difference=float(b.mean() - a.mean()),
        interval=bounds,
        only_a_wrong=only_a,
        only_b_wrong=only_b,
        both_wrong=int(np.sum(a & b)),
        mcnemar_exact=exact,
        mcnemar_mid=mid,
        bootstrap=bootstrap,
        matched_pairs=matched,
        matched_t=t,
    )


def mcnemar(only_a: int, only_b: int) -> tuple[float, float]:
    """Two-sided exact and mid-p values of McNemar's test from the two counts of segments that only one errs on.

    Examples:
        >>> exact, mid = mcnemar(10, 2)
        >>> round(exact, 4), round(mid, 4)
        (0.0386, 0.0225)
    """
    n, low = only_a + only_b, min(only_a, only_b)
    if n == 0:
        return 1.0, 1.0
    exact = float(stats.binomtest(low, n, 0.5).pvalue)
    point = float(stats.binom.pmf(low, n, 0.5))
    return exact, exact - (point / 2 if only_a == only_b else point)


def matched_pairs(differences: Sequence[float] | NDArray[Any]) -> tuple[float | None, float | None]:
    """The matched-pairs test that the mean of the units' error differences is 0: two-sided p, and the statistic t.

    Gillick and Cox use the normal distribution, which needs many units. Up to EXACT_UNITS of them, p is the share of all
    changes of sign with a mean as far from 0; above that, it is that of Student's t. p is None with fewer than two units; t is
    None where all differences are equal, for then their deviation is zero.
    """
    d = np.asarray(differences, dtype=np.float64)
    if len(d) < 2:
        return None, None
    t = None if np.ptp(d) == 0 else float(d.mean() / (d.std(ddof=1) / np.sqrt(len(d))))
    if len(d) <= EXACT_UNITS:
        return _sign_flips(d), t
    if t is None:
        return (1.0 if d[0] == 0 else float(2.0 ** (1 - len(d)))), None
    return float(2 * stats.t.sf(abs(t), len(d) - 1)), t


def _sign_flips(d: NDArray[np.float64]) -> float:
    """Share of the 2**n sums of the differences under all changes of sign that are as far from 0 as the one seen."""
    moved = d[d != 0]  # signs of zeros change nothing
    sums = np.zeros(1)
    for value in moved:
        sums = np.concatenate([sums + value, sums - value])
    seen = abs(moved.sum())
    return float((np.abs(sums) >= seen - 1e-9 * max(1.0, seen)).mean())


def _no_interval(level: float, units: int) -> Interval:
    """The interval of too few units, which says so."""
    counted = "one utterance or speaker" if units == 1 else f"{units} utterances or speakers"
    return Interval(None, None, level, units, f"not computed: {counted}, at least {FEWEST_UNITS} are needed")


def _check_units(errors: Any, units: Any) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    wrong = np.asarray(errors, dtype=bool)
    if wrong.ndim != 1 or len(wrong) != len(units) or len(wrong) == 0:
        raise ValueError(f"expected one or more errors and as many units, got {wrong.shape} and {len(units)}")
    return wrong, np.unique(np.asarray(units), return_inverse=True)[1].reshape(-1)


def _per_unit(values: NDArray[Any], unit: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum of the values, and number of segments, of each unit."""
    return np.bincount(unit, values).astype(np.float64), np.bincount(unit).astype(np.float64)


def _draw(units: int, draws: int, seed: int) -> NDArray[np.float64]:
    """[draws, units] how often each unit is in each bootstrap sample."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(units, np.full(units, 1 / units), size=draws).astype(np.float64)
