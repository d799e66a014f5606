"""Answers to several recordings at once: those to each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Segment
from phonechain.model.answers import answers, answers_of_batch

LABELS = ("AA", "B", "SIL", "S", "T")
GIVEN: tuple[list[str | None], ...] = (["AA", "B", "sp"], [None, "XX", "T", "s"], [], ["AA1", "B"], [None])


@pytest.mark.parametrize("n_best", [0, 1, 3])
@pytest.mark.parametrize("support", [False, True])
def test_each_recording_is_answered_as_by_itself(n_best: int, support: bool) -> None:
    draw = np.random.default_rng(n_best)
    segments = [[Segment(k, k + 0.5, label) for k, label in enumerate(given)] for given in GIVEN]
    posteriors = [draw.dirichlet(np.ones(len(LABELS)), len(own)).astype(np.float32) for own in segments]
    posteriors[0][0] = 0.2  # ties, as by the labels' order
    supported = [draw.permuted(p, axis=1) if support else None for p in posteriors]
    best = [p.argmax(1) for p in posteriors]
    comparisons = [LabelSet(LABELS).compare(own) for own in GIVEN]
    assert len({comparison.steps for comparison in comparisons}) > 2
    found = answers_of_batch(LABELS, posteriors, best, segments, n_best, comparisons, supported)
    each = zip(posteriors, best, segments, comparisons, supported, strict=True)
    assert found == [answers(LABELS, p, b, s, n_best, c, u) for p, b, s, c, u in each]
    assert [len(own) for own in found] == [len(own) for own in segments]
