"""Alignment: exact posteriors over all ways in which a graph of phones fits the scores of the candidate segments.

    P  nodes of the graph      N  grid steps      D  longest duration, steps      K  labels      M  most arcs into a node

A node is one phone of one pronunciation, or an optional silence. A path through the graph and boundaries for its nodes is
scored as `sums` scores that segmentation: alignment is the free chain held to the graph, whatever the graph says:
pronunciations, phones whose boundaries are to be found anew, or boundaries given with a prior around them. Phones longer
than the longest candidate are several pieces of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.model.segmental.sums import NEVER


@dataclass(frozen=True)
class Node:
    """A phone of the graph.

    Attributes:
        label: its index.
        word: which word it belongs to; None for a silence between words.
        variant: which pronunciation of the word.
        position: which phone of the pronunciation.
        slot: for a silence, how many words stand before it.
    """

    label: int
    word: int | None = None
    variant: int = 0
    position: int = 0
    slot: int = 0


@dataclass(frozen=True)
class PhoneGraph:
    """Nodes in an order in which every arc runs forward.

    Attributes:
        nodes: P of them.
        arcs: for each node the nodes before it, with a log weight.
        starts, finals: nodes that may be first, and last, with a log weight.
    """

    nodes: tuple[Node, ...]
    arcs: tuple[tuple[tuple[int, float], ...], ...]
    starts: tuple[tuple[int, float], ...]
    finals: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        for node, before in enumerate(self.arcs):
            if any(not 0 <= other < node for other, _ in before):
                raise ValueError(f"expected arcs into node {node} from nodes before it, got {before}")

    @property
    def shortest(self) -> int:
        """Fewest nodes of a path."""
        least = [1 if n in dict(self.starts) else len(self.nodes) + 1 for n in range(len(self.nodes))]
        for node, before in enumerate(self.arcs):
            least[node] = min([least[node], *(least[other] + 1 for other, _ in before)])
        return min(least[node] for node, _ in self.finals)


@dataclass
class _Builder:
    nodes: list[Node] = field(default_factory=list)
    arcs: list[tuple[tuple[int, float], ...]] = field(default_factory=list)

    def add(self, node: Node, before: Sequence[tuple[int, float]]) -> int:
        self.nodes.append(node)
        self.arcs.append(tuple(before))
        return len(self.nodes) - 1


Variant = tuple[Sequence[int], float]
"""Label indices of a pronunciation, and its prior probability."""


def word_graph(words: Sequence[Sequence[Variant]], silence: int | None) -> PhoneGraph:
    """Words in order, each one of its pronunciations; with `silence`, that label may stand between them and at the ends."""
    g = _Builder()
    starts: list[tuple[int, float]] = []
    ends: list[tuple[int, float]] = []
    if silence is not None:
        node = g.add(Node(silence), ())
        starts.append((node, 0.0))
        ends.append((node, 0.0))
    for w, variants in enumerate(words):
        finals = []
        for v, (labels, prior) in enumerate(variants):
            weight = float(np.log(max(prior, 1e-9)))
            last = -1
            for position, label in enumerate(labels):
                before = [(n, c + weight) for n, c in ends] if position == 0 else [(last, 0.0)]
                last = g.add(Node(label, w, v, position), before)
                if w == 0 and position == 0:
                    starts.append((last, weight))
            finals.append((last, 0.0))
        if silence is not None:
            node = g.add(Node(silence, slot=w + 1), finals)
            ends = [*finals, (node, 0.0)]
        else:
            ends = finals
    return PhoneGraph(tuple(g.nodes), tuple(g.arcs), tuple(starts), tuple(ends))


def phone_graph(labels: Sequence[int]) -> PhoneGraph:
    """Phones one after the other, each of which has to be there. Each counts as a word of its own."""
    nodes = tuple(Node(label, n) for n, label in enumerate(labels))
    arcs = ((), *(((n, 0.0),) for n in range(len(labels) - 1)))
    return PhoneGraph(nodes, arcs, ((0, 0.0),), ((len(labels) - 1, 0.0),))


@dataclass(frozen=True)
class GraphPosteriors:
    """What is known of a recording held to a graph.

    Attributes:
        log_z: log of the sum over all paths and boundaries; -inf like (`sums.NEVER`) where none fits.
        begin: [P, N + 1] posterior that the node is passed and begins at that grid point.
        end: [P, N + 1] the same of its end.
    """

    log_z: float
    begin: NDArray[np.float64]
    end: NDArray[np.float64]

    @property
    def passed(self) -> NDArray[np.float64]:
        """[P] posterior that the path leads through the node."""
        total: NDArray[np.float64] = self.begin.sum(1)
        return total


def align(
    scores: Tensor,
    bigram: Tensor,
    first: Tensor,
    last: Tensor,
    graph: PhoneGraph,
    *,
    prior: Tensor | None = None,
) -> GraphPosteriors:
    """Posteriors of all nodes' boundaries, in double precision.

    Args:
        scores: [N, D, K] of one recording, as in `sums.Lattice`.
        bigram, first, last: [K, K], [K], [K].
        prior: [P, N + 1] log weight of a node that begins at a grid point (`sums.NEVER`: not there); for boundaries that
            are known roughly.
    """
    with torch.no_grad():
        return _Sweep(scores, bigram, first, last, graph, prior).posteriors()


class _Sweep:
    """One recording's sweeps. Reverse time and multiplication on the way back as in `sums`."""

    def __init__(
        self, scores: Tensor, bigram: Tensor, first: Tensor, last: Tensor, graph: PhoneGraph, prior: Tensor | None
    ) -> None:
        self.n, self.d, _ = scores.shape
        nodes = len(graph.nodes)
        labels = torch.tensor([node.label for node in graph.nodes])
        widest = max(1, *(len(before) for before in graph.arcs))
        self.before = torch.full((nodes, widest), nodes)  # node P stands for none
        self.weight = torch.full((nodes, widest), NEVER, dtype=torch.float64)
        table = bigram.to(torch.float64)
        for node, before in enumerate(graph.arcs):
            for m, (other, weight) in enumerate(before):
                self.before[node, m] = other
                self.weight[node, m] = weight + float(table[labels[other], labels[node]])
        self.loop = table[labels, labels]
        self.start = torch.full((nodes,), NEVER, dtype=torch.float64)
        for node, weight in graph.starts:
            self.start[node] = weight + float(first[labels[node]])
        self.final = torch.full((nodes,), NEVER, dtype=torch.float64)
        for node, weight in graph.finals:
            self.final[node] = weight + float(last[labels[node]])
        self.scores = scores.index_select(2, labels).to(torch.float64)  # [N, D, P]
        self.prior = None if prior is None else prior.to(torch.float64).T  # [N + 1, P]
        if self.prior is not None:
            self.start = (self.start + self.prior[0]).clamp_min_(NEVER)

    def posteriors(self) -> GraphPosteriors:
        n, d, nodes = self.scores.shape
        # alpha, and what enters a node (without its prior), by time; g in reverse time
        alpha = torch.full((n + 1, nodes + 1), NEVER, dtype=torch.float64)
        enter = torch.full((n + 1, nodes), NEVER, dtype=torch.float64)
        begin = torch.full((n + d, nodes), NEVER, dtype=torch.float64)
        begin[n - 1] = self.start
        for t in range(1, n + 1):
            a = torch.logsumexp(begin[n - t : n - t + d] + self.scores[t - 1], 0)
            alpha[t, :-1] = a.clamp_min_(NEVER)
            if t < n:
                torch.logsumexp(alpha[t].take(self.before).add_(self.weight), 1, out=enter[t])
                arriving = enter[t] if self.prior is None else enter[t] + self.prior[t]
                begin[n - 1 - t] = torch.logaddexp(arriving, a + self.loop).clamp_min_(NEVER)
        ends = alpha[n, :-1] + self.final
        log_z = float(torch.logsumexp(ends, 0))
        if log_z <= NEVER / 2:
            nothing = np.zeros((nodes, n + 1))
            return GraphPosteriors(NEVER, nothing, nothing)
        return self._back(alpha, enter, begin, ends, log_z)

    def _back(self, alpha: Tensor, enter: Tensor, begin: Tensor, ends: Tensor, log_z: float) -> GraphPosteriors:
        n, d, nodes = self.scores.shape
        windows = begin.unfold(0, d, 1)[:n].flip(0)  # [N, P, D]: g_t, ..., g_{t-D+1} at t
        durations = (windows.transpose(1, 2) + self.scores).sub_(alpha[1:, None, :-1]).clamp_max_(0.0).exp_()
        g = begin[:n].flip(0)  # [N, P] by time 0 .. N - 1
        looped = (alpha[:n, :-1] + self.loop - g).clamp_max_(0.0).exp_()
        looped[g <= NEVER / 2] = 0.0
        arcs = alpha[:n].index_select(1, self.before.flatten()).view(n, nodes, -1) + self.weight - enter[:n, :, None]
        arcs = arcs.clamp_max_(0.0).exp_()
        beginning = torch.zeros(n + d, nodes, dtype=torch.float64)
        entered = torch.zeros(n + 1, nodes, dtype=torch.float64)
        left = torch.zeros(n + 1, nodes + 1, dtype=torch.float64)
        left[n, :-1] = (ends - log_z).exp()
        ending = left[n, :-1]
        before = self.before.flatten()
        for t in range(n, 0, -1):
            beginning[n - t : n - t + d].addcmul_(durations[t - 1], ending)
            here = beginning[n - t]  # at t - 1
            if t > 1:
                again = here * looped[t - 1]
                torch.sub(here, again, out=entered[t - 1])
                left[t - 1].index_add_(0, before, (entered[t - 1][:, None] * arcs[t - 1]).flatten())
                ending = left[t - 1, :-1] + again
        entered[0] = beginning[n - 1]
        return GraphPosteriors(log_z, entered.T.numpy(), left[:, :-1].T.numpy())
