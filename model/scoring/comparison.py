"""Two systems on the same corpus: which of them makes fewer errors, and how certain that is.

A system is a labeler, or stored answers. Each is compared with the given labels through its own folding, and the two are
compared on the segments that both were scored on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from phonechain.features.errors import CorpusError
from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Segment, Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.training import Progress
from phonechain.model.phone_model import Decoding
from phonechain.model.scoring.evaluation import score
from phonechain.model.scoring.significance import Comparison, Interval, compare, interval

NEAR = 0.005
"""Seconds by which the times of an answer may differ from those of its segment, for formats round."""

Unit = Literal["speaker", "utterance"]
Key = tuple[str, float]
"""A segment of a corpus: the id of its utterance, and its start (s)."""


@dataclass(frozen=True)
class Marks:
    """One system's errors.

    Attributes:
        name: of the system, for people.
        wrong: for each segment that it was scored on, whether its answer is wrong.
        never: segments whose label none of the system's answers has; from answers alone it is unknown whether the system has
            that label.
        unknown, unscored: labels that are not compared, with how often they occur.
        folding: the steps through which labels were compared.
        problems: files that could not be used: utterance and reason.
    """

    name: str
    wrong: Mapping[Key, bool]
    never: Collection[Key] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    unscored: Mapping[str, int] = field(default_factory=dict)
    folding: Sequence[str] = ()
    problems: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class System:
    """One side of a comparison: its name, its errors on the common segments, and what was left out of its own.

    Attributes:
        segments, errors, per: common segments, how many are wrong, and the ratio.
        interval: of the error rate, over the same units as the comparison.
        missing: labelled segments of the corpus that it was not scored on.
    """

    name: str
    segments: int
    errors: int
    per: float
    interval: Interval
    missing: int
    unknown: Mapping[str, int]
    folding: Sequence[str]


@dataclass(frozen=True)
class SystemComparison:
    """Two systems on the segments that both were scored on.

    Attributes:
        a, b: the systems.
        tests: the difference b - a with its interval, and the tests; see Comparison.
        over: the units that are drawn, and whose errors are counted together.
        utterances, speakers: how many of each (speakers None where not all are known).
    """

    a: System
    b: System
    tests: Comparison
    over: Unit
    utterances: int
    speakers: int | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable."""
        return asdict(self)


