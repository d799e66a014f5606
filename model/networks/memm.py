"""Factors and a local normalisation make a model: the maximum entropy Markov model of any order (Eq. pmemm).

    p(y_t | g_t, x) = exp( a u_t[y_t] + sum_m W_m[y_{t-m}, y_t] ) / Z(g_t, x),     m = 1 .. M-1 previous labels

where a is 1 in training and `input_scale` in use.

    N  packed rows (see packing.py)      B  sequences      Y  labels      M-1  previous labels      W  beam width

Since every position is normalised on its own, later positions do not change p(y_t | x): the marginals need a forward sweep
only. It is exact where a table of Y^(M-1) histories is small (EXACT_STATES). Above that a beam of label prefixes stands for
all of them: the posterior is that of the kept prefixes, each with all its continuations, renormalised. The probability of the
dropped prefixes bounds its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from phonechain.features.errors import SettingsError
from phonechain.model.chain.packing import Packing
from phonechain.model.networks.crf import FactorModel

BEAM = 20
"""Prefixes that the search keeps, as in the paper."""
EXACT_STATES = 1000
"""Histories, Y^(M-1), up to which posteriors are exact."""


class MaximumEntropyMarkovModel(FactorModel):
    """p(y | x) as a product of local conditionals, with distant bigrams as transition factors.

    Args:
        settings: as in SequenceNetwork. `history` is M - 1; the factors have to score single labels; `bigram` and
            `trigram` are not used, for the distant bigrams replace them.
        bigrams, trigrams: stored, so that model files of both chains have the same parts; not used.

    Raises:
        SettingsError: a factor over more than one label.

    Shape:
        x [N, D], normalised, rows packed as `packing` says.
    """

    decoding: Literal["posterior", "viterbi"] = "viterbi"

    def _add_weights(self) -> None:
        settings = self.settings
        wide = next((f.labels for f in settings.factors if f.labels > 1), None)
        if wide is not None:
            raise SettingsError(
                f"expected a locally normalised chain's factors to score single labels, got labels = {wide}",
                pointer="factors/labels", value=wide, limit=1,
            )  # fmt: skip
        super()._add_weights()
        self.distant = nn.Parameter(torch.zeros(settings.history, self.labels, self.labels))  # [m - 1, y_{t-m}, y_t]

    def ngram_parameters(self) -> list[nn.Parameter]:
        """The distant bigrams, which have their own step and penalty."""
        return [self.distant] if self.distant.numel() else []

    def unary(self, x: Tensor, packing: Packing) -> Tensor:
        """[N, Y] a u_t, the sum of the input-dependent factors, in use times `input_scale`."""
        scores = self.scores(x, packing)[1]
        return scores if self.training else scores * self.settings.input_scale

    def local(self, unary: Tensor, labels: Tensor, packing: Packing) -> Tensor:
        """[N, Y] log p(y_t | g_t, x) with the histories g_t that the labels [N] give."""
        logits = unary
        for m in range(1, self.settings.history + 1):
            if m >= len(packing.batch_sizes):
                break
            rows = packing.neighbour(-m)
            # a table's last row, all zeros, is for the label that does not exist
            table = torch.cat([self.distant[m - 1], self.distant.new_zeros(1, self.labels)])
            before = torch.where(rows >= 0, labels[rows], self.labels)
            if self.training and self.settings.history_dropout:
                draw = torch.rand(before.shape, generator=self.noise, device=before.device)
                before = torch.where(draw < self.settings.history_dropout, self.labels, before)
            logits = logits + table[before]
        return logits.log_softmax(1)

    def log_likelihood(self, x: Tensor, labels: Tensor, packing: Packing) -> Tensor:
        """[B] log p(y | x) of the label sequences `labels` [N], differentiable."""
        rows = self.local(self.unary(x, packing), labels, packing).gather(1, labels[:, None])[:, 0]
        return rows.new_zeros(len(packing.lengths)).index_add(0, packing.sequence, rows)

    def loss(self, x: Tensor, labels: Tensor, packing: Packing) -> Tensor:
        """Negative log-likelihood of the labels [N] given the true histories, a mean over segments."""
        return -self.log_likelihood(x, labels, packing).sum() / packing.rows

    def posteriors(self, x: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[N, Y] p(y_t | x), each local distribution at `temperature`; exact or the beam's (see the top of the module)."""
        with torch.no_grad():
            unary, distant = self.unary(x, packing) / temperature, self.distant / temperature
            if self._exact:
                return forward_marginals(unary, distant, packing)
            return beam_marginals(unary, distant, packing)[0]

    def posterior_error(self, x: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[N] how far off `posteriors` may be: 0 where exact, else the probability of what the beam has dropped."""
        with torch.no_grad():
            unary, distant = self.unary(x, packing) / temperature, self.distant / temperature
            return unary.new_zeros(packing.rows) if self._exact else beam_marginals(unary, distant, packing)[1]

    @property
    def _exact(self) -> bool:
        return self.labels**self.settings.history <= EXACT_STATES

    def decode(self, x: Tensor, packing: Packing) -> Tensor:
        """[N] the most probable label sequences: Viterbi up to first order, a beam of `BEAM` prefixes above."""
        with torch.no_grad():
            search = viterbi if self.settings.history <= 1 else beam_search
            return search(self.unary(x, packing), self.distant, packing)[0]

    def n_best(self, x: Tensor, packing: Packing, n: int, *, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
        """The best label sequences [n, N] that a beam of n or `BEAM` prefixes finds, and log p(y | x) [n, B]."""
        with torch.no_grad():
            unary, distant = self.unary(x, packing) / temperature, self.distant / temperature
            return beam_n_best(unary, distant, packing, n, width=max(n, BEAM))

    def log_probability(self, x: Tensor, labels: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[B] log p(y | x) of the label sequences `labels` [N]; no gradient."""
        with torch.no_grad():
            unary, distant = self.unary(x, packing) / temperature, self.distant / temperature
            rows = unary
            for m in range(1, min(self.settings.history, len(packing.batch_sizes) - 1) + 1):
                before = packing.neighbour(-m)
                rows = rows + distant[m - 1][labels[before.clamp_min(0)]] * (before >= 0)[:, None]
            chosen = rows.log_softmax(1).gather(1, labels[:, None])[:, 0]
            return chosen.new_zeros(len(packing.lengths)).index_add(0, packing.sequence, chosen)


# ---------------------------------------------------------------------------------------- exact, by tables of histories


def _tables(unary: Tensor, distant: Tensor, packing: Packing) -> Iterator[tuple[int, Tensor]]:
    """(t, log p(y_t | g_t, x)) of the b sequences that reach t: [b, Y, ..., Y], axes y_{t-h} .. y_t, h = min(t, M-1)."""
    y, table = unary.shape[1], unary.new_zeros(unary.shape[1])
    for t, size in enumerate(packing.batch_sizes):
        h = min(t, len(distant))
        if table.dim() - 1 < h:  # one label more of history: y_{t-h} becomes the first axis
            table = table + distant[h - 1].view(y, *[1] * (h - 1), y)
        here = unary[packing.offsets[t] : packing.offsets[t] + size]
        yield t, (table + here.view(size, *[1] * h, y)).log_softmax(-1)


def forward_marginals(unary: Tensor, distant: Tensor, packing: Packing) -> Tensor:
    """[N, Y] exact p(y_t | x) from u [N, Y] and distant bigrams [M-1, Y, Y], in time and memory of Y^M per position."""
    history = len(distant)
    rows: list[Tensor] = []
    state = unary.new_zeros(packing.batch_sizes[0])  # [b, y_{t-h}, ..., y_{t-1}] log p of histories
    for t, table in _tables(unary, distant, packing):
        state = state[: len(table), ..., None] + table
        rows.append(state.flatten(1, -2).logsumexp(1) if state.dim() > 2 else state)
        if min(t + 1, history) < state.dim() - 1:
            state = state.logsumexp(1)
    return torch.cat(rows).exp()


def viterbi(unary: Tensor, distant: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """Exact most probable sequences, labels [N] and log p(y | x) [B], in time and memory of Y^M per position."""
    history, y = len(distant), unary.shape[1]
    # a state of position t: its last min(t + 1, M-1) labels, as one number
    scores: list[Tensor] = []  # [b, states]
    back: list[Tensor | None] = []  # [b, states] the label that a state of position t has dropped
    state = unary.new_zeros(packing.batch_sizes[0])
    for t, table in _tables(unary, distant, packing):
        state = state[: len(table), ..., None] + table
        dropped = None
        if min(t + 1, history) < state.dim() - 1:
            state, dropped = state.max(1)
        scores.append(state.flatten(1) if state.dim() > 1 else state[:, None])
        back.append(None if dropped is None else dropped.flatten(1) if dropped.dim() > 1 else dropped[:, None])
    best = unary.new_empty(len(packing.lengths))
    labels = torch.empty(packing.rows, dtype=torch.long, device=unary.device)
    current = torch.empty(0, dtype=torch.long, device=unary.device)  # [b] state of position t
    for t, size in reversed(list(enumerate(packing.batch_sizes))):
        ended = slice(len(current), size)
        best[ended], where = scores[t][ended].max(1)
        current = torch.cat([current, where])
        place = packing.offsets[t]
        dropped = back[t]
        if dropped is None:  # nothing dropped: the state holds all labels from the first on
            labels[place : place + size] = current % y
            current = current // y
            continue
        lost = dropped.gather(1, current[:, None])[:, 0]
        if history == 0:
            labels[place : place + size], current = lost, torch.zeros_like(current)
        else:  # the state before: the dropped label in front, the last one taken off
            labels[place : place + size] = current % y
            current = lost * y ** (history - 1) + current // y
    return labels, best


# ---------------------------------------------------------------------------------------------------- above: by a beam


def beam_search(unary: Tensor, distant: Tensor, packing: Packing, *, width: int = BEAM) -> tuple[Tensor, Tensor]:
    """Most probable sequences that a beam of `width` prefixes finds: labels [N] and log p(y | x) [B]."""
    labels, best = beam_n_best(unary, distant, packing, 1, width=width)
    return labels[0], best[0]


def beam_n_best(
    unary: Tensor, distant: Tensor, packing: Packing, n: int, *, width: int = BEAM
) -> tuple[Tensor, Tensor]:
    """The n best sequences that a beam finds: labels [n, N] and log p(y | x) [n, B]; -inf and 0 where it holds fewer."""
    scores: list[Tensor] = []
    back: list[tuple[Tensor, Tensor]] = []  # of position t: [b, W] prefix that was extended, and by which label

    def keep(score: Tensor, _: Tensor, came_from: Tensor, label: Tensor) -> None:
        scores.append(score)
        back.append((came_from, label))

    _run_beam(unary, distant, packing, width, keep)
    best = unary.new_full((n, len(packing.lengths)), float("-inf"))
    labels = torch.zeros(n, packing.rows, dtype=torch.long, device=unary.device)
    current = torch.empty(0, n, dtype=torch.long, device=unary.device)  # [b, n] rank in the beam
    for t, size in reversed(list(enumerate(packing.batch_sizes))):
        ended = slice(len(current), size)
        found, where = scores[t][ended].topk(min(n, scores[t].shape[1]), 1)
        best[: found.shape[1], ended] = found.T
        current = torch.cat([current, nn.functional.pad(where, (0, n - where.shape[1]))])
        came_from, label = back[t]
        labels[:, packing.offsets[t] : packing.offsets[t] + size] = label.gather(1, current).T
        current = came_from.gather(1, current)
    return labels.masked_fill_(best.isneginf()[:, packing.sequence], 0), best


def beam_marginals(unary: Tensor, distant: Tensor, packing: Packing, *, width: int = BEAM) -> tuple[Tensor, Tensor]:
    """p(y_t | x) of the kept prefixes, renormalised, with all the continuations of each; and how wrong it may be.

    Returns:
        [N, Y] posteriors, and [N] a bound on the error of each: the probability of all prefixes that were not kept.
    """
    rows: list[Tensor] = []
    lost: list[Tensor] = []

    def keep(_score: Tensor, grown: Tensor, _from: Tensor, _label: Tensor) -> None:
        mass = grown.logsumexp(1)  # p(kept prefix, y_t)
        rows.append(mass.softmax(1))
        lost.append((1.0 - mass.exp().sum(1)).clamp_min(0.0))

    _run_beam(unary, distant, packing, width, keep)
    return torch.cat(rows), torch.cat(lost)


def _run_beam(
    unary: Tensor, distant: Tensor, packing: Packing, width: int, keep: Callable[[Tensor, Tensor, Tensor, Tensor], None]
) -> None:
    """Search from left to right. Of each position `keep` gets the kept prefixes' log p [b, W], that of all their predecessors'
    continuations [b, W', Y], and from which prefix [b, W] by which label [b, W] they came."""
    history, y = len(distant), unary.shape[1]
    padded = torch.cat([distant, distant.new_zeros(history, 1, y)], 1)  # row Y is for the label that does not exist
    first = packing.batch_sizes[0]
    score = unary.new_zeros(first, 1)
    recent = torch.full((first, 1, history), y, dtype=torch.long, device=unary.device)  # [b, W, m - 1] y_{t-m}
    for t, size in enumerate(packing.batch_sizes):
        score, recent = score[:size], recent[:size]
        logits = unary[packing.offsets[t] : packing.offsets[t] + size, None, :].expand(size, score.shape[1], y)
        for m in range(min(history, t)):
            logits = logits + padded[m][recent[:, :, m]]
        grown = score[:, :, None] + logits.log_softmax(2)  # [b, W, Y]
        score, where = grown.flatten(1).topk(min(width, grown.shape[1] * y), 1)
        came_from, label = where // y, where % y
        if history:
            recent = recent.gather(1, came_from[:, :, None].expand(-1, -1, history))
            recent = torch.cat([label[:, :, None], recent[:, :, :-1]], 2)
        keep(score, grown, came_from, label)
