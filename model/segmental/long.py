"""Recordings of more than a minute: heard piece by piece, matched with the transcript, aligned in windows.

What is in memory at a time is the sound (64 kB for each second), the phones that were heard, and one window. A stretch of
sound without text, and text without sound, stay without an alignment, and a notice names each.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import Notice, TranscriptError
from phonechain.features.segments import Segment
from phonechain.model.segmental import anchors, assembly
from phonechain.model.segmental.anchors import Stretch
from phonechain.model.segmental.answers import AlignedPhone, AlignedWord, Alignment, Recognition, Unmatched
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

PLAUSIBLE = -2.0
"""Nats per phone from which on words are aligned all the same with sound that the recogniser heard otherwise."""

FOUND = 0.2
"""Share of the words that have to be found: what matches less is another text."""

NOTICES = 20
"""Most unmatched places that have a notice each."""


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


# ------------------------------------------------------------------------------------------------------ whole recordings


def align(aligner: PhoneAligner, audio: Audio, words: Sequence[Word]) -> Alignment:
    """Align a recording of any length with its transcript. Raises as `PhoneAligner.align`."""
    planned = plan(aligner, hear(aligner, audio), words, audio.duration)
    joined, unmatched = _Joined(aligner.silence), list[Unmatched]()
    doubtful = set(planned.doubtful)
    for window in sorted({*planned.windows, *doubtful}, key=lambda w: (w.words, w.start)):
        own = words[window.words[0] : window.words[1]]
        found = _try(aligner, audio, window, own)
        least = PLAUSIBLE if window in doubtful else assembly.IMPROBABLE
        if found is not None and found.log_posterior_per_phone >= least:
            joined.add(window, found)
        else:
            unmatched.append(Unmatched(window.start, window.end, _text(own)))
    if len(joined.words) < FOUND * len(words):
        raise TranscriptError(
            f"the transcript does not match the sound: {len(joined.words)} of {len(words)} words are where they can be heard; "
            "expected what is said there, in the model's language",
            pointer="text", value=len(joined.words), limit=round(FOUND * len(words)),
        )  # fmt: skip
    if planned.silent_end:
        joined.pause(audio.duration)
    return joined.alignment(audio.duration, unmatched)


def refine(
    aligner: PhoneAligner, audio: Audio, segments: Sequence[Segment], *, spread: float, window: float
) -> Alignment:
    """Refine the boundaries of a recording of any length, in windows that begin in given silences.

    Args:
        segments: without gaps, from the recording's start.

    Raises:
        SettingsError: more than a window of them without a silence. Otherwise as `PhoneAligner.refine`.
    """
    silent = {y for y in {s.label or "" for s in segments} if aligner.spell(y) == aligner.silence}
    quiet = [n for n, s in enumerate(segments) if (s.label or "") in silent and s.end - s.start >= QUIET]
    middles = [((segments[n].start + segments[n].end) / 2, n) for n in quiet]
    chosen = _choose(0.0, audio.duration, [(t, t, n) for t, n in middles])
    joined = _Joined(aligner.silence)
    edges = [(0.0, 0), *((t, n) for t, _, n in chosen), (audio.duration, len(segments) - 1)]
    for (start, first), (end, last) in itertools.pairwise(edges):
        own = [
            Segment(max(s.start, start) - start, min(s.end, end) - start, s.label) for s in segments[first : last + 1]
        ]
        found = aligner.refine(cut(audio, start, end), own, spread=spread, window=window)
        joined.add(Window(start, end, (0, 0), True), found)
    return joined.alignment(audio.duration, [])


def _try(aligner: PhoneAligner, audio: Audio, window: Window, words: Sequence[Word]) -> Alignment | None:
    """The alignment of a window; None where it has no words, or more than can be said in that time."""
    if not words or not 0.05 <= window.end - window.start <= LONGEST:
        return None
    try:
        return aligner.align(cut(audio, window.start, window.end), words)
    except TranscriptError:
        return None


def recognize(aligner: PhoneAligner, audio: Audio) -> Recognition:
    """Recognise the phones of a recording of any length. Raises as `PhoneAligner.recognize`."""
    middles = [float(a + b) / 2 for a, b in hear(aligner, audio).silences(_silence(aligner))]
    cuts = [(t, t, 0) for t in sorted([*middles, *np.arange(PIECE, audio.duration, PIECE).tolist()])]
    edges = [0.0, *(c[0] for c in _choose(0.0, audio.duration, cuts)), audio.duration]
    joined = _Joined(aligner.silence)
    for start, end in itertools.pairwise(edges):
        found = aligner.recognize(cut(audio, start, end))
        joined.add(Window(start, end, (0, 0), start > 0.0), Alignment(found.phones, (), end - start, 0.0))
    return Recognition(tuple(joined.phones), audio.duration)


def cut(audio: Audio, start: float, end: float) -> Audio:
    """The sound between two times (s)."""
    first, last = round(start * audio.rate), round(end * audio.rate)
    return Audio(audio.samples[first : max(first + 1, last)], audio.rate)


def hear(aligner: PhoneAligner, audio: Audio) -> Heard:
    """The phones of a recording as the recogniser finds them, on the coarse grid."""
    starts, ends, labels, shares = list[float](), list[float](), list[int](), list[NDArray[np.float32]]()
    edges = np.linspace(0.0, audio.duration, max(1, round(audio.duration / PIECE)) + 1).tolist()
    for begin, stop in itertools.pairwise(edges):
        for start, end, label, share in aligner.hear(cut(audio, begin, stop)):
            starts.append(begin + start)
            ends.append(min(begin + end, stop))
            labels.append(label)
            shares.append(share)
    return Heard(np.array(starts), np.array(ends), np.array(labels), np.array(shares))


def _silence(aligner: PhoneAligner) -> int | None:
    return None if aligner.silence is None else aligner.index(aligner.silence)


# ----------------------------------------------------------------------------------------------------------- the windows


def plan(aligner: PhoneAligner, heard: Heard, words: Sequence[Word], duration: float) -> Plan:
    """Windows that together hold every word that was found, and what does not match."""
    silence = _silence(aligner)
    index = {p: aligner.index(p) for w in words for p in w.pronunciations[0].phones}
    said = [(index[p], n) for n, w in enumerate(words) for p in w.pronunciations[0].phones if index[p] != silence]
    labels, owner = [y for y, _ in said], np.array([n for _, n in said], dtype=np.int64)
    spoken, quiet = heard.spoken(silence), heard.silences(silence)
    if not len(spoken.labels) or not labels:
        return Plan([], [], False)
    found = _bridged(anchors.stretches(anchors.log_odds(spoken.shares), labels), len(labels), len(spoken.labels))
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
    for end, following, word in _choose(start, stop, [c for c in cuts if first < c[2] < last]):
        found.append(Window(start, end, (first, word), silent))
        start, first, silent = following, word, True
    return [*found, Window(start, stop, (first, last), silent)]


def _choose(start: float, stop: float, cuts: Sequence[Cut]) -> list[Cut]:
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


# ------------------------------------------------------------------------------------------------------------ the answer


class _Joined:
    """Alignments of windows, one after the other, as one."""

    def __init__(self, silence: str | None) -> None:
        self.silence = silence
        self.phones: list[AlignedPhone] = []
        self.words: list[AlignedWord] = []
        self.log_posterior = 0.0

    def add(self, window: Window, answer: Alignment) -> None:
        """Add the alignment of a window of sound; a silence across its start becomes one."""
        phones = [_moved(p, window.start, len(self.words)) for p in answer.phones]
        if window.after_silence:
            self.pause(window.start)
        last = self.phones[-1] if self.phones else None
        if last and last.label == phones[0].label == self.silence and phones[0].start - last.end < 1e-6 and phones[1:]:
            self.phones[-1] = replace(last, end=phones[0].end)
            phones, shift = phones[1:], len(self.phones) - 1
        else:
            shift = len(self.phones)
            if window.start > 0.0 and phones[0].label != self.silence:
                phones[0] = replace(phones[0], within=0.0)  # where speech was cut nobody knows how far off the start is
        self.phones += phones
        words = [
            replace(
                w, start=round(w.start + window.start, 4), end=round(w.end + window.start, 4),
                phones=(w.phones[0] + shift, w.phones[1] + shift),
            )
            for w in answer.words
        ]  # fmt: skip
        self.words += words
        self.log_posterior += answer.log_posterior

    def pause(self, until: float) -> None:
        """Silence up to a time (s)."""
        start = self.phones[-1].end if self.phones else 0.0
        if until <= start + 1e-6 or self.silence is None:
            return
        if self.phones and self.phones[-1].label == self.silence:
            self.phones[-1] = replace(self.phones[-1], end=until)
        else:
            self.phones.append(AlignedPhone(self.silence, start, until, start, start, 0.0 if self.phones else 1.0, 1.0))

    def alignment(self, duration: float, unmatched: Sequence[Unmatched]) -> Alignment:
        """The whole."""
        notices = [_unmatched_notice(u) for u in unmatched[:NOTICES]]
        if (more := len(unmatched) - NOTICES) > 0:
            message = f"{more} more places where sound and transcript do not match"
            notices.append(Notice("transcript-unmatched", message, "text"))
        return Alignment(
            tuple(self.phones),
            tuple(self.words),
            duration,
            self.log_posterior,
            self.silence,
            tuple(notices),
            tuple(unmatched),
        )


def _moved(phone: AlignedPhone, seconds: float, words: int) -> AlignedPhone:
    start, end, low, high = (round(t + seconds, 4) for t in (phone.start, phone.end, phone.start_low, phone.start_high))
    return replace(
        phone, start=start, end=end, start_low=low, start_high=high,
        word=None if phone.word is None else phone.word + words,
        given_start=None if phone.given_start is None else round(phone.given_start + seconds, 6),
    )  # fmt: skip


def _text(words: Sequence[Word]) -> str:
    return " ".join(w.written or w.word for w in words)


def _unmatched_notice(u: Unmatched) -> Notice:
    where = f"{u.start:.2f} to {u.end:.2f} s"
    text = f"'{u.text[:60]}{'...' if len(u.text) > 60 else ''}'"
    if not u.text:
        message = f"the sound at {where} is not in the transcript"
    elif u.end - u.start < 1.0:
        message = f"the transcript's {text} is not in the sound (at {u.start:.2f} s)"
    else:
        message = f"the sound at {where} does not match the transcript's {text}"
    return Notice(
        "transcript-unmatched", f"{message}; neither is aligned" if u.text else message, "text", round(u.start, 2)
    )
