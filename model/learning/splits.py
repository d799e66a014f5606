"""Which utterances are held out, and into which sequences the others fall: labelled runs, and pieces of long ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import CorpusError
from phonechain.features.segments import Segment, Utterance

PIECE = 120
"""Segments of a sequence in training from which on it is cut: at most 2 % of the label n-grams lie across the cuts."""


def hold_out(utterances: Sequence[Utterance], share: float, seed: int) -> tuple[list[Utterance], list[Utterance]]:
    """(train, dev): whole speakers are held out where there are at least five, utterances otherwise; at least one each.

    Raises:
        CorpusError: fewer than two utterances.
    """
    if len(utterances) < 2:
        raise CorpusError(
            f"expected at least 2 utterances to hold some out for early stopping, got {len(utterances)}",
            value=len(utterances), limit=2,
        )  # fmt: skip
    random = np.random.default_rng(seed)
    speakers = sorted({u.speaker for u in utterances if u.speaker is not None})
    if len(speakers) >= 5:
        out = set(random.permutation(speakers)[: max(1, round(share * len(speakers)))].tolist())
        dev = [u.speaker in out for u in utterances]
    else:
        chosen = set(random.permutation(len(utterances))[: max(1, round(share * len(utterances)))].tolist())
        dev = [n in chosen for n in range(len(utterances))]
    return [u for u, d in zip(utterances, dev, strict=True) if not d], [
        u for u, d in zip(utterances, dev, strict=True) if d
    ]


def part(utterance: Utterance, share: float) -> tuple[Utterance, Utterance]:
    """(train, dev) of a single recording: its segments but the last ones, and these, `share` of them and 10 at least.

    Raises:
        CorpusError: fewer than 20 segments.
    """
    count = len(utterance.segments)
    if count < 20:
        raise CorpusError(
            f"expected at least 20 segments in a single recording to hold some out for early stopping, got {count}",
            value=count, limit=20,
        )  # fmt: skip
    last = max(10, round(share * count))
    first = replace(utterance, segments=utterance.segments[:-last], lines=())
    return first, replace(utterance, id=f"{utterance.id} (held out)", segments=utterance.segments[-last:], lines=())


def labelled_runs(
    labels: Sequence[str | None], index: dict[str, int], drop: Collection[str] = ()
) -> list[tuple[list[int], list[int]]]:
    """Runs of consecutive labelled segments as (positions, label indices).

    A dropped label is left out and the chain runs across it, as TIMIT's `q` is by custom. An unlabelled segment, or one
    whose label the index does not know, ends a run: what stood there is not known, so nothing is learnt of its neighbours'
    sequence.
    """
    runs: list[tuple[list[int], list[int]]] = [([], [])]
    for position, label in enumerate(labels):
        if label in drop:
            continue
        if label is None or label not in index:
            if runs[-1][0]:
                runs.append(([], []))
            continue
        runs[-1][0].append(position)
        runs[-1][1].append(index[label])
    return [run for run in runs if run[0]]


def cut_run(positions: Sequence[int], segments: Sequence[Segment], longest: int = PIECE) -> list[slice]:
    """A run of segments in pieces of at most `longest`, each but the last of half as many at least.

    It is cut at the widest gap between two segments, else after the longest segment, which is a pause more often than not.
    """
    pieces: list[slice] = []
    begin, count = 0, len(positions)
    while count - begin > longest:
        places = range(begin + longest // 2, begin + longest + 1)
        before = [segments[positions[p - 1]] for p in places]
        gaps: NDArray[np.float64] = np.asarray(
            [segments[positions[p]].start - s.end for p, s in zip(places, before, strict=True)]
        )
        durations = np.asarray([s.end - s.start for s in before])
        best = gaps if gaps.max() > 0.05 else durations
        end = places[int(best.argmax())]
        pieces.append(slice(begin, end))
        begin = end
    return [*pieces, slice(begin, count)]
