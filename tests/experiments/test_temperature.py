"""A temperature for each recording: the line that is fitted is the one that the labels were drawn by."""

from __future__ import annotations

import numpy as np

from experiments.temperature import FACTORS, MIDDLES, SLOPES, Recording, negative_log_likelihood, scores


def recordings(slope: float) -> list[Recording]:
    """Labels drawn at temperatures that rise with the entropy of a recording as `slope` says."""
    random = np.random.default_rng(1)
    found = []
    for n in range(120):
        logits = random.normal(0.0, 0.5 + 0.05 * n, (40, 6))
        tables = np.exp(logits / FACTORS[:, None, None])
        tables /= tables.sum(-1, keepdims=True)
        own = tables[list(FACTORS).index(1.0)]
        entropy = float(-(own * np.log(own)).sum(1).mean())
        true = np.exp(logits / np.exp(slope * (entropy - 0.6)))
        cumulated = (true / true.sum(1, keepdims=True)).cumsum(1)
        labels = (cumulated < random.random((40, 1))).sum(1)
        found.append(Recording(tables.astype(np.float32), labels, entropy))
    return found


def test_the_line_is_found_and_scored() -> None:
    for slope in (0.0, 0.6):
        spoken = recordings(slope)
        fits = {(m, s): negative_log_likelihood(spoken, m, s, 0.6) for m in MIDDLES for s in SLOPES}
        middle, found = min(fits, key=lambda line: fits[line])
        assert abs(middle) <= 0.11
        assert abs(found - slope) <= 0.21
        error, gap, chance = scores(spoken, middle, found, 0.6)
        assert abs(gap) < 1.5
        assert error < 1.5 * chance


def test_posteriors_between_temperatures_are_interpolated() -> None:
    one = recordings(0.0)[0]
    for n, factor in enumerate(FACTORS):
        np.testing.assert_allclose(one.at(float(np.log(factor))), one.posteriors[n], atol=1e-6)
    np.testing.assert_allclose(one.at(9.0), one.posteriors[-1], atol=1e-6)
