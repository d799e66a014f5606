"""Label utterances and compare the answers with the truth.

N  segments       Y  labels of the model
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import CorpusError
from phonechain.features.phones.comparison import LabelComparison
from phonechain.features.segments import Segment, Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised, featurise
from phonechain.model.learning.training import Progress
from phonechain.model.phone_model import Decoding
from phonechain.model.scoring.calibration import Floats, Ints
from phonechain.model.scoring.significance import Comparison, compare
from phonechain.model.scoring.summary import Evaluation, summarise

BATCH = 64
"""Utterances scored at once, or a few more: those of a speaker stay together."""


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
