"""Scaled probabilities against the logarithmic sweeps, which are held to enumeration elsewhere."""

import numpy as np
import pytest
import torch

from phonechain.model.segmental import graph as graphs
from phonechain.model.segmental import scaled, sums
from phonechain.model.segmental.sums import NEVER

STEPS, LONGEST, LABELS = 60, 7, 5


def lattice(seed: int, size: float = 2.0, drift: float = 0.0, steps: int = STEPS) -> sums.Lattice:
    g = torch.Generator().manual_seed(seed)
    scores = size * torch.randn(1, steps, LONGEST, LABELS, generator=g, dtype=torch.float64)
    scores += drift * torch.arange(1, LONGEST + 1)[:, None]
    bigram = torch.randn(LABELS, LABELS, generator=g, dtype=torch.float64)
    first, last = torch.randn(2, LABELS, generator=g, dtype=torch.float64)
    return sums.Lattice(scores, bigram, first, last, torch.tensor([steps]))


def free(x: sums.Lattice, factor: float = 1.0) -> tuple[float, np.ndarray] | None:
    p = scaled.Potentials.of(x.scores[0].numpy())
    assert p is not None
    return scaled.free_posteriors(p, factor * x.bigram.numpy(), x.first.numpy(), x.last.numpy())


@pytest.mark.parametrize(("size", "drift"), [(1.0, 0.0), (6.0, 0.0), (2.0, 90.0), (2.0, -90.0)])
@pytest.mark.parametrize("steps", [3, STEPS])
def test_the_free_chain(size, drift, steps):
    x = lattice(1, size, drift, steps)
    expected = sums.marginals(x)
    found = free(x)
    assert found is not None
    log_z, segments = found
    assert log_z == pytest.approx(float(expected.log_z[0]), rel=1e-11)
    np.testing.assert_allclose(segments, expected.segments[0].numpy(), atol=1e-6)
    assert segments.dtype == np.float32


def _graph(seed: int) -> graphs.PhoneGraph:
    random = np.random.default_rng(seed)
    words = []
    for _ in range(8):
        variants = [(random.integers(0, LABELS, random.integers(1, 4)).tolist(), float(p)) for p in (1.0, 0.3)]
        words.append(variants[: int(random.integers(1, 3))])
    return graphs.word_graph(words, silence=0)


@pytest.mark.parametrize("size", [1.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_graphs(seed, size):
    x, graph = lattice(seed, size), _graph(seed)
    arguments = (x.scores[0], x.bigram, x.first, x.last, graph)
    quick, slow = graphs.align(*arguments), graphs.align(*arguments, logarithms=True)
    assert quick.log_z == pytest.approx(slow.log_z, rel=1e-11)
    np.testing.assert_allclose(quick.begin, slow.begin, atol=1e-9)
    np.testing.assert_allclose(quick.end, slow.end, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_graphs_with_a_prior(seed):
    x = lattice(seed)
    graph = graphs.phone_graph(np.random.default_rng(seed).integers(0, LABELS, 20).tolist())
    at = torch.arange(20, dtype=torch.float64)[:, None] * 3
    off = torch.arange(STEPS + 1) - at
    prior = torch.where(off.abs() <= 5, -0.1 * off**2, NEVER)
    arguments = (x.scores[0], x.bigram, x.first, x.last, graph)
    quick, slow = (graphs.align(*arguments, prior=prior, logarithms=flag) for flag in (False, True))
    assert quick.log_z == pytest.approx(slow.log_z, rel=1e-11)
    np.testing.assert_allclose(quick.begin, slow.begin, atol=1e-9)
    np.testing.assert_allclose(quick.end, slow.end, atol=1e-9)


def test_the_beam_narrows_the_work_and_keeps_the_answer(monkeypatch):
    """With a beam so narrow that nodes are left out, what remains is what has probability."""
    x = lattice(5, 4.0, steps=200)
    graph = graphs.phone_graph(np.random.default_rng(5).integers(0, LABELS, 60).tolist())
    arguments = (x.scores[0], x.bigram, x.first, x.last, graph)
    monkeypatch.setattr(scaled, "BEAM", 60.0)
    quick, slow = graphs.align(*arguments), graphs.align(*arguments, logarithms=True)
    assert quick.log_z == pytest.approx(slow.log_z, abs=1e-6)
    np.testing.assert_allclose(quick.begin, slow.begin, atol=1e-5)
    left_out = (quick.begin == 0) & (slow.begin > 0)
    assert left_out.any()
    assert slow.begin[left_out].max() < 1e-6


def test_potentials_that_are_too_large_are_left_to_the_logarithms():
    x = lattice(1)
    x.scores[0, 5, 6, 2] = 5000.0
    x.scores[0, 6, 0, 1] = -5000.0
    graph = _graph(2)
    arguments = (x.scores[0], x.bigram, x.first, x.last, graph)
    assert graphs.align(*arguments).log_z == pytest.approx(graphs.align(*arguments, logarithms=True).log_z, rel=1e-11)
    assert free(lattice(1), 1000.0) is None


def test_a_graph_that_does_not_fit():
    x = lattice(1, steps=4)
    found = graphs.align(x.scores[0], x.bigram, x.first, x.last, graphs.phone_graph([1, 2, 3, 0, 1]))
    assert found.log_z == NEVER
    assert not found.begin.any()
