"""Alignment against the enumeration of every path and all its boundaries."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.model.segmental import graph, sums
from phonechain.model.segmental.graph import PhoneGraph
from tests.model.segmental.oracle import lattice


def ways(g: PhoneGraph, n: int, d: int):
    """(pieces (node, start, end), log weight of the graph) of every path with all boundaries; a node may repeat itself."""
    finals = dict(g.finals)

    def on(t, node, weight, pieces):
        for e in range(t + 1, min(t + d, n) + 1):
            so_far = [*pieces, (node, t, e)]
            if e == n:
                if node in finals:
                    yield so_far, weight + finals[node]
                continue
            yield from on(e, node, weight, so_far)
            for following in range(len(g.nodes)):
                for other, arc in g.arcs[following]:
                    if other == node:
                        yield from on(e, following, weight + arc, so_far)

    for node, weight in g.starts:
        yield from on(0, node, weight, [])


def expected_posteriors(x, g, prior=None):
    n, d = x.scores.shape[1:3]
    found, values = [], []
    for pieces, weight in ways(g, n, d):
        labels = [g.nodes[p].label for p, _, _ in pieces]
        value = weight + float(x.first[labels[0]] + x.last[labels[-1]])
        value += sum(float(x.scores[0, j - 1, j - i - 1, y]) for (_, i, j), y in zip(pieces, labels, strict=True))
        value += sum(float(x.bigram[a, b]) for a, b in itertools.pairwise(labels))
        if prior is not None:
            value += sum(float(prior[p, i]) for k, (p, i, _) in enumerate(pieces) if k == 0 or pieces[k - 1][0] != p)
        found.append(pieces)
        values.append(value)
    if not values:
        return -np.inf, None, None
    z = np.logaddexp.reduce(values)
    begin, end = np.zeros((len(g.nodes), n + 1)), np.zeros((len(g.nodes), n + 1))
    for pieces, value in zip(found, values, strict=True):
        for k, (p, i, j) in enumerate(pieces):
            if k == 0 or pieces[k - 1][0] != p:
                begin[p, i] += np.exp(value - z)
            if k == len(pieces) - 1 or pieces[k + 1][0] != p:
                end[p, j] += np.exp(value - z)
    return z, begin, end


@st.composite
def graphs(draw):
    words = draw(
        st.lists(
            st.lists(
                st.tuples(st.lists(st.integers(1, 2), min_size=1, max_size=2), st.sampled_from([1.0, 0.3])),
                min_size=1, max_size=2,
            ),
            min_size=1, max_size=2,
        )
    )  # fmt: skip
    return graph.word_graph(words, draw(st.sampled_from([0, None])))


@settings(max_examples=60)
@given(
    st.integers(0, 1000), st.integers(1, 5), st.integers(1, 3), graphs(), st.booleans(), st.sampled_from([1.0, 50.0])
)
def test_posteriors_are_sums_over_every_way(seed, n, d, g, kind, spread):
    x = lattice(seed, [n], d, 3, spread)
    prior = None if kind == "none" else torch.randn(len(g.nodes), n + 1, dtype=torch.float64)
    if prior is not None and kind == "windows":
        prior[torch.rand(prior.shape, generator=torch.Generator().manual_seed(seed)) < 0.3] = sums.NEVER
    got = graph.align(x.scores[0], x.bigram, x.first, x.last, g, prior=prior)
    z, begin, end = expected_posteriors(x, g, prior)
    if begin is None or z < sums.NEVER / 2:
        assert got.log_z <= sums.NEVER / 2
        assert kind == "windows" or n < g.shortest
        assert not got.begin.any()
        return
    assert got.log_z == pytest.approx(z, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(got.begin, begin, atol=1e-9)
    np.testing.assert_allclose(got.end, end, atol=1e-9)
    np.testing.assert_allclose(got.visited, begin.sum(1), atol=1e-9)


def test_a_graph_of_everything_is_the_free_chain_where_every_phone_is_one_piece():
    """One word whose only phone is one segment: log Z is that segment's score."""
    x = lattice(3, [4], 4, 3)
    g = graph.phone_graph([2])
    loops = x.bigram.clone()
    loops[2, 2] = sums.NEVER
    got = graph.align(x.scores[0], loops, x.first, x.last, g)
    assert got.log_z == pytest.approx(float(x.first[2] + x.last[2] + x.scores[0, 3, 3, 2]))


def test_a_window_keeps_boundaries_inside():
    x = lattice(3, [8], 4, 3)
    g = graph.phone_graph([1, 2, 1])
    prior = torch.full((3, 9), sums.NEVER, dtype=torch.float64)
    prior[0, 0] = prior[1, 3:5] = prior[2, 6] = 0.0
    got = graph.align(x.scores[0], x.bigram, x.first, x.last, g, prior=prior)
    assert got.begin[1, 3:5].sum() == pytest.approx(1.0)
    assert got.begin[2, 6] == pytest.approx(1.0)


def test_arcs_run_forward():
    with pytest.raises(ValueError, match="from nodes before it"):
        PhoneGraph((graph.Node(0), graph.Node(1)), (((1, 0.0),), ()), ((0, 0.0),), ((1, 0.0),))
