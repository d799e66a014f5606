"""Cumulated leaves against the sum-product network on every candidate's own features."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.mfcc import FeatureSettings
from phonechain.features.pooling import PARTS, pool
from phonechain.features.segments import Segment
from phonechain.model.networks.spn import SumProductNetwork
from phonechain.model.segmental.factor import ROLES, SUM_SCALE, SegmentFactor


def by_hand(factor: SegmentFactor, track: torch.Tensor, steps: int, durations: int, s: int) -> torch.Tensor:
    """Each candidate by itself: means by `pooling`'s definition of time, the network by `SumProductNetwork.collapse`."""
    h, i, k = factor.states, factor.products, factor.labels
    spn = SumProductNetwork(1, k, layers=1, products=i, states=h).double()
    out = torch.zeros(track.shape[0], steps, durations, k, dtype=track.dtype)

    def mean(x, a, b):  # of the cells [t - .5, t + .5] between the times a and b
        edges = torch.arange(len(x) + 1, dtype=x.dtype) - 0.5
        share = (torch.clamp(edges[1:], max=b) - torch.clamp(edges[:-1], min=a)).clamp(min=0.0)
        return (share[:, None] * x).sum(0) / share.sum()

    for r, x in enumerate(track):
        for j in range(1, steps + 1):
            for d in range(1, min(durations, j) + 1):
                a, b = (j - d) * s, j * s
                cuts = [a, a + PARTS[0] * (b - a), a + (PARTS[0] + PARTS[1]) * (b - a), b]
                features = {f"mean{p + 1}": mean(x, cuts[p], cuts[p + 1]) for p in range(3)}
                features |= {"sum": mean(x, a, b) * (b - a) * SUM_SCALE, "begin": x[a], "end": x[b]}
                leaves = sum(factor.weight[n] @ features[role] for n, role in enumerate(ROLES)) + factor.bias
                leaves = leaves.view(h, i, k).permute(2, 1, 0)[..., None]
                zero = [torch.zeros_like(t)[..., None] for t in spn.bias]
                out[r, j - 1, d - 1] = spn.collapse(leaves, zero)[:, 0]
    return out


@settings(max_examples=15)
@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([1, 2, 3]),
    st.integers(1, 2),
    st.integers(1, 3),
)
def test_scores_and_gradients_are_those_of_each_candidate_by_itself(seed, steps, durations, s, products, states):
    torch.manual_seed(seed)
    factor = SegmentFactor(3, 2, products=products, states=states, scale=0.5).double()
    track = torch.randn(2, steps * s + 1, 3, dtype=torch.float64, requires_grad=True)
    leaves = [track, factor.weight, factor.bias]
    weights = torch.randn(2, steps, durations, 2, dtype=torch.float64)
    ours = factor(track, steps, durations, s)
    expected = by_hand(factor, track, steps, durations, s)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    for j in range(1, steps + 1):
        weights[:, j - 1, j:] = 0.0  # what begins before the recording is not compared
    for got, want in zip(
        torch.autograd.grad((ours * weights).sum(), leaves),
        torch.autograd.grad((expected * weights).sum(), leaves, allow_unused=True, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_means_are_the_features_of_the_paper():
    """A factor whose leaves copy one channel's means says what `pooling.pool` says of the same segments."""
    random = np.random.default_rng(4)
    frames = random.normal(size=(60, 39)).astype(np.float32)
    candidates = [(4, 30), (10, 16), (0, 2), (20, 24)]
    pooled = pool(
        frames, [Segment(i * 0.02, j * 0.02) for i, j in ((a // 2, b // 2) for a, b in candidates)], FeatureSettings()
    )
    for part in range(3):
        factor = SegmentFactor(39, 1, products=1, states=1)
        with torch.no_grad():
            factor.weight.zero_()
            factor.bias.zero_()
            factor.weight[part, 0, 5] = 1.0
            scores = factor(torch.from_numpy(frames)[None], 29, 20, 2)
        for (a, b), row in zip(candidates, pooled, strict=True):
            got = float(scores[0, b // 2 - 1, b // 2 - a // 2 - 1, 0])
            assert got == pytest.approx(row[part * 13 + 5], abs=1e-5)


def test_a_track_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="more than 10 frames for 5 steps, got 10"):
        SegmentFactor(3, 2, products=1, states=1)(torch.zeros(1, 10, 3), 5, 3, 2)
