"""Edit distance against the definition: the shortest way by trying all of them."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from phonechain.model.scoring import edits

words = st.text("ab", max_size=6)


@given(words, words)
def test_the_shortest_way_of_all(a: str, b: str) -> None:
    @cache
    def shortest(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return len(a) - i + len(b) - j
        return min(shortest(i + 1, j) + 1, shortest(i, j + 1) + 1, shortest(i + 1, j + 1) + (a[i] != b[j]))

    found = edits.count(a, b)
    assert edits.distance(a, b) == sum(found) == shortest(0, 0)
    assert len(a) - found.deletions + found.insertions == len(b)


def test_sequences_of_labels() -> None:
    assert edits.count(("AA", "B", "T"), ("AA", "D")) == (1, 1, 0)
    assert edits.count((), ("A", "B")) == (0, 0, 2)
    assert edits.distance(("A", "B"), ()) == 2
