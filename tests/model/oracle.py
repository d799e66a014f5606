"""Full enumeration in float64: what the chains, the MEMM and the sum-product network must agree with.

Everything here lists every label sequence or every joint assignment of the hidden variables, scores each one by looking
its terms up one after another, and only then sums. Slow on purpose, and meant to be checked by eye. Inputs are numpy
arrays or torch tensors; outputs are float64 numpy arrays, floats and tuples.

Axes: T positions, Y labels, S = Y ** T sequences; I hidden variables a parent state, H states of a hidden variable.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Path = tuple[int, ...]


def as_array(values: Any) -> Array:
    """A numpy array or torch tensor (also one that requires a gradient) as float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def log_sum_exp(values: Array) -> float:
    """log sum exp of all the elements, moved by the maximum; -inf where there are none."""
    top = np.max(values, initial=-np.inf)
    if not np.isfinite(top):
        return float(top)
    return float(top + np.log(np.sum(np.exp(values - top))))


# ------------------------------------------------------------------------------------------------------------- chains


@dataclass(frozen=True)
class ChainOracle:
    """One sequence under a globally normalised chain (Eq. pcrf), extended to trigrams.

    `unary` [T, Y]; `bigram` [T-1, Y, Y], entry t for (y_t, y_t+1); `trigram` [T-2, Y, Y, Y], entry t for
    (y_t, y_t+1, y_t+2). A table without the leading axis stands for every position; None adds nothing.
    """

    unary: Any
    bigram: Any = None
    trigram: Any = None

    @cached_property
    def sequences(self) -> NDArray[np.int64]:
        """Every label sequence, in lexicographic order. [S, T]"""
        steps, labels = as_array(self.unary).shape
        return np.array(list(itertools.product(range(labels), repeat=steps)), dtype=np.int64).reshape(-1, steps)

    @cached_property
    def scores(self) -> Array:
        """The sum of the log-potentials of each sequence. [S]"""
        return np.array([self.score(path) for path in self.sequences])

    def score(self, path: Sequence[int]) -> float:
        """The sum of the log-potentials along one label sequence."""
        unary, bigram, trigram = self._tables
        total = sum(unary[t, path[t]] for t in range(len(unary)))
        if bigram is not None:
            total += sum(bigram[t, path[t], path[t + 1]] for t in range(len(unary) - 1))
        if trigram is not None:
            total += sum(trigram[t, path[t], path[t + 1], path[t + 2]] for t in range(len(unary) - 2))
        return float(total)

    @cached_property
    def log_z(self) -> float:
        """log of the sum over all sequences of exp(score) (Eq. Zcrf)."""
        return log_sum_exp(self.scores)

    def log_probability(self, path: Sequence[int]) -> float:
        """log p(path | x), in nats."""
        return self.score(path) - self.log_z

    @cached_property
    def probabilities(self) -> Array:
        """p(sequence | x) of each sequence. [S]"""
        return np.exp(self.scores - self.log_z)

    def marginals(self, n: int = 1) -> Array:
        """p(y_t = a, y_t+1 = b, ...) of n labels in a row. [T-n+1, Y, ..., Y], n label axes; no rows where T < n."""
        steps, labels = as_array(self.unary).shape
        table = np.zeros((max(steps - n + 1, 0),) + (labels,) * n)
        for path, probability in zip(self.sequences, self.probabilities, strict=True):
            for t in range(len(table)):
                table[(t, *path[t : t + n])] += probability
        return table

    def k_best(self, k: int) -> list[tuple[Path, float]]:
        """The k sequences of the highest score with their scores, best first; all of them where there are fewer."""
        order = np.argsort(-self.scores, kind="stable")[:k]
        return [(tuple(int(y) for y in self.sequences[s]), float(self.scores[s])) for s in order]

    def best(self) -> tuple[Path, float]:
        """The sequence of the highest score, and that score."""
        return self.k_best(1)[0]

    def entropy(self) -> float:
        """-sum p log p over the sequences, in nats."""
        return float(-np.sum(self.probabilities * (self.scores - self.log_z)))

    @cached_property
    def _tables(self) -> tuple[Array, Array | None, Array | None]:
        unary = as_array(self.unary)
        steps = len(unary)

        def spread(table: Any, n: int) -> Array | None:
            if table is None:
                return None
            array = as_array(table)
            if array.ndim == n:
                array = np.broadcast_to(array, (max(steps - n + 1, 0), *array.shape))
            return array

        return unary, spread(self.bigram, 2), spread(self.trigram, 3)


# --------------------------------------------------------------------------------------------------------------- MEMM


