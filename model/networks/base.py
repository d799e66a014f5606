"""What training, labelling and model files ask of a network, whatever chain it has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from phonechain.model.chain.packing import Packing
from phonechain.model.settings import ModelSettings


class Factor(nn.Module, ABC):
    """Log-potentials [N, K] of a window [N, m*D]."""

    @abstractmethod
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights that training starts from."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """[N, m*D] -> [N, K]."""

    def constant(self) -> float:
        """What every output is while all weights are zero: log of the number of hidden assignments, or 0."""
        return 0.0


class SequenceNetwork(nn.Module, ABC):
    """Segment features to a distribution over label sequences.

    Args:
        settings: the factors, and which n-gram weights there are.
        features: D, features of a segment.
        labels: Y.
        bigrams: [P, 2] label bigrams seen in training.
        trigrams: [Q, 3] likewise.

    Attributes:
        decoding: whether the answer is each segment's most probable label or the most probable sequence; it is what the
            error on a dev set counts.
        noise: generator of the dropout.

    Shape:
        x [N, D], normalised, rows packed as `packing` says.
    """

    decoding: Literal["posterior", "viterbi"] = "posterior"
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
        self.noise: torch.Generator | None = None

    @abstractmethod
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights that training starts from."""

    @abstractmethod
    def ngram_parameters(self) -> list[nn.Parameter]:
        """The input-independent weights, which want a step and a penalty of their own."""

    @abstractmethod
    def factor_parameters(self) -> list[nn.Parameter]:
        """Every other weight."""

    @abstractmethod
    def loss(self, x: Tensor, labels: Tensor, packing: Packing) -> Tensor:
        """Negative log-likelihood of the labels [N], a mean over segments; differentiable."""

    @abstractmethod
    def posteriors(self, x: Tensor, packing: Packing, *, temperature: float = 1.0) -> Tensor:
        """[N, Y] p(y_t | x) at `temperature`."""

    @abstractmethod
    def decode(self, x: Tensor, packing: Packing) -> Tensor:
        """[N] the most probable label sequences, or the best that the search finds."""
