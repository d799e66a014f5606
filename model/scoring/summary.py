"""Error rates, calibration and confusions of one system, from arrays.

Rates and shares are between 0 and 1, the negative log-likelihood is in nats. Nothing here prints.

    N  segments       Y  labels of the model
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phonechain.model.scoring.calibration import (
    DoubtRow,
    Floats,
    Ints,
    ReliabilityBin,
    brier,
    calibration_error,
    chance_calibration_error,
    doubt_auc,
    doubt_table,
    log_loss,
    reliability_table,
    top_shares,
)
from phonechain.model.scoring.confusions import Confusion, PhoneRow, most_confused, phone_rows
from phonechain.model.scoring.significance import Interval, interval


@dataclass(frozen=True)
class Evaluation:
    """The result of `summarise` and `evaluate`.

    Attributes:
        segments, errors, per: scored segments, wrong ones among them, and the ratio: the phone error rate.
        interval: of the error rate, over speakers where all are known, else over utterances.
        interval_over: "speaker" or "utterance".
        utterances, speakers: how many (speakers None where not all are known).
        top: share of the segments whose true label is among the n of highest posterior, for some n.
        nll: mean negative log posterior of the true label, in nats.
        brier: mean over segments of sum_y (p_y - [y is true])^2, between 0 and 2.
        ece: expected calibration error of the given label's posterior.
        ece_by_chance: what that would be on so many segments if every posterior were right.
        mean_confidence: mean posterior of the given label; to be compared with 1 - per.
        reliability: the table behind `ece`, each share with its interval.
        doubt: error rates among the least certain segments.
        doubt_auc: probability that a wrong segment is less certain than a right one; None without both kinds.
        per_phone: one row per label of the model.
        labels, confusion_matrix: [Y] and [Y, Y] counts, rows true, columns predicted.
        confusions: the most frequent ones.
        unknown: labels in the data that the model does not have, with their counts; they are not scored.
        unscored: noise, and labels that a map or the folding leaves out, with their counts.
        folding: the steps through which labels were compared with the model's; see phonechain.features.phones.comparison.
        dropped: labels that were left out before labelling, with their counts.
        unlabelled: segments without a label, left out.
        problems: files that could not be scored: utterance and reason.
        calibration: how the model's temperature was fitted, from its file; "" where the file does not say.
    """

    segments: int
    errors: int
    per: float
    interval: Interval
    interval_over: str
    utterances: int
    speakers: int | None
    top: dict[int, float]
    nll: float | None
    brier: float
    ece: float
    ece_by_chance: float
    mean_confidence: float
    reliability: list[ReliabilityBin]
    doubt: list[DoubtRow]
    doubt_auc: float | None
    per_phone: list[PhoneRow]
    labels: list[str]
    confusion_matrix: list[list[int]]
    confusions: list[Confusion]
    unknown: dict[str, int] = field(default_factory=dict)
    unscored: dict[str, int] = field(default_factory=dict)
    folding: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    unlabelled: int = 0
    problems: list[dict[str, str]] = field(default_factory=list)
    calibration: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable; the keys of `top` become text."""
        values = asdict(self)
        values["top"] = {str(n): share for n, share in self.top.items()}
        return values


def summarise(
    true: ArrayLike,
    posterior: ArrayLike,
    predicted: ArrayLike | None = None,
    *,
    labels: Sequence[str],
    utterances: Sequence[str],
    speakers: Sequence[str | None] | None = None,
    names: Sequence[str] | None = None,
    top_confusions: int = 20,
    level: float = 0.95,
    seed: int = 1,
) -> Evaluation:
    """Every figure from the arrays of one system.

    Args:
        true: [N] index of the true label; -1 where the model does not have it: such segments are counted, not scored.
        posterior: [N, Y] p(y | x); rows sum to 1.
        predicted: [N] index of the label given; the one of highest posterior if None.
        labels: [Y] names.
        utterances: [N] id of each segment's utterance.
        speakers: [N] speaker of each segment, None where unknown.
        names: [N] names of the true labels, for the count of those that the model does not have.
        seed: of the bootstrap.

    Raises:
        ValueError: shapes that do not fit together, indices outside the labels, or no segments.
    """
    y, p, guess = _check_arrays(true, posterior, predicted, labels)
    for what, given in (("utterances", utterances), ("speakers", speakers), ("names", names)):
        if given is not None and len(given) != len(y):
            raise ValueError(f"expected {len(y)} {what}, one per segment, got {len(given)}")
    scored = np.flatnonzero(y >= 0).tolist()
    if not len(scored):
        raise ValueError(f"expected true labels that the model has, got none among {len(y)} segments")
    foreign = Counter([] if names is None else [names[n] for n in np.flatnonzero(y < 0).tolist()])
    y, p, guess = y[scored], p[scored], guess[scored]
    utterances = [utterances[n] for n in scored]
    speakers = None if speakers is None else [speakers[n] for n in scored]
    wrong = y != guess
    confidence = p[np.arange(len(y)), guess]
    known = speakers is not None and all(s is not None for s in speakers)
    units = speakers if known and speakers is not None else utterances
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(matrix, (y, guess), 1)
    reliability = reliability_table(confidence, ~wrong, units=units, level=level, seed=seed)
    return Evaluation(
        segments=len(y),
        errors=int(wrong.sum()),
        per=float(wrong.mean()),
        interval=interval(wrong, units, level=level, seed=seed),
        interval_over="speaker" if known else "utterance",
        utterances=len(set(utterances)),
        speakers=len(set(units)) if known else None,
        top=top_shares(y, p),
        nll=log_loss(y, p),
        brier=brier(y, p),
        ece=calibration_error(reliability),
        ece_by_chance=chance_calibration_error(confidence, seed=seed),
        mean_confidence=float(confidence.mean()),
        reliability=reliability,
        doubt=doubt_table(confidence, wrong),
        doubt_auc=doubt_auc(confidence, wrong),
        per_phone=phone_rows(matrix, labels),
        labels=list(labels),
        confusion_matrix=matrix.tolist(),
        confusions=most_confused(matrix, labels, top_confusions),
        unknown=dict(sorted(foreign.items(), key=lambda item: (-item[1], item[0]))),
    )


def _check_arrays(
    true: ArrayLike, posterior: ArrayLike, predicted: ArrayLike | None, labels: Sequence[str]
) -> tuple[Ints, Floats, Ints]:
    y, p = np.asarray(true), np.asarray(posterior, dtype=np.float64)
    if y.ndim != 1 or len(y) == 0 or p.shape != (len(y), len(labels)):
        raise ValueError(f"expected N > 0 labels and a posterior [N, {len(labels)}], got {y.shape} and {p.shape}")
    guess = p.argmax(1) if predicted is None else np.asarray(predicted)
    if guess.shape != y.shape or not (np.issubdtype(y.dtype, np.integer) and np.issubdtype(guess.dtype, np.integer)):
        raise ValueError(f"expected {len(y)} whole numbers as labels, got {guess.shape} of {y.dtype} and {guess.dtype}")
    if y.min() < -1 or y.max() >= len(labels) or guess.min() < 0 or guess.max() >= len(labels):
        raise ValueError(f"expected labels from 0 to {len(labels) - 1}, got {y.min()} to {y.max()} and {guess.max()}")
    if not np.isfinite(p).all() or p.min() < 0 or np.abs(p.sum(1) - 1).max() > 1e-3:
        raise ValueError(f"expected posteriors that sum to 1, got sums from {p.sum(1).min()} to {p.sum(1).max()}")
    return y.astype(np.int64), p, guess.astype(np.int64)
