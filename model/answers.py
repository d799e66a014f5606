"""What a model answers for a segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phonechain.features.segments import Segment


@dataclass(frozen=True)
class LabelledSegment:
    """A segment with its answer. Times in seconds.

    Attributes:
        label: the answer.
        posterior: its probability, given all the sound and all the boundaries.
        n_best: the most probable labels of this segment with their posteriors, best first.
        given: the label that the input carried; its posterior and rank (1: the most probable) are None where there was
            none, or one that the model does not know.
    """

    start: float
    end: float
    label: str
    posterior: float
    n_best: list[tuple[str, float]]
    given: str | None = None
    given_posterior: float | None = None
    given_rank: int | None = None


def answers(
    labels: Sequence[str],
    posteriors: NDArray[np.float32],
    best: NDArray[np.int64],
    segments: Sequence[Segment],
    n_best: int,
) -> list[LabelledSegment]:
    """The segments of one recording with their answers, from p(label | x) [T, Y] and the labels' indices [T]."""
    index = {label: n for n, label in enumerate(labels)}
    order = np.argsort(-posteriors, axis=1, kind="stable")
    found = []
    for row, ranked, label, segment in zip(posteriors, order, best, segments, strict=True):
        given = None if segment.label is None else index.get(segment.label)
        found.append(
            LabelledSegment(
                segment.start, segment.end, labels[label], float(row[label]),
                [(labels[k], float(row[k])) for k in ranked[: max(0, n_best)]],
                segment.label,
                None if given is None else float(row[given]),
                None if given is None else int(np.flatnonzero(ranked == given)[0]) + 1,
            )
        )  # fmt: skip
    return found
