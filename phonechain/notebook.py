"""Labelled speech in a notebook, with the sound to hear: the doubtful segments first.

import phonechain
from phonechain import notebook

audio = phonechain.read_audio("speech.wav")
notebook.listen(audio, labeler.label(audio, phonechain.read_segments("speech.TextGrid")))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from phonechain.features.audio.reader import Audio
from phonechain.features.notebook import certainty, player, table

if TYPE_CHECKING:
    from phonechain.model.answers import LabelledSegment

__all__ = ["Listening", "listen"]


@dataclass(frozen=True)
class Listening:
    """Segments of one recording with their sound; a notebook shows it as a table. `around` is in seconds."""

    audio: Audio
    labelled: Sequence[LabelledSegment]
    count: int
    around: float

    def doubtful(self) -> list[LabelledSegment]:
        """The `count` least certain segments: by the posterior of the given label, else of the answer."""
        return sorted(self.labelled, key=lambda s: s.posterior if s.given_posterior is None else s.given_posterior)[
            : self.count
        ]

    def _repr_html_(self) -> str:
        rows = []
        for s in self.doubtful():
            first = max(0, round((s.start - self.around) * self.audio.rate))
            part = self.audio.samples[first : round((s.end + self.around) * self.audio.rate)]
            given = "" if s.given is None else escape(s.given)
            best = ", ".join(f"{escape(label)} {p:.2f}" for label, p in s.n_best[:3])
            rows.append(
                (f"{s.start:.3f}", given, certainty(s.given_posterior), escape(s.label), certainty(s.posterior), best,
                 player(part, self.audio.rate, label=f"{s.label} at {s.start:.3f} s"))
            )  # fmt: skip
        head = ("start (s)", "given", "p", "answer", "p", "most probable", "sound")
        return self.audio._repr_html_() + table(head, rows)


def listen(audio: Audio, labelled: Sequence[LabelledSegment], *, count: int = 20, around: float = 0.1) -> Listening:
    """The least certain segments of a recording with their sound, for the last line of a notebook's cell.

    Args:
        audio: the recording.
        labelled: its segments with their answers, as `PhoneLabeler.label` gives them.
        count: how many, 200 at most.
        around: seconds of sound before and after each.

    Raises:
        ValueError: `count` or `around` is out of range.
    """
    if not 1 <= count <= 200 or not 0 <= around <= 5:
        raise ValueError(f"expected a count from 1 to 200 and around from 0 to 5 s, got {count} and {around}")
    return Listening(audio, labelled, count, around)
