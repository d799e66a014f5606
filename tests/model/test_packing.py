import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phonechain.model.chain.packing import Packing, sort_by_length
from phonechain.model.networks import ngrams

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=6).map(lambda n: tuple(sorted(n, reverse=True)))


@given(lengths)
def test_every_row_belongs_to_one_position_of_one_sequence(lengths: tuple[int, ...]) -> None:
    packing = Packing(lengths)
    assert packing.rows == sum(lengths)
    assert packing.batch_sizes == tuple(sum(n > t for n in lengths) for t in range(lengths[0]))
    assert packing.offsets == tuple(np.cumsum([0, *packing.batch_sizes]))
    places = list(zip(packing.sequence.tolist(), packing.time.tolist(), strict=True))
    assert sorted(places) == [(b, t) for b, n in enumerate(lengths) for t in range(n)]
    assert places == [(b, t) for t in range(lengths[0]) for b, n in enumerate(lengths) if n > t]


@given(lengths)
def test_packing_and_splitting_are_each_others_inverse(lengths: tuple[int, ...]) -> None:
    packing = Packing(lengths)
    concatenated = torch.arange(packing.rows * 2.0).reshape(-1, 2)
    pieces = packing.split(concatenated[packing.from_concatenated])
    assert [len(p) for p in pieces] == list(lengths)
    assert torch.equal(torch.cat(pieces), concatenated)


@given(lengths, st.integers(-3, 3))
def test_neighbours_stay_in_their_sequence(lengths: tuple[int, ...], step: int) -> None:
    packing = Packing(lengths)
    row = {p: n for n, p in enumerate(zip(packing.sequence.tolist(), packing.time.tolist(), strict=True))}
    found = packing.neighbour(step).tolist()
    for (b, t), n in row.items():
        assert found[n] == row.get((b, t + step), -1)


@pytest.mark.parametrize("wrong", [(), (0,), (2, 3), (3, 0), (1, -1)])
def test_lengths_that_are_not_sorted_or_empty_are_refused(wrong: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected lengths >= 1, longest first"):
        Packing(wrong)


@given(st.lists(st.integers(1, 5), max_size=8))
def test_sorting_keeps_the_order_of_equals(lengths: list[int]) -> None:
    order = sort_by_length(lengths).tolist()
    assert order == sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))


# ------------------------------------------------------------------------------------------------ n-gram inventory


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=4), st.integers(2, 3))
def test_the_inventory_has_every_n_gram_once_in_order(sequences: list[list[int]], n: int) -> None:
    expected = sorted({tuple(y[t : t + n]) for y in sequences for t in range(len(y) - n + 1)})
    found = ngrams.seen([np.array(y, dtype=np.int64) for y in sequences], n)
    assert found.shape == (len(expected), n)
    assert found.dtype == torch.int64
    assert [tuple(g) for g in found.tolist()] == expected


@pytest.mark.parametrize("n", [2, 3])
def test_scores_land_at_their_n_gram_and_unseen_ones_are_zero(n: int) -> None:
    inventory = ngrams.seen([np.array([0, 2, 1, 2, 2, 0])], n)
    scores = torch.randn(5, len(inventory), dtype=torch.float64)
    table = ngrams.to_dense(scores, inventory, 3)
    assert table.shape == (5, *(3,) * n)
    for p, gram in enumerate(inventory.tolist()):
        assert torch.equal(table[(slice(None), *gram)], scores[:, p])
    assert int((table != 0).sum()) == 5 * len(inventory)
    assert torch.autograd.gradcheck(lambda s: ngrams.to_dense(s, inventory, 3), scores.requires_grad_())


def test_an_empty_inventory_is_a_table_of_zeros() -> None:
    table = ngrams.to_dense(torch.zeros(4, 0), torch.zeros(0, 2, dtype=torch.long), 3)
    assert table.shape == (4, 3, 3)
    assert not table.any()