def mark_labeler(
    name: str,
    labeler: PhoneLabeler,
    utterances: Sequence[Utterance],
    *,
    drop: Collection[str] = (),
    mapping: Mapping[str, str | None] | None = None,
    decode: Decoding = "posterior",
    normalise: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Marks:
    """Label the utterances and mark the errors; the options are those of `score`.

    Raises:
        CorpusError, PhoneSetError: as `score`.
    """
    scored = score(
        labeler, utterances, drop=drop, mapping=mapping, decode=decode, normalise=normalise, progress=progress
    )
    rows = zip(scored.utterances, scored.starts.tolist(), scored.wrong.tolist(), scored.true.tolist(), strict=True)
    return Marks(
        name,
        {(utterance, start): wrong for utterance, start, wrong, true in rows if true >= 0},
        unknown=scored.comparison.unknown,
        unscored=scored.unscored,
        folding=scored.comparison.steps,
        problems=scored.problems,
    )


def mark_answers(
    name: str,
    answers: Mapping[str, Sequence[Segment]],
    utterances: Sequence[Utterance],
    *,
    drop: Collection[str] = (),
    mapping: Mapping[str, str | None] | None = None,
) -> Marks:
    """Mark the errors of stored answers.

    The answer to a segment is the one whose start and end are within NEAR of the segment's. The system's labels are those of
    its answers, and given labels are compared with them as with a model's.

    Args:
        answers: utterance id -> answered segments; those without a label are no answers.

    Raises:
        CorpusError: no answer to any labelled segment.
        PhoneSetError: the map names a label that was never answered.
    """
    pairs: list[tuple[Key, str, str]] = []
    for utterance in utterances:
        given = [s for s in utterance.segments if s.label is not None and s.label not in drop]
        found = _match(given, answers.get(utterance.id, ()))
        pairs += [
            ((utterance.id, s.start), s.label, answer.label)
            for s, answer in zip(given, found, strict=True)
            if s.label is not None and answer is not None and answer.label is not None
        ]
    if not pairs:
        raise CorpusError(f"expected answers to segments of the corpus in {name}, got none", value=name)
    labels = tuple(sorted({label for _, _, label in pairs}))
    comparison = LabelSet(labels).with_map(mapping).compare(Counter(given for _, given, _ in pairs))
    class_of = dict(zip(labels, comparison.class_of().tolist(), strict=True))
    return Marks(
        name,
        {
            key: comparison.targets[given] != class_of[label]
            for key, given, label in pairs
            if given in comparison.targets
        },
        never={key for key, given, _ in pairs if given in comparison.unknown},
        unknown=comparison.unknown,
        unscored=comparison.unscored,
        folding=comparison.steps,
    )


def compare_marks(
    a: Marks,
    b: Marks,
    utterances: Sequence[Utterance],
    *,
    over: Unit | None = None,
    drop: Collection[str] = (),
    level: float = 0.95,
    seed: int = 1,
) -> SystemComparison:
    """Compare two systems on the segments that both were scored on.

    A label that stored answers never have counts as their error, unless the other system is a model without that label.

    Args:
        utterances: those that were marked, with their labels and speakers.
        over: units whose errors are counted together; by default speakers where all are known, else utterances.
        drop: labels that are left out.
        level: of the intervals.
        seed: of the bootstrap.

    Raises:
        CorpusError: no common segment; or speakers are asked for and not all known.
    """
    known = all(u.speaker is not None for u in utterances)
    if over == "speaker" and not known:
        unknown = sum(u.speaker is None for u in utterances)
        raise CorpusError(f"expected a speaker for every utterance, got none for {unknown} of {len(utterances)}")
    unit: Unit = over or ("speaker" if known else "utterance")
    rows: list[tuple[str, str | None, bool, bool]] = []
    missing = [0, 0]
    for utterance in utterances:
        for segment in utterance.segments:
            if segment.label is None or segment.label in drop:
                continue
            key = (utterance.id, segment.start)
            first, second = _wrong(a, b, key), _wrong(b, a, key)
            missing[0] += first is None
            missing[1] += second is None
            if first is not None and second is not None:
                rows.append((utterance.id, utterance.speaker, first, second))
    if not rows:
        raise CorpusError(f"expected segments that {a.name} and {b.name} both answer, got none")
    wrong_a, wrong_b = (np.asarray([row[n] for row in rows], dtype=bool) for n in (2, 3))
    units = [row[0] if unit == "utterance" else row[1] for row in rows]
    sides = [
        System(
            marks.name,
            len(rows),
            int(wrong.sum()),
            float(wrong.mean()),
            interval(wrong, units, level=level, seed=seed),
            missed,
            dict(marks.unknown),
            tuple(marks.folding),
        )
        for marks, wrong, missed in zip((a, b), (wrong_a, wrong_b), missing, strict=True)
    ]
    return SystemComparison(
        sides[0],
        sides[1],
        compare(wrong_a, wrong_b, units, level=level, seed=seed),
        unit,
        len({row[0] for row in rows}),
        len({row[1] for row in rows}) if known else None,
    )


def _wrong(system: Marks, other: Marks, key: Key) -> bool | None:
    """Whether the system is wrong on a segment; None where it was not scored on it."""
    if key in system.wrong:
        return system.wrong[key]
    return True if key in system.never and (key in other.wrong or key in other.never) else None


def _match(segments: Sequence[Segment], answers: Sequence[Segment]) -> list[Segment | None]:
    """For each segment the nearest answer with the same times within NEAR, or None."""
    ordered = sorted(answers, key=lambda s: s.start)
    starts = [s.start for s in ordered]
    found: list[Segment | None] = []
    for s in segments:
        near = []
        for answer in ordered[bisect_left(starts, s.start - NEAR) :]:
            if answer.start > s.start + NEAR:
                break
            if abs(answer.end - s.end) <= NEAR:
                near.append(answer)
        found.append(min(near, key=lambda one: abs(one.start - s.start) + abs(one.end - s.end), default=None))
    return found
