"""Which stretches of a long recording hold which words of its transcript, and where the two do not match.

    U  phones that were heard      P  phones of the transcript      K  labels

A recogniser's phones are matched with the transcript's in order: a global alignment (Gotoh 1982) whose score of a pair is the
log-odds of the label, and whose gaps are cheap, so that a page without sound or sound without text becomes a gap and not a
row of bad pairs. Then a chain of two states over the steps of the best path, "matches" and "does not", finds the stretches
that hold together. Time grows with U P, memory with U + P and the square root of P: rows are kept every BLOCK steps, and
computed again on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phonechain.model.segmental.progress import Progress, go_on

LOWEST, HIGHEST = -2.0, 3.0
"""Bounds of a pair's log-odds: a recogniser is never that sure."""

OPEN, EXTEND = 0.6, 0.4
"""Nats that a gap costs, and each of its phones: more for a pair of gaps than for a wrong pair."""

EXPECTED = 0.2
"""Nats of a step from which on it speaks for a match."""

SWITCH = 4.0
"""Nats that it costs to begin or to end a stretch that does not match."""

BLOCK = 512
"""Rows of the alignment between two that are kept."""

PAIR, TEXT, SOUND = 0, 1, 2
"""Steps of a path: a phone of both, of the transcript alone, of the sound alone."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stretch:
    """Phones of the transcript and of the sound that belong together: from the first to past the last of each.

    `pairs` [M, 2] has the pairs in order: phone of the transcript, phone heard.
    """

    text: tuple[int, int]
    sound: tuple[int, int]
    pairs: Ints


def log_odds(shares: NDArray[np.floating]) -> Floats:
    """[K, U] of each label at each heard phone, from the labels' posteriors [U, K]."""
    shares = np.asarray(shares, dtype=np.float64) + 1e-3
    odds = np.log(shares / shares.mean(0))
    return np.ascontiguousarray(np.clip(odds, LOWEST, HIGHEST).T.astype(np.float32))


def stretches(odds: Floats, labels: Sequence[int], progress: Progress = go_on) -> list[Stretch]:
    """The stretches that match, in order.

    Args:
        odds: [K, U], see `log_odds`.
        labels: [P] of the transcript.
    """
    steps = best_path(odds, labels, progress)
    return _stretches(steps, _matching(_values(steps, odds, labels) - EXPECTED))


def best_path(odds: Floats, labels: Sequence[int], progress: Progress = go_on) -> Ints:
    """[S, 3] steps of the best alignment in order: which of PAIR, TEXT, SOUND, and the phones of both before it."""
    rows, columns = len(labels), odds.shape[1]
    row = _Row(columns)
    kept = [row]
    for p, label in enumerate(labels):
        row, _ = row.next(odds[label])
        if (p + 1) % BLOCK == 0:
            kept.append(row)
            progress(0.5 * p / rows)
    steps: list[tuple[int, int, int]] = []
    p, u, kind = rows, columns, -1
    for block in range(len(kept) - 1, -1, -1):
        first = block * BLOCK
        progress(1.0 - 0.5 * (block + 1) / len(kept))
        flags, row = [], kept[block]
        for label in labels[first : min(rows, first + BLOCK)]:
            row, found = row.next(odds[label])
            flags.append(found)
        while p > first:
            at = flags[p - 1 - first][u]
            if kind < 0:
                kind = int(at & 3)
            if kind == PAIR:
                p, u, following = p - 1, u - 1, -1
            elif kind == TEXT:
                p, following = p - 1, TEXT if at & 4 else -1
            else:
                u, following = u - 1, SOUND if at & 8 else -1
            steps.append((kind, p, u))
            kind = following
    steps += [(SOUND, 0, n) for n in range(u - 1, -1, -1)]
    return np.array(steps[::-1], dtype=np.int64).reshape(-1, 3)


class _Row:
    """The best scores [U + 1] of all paths to a row, and of those that end in a gap of the sound."""

    def __init__(self, columns: int) -> None:
        self.at = np.arange(columns + 1, dtype=np.float32) * EXTEND
        self.best = -self.at - np.float32(OPEN)
        self.best[0] = 0.0
        self.text = np.full(columns + 1, -np.inf, dtype=np.float32)

    def next(self, odds: Floats) -> tuple[_Row, NDArray[np.uint8]]:
        """The row after a phone of the transcript with these log-odds [U], and how each of its scores came about.

        A flag is the kind of the last step, plus 4 where a gap in the text goes on, 8 where one in the sound does.
        """
        new = _Row.__new__(_Row)
        new.at = self.at
        opened = self.best - np.float32(OPEN)
        flags = (self.text >= opened).astype(np.uint8) * np.uint8(4)
        new.text = np.maximum(opened, self.text) - np.float32(EXTEND)
        best = new.text.copy()
        pair = self.best[:-1] + odds
        kind = np.ones(len(best), dtype=np.uint8)
        kind[1:][pair >= best[1:]] = PAIR
        np.maximum(best[1:], pair, out=best[1:])
        lifted = best + self.at
        highest = np.maximum.accumulate(lifted)
        sound = highest[:-1] - self.at[1:] - np.float32(OPEN)
        flags[1:] += (highest[:-1] > lifted[:-1]).astype(np.uint8) * np.uint8(8)
        kind[1:][sound > best[1:]] = SOUND
        np.maximum(best[1:], sound, out=best[1:])
        new.best = best
        return new, flags + kind


def _values(steps: Ints, odds: Floats, labels: Sequence[int]) -> NDArray[np.float64]:
    """[S] what each step adds to the score."""
    kind, text, sound = steps.T
    values = np.full(len(steps), -EXTEND)
    opens = (kind != PAIR) & np.concatenate([[True], kind[1:] != kind[:-1]])
    values[opens] -= OPEN
    pairs = kind == PAIR
    values[pairs] = odds[np.asarray(labels, dtype=int)[text[pairs]], sound[pairs]]
    return values


def _matching(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[S] whether each step matches: the best of all series of states, where those that do not match have no value."""
    good, bad = 0.0, 0.0
    stayed = np.empty((len(values), 2), dtype=bool)
    for n, value in enumerate(values.tolist()):
        stayed[n] = good >= bad - SWITCH, bad >= good - SWITCH
        good, bad = max(good, bad - SWITCH) + value, max(bad, good - SWITCH)
    found = np.empty(len(values), dtype=bool)
    state = 0 if good >= bad else 1
    for n in range(len(values) - 1, -1, -1):
        found[n] = state == 0
        state = state if stayed[n, state] else 1 - state
    return found


def _stretches(steps: Ints, matching: NDArray[np.bool_]) -> list[Stretch]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], matching, [False]]).astype(int)))
    found = []
    for first, last in edges.reshape(-1, 2):
        kind, text, sound = steps[first:last].T
        if not (kind == PAIR).any():
            continue
        pairs = np.stack([text[kind == PAIR], sound[kind == PAIR]], 1)
        ends = [int(x[-1] + (kind[-1] in (PAIR, own))) for x, own in ((text, TEXT), (sound, SOUND))]
        found.append(Stretch((int(text[0]), ends[0]), (int(sound[0]), ends[1]), pairs))
    return found
