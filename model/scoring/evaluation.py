"""How well a model labels, and whether its posterior can be believed.

`summarise` works on arrays alone; `evaluate` runs a labeler over utterances and hands it the arrays. Rates and shares
are between 0 and 1, the negative log-likelihood is in nats. Nothing here prints.

    N  segments       Y  labels of the model
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phonechain.features.errors import CorpusError
from phonechain.features.phones.comparison import LabelComparison
from phonechain.features.segments import Segment, Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised, featurise
from phonechain.model.learning.training import Progress
from phonechain.model.phone_model import Decoding
from phonechain.model.scoring.calibration import (
    DoubtRow,
    Floats,
    Ints,
    ReliabilityBin,
    brier,
    calibration_error,
    doubt_auc,
    doubt_table,
    log_loss,
    reliability_table,
    top_shares,
)
from phonechain.model.scoring.confusions import Confusion, PhoneRow, most_confused, phone_rows
from phonechain.model.scoring.significance import Comparison, Interval, compare, interval

BATCH = 64
"""Utterances scored at once, or a few more: those of a speaker stay together."""


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


# ----------------------------------------------------------------------------------------------------------- a labeler


@dataclass(frozen=True)
class ScoredSegments:
    """A labeler's answers beside the truth, segment by segment, in the order of the utterances.

    Attributes:
        labels: [Y] of the model; labels that the folding merges are one, their names joined by slashes.
        true: [N] index of the true label, -1 where the model does not have it.
        names: [N] the true labels, as they are spelled.
        posterior: [N, Y]; predicted: [N].
        utterances, speakers: [N].
        comparison: how the true labels are compared with the model's.
        unscored, dropped, unlabelled, problems: as in Evaluation.
        durations: [N] seconds; None where they are not known.
        starts: [N] where each segment begins in its recording (s).
        calibration: as in Evaluation.
    """

    labels: list[str]
    true: Ints
    names: list[str]
    posterior: NDArray[np.float32]
    predicted: Ints
    utterances: list[str]
    speakers: list[str | None]
    comparison: LabelComparison
    unscored: dict[str, int]
    dropped: dict[str, int]
    unlabelled: int
    problems: list[dict[str, str]]
    durations: Floats | None = None
    starts: Floats = field(default_factory=lambda: np.zeros(0))
    calibration: str = ""

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """[N] whether the answer is not the true label: an error where the model has that label."""
        return self.true != self.predicted

    def summarise(self, *, level: float = 0.95, seed: int = 1) -> Evaluation:
        """All figures; see `summarise`."""
        found = summarise(
            self.true, self.posterior, self.predicted, labels=self.labels, utterances=self.utterances,
            speakers=self.speakers, names=self.names, level=level, seed=seed,
        )  # fmt: skip
        return replace(
            found, unscored=self.unscored, folding=list(self.comparison.steps), dropped=self.dropped,
            unlabelled=self.unlabelled, problems=self.problems, calibration=self.calibration,
        )  # fmt: skip

    def compare(self, other: ScoredSegments, *, seed: int = 1) -> Comparison:
        """Whether `other` differs on the same segments; over speakers where all are known, else over utterances.

        Segments whose label one of the two does not have are left out.

        Raises:
            ValueError: the two did not score the same segments.
        """
        if (self.utterances, self.names) != (other.utterances, other.names):
            raise ValueError(f"expected the same segments scored twice, got {len(self.true)} and {len(other.true)}")
        both = (self.true >= 0) & (other.true >= 0)
        known = all(s is not None for s in self.speakers)
        units = [unit for unit, kept in zip(self.speakers if known else self.utterances, both, strict=True) if kept]
        return compare(self.wrong[both], other.wrong[both], units, seed=seed)


def score(
    labeler: PhoneLabeler,
    utterances: Sequence[Utterance],
    *,
    drop: Collection[str] = (),
    mapping: Mapping[str, str | None] | None = None,
    decode: Decoding = "posterior",
    normalise: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> ScoredSegments:
    """Label the utterances and keep the answers beside the truth.

    Segments whose label is in `drop`, or in the labeler's own `drop`, are left out before labelling, as in training.
    Segments without a label, and noise, are labelled with the rest and not scored. A bad file becomes a row of `problems`.
    One folding, chosen for all utterances, says which label of the model each true label is compared with.

    Args:
        mapping: true label -> label of the model, None for "not scored", where no folding finds it.
        decode: which answer is scored; see PhoneLabeler.label.
        normalise: "recording" for lone recordings, "speaker" with all of a speaker's, "model"; by default the most that the
            model was trained for.
        stop: called before each batch; True ends the run with the results so far.

    Raises:
        CorpusError: there is no labelled segment to score, or none with a label that the model has.
        PhoneSetError: the map names a label that the model does not have.
    """
    drop = {*drop, *labeler.drop}

    def tell(stage: str, done: int) -> None:
        if progress is not None:
            progress(Progress(stage, done, len(utterances), "utterances"))

    items = featurise(utterances, labeler.features_, progress=lambda done, _: tell("features", done))
    counts = Counter(s.label for i in items for s in i.segments if s.label is not None)
    dropped = Counter({label: count for label, count in counts.items() if label in drop})
    tally = _Tally(labeler.label_set_.with_map(mapping).compare(counts - dropped))
    for batch in _batches(items):
        if stop is not None and stop():
            break
        kept = [[n for n, s in enumerate(items[i].segments) if s.label not in drop] for i in batch]
        groups = np.unique([_speaker(items[i], i) for i in batch], return_inverse=True)[1].tolist()
        inputs = [items[i].inputs.select(k) for i, k in zip(batch, kept, strict=True)]
        posteriors, best = labeler.posteriors(inputs, viterbi=decode == "viterbi", groups=groups, normalise=normalise)
        for i, k, p, guess in zip(batch, kept, posteriors, best, strict=True):
            tally.add(i, [items[i].segments[n] for n in k], p, guess)
        tell("scoring", len(tally.rows))
    problems = [{"utterance": i.utterance.id, "message": str(i.error)} for i in items if i.error is not None]
    return replace(tally.collect(utterances, dropped, problems), calibration=labeler.calibration_)


class _Answers(NamedTuple):
    """The scored segments of one utterance: posterior [T, Y], answered class [T], true label and times of each."""

    posterior: NDArray[np.float32]
    predicted: Ints
    names: list[str]
    times: list[tuple[float, float]]


@dataclass
class _Tally:
    """Answers by the number of their utterance, and counts of what is not scored."""

    comparison: LabelComparison
    rows: dict[int, _Answers] = field(default_factory=dict)
    unscored: Counter[str] = field(default_factory=Counter)
    unlabelled: int = 0

    def add(self, number: int, segments: Sequence[Segment], posterior: NDArray[np.float32], best: Ints) -> None:
        """One utterance's posteriors [T, Y] and answers [T], for all of its segments."""
        names, at = [], []
        for n, segment in enumerate(segments):
            if segment.label is None:
                self.unlabelled += 1
            elif segment.label in self.comparison.unscored:
                self.unscored[segment.label] += 1
            else:
                at.append(n)
                names.append(segment.label)
        times = [(segments[n].start, segments[n].end) for n in at]
        predicted = self.comparison.class_of()[best[at]]
        self.rows[number] = _Answers(self.comparison.by_class(posterior[at]), predicted, names, times)

    def collect(
        self, utterances: Sequence[Utterance], dropped: Counter[str], problems: list[dict[str, str]]
    ) -> ScoredSegments:
        """Everything in the order of the utterances. Raises CorpusError where nothing can be scored."""
        order = sorted(self.rows)
        names = [name for i in order for name in self.rows[i].names]
        if not names:
            raise CorpusError(f"expected labelled segments to score, got none in {len(utterances)} utterances")
        true = np.asarray([self.comparison.targets.get(name, -1) for name in names], dtype=np.int64)
        if true.max() < 0:
            kinds = list(self.comparison.unknown)
            raise CorpusError(
                f"expected labels that the model has, got none in {len(names)} segments labelled "
                f"{', '.join(kinds[:5])}{', ...' if kinds[5:] else ''}; a map can say what they stand for",
                value=kinds[0],
            )
        times = np.asarray([pair for i in order for pair in self.rows[i].times], dtype=np.float64)
        return ScoredSegments(
            labels=self.comparison.names(),
            true=true,
            names=names,
            posterior=np.concatenate([self.rows[i].posterior for i in order]),
            predicted=np.concatenate([self.rows[i].predicted for i in order]),
            utterances=[utterances[i].id for i in order for _ in self.rows[i].names],
            speakers=[utterances[i].speaker for i in order for _ in self.rows[i].names],
            comparison=self.comparison,
            unscored=dict(self.unscored.most_common()),
            dropped=dict(dropped.most_common()),
            unlabelled=self.unlabelled,
            problems=problems,
            durations=times[:, 1] - times[:, 0],
            starts=times[:, 0],
        )


