"""What the labels around a segment say of its label: counts of n-grams to both sides, in other recordings and a dictionary.

The chain of a model knows two labels before and after. Words are longer: of "S K AH L" few labels may be the third, and a wrong
label there fits no word. `widen` corrects a support by the ratio of what three labels on either side predict to what one does,
so that nothing changes where the wider context was never seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from phonechain.features.phones.notation import without_stress
from phonechain.features.words import dictionary

NARROW = (((),), ((-1,), (1,)), ((-1, 1),))
"""Offsets of the labels that predict, from the poorest context to the richest; those of a level are averaged."""
WIDE = (*NARROW, ((-2, -1, 1), (-1, 1, 2)), ((-2, -1, 1, 2),), ((-3, -2, -1, 1, 2), (-2, -1, 1, 2, 3)))
BACKOFF = 5.0
"""Counts that the poorer context is worth."""
WEIGHT = 0.5
"""Exponent of the ratio."""
OF_WORDS = 0.1
"""Weight of an entry of the dictionary, where an utterance has 1."""

Context = tuple[tuple[int, ...], tuple[int, ...]]


class LabelContext:
    """Counts of labels by the labels around them, and the distributions that they give."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.index = {label: n for n, label in enumerate(labels)}
        self._counts: defaultdict[Context, dict[int, float]] = defaultdict(dict)

    def add(self, sequences: Iterable[Sequence[str]], weight: float = 1.0) -> None:
        """Count the sequences; those with a label that is not the model's are left out."""
        for sequence in sequences:
            if all(label in self.index for label in sequence):
                row = [self.index[label] for label in sequence]
                for t, label in enumerate(row):
                    for offsets in (o for level in WIDE for o in level):
                        counts = self._counts[_context(row, t, offsets)]
                        counts[label] = counts.get(label, 0.0) + weight

    def predict(self, row: Sequence[int], t: int, levels: Sequence[Sequence[tuple[int, ...]]]) -> NDArray[np.float64]:
        """[Y] the distribution of the label at t by those around it, richer contexts interpolated with poorer ones."""
        p = np.full(len(self.index), 1 / len(self.index))
        for level in levels:
            richer = np.zeros_like(p)
            for offsets in level:
                counts = self._counts.get(_context(row, t, offsets), {})
                found = BACKOFF * p
                for label, count in counts.items():
                    found[label] += count
                richer += found / found.sum() / len(level)
            p = richer
        return p

    def widen(self, given: Sequence[str], support: NDArray[np.float32]) -> NDArray[np.float64]:
        """[T] log of the given labels' support in view of wider contexts, from the posteriors [T, Y] with their evidence.

        Contexts are of given labels, but where another label is more probable than not, of that one.
        """
        row, everything = np.asarray([self.index[label] for label in given]), np.arange(len(given))
        own = support[everything, row]
        context = np.where(own > 0.5, row, support.argmax(1)).tolist()
        ratios = np.stack([self.predict(context, t, WIDE) / self.predict(context, t, NARROW) for t in range(len(row))])
        found = support.astype(np.float64) * ratios**WEIGHT
        logs: NDArray[np.float64] = np.log(np.maximum(found[everything, row] / found.sum(1), 1e-30))
        return logs


def count_english(labels: Sequence[str], sequences: Iterable[Sequence[str]]) -> LabelContext:
    """The contexts in these label sequences and in the dictionary of English."""
    context = LabelContext(labels)
    context.add(sequences)
    words = dictionary.english()
    spoken = (each.phones for variants in words.entries.values() for each in variants)
    context.add(([without_stress(phone) for phone in phones] for phones in spoken), OF_WORDS)
    return context


def _context(row: Sequence[int], t: int, offsets: tuple[int, ...]) -> Context:
    return offsets, tuple(row[t + o] if 0 <= t + o < len(row) else -1 for o in offsets)
