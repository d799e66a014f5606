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


LEAST_PART = 10
"""Segments at the end of a recording that are held out, at least."""


def hold_out(
    utterances: Sequence[Utterance], share: float, seed: int, *, ends: bool = False
) -> tuple[list[Utterance], list[Utterance]]:
    """(train, dev): whole speakers are held out where there are at least five, utterances otherwise; at least one each.

    With `ends`, of fewer recordings than it takes for one to be that share, the end of each is held out, if they are long
    enough, so that it does not depend on how the same material is cut into files.

    Raises:
        CorpusError: fewer than two utterances.
    """
    if len(utterances) < 2:
        raise CorpusError(
            f"expected at least 2 utterances to hold some out for early stopping, got {len(utterances)}",
            value=len(utterances), limit=2,
        )  # fmt: skip
    lengths = [len(u.segments) for u in utterances]
    random = np.random.default_rng(seed)
    speakers = sorted({u.speaker for u in utterances if u.speaker is not None})
    if len(speakers) >= 5:
        out = set(random.permutation(speakers)[: max(1, round(share * len(speakers)))].tolist())
        dev = [u.speaker in out for u in utterances]
    elif ends and len(utterances) * share < 1 and min(lengths) * share >= LEAST_PART:
        parts = [part(u, share) for u in utterances]
        return [first for first, _ in parts], [last for _, last in parts]
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
    last = max(LEAST_PART, round(share * count))
    first = replace(utterance, segments=utterance.segments[:-last], lines=())
    return first, replace(utterance, id=f"{utterance.id} (held out)", segments=utterance.segments[-last:], lines=())


def labelled_runs(
    labels: Sequence[str | None], index: dict[str, int], drop: Collection[str] = (), *, gaps: bool = False
) -> list[tuple[list[int], list[int]]]:
    """Runs of consecutive labelled segments as (positions, label indices).

    A dropped label is left out and the chain runs across it, as TIMIT's `q` is by custom. An unlabelled segment, or one
    whose label the index does not know, ends a run: what stood there is not known, so nothing is learnt of its neighbours'
    sequence. With `gaps` such a segment stays in the run, with the index -1.
    """
    runs: list[tuple[list[int], list[int]]] = [([], [])]
    for position, label in enumerate(labels):
        if label in drop:
            continue
        if label is None or label not in index:
            if gaps:
                runs[-1][0].append(position)
                runs[-1][1].append(-1)
            elif runs[-1][0]:
                runs.append(([], []))
            continue
        runs[-1][0].append(position)
        runs[-1][1].append(index[label])
    return [run for run in runs if run[0]]


def cut_run(positions: Sequence[int], segments: Sequence[Segment], longest: int = PIECE) -> list[slice]:
    """A run of segments in pieces of at most `longest` segments, and at least half as many in all but the last.

    Cuts are at the widest gap between two segments, else after the longest segment, which is usually a pause.
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
