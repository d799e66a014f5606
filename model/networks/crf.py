"""Factors and a chain make a model: the linear-chain CRF of order 1 or 2 (LC-CRF, SPN-LC-CRF, SPN-HO-LC-CRF, ...)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from phonechain.model.chain import inference as chain
from phonechain.model.chain.counts import cross_entropy, expected_counts
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.search import viterbi_in_windows
from phonechain.model.chain.spans import span_log_probabilities
from phonechain.model.device import multiply_in
from phonechain.model.encoders.frames import FrameBatch
from phonechain.model.encoders.long import LongRows
from phonechain.model.networks import factors
from phonechain.model.networks.base import Factor, SequenceNetwork
from phonechain.model.networks.parts import decode_in_parts, marginals_in_windows, posteriors_in_parts
from phonechain.model.settings import FactorSettings

ALL = slice(None)
BUDGET = 192 * 2**20
"""Bytes of a batch's tables above which it is labelled in parts."""
LONGEST_WINDOW = 4096
"""Most positions of a long recording that are labelled at once."""


class FactorModel(SequenceNetwork):
    """An encoder, and input-dependent factors on it whose log-potentials add up: the base of both chains.

    Sparse bigram weights and factors over two labels need the bigrams, and likewise for three.
    """

    def _add_weights(self) -> None:
        outputs = {1: self.labels, 2: len(self.bigrams), 3: len(self.trigrams)}
        self.factor_settings = [f for f in self.settings.factors if outputs[f.labels]]
        self.factors = nn.ModuleList(
            factors.build(f, f.segments * self.encoder.width, outputs[f.labels]) for f in self.factor_settings
        )

    @property
    def width(self) -> int:
        """E, what a factor sees of a segment."""
        return self.encoder.width

    def encode(self, x: Tensor, packing: Packing, frames: FrameBatch | None = None) -> Tensor:
        """[N, E] the input of the factors, from segment features [N, D] and, for an encoder that reads them, frames."""
        self.encoder.noise = self.noise
        with self._products():
            h: Tensor = self.encoder(x, packing, frames)
        return h.to(x.dtype)

    def _products(self) -> AbstractContextManager[object]:
        """Within it products are computed in the network's precision."""
        return nullcontext() if self.precision == "float32" else multiply_in(self.precision, self.device)

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the encoder's and the factors' weights; n-gram weights start from zero."""
        self.encoder.reset(generator)
        for factor in self.factors:
            assert isinstance(factor, Factor)
            factor.reset(generator)
        for weight in self.ngram_parameters():
            nn.init.zeros_(weight)

    def factor_parameters(self) -> list[nn.Parameter]:
        """The factors' weights."""
        return list(self.factors.parameters())

    def scores(self, h: Tensor, packing: Packing, rows: slice = ALL) -> dict[int, Tensor]:
        """The sum of the factors over n labels, by n: [N, Y], or [N, P] for the n-grams of the inventory; of some rows only."""
        scores: dict[int, Tensor] = {}
        windows: dict[range, Tensor] = {}
        for settings, factor in zip(self.factor_settings, self.factors, strict=True):
            steps = window_steps(settings)
            if steps not in windows:
                windows[steps] = window(h, packing, steps, rows)
            with self._products():
                value = factor(self._drop(windows[steps], settings)).to(h.dtype)
            n = settings.labels
            if n > 1 and settings.centred:
                assert isinstance(factor, Factor)
                value = value - factor.constant()
            scores[n] = value if n not in scores else scores[n] + value
        return scores

    def hidden_posteriors(self, h: Tensor, packing: Packing, *, temperature: float = 1.0) -> list[list[Tensor]]:
        """For each factor over single labels p(h, y_t | x) of its hidden variables, a tensor [N, Y, ...] per layer.

        The labels are those of the whole chain at `temperature`; given its label, a segment's variables depend on its own
        window alone. Summed over the states a tensor gives p(y_t | x). Factors without hidden variables give no tensor.
        """
        with torch.no_grad():
            return self.hidden_given_labels(h, packing, self.posteriors(h, packing, temperature=temperature))

    def hidden_given_labels(self, h: Tensor, packing: Packing, label: Tensor) -> list[list[Tensor]]:
        """The same, from the posteriors [N, Y] of the labels; to be called within no_grad."""
        found = []
        for settings, factor in zip(self.factor_settings, self.factors, strict=True):
            assert isinstance(factor, Factor)
            if settings.labels == 1:
                tables = factor.hidden_posteriors(window(h, packing, window_steps(settings)))
                found.append([t * label.view(*label.shape, *[1] * (t.dim() - 2)) for t in tables])
        return found

    def _drop(self, x: Tensor, settings: FactorSettings) -> Tensor:
        if not (self.training and settings.dropout):
            return x
        keep = torch.rand(x.shape, generator=self.noise, device=x.device) >= settings.dropout
        return x * keep / (1.0 - settings.dropout)


