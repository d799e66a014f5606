"""Edit distance: how many substitutions, deletions and insertions lead from one sequence of labels to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Edits(NamedTuple):
    """Edits of a shortest way from a reference to an answer."""

    substitutions: int
    deletions: int
    insertions: int


def distance(a: Sequence[object], b: Sequence[object]) -> int:
    """Levenshtein's distance.

    >>> distance("kitten", "sitting")
    3
    """
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def count(reference: Sequence[object], answer: Sequence[object]) -> Edits:
    """The edits of a shortest way; of equally short ones, the one with the fewest substitutions, then deletions.

    >>> count("abc", "xbcd")
    Edits(substitutions=1, deletions=0, insertions=1)
    """
    row = [(n, 0, 0, n) for n in range(len(answer) + 1)]  # in all, substitutions, deletions, insertions
    for i, x in enumerate(reference, 1):
        last, row[0] = row[0], (i, 0, i, 0)
        for j, y in enumerate(answer, 1):
            up, left, wrong = row[j], row[j - 1], int(x != y)
            ways = (
                (last[0] + wrong, last[1] + wrong, last[2], last[3]),
                (up[0] + 1, up[1], up[2] + 1, up[3]),
                (left[0] + 1, left[1], left[2], left[3] + 1),
            )
            last, row[j] = up, min(ways)
    return Edits(*row[-1][1:])