@dataclass(frozen=True)
class MemmOracle:
    """One sequence under a locally normalised model (Eq. pmemm) with distant bigrams.

    `unary` [T, Y]; `distant[m - 1]` [Y, Y] weighs (y_t-m, y_t). At the beginning of a sequence, where y_t-m does not
    exist, its table adds nothing.
    """

    unary: Any
    distant: Sequence[Any] = ()

    def log_local(self, history: Sequence[int]) -> Array:
        """log p(y_t | history) for t = len(history). [Y]"""
        t = len(history)
        potential = as_array(self.unary)[t].copy()
        for m, table in enumerate(self.distant, start=1):
            if m <= t:
                potential += as_array(table)[history[t - m]]
        return potential - log_sum_exp(potential)

    def log_probability(self, path: Sequence[int]) -> float:
        """log p(path | x), in nats."""
        return float(sum(self.log_local(path[:t])[path[t]] for t in range(len(path))))

    @cached_property
    def all(self) -> list[tuple[Path, float]]:
        """Every sequence with its log-probability, the most probable first."""
        steps, labels = as_array(self.unary).shape
        paths = itertools.product(range(labels), repeat=steps)
        return sorted(((path, self.log_probability(path)) for path in paths), key=lambda pair: -pair[1])

    def best(self) -> tuple[Path, float]:
        """The most probable sequence, and its log-probability: what an exact search must find, and a beam may miss."""
        return self.all[0]

    def marginals(self) -> Array:
        """p(y_t | x), summed over all histories. [T, Y]"""
        table = np.zeros(as_array(self.unary).shape)
        for path, log_probability in self.all:
            for t, label in enumerate(path):
                table[t, label] += np.exp(log_probability)
        return table


# -------------------------------------------------------------------------------------------------- sum-product network


@dataclass(frozen=True)
class SpnOracle:
    """The hidden tree under one input (Eq. Qsp).

    `leaves` [Y, I, H, I, H, ...], one pair of axes per layer (I and H may differ between layers): the terms w^T x of the
    full paths. `biases[l]` has the first 1 + 2 l axes of it, l = 0 .. L; biases[L] may be left out.

    The hidden variables of layer l are named by the child indices (i_1, ..., i_l), so a tree has I + I^2 + ... + I^L of
    them, each with a value of its own. A variable is not copied per state of its parents: enumerating the copies would
    count each assignment many times over.
    """

    biases: Sequence[Any]
    leaves: Any

    @cached_property
    def _terms(self) -> list[Array]:
        leaves = as_array(self.leaves)
        terms = [as_array(bias).copy() for bias in self.biases]
        if len(terms) == self.layers:
            terms.append(np.zeros_like(leaves))
        terms[-1] = terms[-1] + leaves
        for depth, term in enumerate(terms):
            assert term.shape == leaves.shape[: 1 + 2 * depth], (depth, term.shape, leaves.shape)
        return terms

    @property
    def layers(self) -> int:
        return (as_array(self.leaves).ndim - 1) // 2

    @cached_property
    def variables(self) -> list[Path]:
        """The hidden variables, each by its child indices, layer by layer."""
        children = as_array(self.leaves).shape[1::2]
        return [v for n in range(1, self.layers + 1) for v in itertools.product(*(range(i) for i in children[:n]))]

    def assignments(self) -> Iterator[dict[Path, int]]:
        """Every joint assignment of states to the hidden variables."""
        states = as_array(self.leaves).shape[2::2]
        for values in itertools.product(*(range(states[len(v) - 1]) for v in self.variables)):
            yield dict(zip(self.variables, values, strict=True))

    def score(self, label: int, assignment: dict[Path, int]) -> float:
        """The sum of all the terms that one label and one joint assignment switch on."""
        total = self._terms[0][label]
        for variable in self.variables:
            total += self._terms[len(variable)][self.index(label, variable, assignment)]
        return float(total)

    @staticmethod
    def index(label: int, variable: Path, assignment: dict[Path, int]) -> Path:
        """(y, i_1, h_1, i_2, h_2, ...): where the term of a path prefix stands, given the states along it."""
        place: list[int] = [label]
        for depth in range(1, len(variable) + 1):
            place += [variable[depth - 1], assignment[variable[:depth]]]
        return tuple(place)

    @cached_property
    def _scores(self) -> Array:
        labels = as_array(self.leaves).shape[0]
        return np.array([[self.score(y, a) for a in self.assignments()] for y in range(labels)])

    def log_potential(self) -> Array:
        """log Q(y, x) = log sum over the joint assignments of exp(score). [Y]"""
        return np.array([log_sum_exp(row) for row in self._scores])

    def max_potential(self) -> Array:
        """The highest score over the joint assignments: the network with max for sum. [Y]"""
        return self._scores.max(axis=1)

    def hidden_marginals(self) -> list[Array]:
        """p(h_1, ..., h_l | y, x) of every path prefix; entry l-1 [Y, I, H, ...] with l pairs of axes, l = 1 .. L.

        Sums to 1 over all the state axes for each choice of label and children.
        """
        shape = as_array(self.leaves).shape
        tables = [np.zeros(shape[: 1 + 2 * depth]) for depth in range(1, self.layers + 1)]
        totals = self.log_potential()
        for y in range(shape[0]):
            for assignment, score in zip(self.assignments(), self._scores[y], strict=True):
                for variable in self.variables:
                    tables[len(variable) - 1][self.index(y, variable, assignment)] += np.exp(score - totals[y])
        return tables


def hidden_units_log_potential(bias: Any, hidden: Any, visible: Any) -> Array:
    """The discriminative RBM by enumeration of its binary hidden units.

    `bias` [Y]; `hidden` [J, Y], what unit j adds under label y when on; `visible` [J], what it adds from the input
    (shared by the labels). log sum over s in {0, 1}^J of exp(bias[y] + sum_j s_j (hidden[j, y] + visible[j])). [Y]
    """
    bias, hidden, visible = as_array(bias), as_array(hidden), as_array(visible)
    on = np.array(list(itertools.product((0.0, 1.0), repeat=len(visible))))
    return np.array([log_sum_exp(bias[y] + on @ (hidden[:, y] + visible)) for y in range(len(bias))])