class ConditionalRandomField(FactorModel):
    """p(y | x) of Eq. pcrf, with any number of factors over windows of m segments and n labels.

    Shape:
        h [N, E], rows packed as `packing` says.
    """

    def _add_weights(self) -> None:
        super()._add_weights()
        settings, labels = self.settings, self.labels
        self.bigram_weight = self._table(settings.bigram, 2, len(self.bigrams))
        self.trigram_weight = self._table(settings.trigram, 3, len(self.trigrams))
        widest = max(f.labels for f in self.factor_settings)
        own = labels**widest if widest > 1 else 0
        # approximate memory of a segment during labelling: messages, and tables of its own n-grams
        self._bytes_per_row = 16 * (4 * labels + labels**settings.order + own)

    def _table(self, kind: str, n: int, seen: int) -> nn.Parameter | None:
        if kind == "none":
            return None
        return nn.Parameter(torch.zeros((self.labels,) * n if kind == "dense" else seen))

    def ngram_parameters(self) -> list[nn.Parameter]:
        """The input-independent weights, which have their own step and penalty."""
        return [w for w in (self.bigram_weight, self.trigram_weight) if w is not None]

    def potentials(self, h: Tensor, packing: Packing, rows: slice = ALL) -> chain.Potentials:
        """Log-potentials of the batch, or of some positions of a batch of one sequence."""
        scores = self.scores(h, packing, rows)
        dense = {n: to_dense(s, self._inventory(n), self.labels) for n, s in scores.items() if n > 1}
        return chain.Potentials(
            packing if rows == ALL else Packing((len(scores[1]),), packing.device),
            scores[1],
            bigram=self._dense_weight(self.bigram_weight, 2),
            edge=dense.get(2),
            trigram=self._dense_weight(self.trigram_weight, 3),
            hyperedge=dense.get(3),
        )

    def _inventory(self, n: int) -> Tensor:
        return self.bigrams if n == 2 else self.trigrams

    def _dense_weight(self, weight: nn.Parameter | None, n: int) -> Tensor | None:
        if weight is None or weight.dim() == n:
            return weight
        return to_dense(weight, self._inventory(n), self.labels)

    def loss(self, h: Tensor, labels: Tensor, packing: Packing, *, starts: Tensor | None = None) -> Tensor:
        """Negative log-likelihood of the labels [N], a mean over labelled segments: longer utterances weigh more.

        Segments labelled -1 are gaps: their labels are summed out.

        Args:
            starts: [N] true where the chain of labels is cut before a row; the factors' windows are not.
        """
        return _loss(self.potentials(h, packing), labels, starts)

    def distillation_loss(
        self,
        h: Tensor,
        labels: Tensor,
        packing: Packing,
        teacher: chain.Potentials,
        weight: float,
        *,
        starts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The same mixed with the cross entropy to another chain's distribution over label sequences; and its posteriors [N, Y].

        The cross entropy is a mean over all segments, of which gaps are some: the teacher has an answer for them too.

        Args:
            teacher: log-potentials of the same rows and labels.
            weight: share of the cross entropy, above 0.
            starts: as in `loss`, for the likelihood alone.
        """
        potentials = self.potentials(h, packing)
        counts = expected_counts(teacher, potentials)
        assert counts.unary is not None
        loss = weight / packing.rows * cross_entropy(potentials, counts)
        if weight < 1.0:
            loss = loss + (1.0 - weight) * _loss(potentials, labels, starts)
        return loss, counts.unary

    def posteriors(self, h: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[N, Y] p(y_t | x), the whole chain at `temperature`.

        A batch that would take more memory than BUDGET is done in parts: some sequences at a time, a long one in windows.
        """
        return self._marginals(h, packing, temperature)

    def posteriors_with_evidence(
        self, h: Tensor, evidence: Tensor, packing: Packing, *, temperature: float = 1.0
    ) -> Tensor:
        """[N, Y] p(y_t | x, g): as `posteriors`, after evidence [N, Y] on each label, log p(g_t | y_t)."""
        return self._marginals(torch.cat([h, evidence.to(h.dtype)], 1), packing, temperature)

    def _marginals(self, rows: Tensor, packing: Packing, temperature: float) -> Tensor:
        """[N, Y] from h [N, E], beside which `rows` may have evidence [N, Y]."""
        width = self.width

        def potentials(part: Tensor, its: Packing, span: slice) -> chain.Potentials:
            found = self.potentials(part[:, :width], its, span).scale(1.0 / temperature)
            return found if part.shape[1] == width else replace(found, unary=found.unary + part[span, width:])

        def compute(part: Tensor, its: Packing) -> Tensor:
            return chain.marginals(potentials(part, its, ALL)).unary

        most = max(2, BUDGET // self._bytes_per_row)
        with torch.no_grad():
            if len(rows) <= most and packing.lengths[0] <= most // 4:
                return compute(rows, packing)
            return posteriors_in_parts(rows, packing, most, compute, potentials)

    def posteriors_of_long(self, rows: LongRows, *, evidence: Tensor | None = None, temperature: float = 1.0) -> Tensor:
        """[T, Y] as `posteriors`, of one long recording, in windows: its potentials never exist all at once."""

        def potentials(span: slice) -> chain.Potentials:
            found = self._potentials_of_long(rows, span).scale(1.0 / temperature)
            return (
                found if evidence is None else replace(found, unary=found.unary + evidence[span].to(found.unary.dtype))
            )

        with torch.no_grad():
            found = marginals_in_windows(potentials, len(rows), self._window)
            if found is None:  # potentials too wide for windows
                return super().posteriors_of_long(rows, evidence=evidence, temperature=temperature)
            return found

    def decode_long(self, rows: LongRows) -> Tensor:
        """[T] the most probable label sequence, likewise."""
        with torch.no_grad():
            return viterbi_in_windows(lambda span: self._potentials_of_long(rows, span), len(rows), self._window)

    @property
    def _window(self) -> int:
        """Positions of a long recording whose tables exist at once."""
        return max(2, min(BUDGET // self._bytes_per_row // 64, LONGEST_WINDOW))

    def _potentials_of_long(self, rows: LongRows, span: slice) -> chain.Potentials:
        """Log-potentials of some positions, from them and what factors see around them."""
        steps = [step for f in self.factor_settings for step in window_steps(f)]
        first, last = max(0, span.start + min(steps)), min(len(rows), span.stop + max(steps))
        part = rows[first:last]
        return self.potentials(part, Packing((len(part),), part.device), slice(span.start - first, span.stop - first))

    def decode(self, h: Tensor, packing: Packing) -> Tensor:
        """[N] the most probable label sequences (Viterbi); in parts, as `posteriors`."""
        with torch.no_grad():
            return decode_in_parts(
                h,
                packing,
                max(2, BUDGET // self._bytes_per_row),
                lambda part, its: chain.viterbi(self.potentials(part, its))[0],
                self.potentials,
            )

    def n_best(self, h: Tensor, packing: Packing, n: int, *, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
        """The n most probable label sequences [n, N], best first, and log p(y | x) [n, B], -inf where there are fewer."""
        with torch.no_grad():
            potentials = self._exact_potentials(h, packing, temperature)
            labels, scores = chain.k_best(potentials, n)
            return labels, (scores - chain.log_partition(potentials)).to(h.dtype)

    def log_probability(self, h: Tensor, labels: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[B] log p(y | x) of the label sequences `labels` [N]; labels of -1 are summed out; no gradient."""
        with torch.no_grad():
            return _likelihood(self._exact_potentials(h, packing, temperature), labels).to(h.dtype)

    def span_log_probabilities(
        self, h: Tensor, labels: Tensor, spans: Sequence[tuple[int, int]], *, temperature: float = 1.0
    ) -> Tensor:
        """[S] log p(y_a .. y_{b-1} = labels | x) of each span (a, b) of one sequence; no gradient."""
        with torch.no_grad():
            packing = Packing((len(h),), h.device)
            return span_log_probabilities(self._exact_potentials(h, packing, temperature), labels, spans)

    def entropy(self, h: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[B] entropy of p(y | x) over label sequences, in nats; no gradient."""
        with torch.no_grad():
            return chain.entropy(self._exact_potentials(h, packing, temperature)).to(h.dtype)

    def _exact_potentials(self, h: Tensor, packing: Packing, temperature: float) -> chain.Potentials:
        return self.potentials(h, packing).to(torch.float64).scale(1.0 / temperature)


def _loss(potentials: chain.Potentials, labels: Tensor, starts: Tensor | None = None) -> Tensor:
    if starts is not None:
        potentials, rows = potentials.cut(starts)
        labels = labels[rows]
    return -_likelihood(potentials, labels).sum() / (labels >= 0).sum().clamp_min(1)


def _likelihood(potentials: chain.Potentials, labels: Tensor) -> Tensor:
    """[B] log-likelihood of labels that may have gaps (-1)."""
    if bool((labels < 0).any()):
        return chain.partial_log_likelihood(potentials, labels)
    return chain.log_likelihood(potentials, labels)


def to_dense(scores: Tensor, ngrams: Tensor, labels: int) -> Tensor:
    """[P] or [N, P] scores of label n-grams [P, n] -> [Y, Y(, Y)] or [N, Y, Y(, Y)], zero elsewhere; differentiable.

    Sparse factors exist for n-grams seen in training only. An unseen one has log-potential 0: it is not forbidden. In
    memory the samples come last, as the factors make them and the chain reads them.
    """
    n = ngrams.shape[1]
    entry = torch.zeros(len(ngrams), dtype=torch.long, device=ngrams.device)
    for column in ngrams.unbind(1):
        entry = entry * labels + column
    table = scores.new_zeros(labels**n, *scores.shape[:-1])
    dense = table.index_copy(0, entry, scores.movedim(-1, 0))
    return dense.view(*(labels,) * n, *scores.shape[:-1]).movedim(list(range(n)), list(range(-n, 0)))


def window(x: Tensor, packing: Packing, steps: range, rows: slice = ALL) -> Tensor:
    """[N, D] -> [N, m*D]: for each segment those `steps` away, in order; past an edge zeros, the mean of normalised features.

    For some packed rows only, if `rows` are given.
    """
    if steps == range(1):
        return x[rows]
    if rows != ALL:
        near = [packing.neighbour(step)[rows] for step in steps]
        return torch.cat([x.index_select(0, n.clamp_min(0)).masked_fill((n < 0)[:, None], 0.0) for n in near], 1)
    padded = torch.cat([x, x.new_zeros(1, x.shape[1])])  # index -1 picks the zeros
    return torch.cat([x if step == 0 else padded[packing.neighbour(step)] for step in steps], 1)


def window_steps(settings: FactorSettings) -> range:
    """Positions of a factor's window of m segments, relative to the (last) labelled one.

    Over one label it lies around it: m = 2 the segment before and itself, m = 3 also the one after, and so on; the extra one
    of an even m lies before. Over n > 1 labels y_{t-n+1} .. y_t it ends at t (the paper's m-to-n factors).
    """
    m = settings.segments
    if settings.labels > 1 and settings.window == "last":
        return range(1 - m, 1)
    return range(-(m // 2), (m - 1) // 2 + 1)
