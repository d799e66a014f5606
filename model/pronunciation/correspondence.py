"""Which phones each letter of a word stands for, found by expectation maximisation over a dictionary.

Every letter emits a chunk of zero, one or two phones, with p(chunk | letter) its only parameters (the many-to-many
alignment of Jiampojamarn, Kondrak and Sherif, "Applying Many-to-Many Alignments and Hidden Markov Models to
Letter-to-Phoneme Conversion", 2007, with one letter at a time). A word's alignment is a path over letters i and phones j.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Chunk = tuple[str, ...]
"""The phones of a letter."""

LONGEST = 2
"""Most phones of a chunk."""

START = {0: 0.2, 1: 0.79, 2: 0.01}
"""Probability of each chunk length before anything is known; chunks of one length are equally probable."""


@dataclass(frozen=True)
class Correspondence:
    """p(chunk | letter)."""

    table: dict[str, dict[Chunk, float]]

    def align(self, letters: str, phones: Sequence[str]) -> list[Chunk] | None:
        """The most probable chunk of each letter; None where no path exists."""
        best: list[dict[int, tuple[float, int]]] = [{0: (1.0, 0)}]
        for n, letter in enumerate(letters):
            row = self.table.get(letter, {})
            here: dict[int, tuple[float, int]] = {}
            for j, (score, _) in best[-1].items():
                for length in _lengths(j, len(phones), len(letters) - n - 1):
                    p = score * row.get(tuple(phones[j : j + length]), 0.0)
                    if p > here.get(j + length, (0.0, 0))[0]:
                        here[j + length] = (p, j)
            best.append(here)
        if len(phones) not in best[-1]:
            return None
        chunks, j = [], len(phones)
        for n in range(len(letters), 0, -1):
            i = best[n][j][1]
            chunks.append(tuple(phones[i:j]))
            j = i
        return chunks[::-1]

    def prune(self, counts: dict[Chunk, int], least: int) -> Correspondence:
        """Drop the chunks that occur less than `least` times, over all letters together."""
        kept = {a: {c: p for c, p in row.items() if counts.get(c, 0) >= least} for a, row in self.table.items()}
        return Correspondence({a: {c: p / sum(row.values()) for c, p in row.items()} for a, row in kept.items() if row})


def fit(pairs: Iterable[tuple[str, Sequence[str]]], *, iterations: int = 5) -> Correspondence:
    """The table that makes the dictionary most probable, by expectation maximisation from `START`."""
    words = [(a, tuple(p)) for a, p in pairs if len(p) <= LONGEST * len(a)]
    kinds = len({x for _, p in words for x in p})
    table: dict[str, dict[Chunk, float]] | None = None
    for _ in range(iterations):
        counts: dict[str, dict[Chunk, float]] = defaultdict(lambda: defaultdict(float))
        for letters, phones in words:
            _collect(letters, phones, table, kinds, counts)
        table = {a: {c: n / total for c, n in row.items()} for a, row in counts.items() if (total := sum(row.values()))}
    return Correspondence(table or {})


def _collect(
    letters: str,
    phones: Chunk,
    table: dict[str, dict[Chunk, float]] | None,
    kinds: int,
    counts: dict[str, dict[Chunk, float]],
) -> None:
    """Add the expected counts of one word: forward and backward over (letters, phones) seen so far."""
    total, count = len(phones), len(letters)
    arcs: list[list[tuple[int, int, float]]] = []
    ahead: list[dict[int, float]] = [{0: 1.0}]
    for n, letter in enumerate(letters):
        row = None if table is None else table.get(letter, {})
        here: dict[int, float] = defaultdict(float)
        own = []
        for j, a in ahead[-1].items():
            for length in _lengths(j, total, count - n - 1):
                p = START[length] / kinds**length if row is None else row.get(phones[j : j + length], 0.0)
                if p > 0.0:
                    own.append((j, length, p))
                    here[j + length] += a * p
        arcs.append(own)
        ahead.append(here)
    z = ahead[-1].get(total, 0.0)
    if z <= 0.0:
        return
    back: dict[int, float] = {total: 1.0}
    for n in range(count - 1, -1, -1):
        before: dict[int, float] = defaultdict(float)
        for j, length, p in arcs[n]:
            b = p * back.get(j + length, 0.0)
            if b > 0.0:
                before[j] += b
                counts[letters[n]][phones[j : j + length]] += ahead[n][j] * b / z
        back = before


def _lengths(at: int, total: int, letters_left: int) -> range:
    """Possible numbers of phones of a letter, such that the remaining phones fit the remaining letters."""
    return range(max(0, total - at - LONGEST * letters_left), min(LONGEST, total - at) + 1)
