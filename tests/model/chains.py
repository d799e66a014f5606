"""Drawn chains for the tests: ragged batches, potentials up to +-300 in awkward patterns, and their oracles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from phonechain.model.chain.inference import Potentials
from phonechain.model.chain.packing import Packing
from tests.model.oracle import ChainOracle

PATTERNS = ("uniform", "extremes", "sparse", "one high", "one low")
TABLES = ("bigram", "edge", "trigram", "hyperedge")
# 12, 18, 112 and 168: where a second- or first-order chain leaves float32, or scaled float64, behind
SIZES = (0.0, 1.0, 12.0, 18.0, 50.0, 112.0, 168.0, 300.0)


def values(random: np.random.Generator, shape: tuple[int, ...], pattern: str, size: float) -> NDArray[np.float64]:
    """Potentials of at most +-size: uniform ones never need what one very high or low entry needs of a recursion."""
    drawn = random.uniform(-1, 1, shape)
    if pattern == "extremes":
        drawn = random.integers(-1, 2, shape) + 1e-3 * drawn
    elif pattern == "sparse":
        drawn = np.where(random.random(shape) < 0.2, drawn, 0.0)
    elif pattern in ("one high", "one low"):
        drawn *= 0.01
        if drawn.size:
            drawn.reshape(-1)[random.integers(drawn.size)] = 1.0 if pattern == "one high" else -1.0
    return size * np.clip(drawn, -1, 1)


@dataclass(frozen=True)
class Case:
    """A batch and what is needed to check it sequence by sequence."""

    potentials: Potentials

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.potentials.packing.lengths

    def rows(self, sequence: int) -> list[int]:
        """Packed rows of one sequence."""
        return [self.potentials.packing.offsets[t] + sequence for t in range(self.lengths[sequence])]

    def oracle(self, sequence: int) -> ChainOracle:
        """The same sequence, enumerated: shared and input-dependent tables added up per position."""
        p, rows = self.potentials, self.rows(sequence)
        y = p.labels

        def table(shared: torch.Tensor | None, local: torch.Tensor | None, n: int) -> NDArray[np.float64]:
            total = np.zeros((max(len(rows) - n + 1, 0),) + (y,) * n)
            if shared is not None:
                total += shared.detach().double().numpy()
            if local is not None:
                total += local.detach().double().numpy()[rows[n - 1 :]]
            return total

        unary = p.unary.detach().double().numpy()[rows]
        return ChainOracle(unary, table(p.bigram, p.edge, 2), table(p.trigram, p.hyperedge, 3))

    def alone(self, sequence: int) -> Potentials:
        """The sequence as a batch of its own."""
        p, rows = self.potentials, self.rows(sequence)
        edge = None if p.edge is None else p.edge[rows]
        hyperedge = None if p.hyperedge is None else p.hyperedge[rows]
        return Potentials(Packing((len(rows),)), p.unary[rows], p.bigram, edge, p.trigram, hyperedge)


def make(
    lengths: list[int],
    labels: int,
    *,
    tables: set[str] | frozenset[str] = frozenset({"bigram"}),
    pattern: str | dict[str, str] = "uniform",
    size: float | dict[str, float] = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Case:
    """A batch of chains; `pattern` and `size` are for all tables, or for each ("unary" among them)."""
    random = np.random.default_rng(seed)
    packing = Packing(tuple(sorted(lengths, reverse=True)))
    y, n = labels, packing.rows
    shapes = {"bigram": (y, y), "edge": (n, y, y), "trigram": (y, y, y), "hyperedge": (n, y, y, y)}

    def tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        p = pattern if isinstance(pattern, str) else pattern[name]
        s = size[name] if isinstance(size, dict) else size
        return torch.tensor(values(random, shape, p, s), dtype=dtype)

    unary = tensor("unary", (n, y))
    return Case(Potentials(packing, unary, **{k: tensor(k, shapes[k]) if k in tables else None for k in TABLES}))


@st.composite
def cases(draw: st.DrawFn, *, dtype: torch.dtype = torch.float64, cost: int = 4096) -> Case:
    """Up to three sequences of 1 to 6 positions, 1 to 4 labels, any tables, each with a pattern and size of its own."""
    labels = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    while sum(labels**t for t in lengths) > cost:
        lengths[lengths.index(max(lengths))] -= 1
    names = ("unary", *TABLES)
    return make(
        lengths,
        labels,
        tables=draw(st.sets(st.sampled_from(TABLES))),
        pattern={k: draw(st.sampled_from(PATTERNS)) for k in names},
        size={k: draw(st.sampled_from(SIZES)) for k in names},
        seed=draw(st.integers(0, 2**20)),
        dtype=dtype,
    )
