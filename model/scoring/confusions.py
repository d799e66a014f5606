"""Which label is taken for which: tables from the counts of true and predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phonechain.model.scoring.calibration import Ints


@dataclass(frozen=True)
class PhoneRow:
    """One label's line of the per-phone table. A ratio whose denominator is 0 is None."""

    label: str
    count: int
    predicted: int
    correct: int
    recall: float | None
    precision: float | None
    f1: float | None
    confused_with: str | None
    confused: int


@dataclass(frozen=True)
class Confusion:
    """`count` segments of `true` were labelled `predicted`; `share` of all segments of `true`."""

    true: str
    predicted: str
    count: int
    share: float


def phone_rows(matrix: Ints, labels: Sequence[str]) -> list[PhoneRow]:
    """A row for each label, from counts [Y, Y] with rows true and columns predicted."""
    rows = []
    for own, (label, counts) in enumerate(zip(labels, matrix, strict=True)):
        count, right, predicted = int(counts.sum()), int(counts[own]), int(matrix[:, own].sum())
        others = counts.copy()
        others[own] = 0
        worst = int(others.argmax())
        rows.append(
            PhoneRow(
                label=label,
                count=count,
                predicted=predicted,
                correct=right,
                recall=right / count if count else None,
                precision=right / predicted if predicted else None,
                f1=2 * right / (count + predicted) if count + predicted else None,
                confused_with=labels[worst] if others[worst] else None,
                confused=int(others[worst]),
            )
        )
    return rows


def most_confused(matrix: Ints, labels: Sequence[str], most: int) -> list[Confusion]:
    """The `most` frequent confusions, from the same counts."""
    found = [
        Confusion(name, labels[j], int(counts[j]), float(counts[j] / counts.sum()))
        for i, (name, counts) in enumerate(zip(labels, matrix, strict=True))
        for j in np.flatnonzero(counts).tolist()
        if j != i
    ]
    return sorted(found, key=lambda c: (-c.count, c.true, c.predicted))[:most]
