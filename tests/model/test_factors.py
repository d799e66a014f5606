"""Each factor against its definition: densities, enumeration of hidden units, plain formulas; and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import nn

from phonechain.features.errors import SettingsError
from phonechain.model.networks import factors
from phonechain.model.settings import FactorSettings
from tests.model.oracle import hidden_units_log_potential, log_sum_exp

ALL = [
    FactorSettings(kind="linear"),
    FactorSettings(kind="spn", layers=2, products=2, states=2),
    FactorSettings(kind="spn", layers=1, products=2, states=3, operator="max"),
    FactorSettings(kind="gaussian", states=3, covariance="shared"),
    FactorSettings(kind="gaussian", states=2, covariance="diagonal"),
    FactorSettings(kind="gaussian", states=2, covariance="full"),
    FactorSettings(kind="hidden-units", units=7),
    FactorSettings(kind="perceptron", units=6),
]
NAMES = [f"{s.kind} {s.covariance if s.kind == 'gaussian' else s.operator}" for s in ALL]


def randomise(factor: nn.Module, seed: int = 0, size: float = 1.0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in factor.parameters():
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator))
    return factor.double()


def inputs(n: int, features: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("settings", ALL, ids=NAMES)
def test_shape_and_gradients(settings: FactorSettings) -> None:
    factor, x = randomise(factors.build(settings, 4, 3)), inputs(5, 4)
    assert factor(x).shape == (5, 3)
    assert factor(x[:0]).shape == (0, 3)
    names = [name for name, _ in factor.named_parameters()]

    def potential(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(factor, dict(zip(names, values, strict=True)), (x,))

    values = tuple(p.detach().clone().requires_grad_() for p in factor.parameters())
    assert torch.autograd.gradcheck(potential, (x.requires_grad_(), *values))


@pytest.mark.parametrize("settings", ALL, ids=NAMES)
def test_reset_draws_the_same_weights_from_the_same_seed(settings: FactorSettings) -> None:
    def draw(seed: int) -> list[torch.Tensor]:
        factor = factors.build(settings, 4, 3)
        factor.reset(torch.Generator().manual_seed(seed))
        return [p.detach().clone() for p in factor.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(draw(1), draw(1), strict=True))
    if settings.kind != "linear":
        assert not all(torch.equal(a, b) for a, b in zip(draw(1), draw(2), strict=True))


def test_linear_is_a_matrix_and_a_bias() -> None:
    factor, x = randomise(factors.Linear(4, 3)), inputs(5, 4)
    expected = x.numpy() @ factor.weight.detach().numpy().T + factor.bias.detach().numpy()  # type: ignore[operator]
    np.testing.assert_allclose(factor(x).detach(), expected, atol=1e-12)


def test_perceptron_is_its_formula() -> None:
    factor, x = randomise(factors.Perceptron(4, 3, units=6)), inputs(5, 4)
    w = {name: p.detach().numpy() for name, p in factor.named_parameters()}
    hidden = np.tanh(x.numpy() @ w["hidden.weight"].T + w["hidden.bias"])
    np.testing.assert_allclose(factor(x).detach(), hidden @ w["output.weight"].T + w["output.bias"], atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 60.0])
def test_hidden_units_are_summed_out(size: float) -> None:
    factor, x = randomise(factors.HiddenUnits(4, 3, units=7), size=size), inputs(5, 4)
    w = {name: p.detach().numpy() for name, p in factor.named_parameters()}
    for row, found in zip(x.numpy(), factor(x).detach().numpy(), strict=True):
        visible = w["weight"] @ row + w["hidden_bias"]
        expected = hidden_units_log_potential(w["bias"], w["label_weight"].T, visible)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-8)


@pytest.mark.parametrize("covariance", ["shared", "diagonal", "full"])
def test_gaussian_mixture_has_the_posteriors_of_gaussian_densities(covariance: str) -> None:
    """Weights set from means, covariances and priors give the labels the posteriors that Bayes' rule gives them."""
    random, d, labels, components = np.random.default_rng(3), 3, 4, 2
    means = random.normal(size=(labels, components, d))
    priors = random.dirichlet(np.ones(labels * components)).reshape(labels, components)
    root = random.normal(size=(labels, components, d, d))
    spread = root @ root.transpose(0, 1, 3, 2) + np.eye(d)
    if covariance == "shared":
        spread = np.broadcast_to(spread[0, 0], spread.shape)
    elif covariance == "diagonal":
        spread = spread * np.eye(d)

    factor = factors.GaussianMixture(d, labels, components=components, covariance=covariance).double()  # type: ignore[arg-type]
    upper = np.triu_indices(d)
    weight, bias = [], []
    for y in range(labels):
        for c in range(components):
            precision = np.linalg.inv(spread[y, c])
            linear = precision @ means[y, c]
            constant = np.log(priors[y, c]) - 0.5 * linear @ means[y, c] - 0.5 * np.linalg.slogdet(spread[y, c])[1]
            quadratic = -0.5 * precision * np.where(np.eye(d) == 1, 1.0, 2.0)  # x_i x_j stands for both orders
            rows = {"shared": [], "diagonal": list(np.diag(quadratic)), "full": list(quadratic[upper])}[covariance]
            weight.append([*linear, *rows])
            # the inputs are x_i^2 - 1
            bias.append(constant + (np.trace(quadratic) if covariance != "shared" else 0.0))
    with torch.no_grad():
        factor.mixture.weight.copy_(torch.tensor(weight))
        factor.mixture.bias[0].zero_()
        factor.mixture.bias[1].copy_(torch.tensor(bias).view(labels, 1, components))

    x = inputs(6, d)
    found = factor(x).detach().softmax(1).numpy()
    for row, posterior in zip(x.numpy(), found, strict=True):
        joint = [
            log_sum_exp(
                np.log(priors[y])
                + [multivariate_normal.logpdf(row, means[y, c], spread[y, c]) for c in range(components)]
            )
            for y in range(labels)
        ]
        np.testing.assert_allclose(posterior, np.exp(np.array(joint) - log_sum_exp(np.array(joint))), atol=1e-10)


def test_dropout_scale_and_sizes_are_checked() -> None:
    for name, value in (("layers", 4), ("states", 0), ("units", 5000), ("dropout", 1.0), ("segments", 0)):
        with pytest.raises(SettingsError, match=f"{name} between"):
            FactorSettings(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="over 3 labels"):
        FactorSettings(labels=3, segments=2)


def test_an_unknown_kind_is_refused() -> None:
    settings = FactorSettings(kind="lstm")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="unknown kind of factor 'lstm'"):
        factors.build(settings, 4, 3)
