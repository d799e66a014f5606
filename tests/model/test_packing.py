import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phonechain.model.chain.packing import Packing, sort_by_length

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
