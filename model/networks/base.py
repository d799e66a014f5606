"""The interfaces of factors and networks that training, labelling and model files use, for every kind of chain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Self

import torch
from torch import Tensor, nn

from phonechain.features.errors import SettingsError
from phonechain.model.chain.packing import Packing
from phonechain.model.device import Precision, multiply_in
from phonechain.model.encoders.encoder import build_encoder
from phonechain.model.encoders.frames import FrameBatch, LongFrames
from phonechain.model.encoders.long import LongRows
from phonechain.model.settings import ModelSettings


class Factor(nn.Module, ABC):
    """Log-potentials [N, K] of a window [N, m*D].

    Attributes:
        shared: names of the weights that all outputs share; the first axis of all others runs over the K outputs, with equally
            many consecutive rows for each.
    """

    shared: frozenset[str] = frozenset()

    @abstractmethod
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights that training starts from."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """[N, m*D] -> [N, K]."""

    def hidden_posteriors(self, x: Tensor) -> list[Tensor]:
        """[N, K, ...] posteriors of the hidden variables given x and the output, a tensor per layer; none without any."""
        return []

    def constant(self) -> float:
        """The value of every output when all weights are zero: log of the number of hidden assignments, or 0."""
        return 0.0


class SequenceNetwork(nn.Module, ABC):
    """From segment features and frames to a distribution over label sequences.

    `encode` is called first; its output is the input of all other methods.

    Args:
        settings: the encoder, the factors, and which n-gram weights there are.
        features: D, features of a segment.
        labels: Y.
        bigrams: [P, 2] label bigrams seen in training.
        trigrams: [Q, 3] likewise.

    Attributes:
        decoding: whether the answer is each segment's most probable label or the most probable sequence; dev errors are those
            of that answer.
        precision: of the products of the encoder and the factors (see `compute_in`); no part of a model file.
        noise: generator of the dropout.
        auxiliary: a layer on the encoder that exists only during training.

    Shape:
        x [N, D], normalised, rows packed as `packing` says; h [N, E], the output of `encode`, which is x without an encoder.
    """

    decoding: Literal["posterior", "viterbi"] = "posterior"
    precision: Precision = "float32"
    bigrams: Tensor
    trigrams: Tensor

    def __init__(
        self,
        settings: ModelSettings,
        features: int,
        labels: int,
        *,
        bigrams: Tensor | None = None,
        trigrams: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.settings, self.features, self.labels = settings, features, labels
        self.register_buffer("bigrams", torch.zeros(0, 2, dtype=torch.long) if bigrams is None else bigrams)
        self.register_buffer("trigrams", torch.zeros(0, 3, dtype=torch.long) if trigrams is None else trigrams)
        self.encoder = build_encoder(settings.encoder, features)
        self.noise: torch.Generator | None = None
        self.auxiliary: nn.Linear | None = None
        self._add_weights()

    @abstractmethod
    def _add_weights(self) -> None:
        """Create the weights other than the encoder's, at the end of the constructor."""

    @property
    def device(self) -> torch.device:
        """Where its weights are, and its inputs have to be."""
        return self.bigrams.device

    def compute_in(self, precision: Precision) -> Self:
        """Multiply in that precision from now on, in the encoder and the factors (see model.device.multiply_in).

        Everything between the products, and all sums of the chain, stays in the weights' own precision.
        """
        for part in self.modules():
            if isinstance(part, SequenceNetwork):
                part.precision = precision
        return self

    @abstractmethod
    def encode(self, x: Tensor, packing: Packing, frames: FrameBatch | None = None) -> Tensor:
        """[N, E] the input of the factors, from segment features [N, D] and, for an encoder that reads them, frames."""

    def encode_long(self, x: Tensor, frames: LongFrames | None = None) -> LongRows:
        """The same for one long recording, some rows at a time, for `posteriors_of_long` and `decode_long`; no gradient."""
        with multiply_in(self.precision, self.device):
            made = self.encoder.run_long(x, frames)

        def rows(span: slice) -> Tensor:
            with multiply_in(self.precision, self.device):
                return made[span].to(x.dtype)

        return LongRows(made.length, made.width, rows)

    def posteriors_of_long(self, rows: LongRows, *, evidence: Tensor | None = None, temperature: float = 1.0) -> Tensor:
        """[T, Y] p(y_t | x), or with evidence [T, Y] p(y_t | x, g), of one long recording."""
        h, packing = rows[:], Packing((len(rows),), self.device)
        if evidence is None:
            return self.posteriors(h, packing, temperature=temperature)
        return self.posteriors_with_evidence(h, evidence, packing, temperature=temperature)

    def decode_long(self, rows: LongRows) -> Tensor:
        """[T] the most probable label sequence of one long recording."""
        return self.decode(rows[:], Packing((len(rows),), self.device))

    def encoder_parameters(self) -> list[nn.Parameter]:
        """The encoder's weights; empty without an encoder."""
        return list(self.encoder.parameters())

    @abstractmethod
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial weights of training."""

    @abstractmethod
    def ngram_parameters(self) -> list[nn.Parameter]:
        """The input-independent weights, which have their own step and penalty."""

    @abstractmethod
    def factor_parameters(self) -> list[nn.Parameter]:
        """The factors' weights."""

    @abstractmethod
    def loss(self, h: Tensor, labels: Tensor, packing: Packing) -> Tensor:
        """Negative log-likelihood of the labels [N], a mean over segments; differentiable."""

    @abstractmethod
    def posteriors(self, h: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[N, Y] p(y_t | x) at `temperature`."""

    def posteriors_with_evidence(
        self, h: Tensor, evidence: Tensor, packing: Packing, *, temperature: float = 1.0
    ) -> Tensor:
        """[N, Y] p(y_t | x, g): as `posteriors`, after evidence [N, Y] on each label, log p(g_t | y_t)."""
        raise self._missing("posteriors with evidence")

    @abstractmethod
    def decode(self, h: Tensor, packing: Packing) -> Tensor:
        """[N] the most probable label sequences, or the best ones that a search finds."""

    def posterior_error(self, x: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[N] bound on the error of each segment's `posteriors`: 0 where they are exact."""
        return x.new_zeros(packing.rows)

    def n_best(self, x: Tensor, packing: Packing, n: int, *, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
        """The n most probable label sequences [n, N], best first, and log p(y | x) [n, B], -inf where there are fewer."""
        raise self._missing("n-best sequences")

    def log_probability(self, x: Tensor, labels: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[B] log p(y | x) of the label sequences `labels` [N]; no gradient."""
        raise self._missing("probabilities of sequences")

    def span_log_probabilities(
        self, h: Tensor, labels: Tensor, spans: Sequence[tuple[int, int]], *, temperature: float = 1.0
    ) -> Tensor:
        """[S] log p(y_a .. y_{b-1} = labels | x) of each span (a, b) of one sequence; no gradient."""
        raise self._missing("probabilities of stretches")

    def entropy(self, x: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[B] entropy of p(y | x) over label sequences, in nats; no gradient."""
        raise self._missing("entropies of sequences")

    def hidden_posteriors(self, x: Tensor, packing: Packing, *, temperature: float = 1.0) -> list[list[Tensor]]:
        """For each factor over single labels p(h, y_t | x) of its hidden variables, a tensor [N, Y, ...] per layer."""
        raise self._missing("posteriors of hidden variables")

    def _missing(self, what: str) -> SettingsError:
        return SettingsError(f"no {what} from this kind of chain ({self.settings.chain})", pointer="chain")