def evaluate(
    labeler: PhoneLabeler,
    utterances: Sequence[Utterance],
    progress: Callable[[Progress], None] | None = None,
    *,
    drop: Collection[str] = (),
    mapping: Mapping[str, str | None] | None = None,
    decode: Decoding = "posterior",
    stop: Callable[[], bool] | None = None,
) -> Evaluation:
    """`score`, then `summarise`."""
    scored = score(labeler, utterances, drop=drop, mapping=mapping, decode=decode, progress=progress, stop=stop)
    return scored.summarise()


def _batches(items: Sequence[Featurised]) -> Iterator[list[int]]:
    """Indices of the usable items, speaker by speaker: a model normalised by speaker needs all of one together."""
    usable = [n for n, item in enumerate(items) if item.error is None and item.segments]
    batch: list[int] = []
    for n in sorted(usable, key=lambda n: (_speaker(items[n], n), n)):
        if len(batch) >= BATCH and _speaker(items[n], n) != _speaker(items[batch[-1]], batch[-1]):
            yield batch
            batch = []
        batch.append(n)
    if batch:
        yield batch


def _speaker(item: Featurised, place: int) -> str:
    """Key of an item's speaker; an item with an unknown speaker is one of its own."""
    return f"\0{place}" if item.utterance.speaker is None else item.utterance.speaker


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
