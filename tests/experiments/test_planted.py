"""Planted errors: where they are is known, what is planted is what its name says, and precision counts them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.planted import (
    PAIRS,
    STEP,
    Planted,
    confusable_labels,
    fit,
    move_boundaries,
    precision,
    precision_over_floor,
    random_labels,
)
from phonechain.features.segments import Segment

LABELS = ["D", "IH", "IY", "K", "S", "T", "Z"]


def segments(count: int = 2000) -> list[Segment]:
    random = np.random.default_rng(0)
    edges = np.concatenate([[0.0], np.cumsum(random.uniform(0.03, 0.2, count))])
    return [Segment(float(a), float(b), str(random.choice(LABELS))) for a, b in itertools.pairwise(edges)]


def test_planted_labels_are_wrong_where_it_says_and_nowhere_else() -> None:
    given = segments()
    for plant in (random_labels, confusable_labels):
        one = plant(given, LABELS, 0.05, np.random.default_rng(1))
        changed = [a.label != b.label for a, b in zip(given, one.segments, strict=True)]
        assert changed == one.wrong.tolist()
        assert 0.02 < one.wrong.mean() < 0.25
    pairs = {frozenset(p) for p in PAIRS}
    one = confusable_labels(given, LABELS, 0.05, np.random.default_rng(1))
    assert {
        frozenset((a.label, b.label)) for a, b, bad in zip(given, one.segments, one.wrong, strict=True) if bad
    } == pairs


def test_moved_boundaries_leave_segments_in_order() -> None:
    given = segments()
    one = move_boundaries(given, LABELS, 0.05, np.random.default_rng(1))
    moves = [abs(a.end - b.end) for a, b in zip(given, one.segments, strict=True)][:-1]
    assert [m > 1e-9 for m in moves] == one.wrong.tolist()
    assert [m for m in moves if m > 1e-9] == pytest.approx([STEP] * int(one.wrong.sum()))
    assert 0.02 < one.wrong.mean() < 0.06
    assert all(a.end == b.start and a.start < a.end for a, b in itertools.pairwise(one.segments))


def test_precision_is_the_share_of_planted_errors_among_as_many() -> None:
    wrong = [np.asarray([True, False, False]), np.asarray([False, True])]
    assert precision([np.asarray([0.1, 0.9, 0.8]), np.asarray([0.7, 0.2])], wrong) == 1.0
    assert precision([np.asarray([0.1, 0.9, 0.2]), np.asarray([0.7, 0.8])], wrong) == 0.5


def test_precision_over_the_floor_leaves_short_segments_out() -> None:
    """The second segment, right but the most doubtful, is of 30 ms."""
    given = [Segment(0.0, 0.1, "K"), Segment(0.1, 0.13, "T"), Segment(0.13, 0.2, "S")]
    one = Planted(given, np.asarray([True, False, False]))
    scores = [np.asarray([0.2, 0.1, 0.9])]
    assert precision(scores, [one.wrong]) == 0.0
    assert precision_over_floor(scores, [one]) == 1.0


def test_fitted_weights_rank_what_they_were_fitted_to() -> None:
    random = np.random.default_rng(0)
    wrong = random.random(4000) < 0.2
    features = np.stack([random.normal(np.where(wrong, -1.0, 1.0), 1.0), random.normal(size=4000) * 7], axis=1)
    weights = fit(features, wrong)
    assert weights[0] == pytest.approx(2.0, rel=0.1)  # of two normal distributions 2 apart, with unit variance
    assert abs(weights[1]) < 0.03
