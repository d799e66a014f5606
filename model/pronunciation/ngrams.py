"""A Markov chain over letters and the phones that they stand for, of order M - 1, with Kneser-Ney smoothing.

    M  longest n-gram      g  a unit: a letter with the chunk of phones that it stands for      h  the units before it

A pronunciation's probability is the product over its letters of p(g | h); the letters are known, so the chain runs over the
chunks (joint-sequence models: Bisani and Ney, "Joint-sequence models for grapheme-to-phoneme conversion", 2008). Smoothing
is interpolated with three discounts per order (Kneser and Ney, "Improved backing-off for M-gram language modeling", 1995;
Chen and Goodman, "An empirical study of smoothing techniques for language modeling", 1999), and n-grams whose loss changes
little are prune (Stolcke, "Entropy-based pruning of backoff language models", 1998). An n-gram is one integer, its units
`BITS` bits each, the last one in the lowest bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]

BITS = 9
"""Bits of a unit: 7 units fit into an integer."""

START = 0
"""The unit before a word's first, which is also its end."""

STEP = 0.08
"""Nats of a step of stored logarithms."""


@dataclass(frozen=True)
class Chain:
    """Back-off n-grams; for each order 1 to M sorted keys, log p(g | h), and log of the weight of shorter histories.

    Attributes:
        keys: by order, [N] sorted.
        logs, backoffs: by order, [N] in nats; back-offs belong to the n-gram as a history.
    """

    keys: tuple[Keys, ...]
    logs: tuple[NDArray[np.float64], ...]
    backoffs: tuple[NDArray[np.float64], ...]

    @property
    def order(self) -> int:
        """M."""
        return len(self.keys)

    def __len__(self) -> int:
        return sum(len(k) for k in self.keys)

    def log_probability(self, history: Keys, unit: Keys) -> NDArray[np.float64]:
        """[N] log p(unit | history), the history as a key of at least M - 1 units."""
        out = np.zeros(len(unit))
        open_ = np.ones(len(unit), dtype=bool)
        for n in range(self.order, 0, -1):
            whole = (history & mask(n - 1)) << BITS | unit
            at, there = find(self.keys[n - 1], whole)
            there &= open_
            out[there] += self.logs[n - 1][at[there]]
            open_ &= ~there
            if n > 1:
                at, known = find(self.keys[n - 2], history & mask(n - 1))
                known &= open_
                out[known] += self.backoffs[n - 2][at[known]]
        out[open_] += -20.0
        return out


def mask(units: int) -> int:
    """The bits of so many units."""
    return (1 << (BITS * units)) - 1


