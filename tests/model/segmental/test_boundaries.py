"""Times and certainties of boundaries from posteriors whose answer is known."""

import numpy as np
import pytest

from phonechain.model.segmental.boundaries import summarise


def test_a_certain_boundary_is_where_its_grid_point_is():
    row = np.zeros((1, 50))
    row[0, 20] = 1.0
    found = summarise(row, 0.01)
    assert found.time[0] == pytest.approx(0.2)
    assert found.within[0] == pytest.approx(1.0)
    assert (found.low[0], found.high[0]) == (pytest.approx(0.1955), pytest.approx(0.2045))


def test_two_equal_places_share_the_median_and_the_certainty():
    row = np.zeros((1, 50))
    row[0, 10], row[0, 30] = 0.5, 0.5
    found = summarise(row, 0.01)
    assert found.within[0] == pytest.approx(0.5, abs=0.01)
    assert found.low[0] == pytest.approx(0.096)
    assert found.high[0] == pytest.approx(0.304)


def test_a_normal_posterior_has_normal_quantiles_and_coverage():
    """sd 15 ms on a grid of 10 ms: 1.645 sd to either side, 82 % within 20 ms; also where the rows are not normalised."""
    t = np.arange(100) * 0.01
    row = 0.3 * np.exp(-0.5 * ((t - 0.503) / 0.015) ** 2)[None]
    found = summarise(row, 0.01)
    assert found.time[0] == pytest.approx(0.503, abs=0.0005)
    assert found.high[0] - found.low[0] == pytest.approx(2 * 1.645 * 0.015, rel=0.05)
    assert found.within[0] == pytest.approx(0.818, abs=0.02)


def test_a_boundary_that_cannot_be_is_no_time():
    found = summarise(np.zeros((1, 5)), 0.01)
    assert np.isnan(found.time[0])
    assert np.isnan(found.within[0])


def test_nothing_lies_outside_the_recording():
    row = np.zeros((2, 5))
    row[0, 0], row[1, 4] = 1.0, 1.0
    found = summarise(row, 0.01)
    assert found.low.min() >= 0.0
    assert found.high.max() <= 0.04 + 1e-12
    np.testing.assert_allclose(found.within, 1.0, atol=1e-9)
