"""Boundaries of a corpus that look wrong: given ones, each with the probability that it is right, and the better place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from phonechain.features.audio.utterances import decode_utterance
from phonechain.features.errors import PhonechainError
from phonechain.features.segments import Segment, Utterance
from phonechain.model.segmental.aligner import LONGEST_SECONDS, PhoneAligner

SPREAD = 0.03
"""Seconds (a standard deviation) by which given boundaries may be off."""

WINDOW = 0.15
"""Seconds within which a better place is looked for."""

WRONG = 0.05
"""Probability of being within 20 ms under which a boundary looks wrong."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A boundary that may be wrong.

    Attributes:
        utterance: whose it is.
        segment: index of the segment that it begins.
        start: seconds; `label` begins there, `before` ends (None at a gap).
        right: probability that the boundary lies within 20 ms of `start`.
        better: where it lies by the sound, seconds.
        certainty: probability that it lies within 20 ms of `better`.
    """

    utterance: Utterance
    segment: int
    start: float
    label: str
    before: str | None
    right: float
    better: float
    certainty: float

    @property
    def line(self) -> int | None:
        """The line of the segment in its file, where lines are known."""
        return self.utterance.lines[self.segment] if self.utterance.lines else None

    def __str__(self) -> str:
        where = f"'{self.before}' and '{self.label}'" if self.before is not None else f"a gap and '{self.label}'"
        return (
            f"the boundary at {self.start:.3f} s between {where} is right within 20 ms with probability "
            f"{100 * self.right:.1f} %; {self.better:.3f} s fits better ({100 * self.certainty:.0f} %)"
        )


def check_boundaries(
    aligner: PhoneAligner, utterance: Utterance, *, spread: float = SPREAD, window: float = WINDOW
) -> list[Suspect]:
    """Every inner boundary of an utterance, in order.

    Raises:
        PhonechainError: its sound cannot be used, its labels are not the model's, or its segments are in no order.
    """
    sound = decode_utterance(utterance, rate=aligner.features_.rate, max_seconds=LONGEST_SECONDS)
    answer = aligner.refine(sound, utterance.segments, spread=spread, window=window)
    found, places = [], {round(s.start, 6): n for n, s in enumerate(utterance.segments)}
    for n, phone in enumerate(answer.phones):
        if n == 0 or phone.given_start is None or phone.given_within is None:
            continue
        segment = places.get(round(phone.given_start, 6))
        if segment is None:  # a silence that was put into a gap
            continue
        before = _label_before(utterance.segments, segment)
        label = utterance.segments[segment].label or ""
        found.append(
            Suspect(utterance, segment, phone.given_start, label, before, phone.given_within, phone.start, phone.within)
        )
    return found


def _label_before(segments: Sequence[Segment], index: int) -> str | None:
    """The label that ends where this segment begins."""
    if index and abs(segments[index - 1].end - segments[index].start) < 0.01:
        return segments[index - 1].label or ""
    return None


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """Every boundary that could be judged, the least probable first, and the utterances that could not be."""

    boundaries: list[Suspect]
    failed: list[tuple[Utterance, PhonechainError | OSError]]

    def list_wrong(self, limit: float = WRONG) -> list[Suspect]:
        """Those that look wrong: hardly probable where they are, and better elsewhere."""
        return [s for s in self.boundaries if s.right < limit and s.certainty > s.right]


Outcome = list[Suspect] | PhonechainError | OSError
"""The boundaries of an utterance, or why they could not be judged."""


def try_utterance(
    aligner: PhoneAligner, utterance: Utterance, *, spread: float = SPREAD, window: float = WINDOW
) -> Outcome:
    """Every inner boundary of an utterance, or what is wrong with it."""
    try:
        return check_boundaries(aligner, utterance, spread=spread, window=window)
    except (PhonechainError, OSError) as error:
        return error


def collect(
    utterances: Sequence[Utterance], outcomes: Iterable[Outcome], progress: Callable[[int, int], None] | None = None
) -> CorpusCheck:
    """What came of the utterances of a corpus; `progress` is called with (utterances done, utterances in all)."""
    found: list[Suspect] = []
    failed: list[tuple[Utterance, PhonechainError | OSError]] = []
    for done, (utterance, outcome) in enumerate(zip(utterances, outcomes, strict=True), 1):
        if isinstance(outcome, list):
            found += outcome
        else:
            failed.append((utterance, outcome))
        if progress is not None:
            progress(done, len(utterances))
    found.sort(key=lambda s: (s.right, s.utterance.id, s.segment))
    return CorpusCheck(found, failed)


def check_corpus(
    aligner: PhoneAligner, utterances: Sequence[Utterance], *, spread: float = SPREAD, window: float = WINDOW
) -> CorpusCheck:
    """Every boundary of a corpus."""
    return collect(utterances, (try_utterance(aligner, u, spread=spread, window=window) for u in utterances))
