"""Check a corpus against its sound, for problems that the annotations alone do not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from phonechain.features.audio.utterances import decode_utterance
from phonechain.features.corpora.base import Corpus, CorpusProblem, NoticeCount, Progress, problem_of
from phonechain.features.errors import Notice, PhonechainError
from phonechain.features.segment_checks import prepare
from phonechain.features.segments import Utterance

FEW_SEGMENTS = 1000
"""Labelled segments below which a model learns little: about two minutes of speech."""

FEW_OF_A_LABEL = 5
"""Segments of a label below which hardly anything is learnt about it."""

RATE = 16000
"""Sample rate for decoding (Hz), to bound memory; lengths and notices are those of the file."""


def check(
    corpus: Corpus, *, max_seconds: float = 3600.0, progress: Progress | None = None
) -> tuple[list[CorpusProblem], list[Notice]]:
    """Decode every recording and compare its segments with its length.

    The problems are those of reading, `corpus.problems`, and then one for each recording that cannot be decoded or whose
    segments do not fit it. Notices are counted by their kind.

    Args:
        corpus: as read.
        max_seconds: of one recording.
        progress: called with (recordings done, recordings in all).
    """
    problems, counted = list(corpus.problems), NoticeCount()
    for done, utterance in enumerate(corpus.utterances, 1):
        try:
            sound = decode_utterance(utterance, rate=RATE, max_seconds=max_seconds)
        except PhonechainError as error:
            problems.append(problem_of(error, utterance.audio))
        except OSError as error:
            problems.append(CorpusProblem(utterance.audio, None, f"cannot be read: {error.strerror}"))
        else:
            file = utterance.annotation or utterance.audio
            counted.add(utterance.audio, sound.notices)
            try:
                counted.add(file, prepare(utterance.segments, sound.duration, lines=utterance.lines)[1])
            except PhonechainError as error:
                problems.append(problem_of(error, file))
        if progress is not None:
            progress(done, len(corpus.utterances))
    return problems, [*corpus.notices, *counted.notices()]


def scarcity(utterances: Sequence[Utterance]) -> Notice | None:
    """A warning if there is very little to train on, else None."""
    counts = Counter(s.label for u in utterances for s in u.segments if s.label is not None)
    rare = [label for label, count in counts.items() if count < FEW_OF_A_LABEL]
    if counts.total() >= FEW_SEGMENTS:
        return None
    message = (
        f"very little to train on: {counts.total()} labelled segments in {len(utterances)} "
        f"recording{'s' if len(utterances) != 1 else ''}, "
        f"{len(rare)} of {len(counts)} labels fewer than {FEW_OF_A_LABEL} times; "
        f"expect a poor model below some {FEW_SEGMENTS} segments"
    )
    return Notice("corpus-small", message, None, float(counts.total()), float(FEW_SEGMENTS))
