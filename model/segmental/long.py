"""Recordings of more than a minute: heard piece by piece, matched with the transcript, aligned in windows.

What is in memory at a time is the sound (64 kB for each second), the phones that were heard, and one window. A stretch of
sound without text, and text without sound, stay without an alignment, and a notice names each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import Notice, TranscriptError
from phonechain.features.segments import Segment
from phonechain.features.words.dictionary import Pronunciation
from phonechain.model.segmental import assembly
from phonechain.model.segmental.answers import AlignedPhone, AlignedWord, Alignment, Recognition, Unmatched
from phonechain.model.segmental.progress import Progress
from phonechain.model.segmental.transcripts import Word
from phonechain.model.segmental.windows import LONGEST, PIECE, QUIET, Cut, Heard, Plan, Window, choose, plan

if TYPE_CHECKING:
    from phonechain.model.segmental.aligner import PhoneAligner

PLAUSIBLE = -2.0
"""Nats per phone from which on words are aligned all the same with sound that the recogniser heard otherwise."""

FOUND = 0.2
"""Share of the words that have to be found: what matches less is another text."""

NOTICES = 20
"""Most unmatched places that have a notice each."""

HEARING, MATCHING = 0.45, 0.5
"""Shares of the work that are done once everything is heard, and matched with the transcript, about."""


def align(aligner: PhoneAligner, audio: Audio, words: Sequence[Word], progress: Progress) -> Alignment:
    """Align a recording of any length with its transcript. Raises as `PhoneAligner.align`."""
    planned = _plan(aligner, audio, words, progress)

    def align_window(sound: Audio, first: int, last: int) -> Alignment:
        return aligner.align(sound, words[first:last])

    return _align_windows(aligner, audio, planned, words, "words", align_window, progress)


def align_phones(aligner: PhoneAligner, audio: Audio, labels: Sequence[str], progress: Progress) -> Alignment:
    """Find the boundaries of phones of which only the order is known. Raises as `PhoneAligner.align_phones`.

    Windows end in silences that are given, or between two phones where a silence is heard.
    """
    is_silent = [aligner.spell(y) == aligner.silence is not None for y in labels]
    spoken = [n for n, silent in enumerate(is_silent) if not silent]
    words = [Word(labels[n], [Pronunciation((labels[n],))]) for n in spoken]
    pauses = {k for k, n in enumerate(spoken) if n and is_silent[n - 1]}
    planned = _plan(aligner, audio, words, progress, pauses)

    def align_window(sound: Audio, first: int, last: int) -> Alignment:
        begin = spoken[first] - (first in pauses) if first else 0
        end = spoken[last] if last < len(spoken) else len(labels)
        return aligner.align_phones(sound, labels[begin:end])

    return _align_windows(aligner, audio, planned, words, "phones", align_window, progress)


def _plan(
    aligner: PhoneAligner,
    audio: Audio,
    words: Sequence[Word],
    progress: Progress,
    pauses: Collection[int] | None = None,
) -> Plan:
    """The recording is heard, and matched with its words; see `plan`."""
    heard = hear(aligner, audio, progress, HEARING)
    return plan(
        aligner, heard, words, audio.duration, pauses, progress=lambda x: progress(HEARING + (MATCHING - HEARING) * x)
    )


def _align_windows(
    aligner: PhoneAligner,
    audio: Audio,
    planned: Plan,
    words: Sequence[Word],
    noun: str,
    align_window: Callable[[Audio, int, int], Alignment],
    progress: Progress,
) -> Alignment:
    """Align each window by `align_window`, which gets its sound and its words, from the first to past the last.

    Raises:
        TranscriptError: hardly any of the words, which are called `noun`, is in the sound.
    """
    joined, unmatched, matched = _Joined(aligner.silence), list[Unmatched](), 0
    doubtful = set(planned.doubtful)
    windows = sorted({*planned.windows, *doubtful}, key=lambda w: (w.words, w.start))
    for n, window in enumerate(windows):
        progress(MATCHING + (1 - MATCHING) * n / len(windows))
        found = _try(audio, window, align_window)
        least = PLAUSIBLE if window in doubtful else assembly.IMPROBABLE
        if found is not None and found.log_posterior_per_phone >= least:
            joined.add(window, found)
            matched += window.words[1] - window.words[0]
        else:
            unmatched.append(Unmatched(window.start, window.end, _text(words[slice(*window.words)])))
    if matched < FOUND * len(words):
        raise TranscriptError(
            f"the transcript does not match the sound: {matched} of {len(words)} {noun} are where they can be heard; "
            "expected what is said there, in the model's language",
            pointer="text", value=matched, limit=round(FOUND * len(words)),
        )  # fmt: skip
    if planned.silent_end:
        joined.pause(audio.duration)
    return joined.alignment(audio.duration, unmatched)


def _try(audio: Audio, window: Window, align_window: Callable[[Audio, int, int], Alignment]) -> Alignment | None:
    """The alignment of a window; None where it has no words, or more than can be said in that time."""
    first, last = window.words
    if first == last or not 0.05 <= window.end - window.start <= LONGEST:
        return None
    try:
        return align_window(cut(audio, window.start, window.end), first, last)
    except TranscriptError:
        return None


def refine(
    aligner: PhoneAligner,
    audio: Audio,
    segments: Sequence[Segment],
    progress: Progress,
    *,
    spread: float,
    window: float,
) -> Alignment:
    """Refine the boundaries of a recording of any length, in windows that begin in given silences, or in the middle of a
    segment where there is none for a minute. Raises as `PhoneAligner.refine`.

    Args:
        segments: without gaps, from the recording's start.
    """
    joined = _Joined(aligner.silence)
    edges = [(0.0, 0), *_refining_cuts(aligner, segments, audio.duration), (audio.duration, len(segments) - 1)]
    for (start, first), (end, last) in itertools.pairwise(edges):
        progress(start / audio.duration)
        own = [
            Segment(max(s.start, start) - start, min(s.end, end) - start, s.label) for s in segments[first : last + 1]
        ]
        found = aligner.refine(cut(audio, start, end), own, spread=spread, window=window)
        joined.add(Window(start, end, (0, 0), True), found, shared=start > 0.0)
    return joined.alignment(audio.duration, [])


def _refining_cuts(aligner: PhoneAligner, segments: Sequence[Segment], duration: float) -> list[tuple[float, int]]:
    """Times in the middle of segments, with their indices, that part a recording into windows."""
    quiet, others = list[Cut](), list[Cut]()
    for n, s in enumerate(segments):
        pieces = max(1, math.ceil((s.end - s.start) / PIECE))
        middles = [s.start + (s.end - s.start) * (k + 0.5) / pieces for k in range(pieces)]
        silent = aligner.spell(s.label or "") == aligner.silence and s.end - s.start >= QUIET
        (quiet if silent else others).extend((t, t, n) for t in middles)
    chosen, start = list[Cut](), 0.0
    for cut in [*choose(0.0, duration, quiet), (duration, duration, -1)]:
        if cut[0] - start > LONGEST:
            chosen += choose(start, cut[0], sorted([*quiet, *others]))
        chosen.append(cut)
        start = cut[0]
    return [(t, n) for t, _, n in chosen[:-1]]


def recognize(aligner: PhoneAligner, audio: Audio, progress: Progress) -> Recognition:
    """Recognise the phones of a recording of any length. Raises as `PhoneAligner.recognize`."""
    heard = hear(aligner, audio, progress, HEARING)
    middles = [float(a + b) / 2 for a, b in heard.silences(aligner.silence_index)]
    cuts = [(t, t, 0) for t in sorted([*middles, *np.arange(PIECE, audio.duration, PIECE).tolist()])]
    edges = [0.0, *(c[0] for c in choose(0.0, audio.duration, cuts)), audio.duration]
    joined = _Joined(aligner.silence)
    for start, end in itertools.pairwise(edges):
        progress(HEARING + (1 - HEARING) * start / audio.duration)
        found = aligner.recognize(cut(audio, start, end))
        joined.add(Window(start, end, (0, 0), start > 0.0), Alignment(found.phones, (), end - start, 0.0))
    return Recognition(tuple(joined.phones), audio.duration)


def cut(audio: Audio, start: float, end: float) -> Audio:
    """The sound between two times (s)."""
    first, last = round(start * audio.rate), round(end * audio.rate)
    return Audio(audio.samples[first : max(first + 1, last)], audio.rate)


def hear(aligner: PhoneAligner, audio: Audio, progress: Progress, share: float = 1.0) -> Heard:
    """The phones of a recording as the recogniser finds them, on the coarse grid: this is so much of the work."""
    starts, ends, labels, shares = list[float](), list[float](), list[int](), list[NDArray[np.float32]]()
    edges = np.linspace(0.0, audio.duration, max(1, round(audio.duration / PIECE)) + 1).tolist()
    for begin, stop in itertools.pairwise(edges):
        progress(share * begin / audio.duration)
        for start, end, label, posteriors in aligner.hear(cut(audio, begin, stop)):
            starts.append(begin + start)
            ends.append(min(begin + end, stop))
            labels.append(label)
            shares.append(posteriors)
    return Heard(np.array(starts), np.array(ends), np.array(labels), np.array(shares))


class _Joined:
    """Alignments of windows, one after the other, as one."""

    def __init__(self, silence: str | None) -> None:
        self.silence = silence
        self.phones: list[AlignedPhone] = []
        self.words: list[AlignedWord] = []
        self.log_posterior = 0.0

    def add(self, window: Window, answer: Alignment, *, shared: bool = False) -> None:
        """Add the alignment of a window of sound; a silence across its start becomes one, or any phone if `shared`."""
        phones = [_moved(p, window.start, len(self.words)) for p in answer.phones]
        if window.after_silence:
            self.pause(window.start)
        last = self.phones[-1] if self.phones else None
        silent = last is not None and last.label == phones[0].label == self.silence and len(phones) > 1
        if last and (shared or (silent and phones[0].start - last.end < 1e-6)):
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
