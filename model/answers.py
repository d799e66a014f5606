"""A model's answer for a segment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice

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
    return answers_of_batch(labels, [posteriors], [best], [segments], n_best, [comparison], [supported])[0]


def answers_of_batch(
    labels: Sequence[str],
    posteriors: Sequence[NDArray[np.float32]],
    best: Sequence[NDArray[np.int64]],
    segments: Sequence[Sequence[Segment]],
    n_best: int,
    comparisons: Sequence[LabelComparison],
    supported: Sequence[NDArray[np.float32] | None],
) -> list[list[LabelledSegment]]:
    """As `answers`, of several recordings: those whose labels are compared in the same classes are computed together."""
    alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for n, comparison in enumerate(comparisons):
        alike.setdefault(comparison.classes, []).append(n)
    found: list[list[LabelledSegment]] = [[]] * len(segments)
    for group in alike.values():
        targets = [None if s.label is None else comparisons[n].targets.get(s.label) for n in group for s in segments[n]]
        rows = iter(
            _answer_rows(
                labels,
                np.concatenate([posteriors[n] for n in group]),
                np.concatenate([best[n] for n in group]),
                [s for n in group for s in segments[n]],
                n_best,
                comparisons[group[0]],
                targets,
                _join(comparisons[n].by_class(p) if (p := supported[n]) is not None else None for n in group),
            )
        )
        for n in group:
            found[n] = list(islice(rows, len(segments[n])))
    return found


def _join(parts: Iterable[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    """The parts one after the other; None where a model has no support to give."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def _answer_rows(
    labels: Sequence[str],
    posteriors: NDArray[np.float32],
    best: NDArray[np.int64],
    segments: Sequence[Segment],
    n_best: int,
    comparison: LabelComparison,
    targets: Sequence[int | None],
    support: NDArray[np.float32] | None,
) -> list[LabelledSegment]:
    """The answers to segments whose given labels are of the classes `targets`."""
    classes = comparison.by_class(posteriors)
    exact = posteriors.astype(np.float64)
    entropies = -(exact * np.log(np.maximum(exact, np.finfo(np.float64).tiny))).sum(1)  # 0 log 0 is 0
    own, ranks = _look_up(classes, targets)
    scores = pronunciations(classes, targets, [s.end - s.start for s in segments])
    names = comparison.names()
    listed = _list_best(posteriors, labels, n_best)
    certainty = posteriors[np.arange(len(best)), best].tolist()
    return [
        LabelledSegment(
            segment.start, segment.end, labels[label], certainty[t], listed[t], segment.label,
            None if given is None else own[t],
            None if given is None else ranks[t],
            None if given is None or names[given] == segment.label else names[given],
            entropy,
            scores[t],
            None if given is None or support is None else float(support[t, given]),
        )
        for t, (label, segment, given, entropy) in enumerate(
            zip(best.tolist(), segments, targets, entropies.tolist(), strict=True)
        )
    ]  # fmt: skip


def _look_up(classes: NDArray[np.float32], targets: Sequence[int | None]) -> tuple[list[float], list[int]]:
    """The probability and the rank (1: the most probable) of each segment's class; of any where there is none."""
    column = np.array([0 if target is None else target for target in targets], dtype=np.intp)
    own = classes[np.arange(len(column)), column]
    tied = (classes == own[:, None]) & (np.arange(classes.shape[1]) < column[:, None])  # ties in the labels' order
    return own.tolist(), (((classes > own[:, None]) | tied).sum(1) + 1).tolist()


def _list_best(posteriors: NDArray[np.float32], labels: Sequence[str], count: int) -> list[list[tuple[str, float]]]:
    """The `count` most probable labels of each segment with their posteriors, best first."""
    whole = count != 1  # sorting takes longer than looking for the largest
    order = np.argsort(-posteriors, axis=1, kind="stable") if whole else posteriors.argmax(1)[:, None]
    order = order[:, : max(0, count)]
    values = posteriors[np.arange(len(posteriors))[:, None], order].tolist()
    return [
        [(labels[k], p) for k, p in zip(row, own, strict=True)] for row, own in zip(order.tolist(), values, strict=True)
    ]


def pronunciation(posterior: float, rival: float, duration: float) -> Pronunciation:
    """The scores of a given label, from its posterior, the largest of the others, and the segment's seconds."""
    [scores] = pronunciations(np.array([[posterior, rival]]), [0], [duration])
    assert scores is not None
    return scores


def pronunciations(
    posteriors: NDArray[np.floating], given: Sequence[int | None], durations: Sequence[float]
) -> list[Pronunciation | None]:
    """The scores of each segment's given label, an index into the posteriors [T, C]; None where there is none."""
    own = np.arange(len(given)), np.array([0 if label is None else label for label in given], dtype=np.intp)
    others = posteriors.copy()
    others[own] = 0.0
    logs = np.log(np.maximum(np.array([posteriors[own], others.max(1)], dtype=np.float64), SMALLEST))
    ratios = logs[0] - logs[1]
    goodness = np.minimum(0.0, ratios) / np.maximum(np.asarray(durations) / FRAME, 1.0)
    rows = zip(given, logs[0].tolist(), ratios.tolist(), goodness.tolist(), strict=True)
    return [None if label is None else Pronunciation(*scores) for label, *scores in rows]
