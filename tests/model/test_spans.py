"""The probability of a stretch of labels, against enumeration."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials
from phonechain.model.chain.spans import span_log_probabilities
from tests.model.chains import Case, cases, make


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99))
def test_a_stretch_has_the_probability_of_all_sequences_that_have_it(case: Case, seed: int) -> None:
    random = np.random.default_rng(seed)
    for b, length in enumerate(case.lengths):
        oracle = case.oracle(b)
        path = random.integers(0, case.potentials.labels, length)
        spans = [(first, last) for first in range(length) for last in range(first + 1, length + 1)]
        found = span_log_probabilities(case.alone(b), torch.from_numpy(path), spans).exp().numpy()
        expected = [
            oracle.probabilities[(oracle.sequences[:, first:last] == path[first:last]).all(1)].sum()
            for first, last in spans
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("tables", [{"bigram"}, {"edge", "trigram"}])
def test_a_stretch_that_is_impossible_has_probability_zero(tables: set[str]) -> None:
    p = make([4], 3, tables=tables, seed=2).alone(0)
    p.unary[1, 2] = -math.inf
    found = span_log_probabilities(p, torch.tensor([0, 2, 1, 0]), [(0, 1), (0, 2), (1, 3), (1, 2), (2, 4)])
    assert found.isneginf().tolist() == [False, True, True, True, False]
    assert not found.isnan().any()


def test_no_stretches_and_stretches_outside() -> None:
    p = Potentials(Packing((2,)), torch.zeros(2, 3))
    assert len(span_log_probabilities(p, torch.tensor([0, 1]), [])) == 0
    for span in ((0, 3), (1, 1), (-1, 1)):
        with pytest.raises(ValueError, match="expected spans within 2 positions"):
            span_log_probabilities(p, torch.tensor([0, 1]), [span])
