"""Factors: log-potentials of labels or label n-grams from an input window, `[N, m*D] -> [N, K]`, one interface.

    N  windows     m  segments per window     D  features per segment     K  labels, or label n-grams of the inventory

The sum-product network has a file of its own (spn.py); the Gaussian mixture is its special case of one layer and one
variable, with the input extended by its squares or products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from phonechain.features.errors import SettingsError
from phonechain.model.networks.base import Factor
from phonechain.model.networks.spn import SumProductNetwork
from phonechain.model.settings import Covariance, FactorSettings


class Linear(Factor):
    """w_k^T x + b_k: the factor of a plain LC-CRF or MEMM.

    Examples:
        >>> Linear(92, 39)(torch.zeros(5, 92)).shape
        torch.Size([5, 39])
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))  # convex on its own, so zero is a fine start
        self.bias = nn.Parameter(torch.zeros(outputs))

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start from zero."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class GaussianMixture(Factor):
    """log sum over components of weighted Gaussians, in natural parameters: an SPN with L = 1, I = 1, H = components.

    Args:
        covariance: "shared" by all components and outputs (its quadratic term cancels: inputs x), "diagonal" (inputs x and
            x^2), or "full" (inputs x and all products x_i x_j, i <= j).

    Examples:
        >>> GaussianMixture(92, 39, components=4, covariance="diagonal")(torch.zeros(5, 92)).shape
        torch.Size([5, 39])
    """

    _upper: Tensor

    def __init__(
        self, inputs: int, outputs: int, *, components: int, covariance: Covariance, scale: float = 0.02
    ) -> None:
        super().__init__()
        self.covariance = covariance
        extended = {"shared": inputs, "diagonal": 2 * inputs, "full": inputs + inputs * (inputs + 1) // 2}[covariance]
        self.mixture = SumProductNetwork(extended, outputs, layers=1, products=1, states=components, scale=scale)
        self.register_buffer("_upper", torch.triu_indices(inputs, inputs), persistent=False)

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights small."""
        self.mixture.reset(generator)

    def hidden_posteriors(self, x: Tensor) -> list[Tensor]:
        """[N, K, 1, H] posterior of the component given x and the output."""
        return self.mixture.hidden_posteriors(self.expand(x))

    def constant(self) -> float:
        """log of the number of components (see Factor)."""
        return self.mixture.constant()

    def expand(self, x: Tensor) -> Tensor:
        """[N, D] -> the inputs of the log-linear leaves. Squares are centred (x^2 - 1), which only moves the bias."""
        if self.covariance == "shared":
            return x
        if self.covariance == "diagonal":
            return torch.cat([x, x.square() - 1.0], 1)
        i, j = self._upper
        return torch.cat([x, x[:, i] * x[:, j] - (i == j).to(x.dtype)], 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.mixture(self.expand(x))


class HiddenUnits(Factor):
    """Discriminative RBM (Larochelle and Bengio 2008), the factor of the HU-CRF: binary units share their input weights.

    log-potential of k = b_k + sum_u softplus(c_u + w_u^T x + v_{u,k}).
    """

    shared = frozenset({"weight", "hidden_bias"})

    def __init__(self, inputs: int, outputs: int, *, units: int, scale: float = 0.02) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.empty(units, inputs))
        self.hidden_bias = nn.Parameter(torch.zeros(units))
        self.label_weight = nn.Parameter(torch.empty(outputs, units))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.reset()

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw input and label weights small; biases zero."""
        with torch.no_grad():
            self.weight.normal_(0.0, self.scale, generator=generator)
            self.label_weight.normal_(0.0, 5 * self.scale, generator=generator)
            self.hidden_bias.zero_()
            self.bias.zero_()

    def hidden_posteriors(self, x: Tensor) -> list[Tensor]:
        """[N, K, U] probability that a unit is on given x and the output."""
        with torch.no_grad():
            drive = functional.linear(x, self.weight, self.hidden_bias)
            return [torch.sigmoid(drive[:, None, :] + self.label_weight)]

    def constant(self) -> float:
        """U ln 2, log of the number of assignments of the units (see Factor)."""
        return self.weight.shape[0] * math.log(2.0)

    def forward(self, x: Tensor) -> Tensor:
        drive = functional.linear(x, self.weight, self.hidden_bias).to(self.weight.dtype)  # [N, U]
        return _SoftplusSum.apply(drive, self.label_weight) + self.bias


class _SoftplusSum(torch.autograd.Function):
    """sum_u softplus(drive [N, U] + weight [K, U]) -> [N, K], a few rows at a time: [N, K, U] neither fits the cache nor,
    for a thousand bigrams, the memory."""

    @staticmethod
    def forward(ctx: Any, drive: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(drive, weight)
        total = drive.new_empty(drive.shape[0], weight.shape[0])
        for rows in _pieces(drive, weight):
            torch.sum(functional.softplus(drive[rows, None, :] + weight), 2, out=total[rows])
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, Tensor]:
        drive, weight = ctx.saved_tensors
        drive_grad, weight_grad = torch.empty_like(drive), torch.zeros_like(weight)
        for rows in _pieces(drive, weight):
            on = (drive[rows, None, :] + weight).sigmoid_().mul_(outputs[0][rows, :, None])
            torch.sum(on, 1, out=drive_grad[rows])
            weight_grad += on.sum(0)
        return drive_grad, weight_grad


def _pieces(drive: Tensor, weight: Tensor, size: int = 2**17) -> Iterator[slice]:
    step = max(1, size // weight.numel())
    for start in range(0, drive.shape[0], step):
        yield slice(start, start + step)


class Perceptron(Factor):
    """One hidden layer of tanh units, shared by all outputs: the factor of the CNF and NHO-LC-CRF."""

    shared = frozenset({"hidden.weight", "hidden.bias"})

    def __init__(self, inputs: int, outputs: int, *, units: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, units)
        self.output = nn.Linear(units, outputs)
        self.reset()

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Hidden weights of variance 1 / inputs, output weights zero."""
        with torch.no_grad():
            self.hidden.weight.normal_(0.0, self.hidden.in_features**-0.5, generator=generator)
            self.hidden.bias.zero_()
            self.output.weight.zero_()
            self.output.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.output(torch.tanh(self.hidden(x)))


def build(settings: FactorSettings, inputs: int, outputs: int) -> Factor:
    """The factor that `settings` describe, for windows of `inputs` features and `outputs` labels or n-grams.

    Raises:
        SettingsError: a kind that is not built here.
    """
    if settings.kind == "linear":
        return Linear(inputs, outputs)
    if settings.kind == "spn":
        return SumProductNetwork(
            inputs, outputs, layers=settings.layers, products=settings.products, states=settings.states,
            operator=settings.operator, scale=settings.scale,
        )  # fmt: skip
    if settings.kind == "gaussian":
        return GaussianMixture(
            inputs, outputs, components=settings.states, covariance=settings.covariance, scale=settings.scale
        )
    if settings.kind == "hidden-units":
        return HiddenUnits(inputs, outputs, units=settings.units, scale=settings.scale)
    if settings.kind == "perceptron":
        return Perceptron(inputs, outputs, units=settings.units)
    raise SettingsError(f"unknown kind of factor {settings.kind!r}", pointer="kind", value=settings.kind)
