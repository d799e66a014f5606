"""The probability of boundaries with the labels given, against every placement by itself."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.model.segmental import learning, placement
from phonechain.model.segmental.learning import Example
from phonechain.model.segmental.network import SemiCRF
from phonechain.model.segmental.placement import Placed
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining

LONGEST = 12


def _model(seed: int, products: int, states: int) -> SemiCRF:
    built = SegmentalSettings(units=4, products=products, states=states, max_duration=LONGEST / 100)
    model = learning.build(built, 5, seed).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return model.eval()


def by_hand(scores: torch.Tensor, placed: Placed, window: int) -> float:
    """Log share of the right placements among all, each scored as the free chain scores its segments."""
    right, possible = [], []
    inner = range(1, len(placed.labels))
    for offsets in itertools.product(range(-window, window + 1), repeat=len(inner)):
        at = [placed.at[0], *(placed.at[n] + o for n, o in zip(inner, offsets, strict=True)), placed.at[-1]]
        if any(not 1 <= j - i <= LONGEST for i, j in itertools.pairwise(at)):
            continue
        value = sum(
            float(scores[j - 1, j - i - 1, y]) for (i, j), y in zip(itertools.pairwise(at), placed.labels, strict=True)
        )
        possible.append(value)
        if all(abs(o) <= placed.tolerance[n] for n, o in zip(inner, offsets, strict=True)):
            right.append(value)
    return float(np.logaddexp.reduce(right) - np.logaddexp.reduce(possible))


@settings(max_examples=12)
@given(st.integers(0, 1000), st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))
def test_the_probability_is_that_of_all_placements_one_by_one(seed, products, states, window):
    model = _model(seed, products, states)
    random = np.random.default_rng(seed)
    placed = []
    for lengths in ([7, 5, 8, 10], [11, 4, 9], [12]):
        at = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        labels = random.integers(0, 5, len(lengths)).tolist()
        placed.append(Placed(at, labels, [0, *random.integers(0, 3, len(lengths) - 1).tolist(), 0]))
    x = torch.randn(3, 31, 39, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        track = model.track(x, torch.tensor([31, 31, 31]))
        found = placement.log_likelihood(model, track, placed, window=window)
        scores = model.scores(track, 30, 0.01)
    expected = [by_hand(s, p, window) for s, p in zip(scores, placed, strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert float(found[2]) == pytest.approx(0.0)  # a single segment has nowhere else to be


def test_a_boundary_that_may_be_anywhere_teaches_nothing():
    model = _model(1, 1, 2)
    track = model.track(torch.randn(1, 31, 39, dtype=torch.float64), torch.tensor([31]))
    placed = [Placed([0, 8, 17], [0, 1], [0, placement.WINDOW, 0])]
    likelihood = placement.log_likelihood(model, track, placed)
    likelihood.sum().backward()
    assert float(likelihood.detach()) == pytest.approx(0.0)
    assert model.factor.weight.grad is not None
    assert float(model.factor.weight.grad.abs().max()) == pytest.approx(0.0)


def test_a_long_segment_is_pieces_with_borders_anywhere():
    placed = placement.place([0, 5, 30], [3, 1], [0, 1, 0], LONGEST)
    assert placed == Placed([0, 5, 13, 22, 30], [3, 1, 1, 1], [0, 1, placement.WINDOW, placement.WINDOW, 0])


def test_boundaries_of_an_aligners_shortest_segments_are_not_trusted():
    example = Example([], [(0.0, 0.1, 0), (0.1, 0.13, 1), (0.13, 0.3, 2), (0.3, 0.4, 0)], tolerance=1, short=0.03)
    placed = learning.place(example, example.segments, 40, 40)
    assert placed.at == [0, 10, 13, 30, 40]
    assert placed.tolerance == [1, placement.WINDOW, placement.WINDOW, 1, 1]


def test_training_on_boundaries_makes_them_probable():
    random = np.random.default_rng(2)
    frames = random.normal(0.0, 0.1, (40, 39)).astype(np.float32)
    frames[15:28, 0] += 2.0
    example = Example([frames], [(0.0, 0.15, 0), (0.15, 0.28, 1), (0.28, 0.38, 0)])
    model = learning.build(SegmentalSettings(units=0, dropout=0.0), 2, 1)
    training = SegmentalTraining(epochs=20, pretraining=2, rate=2e-2, placement=1.0, every=1000)
    learning.train(model, [example], [], training)
    track = model.track(torch.from_numpy(model.normalise(frames))[None], torch.tensor([40]))
    with torch.no_grad():
        found = placement.log_likelihood(model, track, [learning.place(example, example.segments, 38, 40)])
    assert float(found) > -0.7  # both boundaries to the frame, of 17 places each
