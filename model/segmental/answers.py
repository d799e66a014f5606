"""Results of alignment and recognition. Times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from phonechain.features.errors import Notice
from phonechain.features.notebook import certainty, table
from phonechain.features.segments import Segment


@dataclass(frozen=True)
class AlignedPhone:
    """A phone and how certain it is.

    Attributes:
        start_low, start_high: central interval that holds 90 % of the posterior of the start.
        within: probability that the true start lies within 20 ms of `start`, given the phones.
        posterior: of the label, from sound alone: the mean over the segment of the probability that it is heard there.
        n_best: the most probable labels there, from sound alone, best first.
        word: index of its word; None for a silence.
        given_start: where the start was before refining.
        given_within: probability that the start lies within 20 ms of `given_start`.
    """

    label: str
    start: float
    end: float
    start_low: float
    start_high: float
    within: float
    posterior: float
    n_best: tuple[tuple[str, float], ...] = ()
    word: int | None = None
    given_start: float | None = None
    given_within: float | None = None


@dataclass(frozen=True)
class AlignedWord:
    """A word, its chosen pronunciation, and the posterior of that among the word's variants given the transcript.

    `written` is the transcript's token. `phones` are the indices of its phones, from the first to one past the last.
    `guessed` is true where no dictionary has the word.
    """

    word: str
    written: str
    start: float
    end: float
    pronunciation: tuple[str, ...]
    posterior: float
    phones: tuple[int, int]
    guessed: bool = False


@dataclass(frozen=True)
class Unmatched:
    """A stretch of sound (s) that is not in the transcript, words (`text`) that are not in the sound, or both in one place."""

    start: float
    end: float
    text: str


USUAL = 2
"""Phones as usual that each word is taken to have besides its own, so that a short one is not the worst by chance."""


@dataclass(frozen=True)
class WorstFit:
    """The word of a transcript that fits the sound worst, or the phone, where there are no words.

    `posterior` is the mean over its phones of the label's posterior from sound alone; `phones` are their indices, from the
    first to one past the last.
    """

    text: str
    start: float
    end: float
    posterior: float
    phones: tuple[int, int]


@dataclass(frozen=True)
class Alignment:
    """A recording with its phones and, for transcripts, its words.

    Attributes:
        duration: of the recording.
        log_posterior: log of the transcript's posterior among everything that could have been said, log Z of the graph
            less log Z of the free chain, in nats; at most 0, apart from rounding to the grid.
        silence: the model's label for silence, if it has one.
    """

    phones: tuple[AlignedPhone, ...]
    words: tuple[AlignedWord, ...]
    duration: float
    log_posterior: float
    silence: str | None = None
    notices: tuple[Notice, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()

    @property
    def log_posterior_per_phone(self) -> float:
        """Comparable between recordings: how much each phone costs, in nats."""
        return self.log_posterior / max(1, sum(p.label != self.silence for p in self.phones))

    @property
    def worst(self) -> WorstFit | None:
        """Where the transcript fits worst; None where nothing but silence was aligned."""
        places = [(w.written, w.phones) for w in self.words]
        if not places:
            places = [(p.label, (n, n + 1)) for n, p in enumerate(self.phones) if p.label != self.silence]
        found = []
        for text, (first, last) in places:
            own = self.phones[first:last]
            share = sum(p.posterior for p in own) / len(own)
            found.append(WorstFit(text, own[0].start, own[-1].end, share, (first, last)))
        spoken = sum(place.phones[1] - place.phones[0] for place in found)
        mean = sum(place.posterior * (place.phones[1] - place.phones[0]) for place in found) / max(1, spoken)

        def fit(place: WorstFit) -> float:
            count = place.phones[1] - place.phones[0]
            return (count * place.posterior + USUAL * mean) / (count + USUAL)

        return min(found, key=fit, default=None)

    @property
    def segments(self) -> list[Segment]:
        """The phones as plain segments."""
        return [Segment(p.start, p.end, p.label) for p in self.phones]

    def _repr_html_(self) -> str:
        words = [
            (escape(w.written), f"{w.start:.3f}", f"{w.end:.3f}", " ".join(map(escape, w.pronunciation)))
            for w in self.words
        ]
        return (table(("word", "start (s)", "end (s)", "phones"), words) if words else "") + _phones(self.phones)

    def doubtful(self, count: int) -> list[tuple[int, AlignedPhone]]:
        """The phones whose starts are least certain, with their indices; the start of the recording is not among them."""
        inner = [(n, p) for n, p in enumerate(self.phones) if n > 0]
        return sorted(inner, key=lambda pair: (pair[1].within, pair[0]))[:count]


@dataclass(frozen=True)
class Recognition:
    """Phones recognised from sound alone."""

    phones: tuple[AlignedPhone, ...]
    duration: float
    notices: tuple[Notice, ...] = field(default=())

    @property
    def segments(self) -> list[Segment]:
        """The phones as plain segments."""
        return [Segment(p.start, p.end, p.label) for p in self.phones]

    def _repr_html_(self) -> str:
        return _phones(self.phones)


def _phones(phones: tuple[AlignedPhone, ...]) -> str:
    """Phones as a table of HTML, each with the certainty of its label and of its start."""
    head = ("phone", "start (s)", "90 % of the start", "start within 20 ms", "label")
    return table(
        head,
        (
            (escape(p.label), f"{p.start:.3f}", f"{p.start_low:.3f} to {p.start_high:.3f}", certainty(p.within),
             certainty(p.posterior))
            for p in phones
        ),
    )  # fmt: skip
