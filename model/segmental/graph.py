"""Alignment: exact posteriors over all ways in which a graph of phones fits the scores of the candidate segments.

    P  nodes of the graph      N  grid steps      D  longest duration, steps      K  labels      M  most arcs into a node

A node is one phone of one pronunciation, or an optional silence. A path through the graph with boundaries for its nodes has
the score that `sums` gives that segmentation: alignment is the free chain constrained to the graph. The graph may hold
pronunciations, phones whose boundaries are to be found, or boundaries with a prior around them. A phone that is longer than
the longest candidate is several pieces of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.errors import TranscriptError
from phonechain.model.segmental import scaled
from phonechain.model.segmental.scaled import Potentials
from phonechain.model.segmental.sums import NEVER

MAX_RATE = 30.0
"""Phones per second; nobody speaks faster."""


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
    """Posteriors of a recording constrained to a graph.

    Attributes:
        log_z: log of the sum over all paths and boundaries; `sums.NEVER` where none fits.
        begin: [P, N + 1] posterior that the node is visited and begins at that grid point.
        end: [P, N + 1] the same of its end.
    """

    log_z: float
    begin: NDArray[np.float64]
    end: NDArray[np.float64]

    @property
    def visited(self) -> NDArray[np.float64]:
        """[P] posterior that the path leads through the node."""
        total: NDArray[np.float64] = self.begin.sum(1)
        return total


def check_length(graph: PhoneGraph, duration: float, steps: int) -> None:
    """Raise TranscriptError for more phones than a recording of that duration (s) and so many steps of the fine grid holds."""
    count = graph.shortest
    if count > min(steps, max(3.0, MAX_RATE * duration)):
        raise TranscriptError(
            f"the transcript is too long for the sound: {count} phones at least in {duration:.2f} s "
            f"({count / duration:.0f} per second; people speak 8 to 20)",
            pointer="text", value=count, limit=round(MAX_RATE * duration),
        )  # fmt: skip


def align(
    scores: Tensor,
    bigram: Tensor,
    first: Tensor,
    last: Tensor,
    graph: PhoneGraph,
    *,
    prior: Tensor | None = None,
    potentials: Potentials | None = None,
    logarithms: bool = False,
) -> GraphPosteriors:
    """Posteriors of all nodes' boundaries, in double precision. Memory grows with N P, not with N D P.

    In scaled probabilities where possible (see `scaled`: paths that were ever `scaled.BEAM` nats worse than the best at that
    time are left out), else in logarithms.

    Args:
        scores: [N, D, K] of one recording, as in `sums.Lattice`.
        bigram, first, last: [K, K], [K], [K].
        prior: [P, N + 1] log weight of a node that begins at a grid point (`sums.NEVER`: not there), for boundaries that
            are roughly known. Only nodes that it allows are computed.
        potentials: those of the scores, if already computed.
        logarithms: use logarithms, which leave nothing out.
    """
    with torch.no_grad():
        sweep = _Sweep(scores, bigram, first, last, graph, prior)
        quick = None if logarithms else sweep.scaled_posteriors(potentials or Potentials.of(scores.numpy()))
        return quick or sweep.posteriors()


class _Sweep:
    """One recording's sweeps. Reverse time and multiplication on the way back as in `sums`."""

    def __init__(
        self, scores: Tensor, bigram: Tensor, first: Tensor, last: Tensor, graph: PhoneGraph, prior: Tensor | None
    ) -> None:
        self.n, self.d, _ = scores.shape
        nodes = len(graph.nodes)
        self.labels = labels = torch.tensor([node.label for node in graph.nodes])
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
        self.scores = scores
        self.prior = None if prior is None else prior.to(torch.float64).T.contiguous()  # [N + 1, P]
        self.opening = self.start
        if self.prior is not None:
            self.start = (self.start + self.prior[0]).clamp_min_(NEVER)
        self.graph = graph
        self.ranges = [slice(0, nodes)] * (self.n + 1) if prior is None else _active(graph, prior, self.n)

    def scaled_posteriors(self, potentials: Potentials | None) -> GraphPosteriors | None:
        """The posteriors in scaled probabilities; None where `scaled` has none."""
        given = [w[w > NEVER / 2] for w in (self.weight, self.opening, self.final, self.loop)]
        if potentials is None or any(len(w) and float(w.abs().max()) > scaled.SPREAD for w in given):
            return None
        nodes = len(self.labels)
        after: list[list[tuple[int, float]]] = [[] for _ in range(nodes)]
        reach = np.arange(nodes)
        for node, before in enumerate(self.graph.arcs):
            for m, (other, _) in enumerate(before):
                after[other].append((node, float(self.weight[node, m])))
                reach[other] = max(reach[other], node)
        widest = max(1, *(len(a) for a in after))
        following, weight = np.full((nodes, widest), nodes), np.zeros((nodes, widest))
        for node, arcs in enumerate(after):
            for m, (other, cost) in enumerate(arcs):
                following[node, m], weight[node, m] = other, np.exp(cost)
        found = scaled.graph_posteriors(
            potentials,
            scaled.Arcs(
                self.labels.numpy(), self.before.numpy(), self.weight.exp().numpy(), following, weight,
                self.opening.exp().numpy(), self.final.exp().numpy(), self.loop.exp().numpy(), np.maximum.accumulate(reach),
            ),
            None if self.prior is None else self.prior.exp().numpy(),
            None if self.prior is None else self.ranges,
        )  # fmt: skip
        return None if found is None else GraphPosteriors(*found)

    def posteriors(self) -> GraphPosteriors:
        n, d, nodes = self.n, self.d, len(self.labels)
        # alpha, and the sum that enters a node (without its prior), by time; g in reverse time
        alpha = torch.full((n + 1, nodes + 1), NEVER, dtype=torch.float64)
        enter = torch.full((n + 1, nodes), NEVER, dtype=torch.float64)
        begin = torch.full((n + d, nodes), NEVER, dtype=torch.float64)
        begin[n - 1] = self.start
        for t in range(1, n + 1):
            here = self.ranges[t]
            a = torch.logsumexp(self._window(begin, t, here), 0).clamp_min_(NEVER)
            alpha[t, here] = a
            if t < n:
                e = torch.logsumexp(alpha[t].take(self.before[here]).add_(self.weight[here]), 1)
                enter[t, here] = e
                arriving = e if self.prior is None else e + self.prior[t, here]
                begin[n - 1 - t, here] = torch.logaddexp(arriving, a + self.loop[here]).clamp_min_(NEVER)
        ends = alpha[n, :-1] + self.final
        log_z = float(torch.logsumexp(ends, 0))
        if log_z <= NEVER / 2:
            nothing = np.zeros((nodes, n + 1))
            return GraphPosteriors(NEVER, nothing, nothing)
        return self._back(alpha, enter, begin, (ends - log_z).exp(), log_z)

    def _window(self, begin: Tensor, t: int, here: slice) -> Tensor:
        """[D, P'] log-potentials of what ends at t, by duration."""
        n, d = self.n, self.d
        return begin[n - t : n - t + d, here] + self.scores[t - 1].index_select(1, self.labels[here]).to(torch.float64)

    def _back(self, alpha: Tensor, enter: Tensor, begin: Tensor, last: Tensor, log_z: float) -> GraphPosteriors:
        n, d, nodes = self.n, self.d, len(self.labels)
        g = begin[:n].flip(0)  # [N, P] by time 0 .. N - 1
        looped = (alpha[:n, :-1] + self.loop - g).clamp_max_(0.0).exp_()
        looped[g <= NEVER / 2] = 0.0
        beginning = torch.zeros(n + d, nodes, dtype=torch.float64)
        entered = torch.zeros(n + 1, nodes, dtype=torch.float64)
        left = torch.zeros(n + 1, nodes + 1, dtype=torch.float64)
        left[n, :-1] = last
        ending = last
        for t in range(n, 0, -1):
            here = self.ranges[t]
            durations = self._window(begin, t, here).sub_(alpha[t, :-1][here]).clamp_max_(0.0).exp_()
            beginning[n - t : n - t + d, here].addcmul_(durations, ending[here])
            if t > 1:
                there = self.ranges[t - 1]
                p = beginning[n - t, there]  # of what begins at t - 1
                again = p * looped[t - 1, there]
                fresh = p - again
                entered[t - 1, there] = fresh
                before = self.before[there]
                arcs = alpha[t - 1].take(before).add_(self.weight[there]).sub_(enter[t - 1, there, None])
                shares = arcs.clamp_max_(0.0).exp_().mul_(fresh[:, None])
                left[t - 1].index_add_(0, before.flatten(), shares.flatten())
                ending = left[t - 1, :-1].clone()
                ending[there] += again
        entered[0] = beginning[n - 1]
        return GraphPosteriors(log_z, entered.T.numpy(), left[:, :-1].T.numpy())


def _active(graph: PhoneGraph, prior: Tensor, n: int) -> list[slice]:
    """For each grid point the range of nodes that may begin, continue or end there."""
    allowed = (prior > NEVER / 2).numpy()
    some = allowed.any(1)
    opens = np.where(some, allowed.argmax(1), n + 1)
    latest = np.where(some, n - allowed[:, ::-1].argmax(1), -1)
    closes = np.full(len(graph.nodes), -1)
    for node, before in enumerate(graph.arcs):
        for other, _ in before:
            closes[other] = max(closes[other], latest[node])
    for node, _ in graph.finals:
        closes[node] = n
    at = np.arange(n + 1)[:, None]
    inside = (opens <= at) & (at <= closes) & some
    low = np.where(inside.any(1), inside.argmax(1), 0)
    high = np.where(inside.any(1), inside.shape[1] - inside[:, ::-1].argmax(1), 0)
    return [slice(int(a), int(b)) for a, b in zip(low, high, strict=True)]
