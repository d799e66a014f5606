"""A model's answer for a segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from phonechain.features.notebook import certainty, table
from phonechain.features.phones.comparison import LabelComparison, LabelSet
from phonechain.features.segments import Segment
from phonechain.model.given import Pronunciation, pronunciations


@dataclass(frozen=True)
class LabelledSegment:
    """A segment with its answer. Times in seconds.

    Attributes:
        label: the answer.
        posterior: its probability, given the whole recording and all boundaries.
        n_best: the most probable labels of this segment with their posteriors, best first.
        given: the input's label, spelled as there; its posterior and rank (1: the most probable) are None where there was
            none, or one that the model does not know.
        entropy: of the posterior over all labels, in nats: 0 where the model is certain, log Y where it knows nothing.
        compared_as: the label of the model that `given` was compared with, where it is spelled differently; several are
            joined by slashes, where the folding merges them.
        pronunciation: how well the segment fits the given label (see model.given); None as its posterior is.
        given_support: the probability that the given label is right, from the sound and from all other given labels (see
            model.given); None unless asked for.

    Examples:
        >>> n_best = [("HH", 0.91), ("F", 0.05)]
        >>> answer = LabelledSegment(0.0, 0.1, "HH", 0.91, n_best, given="F", given_posterior=0.05, given_rank=2)
        >>> answer.given, answer.given_rank
        ('F', 2)
    """

    start: float
    end: float
    label: str
    posterior: float
    n_best: list[tuple[str, float]]
    given: str | None = None
    given_posterior: float | None = None
    given_rank: int | None = None
    compared_as: str | None = None
    entropy: float | None = None
    pronunciation: Pronunciation | None = None
    given_support: float | None = None

    def _repr_html_(self) -> str:
        rows = [(escape(label), certainty(p)) for label, p in self.n_best]
        said = f", given {escape(self.given)} {certainty(self.given_posterior)}" if self.given is not None else ""
        return (
            f"<p>{self.start:.3f} to {self.end:.3f} s: <b>{escape(self.label)}</b> {certainty(self.posterior)}{said}</p>"
            + table(("label", "posterior"), rows)
        )


def answers(
    labels: Sequence[str],
    posteriors: NDArray[np.float32],
    best: NDArray[np.int64],
    segments: Sequence[Segment],
    n_best: int,
    comparison: LabelComparison | None = None,
    supported: NDArray[np.float32] | None = None,
) -> list[LabelledSegment]:
    """The segments of one recording with their answers, from p(label | x) [T, Y] and the labels' indices [T].

    Given labels are compared through `comparison`; None chooses the folding that fits these segments. `supported` are
    posteriors [T, Y] after the evidence of the given labels.
    """
    if comparison is None:
        comparison = LabelSet(tuple(labels)).compare(segment.label for segment in segments)
    order = np.argsort(-posteriors, axis=1, kind="stable")
    classes = comparison.by_class(posteriors)
    ranks = np.argsort(np.argsort(-classes, axis=1, kind="stable"), axis=1, kind="stable") + 1
    names = comparison.names()
    exact = posteriors.astype(np.float64)
    entropies = -(exact * np.log(np.maximum(exact, np.finfo(np.float64).tiny))).sum(1)  # 0 log 0 is 0
    targets = [None if s.label is None else comparison.targets.get(s.label) for s in segments]
    scores = pronunciations(classes, targets, [s.end - s.start for s in segments])
    support = None if supported is None else comparison.by_class(supported)
    found = []
    for t, (label, segment, given) in enumerate(zip(best, segments, targets, strict=True)):
        found.append(
            LabelledSegment(
                segment.start, segment.end, labels[label], float(posteriors[t, label]),
                [(labels[k], float(posteriors[t, k])) for k in order[t, : max(0, n_best)]],
                segment.label,
                None if given is None else float(classes[t, given]),
                None if given is None else int(ranks[t, given]),
                None if given is None or names[given] == segment.label else names[given],
                float(entropies[t]),
                scores[t],
                None if given is None or support is None else float(support[t, given]),
            )
        )  # fmt: skip
    return found
