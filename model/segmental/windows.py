"""Which part of a long recording holds which words of its transcript: windows short enough to be aligned in one piece."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phonechain.model.segmental import anchors
from phonechain.model.segmental.anchors import Stretch
from phonechain.model.segmental.progress import Progress, go_on
from phonechain.model.segmental.transcripts import Word

if TYPE_CHECKING:
    from phonechain.model.segmental.aligner import PhoneAligner

PIECE = 30.0
"""Seconds that are heard at a time, and that a window has about."""

LONGEST = 58.0
"""Seconds of the longest window."""

MARGIN = 0.4
"""Seconds of sound outside a stretch that its windows may use, and of a pause that each of its neighbours gets."""

QUIET = 0.06
"""Shortest silence that a window may end in (s)."""

BRIDGE = 6
"""Most phones, of the transcript or heard, between two stretches that are taken for one."""

SOME = 3
"""Phones heard outside the transcript from which on that sound counts as unmatched."""


@dataclass(frozen=True)
class Heard:
    """Phones that a recogniser heard: times in seconds [U], labels [U], posteriors of all labels [U, K]."""

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    labels: NDArray[np.int64]
    shares: NDArray[np.float32]

    def silences(self, silence: int | None) -> NDArray[np.float64]:
        """[M, 2] start and end of those that a window may end in."""
        quiet = (self.labels == (-1 if silence is None else silence)) & (self.ends - self.starts >= QUIET)
        return np.stack([self.starts[quiet], self.ends[quiet]], 1)

    def spoken(self, silence: int | None) -> Heard:
        """All but the silences."""
        some = self.labels != (-1 if silence is None else silence)
        return Heard(self.starts[some], self.ends[some], self.labels[some], self.shares[some])


@dataclass(frozen=True)
class Window:
    """A part of the sound (s) with its words, from the first to past the last.

    `after_silence`: nothing but silence lies between it and the window before it, or the recording's start.
    """

    start: float
    end: float
    words: tuple[int, int]
    after_silence: bool


@dataclass(frozen=True)
class Plan:
    """Windows in order; those between them, perhaps without words or sound, in which the two do not seem to match;
    `silent_end`: nothing but silence follows the last window.
    """

    windows: list[Window]
    doubtful: list[Window]
    silent_end: bool


def plan(
    aligner: PhoneAligner, heard: Heard, words: Sequence[Word], duration: float, pauses: Collection[int] | None = None,
    *, progress: Progress = go_on,
) -> Plan:  # fmt: skip
    """Windows that together hold every word that was found, and what does not match.

    Only before the words `pauses` may windows leave out the middle of a silence; before any if None.
    """
    silence = aligner.silence_index
    index = {p: aligner.index(p) for w in words for p in w.pronunciations[0].phones}
    said = [(index[p], n) for n, w in enumerate(words) for p in w.pronunciations[0].phones if index[p] != silence]
    labels, owner = [y for y, _ in said], np.array([n for _, n in said], dtype=np.int64)
    spoken, quiet = heard.spoken(silence), heard.silences(silence)
    if not len(spoken.labels) or not labels:
        return Plan([], [], False)
    matching = anchors.stretches(anchors.log_odds(spoken.shares), labels, progress)
    found = _bridged(matching, len(labels), len(spoken.labels))
    windows, doubtful = list[Window](), list[Window]()
    word, unit, time = 0, 0, 0.0  # up to which all is dealt with
    for n, stretch in enumerate(found):
        first, last = _whole_words(stretch, owner, word)
        if last <= first:
            continue
        begin, end = float(spoken.starts[stretch.sound[0]]), float(spoken.ends[stretch.sound[1] - 1])
        later = [float(spoken.starts[s.sound[0]]) for s in found[n + 1 : n + 2]]
        start = max(time, begin - MARGIN)
        stop = min([duration, end + MARGIN, *((end + t) / 2 for t in later)])
        between = Window(time, start, (word, first), False)
        if not (silent := _is_silent(between, stretch.sound[0] - unit)):
            doubtful.append(between)
        cuts = _cuts(stretch, owner, spoken, quiet)
        if pauses is not None:
            cuts = [c if c[2] in pauses else ((c[0] + c[1]) / 2, (c[0] + c[1]) / 2, c[2]) for c in cuts]
        windows += _windows(start, stop, (first, last), cuts, silent)
        word, unit, time = last, stretch.sound[1], stop
    after = Window(time, duration, (word, len(words)), False)
    if not (silent := _is_silent(after, len(spoken.labels) - unit)):
        doubtful.append(after)
    return Plan(windows, doubtful, silent)


def _bridged(found: Sequence[Stretch], phones: int, units: int) -> list[Stretch]:
    """Stretches joined where hardly anything lies between them; the first and the last reach the ends likewise."""
    nothing = np.zeros((0, 2), dtype=np.int64)
    out = [Stretch((0, 0), (0, 0), nothing)]
    for s in [*found, Stretch((phones, phones), (units, units), nothing)]:
        last = out[-1]
        if s.text[0] - last.text[1] <= BRIDGE and s.sound[0] - last.sound[1] <= BRIDGE:
            pairs = np.concatenate([last.pairs, s.pairs])
            out[-1] = Stretch((last.text[0], s.text[1]), (last.sound[0], s.sound[1]), pairs)
        else:
            out.append(s)
    return [s for s in out if len(s.pairs)]


def _whole_words(stretch: Stretch, owner: NDArray[np.int64], least: int) -> tuple[int, int]:
    """The words, from `least` on, of whose phones at least half are in the stretch."""
    own, counts = np.unique(owner[slice(*stretch.text)], return_counts=True)
    whole = [int(w) for w, count in zip(own, counts, strict=True) if w >= least and 2 * count >= (owner == w).sum()]
    return (whole[0], whole[-1] + 1) if whole else (least, least)


def _is_silent(window: Window, units: int) -> bool:
    """Whether what lies between two stretches is silence: no words, and hardly a phone heard."""
    return window.words[0] == window.words[1] and units < SOME


Cut = tuple[float, float, int]
"""End of the window before, start of the one after, and the word that begins it."""


def _cuts(stretch: Stretch, owner: NDArray[np.int64], spoken: Heard, quiet: NDArray[np.float64]) -> list[Cut]:
    """Places between two words that were both found, in a silence."""
    found = []
    for (p, u), (q, v) in itertools.pairwise(stretch.pairs.tolist()):
        if owner[q] != owner[p] + 1:
            continue
        low, high = spoken.ends[u] - 0.01, spoken.starts[v] + 0.01
        first = int(np.searchsorted(quiet[:, 0], low))
        inside = quiet[first : int(np.searchsorted(quiet[:, 0], high))]
        inside = inside[inside[:, 1] <= high]
        if len(inside):
            a, b = (float(t) for t in inside[np.argmax(inside[:, 1] - inside[:, 0])])
            room = min((b - a) / 2, MARGIN)
            found.append((a + room, b - room, int(owner[q])))
    return found


def _windows(start: float, stop: float, words: tuple[int, int], cuts: Sequence[Cut], silent: bool) -> list[Window]:
    """A stretch of sound with its words, cut into windows."""
    first, last = words
    found = []
    for end, following, word in choose(start, stop, [c for c in cuts if first < c[2] < last]):
        found.append(Window(start, end, (first, word), silent))
        start, first, silent = following, word, True
    return [*found, Window(start, stop, (first, last), silent)]


def choose(start: float, stop: float, cuts: Sequence[Cut]) -> list[Cut]:
    """Those of the places that part the sound into pieces of about PIECE seconds."""
    chosen = []
    while stop - start > 1.5 * PIECE:
        ahead = [c for c in cuts if start + PIECE / 2 <= c[0] and c[1] <= stop - 1.0]
        near = [c for c in ahead if c[0] <= start + LONGEST] or ahead[:1]
        if not near:
            break
        chosen.append(min(near, key=lambda c: abs(c[0] - start - PIECE)))
        start = chosen[-1][1]
    return chosen
