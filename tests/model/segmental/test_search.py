"""The best, drawn and posterior-decoded segmentations against the enumeration."""

from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.model.segmental import search, sums
from tests.model.segmental.oracle import everything, lattice, potential

sizes = {
    "seed": st.integers(0, 10_000),
    "steps": st.lists(st.integers(1, 5), min_size=1, max_size=3),
    "d": st.integers(1, 4),
    "k": st.integers(1, 3),
}


@settings(max_examples=40)
@given(**sizes)
def test_viterbi_finds_the_best_of_all(seed, steps, d, k):
    x = lattice(seed, steps, d, k)
    found, values = search.viterbi(x)
    for b, segments in enumerate(found):
        _, potentials = everything(x, b)
        assert float(potential(x, b, segments)) == float(values[b].clone().detach()) or torch.isclose(
            potential(x, b, segments), values[b]
        )
        assert torch.isclose(values[b], potentials.max())


def test_samples_come_as_often_as_they_are_probable():
    x = lattice(2, [3], 2, 2, 1.0)
    segmentations, potentials = everything(x, 0)
    p = torch.softmax(potentials, 0)
    count = 4000
    drawn = Counter(tuple(s) for s in search.sample(x, count, torch.Generator().manual_seed(1))[0])
    assert set(drawn) <= {tuple(s) for s in segmentations}
    for share, segments in zip(p.tolist(), segmentations, strict=True):
        assert abs(drawn[tuple(segments)] / count - share) < 5 * np.sqrt(share * (1 - share) / count) + 1e-3


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2))
def test_tolerant_posteriors_and_their_best_segmentation(seed, n, d, k, w):
    """By the definition: for each candidate, the expected number of segments whose ends are near its own."""
    x = lattice(seed, [n], d, k)
    found, potentials = everything(x, 0)
    p = torch.softmax(potentials, 0).numpy()
    near = search.posteriors_within(sums.marginals(x).segments[0].numpy(), w)

    def expected_right(i, j, y):
        return sum(
            share * sum(abs(a - i) <= w and abs(b - j) <= w and z == y for a, b, z in s)
            for share, s in zip(p, found, strict=False)
        )

    for j in range(1, n + 1):
        for dd in range(1, min(d, j) + 1):
            for y in range(k):
                assert abs(near[j - 1, dd - 1, y] - expected_right(j - dd, j, y)) < 1e-9
    got = search.posterior_decoding(sums.marginals(x).segments[0].numpy(), tolerance=w, cost=0.2)
    value = {tuple(s): sum(expected_right(*one) - 0.2 for one in s) for s in found}
    assert abs(value[tuple(got)] - max(value.values())) < 1e-9


def test_pieces_become_one_where_one_candidate_could_not_hold_them():
    pieces = [(0, 5, 1), (5, 9, 1), (9, 12, 2), (12, 14, 2), (14, 15, 0), (15, 16, 0)]
    assert search.merge_pieces(pieces, 6) == [(0, 9, 1), (9, 12, 2), (12, 14, 2), (14, 15, 0), (15, 16, 0)]
    assert search.merge_pieces(pieces, 6, always=0)[-1] == (14, 16, 0)
