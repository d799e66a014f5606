"""The sums of the segmental chain against the enumeration of all segmentations."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.model.segmental import sums
from phonechain.model.segmental.sums import Segmentation
from tests.model.segmental.oracle import everything, lattice


def cast(x: sums.Lattice, dtype: torch.dtype) -> sums.Lattice:
    scores, bigram, first, last = (t.to(dtype) for t in x.tensors)
    return sums.Lattice(scores, bigram, first, last, x.steps)


sizes = {
    "seed": st.integers(0, 10_000),
    "steps": st.lists(st.integers(1, 5), min_size=1, max_size=3),
    "d": st.integers(1, 4),
    "k": st.integers(1, 3),
    "spread": st.sampled_from([0.1, 2.0, 30.0]),
}


@settings(max_examples=40)
@given(**sizes)
def test_log_z_is_that_of_the_enumeration(seed, steps, d, k, spread):
    x = lattice(seed, steps, d, k, spread)
    expected = torch.stack([torch.logsumexp(everything(x, b)[1], 0) for b in range(len(steps))])
    torch.testing.assert_close(sums.log_z(x), expected, rtol=1e-12, atol=1e-9)


@settings(max_examples=40)
@given(**sizes)
def test_the_gradient_of_any_weighting_is_that_of_the_enumeration(seed, steps, d, k, spread):
    x = lattice(seed, steps, d, k, spread)
    leaves = [t.clone().requires_grad_() for t in x.tensors]
    weight = torch.rand(len(steps), dtype=torch.float64)
    ours = replace(x, scores=leaves[0], bigram=leaves[1], first=leaves[2], last=leaves[3])
    golds = [everything(x, b)[0][seed % len(everything(x, b)[0])] for b in range(len(steps))]
    got = torch.autograd.grad((sums.log_likelihood(ours, Segmentation.of(golds)) * weight).sum(), leaves)
    values = []
    for b, gold in enumerate(golds):
        found, potentials = everything(ours, b)
        values.append(potentials[found.index(gold)] - torch.logsumexp(potentials, 0))
    expected = torch.autograd.grad((torch.stack(values) * weight).sum(), leaves, materialize_grads=True)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(**sizes)
def test_marginals_are_sums_over_the_enumeration(seed, steps, d, k, spread):
    x = lattice(seed, steps, d, k, spread)
    post = sums.marginals(x)
    for b, n in enumerate(steps):
        found, potentials = everything(x, b)
        p = torch.softmax(potentials, 0)
        segments, boundaries = torch.zeros_like(post.segments[b]), torch.zeros(x.scores.shape[1], dtype=torch.float64)
        bigrams = torch.zeros_like(post.bigrams[b])
        for share, segmentation in zip(p, found, strict=True):
            for i, j, y in segmentation:
                segments[j - 1, j - i - 1, y] += share
                boundaries[j - 1] += share
            for (_, _, one), (_, _, other) in itertools.pairwise(segmentation):
                bigrams[one, other] += share
        torch.testing.assert_close(post.segments[b], segments, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(post.boundaries()[b], boundaries, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(post.bigrams[b], bigrams, rtol=1e-9, atol=1e-10)
        assert float(post.boundaries()[b, n - 1]) == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_potentials_of_hundreds_of_nats(dtype):
    """Also where the bigrams' range is above what one product of exponentials can hold."""
    x = lattice(3, [5, 1, 4], 3, 3, 1.0)
    scale = 300.0
    drawn = [torch.sign(t) * scale * torch.rand_like(t) for t in x.tensors]
    x = sums.Lattice(drawn[0], drawn[1], drawn[2], drawn[3], x.steps)
    expected = torch.stack([torch.logsumexp(everything(x, b)[1], 0) for b in range(3)])
    ours = cast(x, dtype)
    tolerance = {torch.float32: 1e-3, torch.float64: 1e-9}[dtype]
    torch.testing.assert_close(sums.log_z(ours).double(), expected, rtol=0, atol=tolerance)
    assert all(torch.isfinite(t).all() for t in (sums.marginals(ours).segments, sums.marginals(ours).bigrams))


def test_single_precision_holds_over_a_long_recording():
    """1,000 steps with scores that add up to thousands of nats: posteriors as in double precision."""
    x = lattice(5, [1000], 3, 3, 4.0)
    single = sums.marginals(cast(x, torch.float32))
    double = sums.marginals(x)
    torch.testing.assert_close(single.segments.double(), double.segments, rtol=0, atol=2e-3)
    assert float(single.log_z[0]) == pytest.approx(float(double.log_z[0]), rel=1e-6)


def test_scores_of_segments_that_begin_before_the_recording_do_not_matter():
    x = lattice(7, [3, 2], 3, 2)
    y = x.scores.clone()
    for j in range(1, 4):
        for d in range(1, 4):
            if j - d < 0:
                y[:, j - 1, d - 1] = 1e6
    y[1, 2] = -1e6  # past the end of the second
    torch.testing.assert_close(sums.log_z(replace(x, scores=y)), sums.log_z(x))


def test_shapes_that_do_not_fit_are_refused():
    x = lattice(7, [3], 3, 2)
    with pytest.raises(ValueError, match="expected shapes"):
        replace(x, bigram=torch.zeros(3, 3))
    with pytest.raises(ValueError, match="expected 1 to 3 steps"):
        replace(x, steps=torch.tensor([4]))
