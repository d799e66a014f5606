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

FRAME = 0.01
"""Seconds of a frame, the unit of duration in goodness of pronunciation."""

SMALLEST = float(np.finfo(np.float32).tiny)
"""Smaller posteriors are raised to this, so that logarithms stay finite."""


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """How well a segment fits the phone that should have been spoken, in nats; higher is better.

    Attributes:
        log_posterior: log p(given | x), the log phone posterior (LPP; Hu et al. 2015, Speech Communication 67). A
            segmental model has one posterior per segment, where a frame model averages over frames.
        log_ratio: log p(given | x) - log p(best other | x), the log posterior ratio (LPR; the same): above 0 where the
            given phone is the answer.
        goodness: the ratio against the best of all phones, so at most 0, divided by the segment's frames of 10 ms:
            goodness of pronunciation (GOP; Witt and Young 2000, Speech Communication 30), without their absolute value.

    Examples:
        >>> pronunciation(0.02, 0.9, 0.05)
        Pronunciation(log_posterior=-3.912, log_ratio=-3.807, goodness=-0.761)
    """

    log_posterior: float
    log_ratio: float
    goodness: float

    def __repr__(self) -> str:
        return "Pronunciation(" + ", ".join(f"{name}={value:.3f}" for name, value in self.to_json().items()) + ")"

    def to_json(self) -> dict[str, float]:
        """The scores by name."""
        return {"log_posterior": self.log_posterior, "log_ratio": self.log_ratio, "goodness": self.goodness}


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
        pronunciation: how well the segment fits the given label (see Pronunciation); None as its posterior is.
        given_support: the probability that the given label is right, from the sound and from all other given labels (see
            model.support); None unless asked for.

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


def pronunciation(posterior: float, rival: float, duration: float) -> Pronunciation:
    """The scores of a given label, from its posterior, the largest of the others, and the segment's seconds."""
    own, other = float(np.log(max(posterior, SMALLEST))), float(np.log(max(rival, SMALLEST)))
    frames = max(duration / FRAME, 1.0)
    return Pronunciation(own, own - other, min(0.0, own - other) / frames)


def pronunciations(
    posteriors: NDArray[np.float32], given: Sequence[int | None], durations: Sequence[float]
) -> list[Pronunciation | None]:
    """The scores of each segment's given label, an index into the posteriors [T, C]; None where there is none."""
    rivals = np.sort(posteriors, axis=1)[:, -2:]  # of a given label: the largest, or if that is its own the second
    found: list[Pronunciation | None] = []
    for t, (label, duration) in enumerate(zip(given, durations, strict=True)):
        if label is None:
            found.append(None)
            continue
        own = float(posteriors[t, label])
        rival = 0.0 if rivals.shape[1] < 2 else float(rivals[t, 0 if own == rivals[t, 1] else 1])
        found.append(pronunciation(own, rival, duration))
    return found