def find(keys: Keys, wanted: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(where each key is, whether it is there)."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def count(words: Sequence[Sequence[int]], order: int) -> tuple[Keys, NDArray[np.int64]]:
    """(the n-grams of `order` units that occur, sorted, how often each): words begin after order - 1 units `START`."""
    pad = [START] * (order - 1)
    units = np.array([u for w in words for u in (*pad, *w, START)], dtype=np.int64)
    ends = np.array([i for w in words for i in [False] * (order - 1) + [True] * (len(w) + 1)])
    key = np.zeros(len(units), dtype=np.int64)
    for back in range(order):
        shifted = np.concatenate([np.zeros(back, dtype=np.int64), units[: len(units) - back]])
        key |= shifted << (BITS * back)
    found, counts = np.unique(key[ends], return_counts=True)
    return found, counts


def fit(words: Sequence[Sequence[int]], order: int) -> Chain:
    """The smoothed chain of words given as units, unpruned."""
    keys, counts = count(words, order)
    tables = [(keys, counts.astype(np.float64))]
    for n in range(order - 1, 0, -1):  # shorter ones count in how many different contexts they occur
        keys, kinds = np.unique(tables[0][0] & mask(n), return_counts=True)
        tables.insert(0, (keys, kinds.astype(np.float64)))
    for n in range(2, order):  # words begin after units START alone: a history that is never counted, but backs off
        keys, number = tables[n - 1]
        if not find(keys, np.zeros(1, dtype=np.int64))[1][0]:
            tables[n - 1] = np.concatenate([[0], keys]), np.concatenate([[0.0], number])
    logs, backoffs = [], []
    shorter = np.zeros(0)
    for n, (own, number) in enumerate(tables, 1):
        discount = discounts(number)[np.minimum(number, 3).astype(int)]
        histories, inverse = np.unique(own >> BITS, return_inverse=True)
        total = np.bincount(inverse, weights=number)
        weight = np.bincount(inverse, weights=discount) / total
        if n == 1:
            lower = np.full(len(own), 1.0 / len(own))
        else:
            before = tables[n - 2][0]
            lower = shorter[np.searchsorted(before, own & mask(n - 1))]
            held = np.zeros(len(before))
            at, there = find(before, histories)
            held[at[there]] = np.log(weight[there])
            backoffs.append(held)
        p = np.maximum(number - discount, 0.0) / total[inverse] + weight[inverse] * lower
        logs.append(np.log(p))
        shorter = p
    backoffs.append(np.zeros(len(tables[-1][0])))
    return Chain(tuple(k for k, _ in tables), tuple(logs), tuple(backoffs))


def discounts(number: NDArray[np.float64]) -> NDArray[np.float64]:
    """[4] what is taken from counts of 0, 1, 2, and 3 and more (Chen and Goodman 1999, equation 26)."""
    n1, n2, n3, n4 = (max(1.0, float((number == k).sum())) for k in (1, 2, 3, 4))
    y = n1 / (n1 + 2 * n2)
    found = [0.0]
    for value in (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3):  # a larger count keeps a larger rest
        found.append(min(max(value, found[-1], 0.1), found[-1] + 0.95))
    return np.array(found)


def prune(chain: Chain, words: Sequence[Sequence[int]], size: int) -> Chain:
    """The `size` n-grams that matter most: those whose loss would lower the words' log likelihood by most."""
    gains = [np.full(len(chain.keys[0]), np.inf)]
    for n in range(2, chain.order + 1):
        own = chain.keys[n - 1]
        seen, counts = count(words, n)
        at, there = find(seen, own)
        often = np.where(there, counts[at], 0)
        history, unit = own >> BITS, own & mask(1)
        cut = Chain(chain.keys[: n - 1], chain.logs[: n - 1], chain.backoffs[: n - 1])
        found, known = find(chain.keys[n - 2], history)
        lower = cut.log_probability(history & mask(n - 2), unit) + np.where(known, chain.backoffs[n - 2][found], 0.0)
        gains.append(often * (chain.logs[n - 1] - lower))
    limit = np.sort(np.concatenate(gains))[::-1][min(size, len(chain)) - 1]
    kept = [g >= max(limit, 1e-9) for g in gains]
    for n in range(chain.order, 1, -1):  # a kept n-gram needs its history as an n-gram for the back-off
        needed = np.unique(chain.keys[n - 1][kept[n - 1]] >> BITS)
        at, there = find(chain.keys[n - 2], needed)
        kept[n - 2][at[there]] = True
    keys = tuple(k[m] for k, m in zip(chain.keys, kept, strict=True))
    logs = tuple(v[m] for v, m in zip(chain.logs, kept, strict=True))
    return with_backoffs(keys, logs)


def with_backoffs(keys: tuple[Keys, ...], logs: tuple[NDArray[np.float64], ...]) -> Chain:
    """The chain of these n-grams, its back-off weights such that each history's probabilities sum to one."""
    backoffs = [np.zeros(len(keys[0]))]
    for n in range(2, len(keys) + 1):
        own = keys[n - 1]
        cut = Chain(keys[: n - 1], logs[: n - 1], tuple(backoffs))
        history, unit = own >> BITS, own & mask(1)
        lower = np.exp(cut.log_probability(history & mask(n - 2), unit))
        histories, inverse = np.unique(history, return_inverse=True)
        left = 1.0 - np.bincount(inverse, weights=np.exp(logs[n - 1]), minlength=len(histories))
        below = 1.0 - np.bincount(inverse, weights=lower, minlength=len(histories))
        weight = np.log(np.clip(left, 1e-6, None) / np.clip(below, 1e-6, None))
        at, there = find(keys[n - 2], histories)
        backoffs[-1][at[there]] = weight[there]
        backoffs.append(np.zeros(len(own)))
    return Chain(keys, logs, tuple(backoffs))
