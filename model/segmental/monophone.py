"""A flat start: boundaries for phones whose order alone is known, from hidden Markov models of single phones.

    U  recordings of a batch   T  frames   S  states of the longest chain   C  classes (3 for each label)   F  values of a frame

Each phone is three states in a row with a diagonal Gaussian each. All start alike, from recordings cut into equal parts;
Baum-Welch (Rabiner 1989) then moves the boundaries to where the sounds differ, as in the monophone systems of Kaldi and HTK.
The result is good enough to train a segmental CRF on, which then finds much better boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import CorpusError

STATES = 3
"""States of a phone: begin, middle, end. A phone lasts at least this many frames."""

LEAST = -1e30
FLOOR = 0.02
"""Least variance of a Gaussian, as a share of the variance of all frames."""

FRAMES_AT_ONCE = 24_000
"""Frames of a batch, padding included."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """What is said in a recording: label indices in order; `optional[n]` is true if the n-th may be left out."""

    labels: Sequence[int]
    optional: Sequence[bool] = ()

    @property
    def shortest(self) -> int:
        """Fewest frames that it needs."""
        return STATES * (len(self.labels) - sum(self.optional))


class Monophones:
    """Hidden Markov models of single phones, fitted to recordings whose boundaries are not known.

    Args:
        labels: how many there are.
    """

    def __init__(self, labels: int) -> None:
        self.classes = STATES * labels
        self.mean = self.variance = np.zeros((0, 0))
        self.stay = np.full(self.classes, 0.6)

    def fit(self, frames: Sequence[NDArray[np.floating]], chains: Sequence[Chain], *, rounds: int = 16) -> list[float]:
        """Baum-Welch, starting from equal parts; returns the log-likelihood per frame of each round.

        Args:
            frames: [T, F] of each recording, normalised.
            chains: what is said in each.

        Raises:
            CorpusError: nothing to fit, or a recording with fewer frames than its phones need.
        """
        if not frames:
            raise CorpusError("expected recordings to start from, got none")
        for n, (given, chain) in enumerate(zip(frames, chains, strict=True)):
            if len(given) < max(1, chain.shortest):
                raise CorpusError(
                    f"recording {n}: {len(chain.labels)} phones need {chain.shortest} frames at least, got {len(given)}"
                )
        everything = np.concatenate([np.asarray(x, dtype=np.float64) for x in frames])
        self._all = everything.mean(0), everything.var(0) + 1e-6
        self._update(self._equal_parts(frames, chains))
        found = []
        for _ in range(rounds):
            totals, value = self._zeros(everything.shape[1]), 0.0
            for batch in _batches(frames):
                gamma, rows, likelihood = self._posteriors([frames[n] for n in batch], [chains[n] for n in batch])
                value += float(likelihood.sum())
                for g, classes, n in zip(gamma, rows, batch, strict=True):
                    x = np.asarray(frames[n], dtype=np.float64)
                    self._add(totals, g[: len(x), : len(classes)] @ np.eye(self.classes)[classes], x)
                    totals[3] += np.bincount(classes, minlength=self.classes)
            self._update(totals)
            found.append(value / len(everything))
        return found

    def boundaries(self, frames: Sequence[NDArray[np.floating]], chains: Sequence[Chain]) -> list[Array]:
        """[P + 1] for each recording: the median start of each phone, in frames, and the recording's end.

        An omitted phone begins where the next one does.
        """
        found: list[Array] = [np.zeros(0)] * len(frames)
        for batch in _batches(frames):
            gamma, rows, _ = self._posteriors([frames[n] for n in batch], [chains[n] for n in batch])
            for g, classes, n in zip(gamma, rows, batch, strict=True):
                count = len(frames[n])
                phones = g[:count, : len(classes)].reshape(count, -1, STATES).sum(2)
                reached = phones[:, ::-1].cumsum(1)[:, ::-1]  # P(this phone or a later one) at each frame
                found[n] = np.array([*(_crossing(reached[:, p]) for p in range(phones.shape[1])), float(count)])
                found[n][0] = 0.0
        return found

    # ------------------------------------------------------------------------------------------------- statistics

    def _zeros(self, values: int) -> list[Array]:
        return [
            np.zeros(self.classes),
            np.zeros((self.classes, values)),
            np.zeros((self.classes, values)),
            np.zeros(self.classes),
        ]

    def _add(self, totals: list[Array], share: Array, x: Array) -> None:
        totals[0] += share.sum(0)
        totals[1] += share.T @ x
        totals[2] += share.T @ np.square(x)

    def _equal_parts(self, frames: Sequence[NDArray[np.floating]], chains: Sequence[Chain]) -> list[Array]:
        totals = self._zeros(frames[0].shape[1])
        for x, chain in zip(frames, chains, strict=True):
            classes = _classes(chain)
            at = (np.arange(len(x)) * len(classes)) // len(x)
            self._add(totals, np.eye(self.classes)[classes[at]], np.asarray(x, dtype=np.float64))
            totals[3] += np.bincount(classes, minlength=self.classes)
        return totals

    def _update(self, totals: list[Array]) -> None:
        count, first, second, visits = totals
        mean, variance = self._all
        some = count > 1.0
        n = np.maximum(count, 1.0)[:, None]
        self.mean = np.where(some[:, None], first / n, mean)
        self.variance = np.maximum(np.where(some[:, None], second / n - self.mean**2, variance), FLOOR * variance)
        self.stay = np.clip(1.0 - visits / np.maximum(count, 1.0), 0.1, 0.98)

    # --------------------------------------------------------------------------------------------------- the sums

    def _emissions(self, x: NDArray[np.floating]) -> Array:
        """[T, C] log-densities."""
        x = np.asarray(x, dtype=np.float64)
        precision = 1.0 / self.variance
        constant = -0.5 * (np.log(2 * np.pi * self.variance).sum(1) + (self.mean**2 * precision).sum(1))
        densities: Array = constant - 0.5 * np.square(x) @ precision.T + x @ (self.mean * precision).T
        return densities

    def _posteriors(
        self, frames: Sequence[NDArray[np.floating]], chains: Sequence[Chain]
    ) -> tuple[Array, list[NDArray[np.int64]], Array]:
        """[U, T, S] posterior of each state of each chain at each frame, the chains' classes, log-likelihoods [U]."""
        rows = [_classes(c) for c in chains]
        u, t, s = len(rows), max(map(len, frames)), max(map(len, rows))
        emission = np.full((u, t, s), LEAST)
        stay, move, skip = np.zeros((u, s)), np.full((u, s), LEAST), np.full((u, s), LEAST)
        begin, final = np.full((u, s), LEAST), np.full((u, s), LEAST)
        for n, (x, classes, chain) in enumerate(zip(frames, rows, chains, strict=True)):
            k = len(classes)
            emission[n, : len(x), :k] = self._emissions(x)[:, classes]
            stay[n, :k] = np.log(self.stay[classes])
            move[n, 1:k] = np.log1p(-self.stay[classes[:-1]])
            begin[n, 0] = final[n, k - 1] = 0.0
            for p in np.flatnonzero(chain.optional):
                after = (int(p) + 1) * STATES
                if p == 0:
                    begin[n, after] = 0.0
                elif after < k:
                    skip[n, after] = move[n, p * STATES]
                else:
                    final[n, p * STATES - 1] = 0.0
        lengths = np.array([len(x) for x in frames])
        alpha = np.full((u, t, s), LEAST)
        alpha[:, 0] = begin + emission[:, 0]
        skips = bool((skip > LEAST / 2).any())
        past = np.full((u, s), LEAST)
        for n in range(1, t):
            before = alpha[:, n - 1]
            past[:, 0], past[:, 1:] = LEAST, before[:, :-1] + move[:, 1:]
            a = np.logaddexp(before + stay, past)
            if skips:
                past[:, STATES + 1 :] = before[:, : -STATES - 1] + skip[:, STATES + 1 :]
                past[:, : STATES + 1] = LEAST
                a = np.logaddexp(a, past)
            alpha[:, n] = a + emission[:, n]
        beta = np.full((u, t, s), LEAST)
        here = np.arange(u)
        for n in range(t - 1, -1, -1):
            if n + 1 < t:
                after = beta[:, n + 1] + emission[:, n + 1]
                b = after + stay
                b[:, :-1] = np.logaddexp(b[:, :-1], after[:, 1:] + move[:, 1:])
                if skips:
                    ahead = after[:, STATES + 1 :] + skip[:, STATES + 1 :]
                    b[:, : -STATES - 1] = np.logaddexp(b[:, : -STATES - 1], ahead)
                beta[:, n] = np.maximum(b, LEAST)
            ends = lengths == n + 1
            beta[ends, n] = final[ends]
        value = np.logaddexp.reduce(alpha[here, lengths - 1] + final, 1)
        gamma = np.exp(np.minimum(alpha + beta - value[:, None, None], 0.0))
        return gamma, rows, value


def _classes(chain: Chain) -> NDArray[np.int64]:
    labels = np.asarray(chain.labels, dtype=np.int64)
    return (labels[:, None] * STATES + np.arange(STATES)).ravel()


def _crossing(reached: Array) -> float:
    """Frame at which a non-decreasing probability passes one half, interpolated between centres."""
    after = int(np.argmax(reached >= 0.5)) if reached[-1] >= 0.5 else len(reached)
    if after == 0 or after == len(reached):
        return float(after)
    low, high = reached[after - 1], reached[after]
    return after - 1 + float((0.5 - low) / max(high - low, 1e-12))


def _batches(frames: Sequence[NDArray[np.floating]]) -> list[list[int]]:
    """Batches of recordings of similar length."""
    batches: list[list[int]] = []
    for n in sorted(range(len(frames)), key=lambda k: len(frames[k])):
        if not batches or (len(batches[-1]) + 1) * len(frames[n]) > FRAMES_AT_ONCE:
            batches.append([])
        batches[-1].append(n)
    return batches
