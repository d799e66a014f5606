"""The n-gram inventory, and sparse scores as dense tables."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from phonechain.model.networks.build import seen_ngrams
from phonechain.model.networks.crf import to_dense

SEQUENCES = st.lists(st.lists(st.integers(0, 3), max_size=7), max_size=5)


@given(SEQUENCES, st.integers(1, 3))
def test_seen_lists_each_ngram_once_in_order(sequences: list[list[int]], n: int) -> None:
    expected = sorted({tuple(s[t : t + n]) for s in sequences for t in range(len(s) - n + 1)})
    found = seen_ngrams([np.asarray(s, dtype=np.int64) for s in sequences], n)
    assert found.shape == (len(expected), n)
    assert found.dtype == torch.long
    assert [tuple(row) for row in found.tolist()] == expected


@given(SEQUENCES, st.integers(2, 3), st.integers(0, 2))
def test_to_dense_puts_each_score_in_its_place_and_nothing_else(sequences: list[list[int]], n: int, rows: int) -> None:
    inventory = seen_ngrams([np.asarray(s, dtype=np.int64) for s in sequences], n)
    scores = torch.arange(1, rows * len(inventory) + 1, dtype=torch.float64).view(rows, len(inventory))
    dense = to_dense(scores, inventory, 4)
    assert dense.shape == (rows, *(4,) * n)
    expected = np.zeros(dense.shape)
    for row in range(rows):
        for column, ngram in enumerate(inventory.tolist()):
            expected[(row, *ngram)] = scores[row, column]
    np.testing.assert_array_equal(dense, expected)


def test_to_dense_of_one_table_of_weights() -> None:
    inventory = torch.tensor([[0, 1], [2, 2]])
    assert to_dense(torch.tensor([5.0, 7.0]), inventory, 3).tolist() == [[0, 5, 0], [0, 0, 0], [0, 0, 7]]


def test_to_dense_has_the_gradient_of_a_choice() -> None:
    inventory = torch.tensor([[0, 1, 0], [1, 1, 1]])
    scores = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: to_dense(s, inventory, 2), (scores,))


def test_an_empty_inventory_is_a_table_of_zeros() -> None:
    table = to_dense(torch.zeros(4, 0), torch.zeros(0, 2, dtype=torch.long), 3)
    assert table.shape == (4, 3, 3)
    assert not table.any()
