import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonechain.model.networks import spn as spn_module
from phonechain.model.networks.factors import GaussianMixture, HiddenUnits, Linear, Perceptron, build
from phonechain.model.networks.spn import Operator, SumProductNetwork
from phonechain.model.settings import FactorSettings
from tests.model.oracle import SpnOracle, hidden_units_log_potential

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# (L, I, H) whose joint assignments can be listed in no time: H ** (I + I^2 + ... + I^L) of them
TREES = [(1, 1, 1), (1, 1, 4), (1, 3, 2), (1, 2, 5), (2, 1, 3), (2, 2, 2), (2, 2, 1), (2, 3, 1), (3, 1, 2), (3, 1, 4)]


def network(tree: tuple[int, int, int], seed: int, size: float, operator: Operator = "sum") -> SumProductNetwork:
    """2 inputs, 2 outputs, weights and biases up to `size`."""
    layers, products, states = tree
    spn = SumProductNetwork(2, 2, layers=layers, products=products, states=states, operator=operator).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in spn.parameters():
            parameter.copy_(size * (2 * torch.rand(parameter.shape, generator=generator, dtype=torch.float64) - 1))
    return spn


def inputs(seed: int, n: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (n, 2)))


def oracle(spn: SumProductNetwork, x: torch.Tensor) -> SpnOracle:
    """The tree for one input [D], its leaves computed one by one."""
    shape = (spn.outputs, *[spn.products, spn.states] * spn.layers)
    leaves = np.array([float(w @ x) for w in spn.weight.detach()]).reshape(shape)
    return SpnOracle(list(spn.bias), leaves)


drawn = given(st.sampled_from(TREES), st.integers(0, 2**20), st.sampled_from([0.5, 5.0, 100.0, 300.0]))


@quick
@drawn
def test_sums_and_maxima_over_every_joint_assignment(tree: tuple[int, int, int], seed: int, size: float) -> None:
    x = inputs(seed)
    for operator in ("sum", "max"):
        spn = network(tree, seed, size, operator)
        with torch.no_grad():
            alone = spn(x).numpy()  # scores without what a gradient needs
        found = spn(x).detach().numpy()
        assert found.shape == alone.shape == (3, 2)
        for n in range(3):
            truth = oracle(spn, x[n])
            expected = truth.log_potential() if operator == "sum" else truth.max_potential()
            np.testing.assert_allclose(found[n], expected, rtol=1e-11, atol=1e-8)
            np.testing.assert_allclose(alone[n], expected, rtol=1e-11, atol=1e-8)


@pytest.mark.parametrize("operator", ["sum", "max"])
@pytest.mark.parametrize("tree", [(1, 2, 2), (2, 2, 3), (1, 90, 3)], ids=str)
def test_scores_alone_are_those_with_posteriors(
    tree: tuple[int, int, int], operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers, products, states = tree
    spn = SumProductNetwork(3, 7, layers=layers, products=products, states=states, operator=operator, scale=1.0)
    x = torch.randn(11, 3, generator=torch.Generator().manual_seed(0))
    expected = spn(x).detach()
    scale = float(expected.abs().max())
    for scored in (spn_module.SCORED, 1, 5 * 11 * (products * states) ** layers):  # all outputs at once, one, five
        monkeypatch.setattr(spn_module, "SCORED", scored)
        with torch.no_grad():
            torch.testing.assert_close(spn(x), expected, rtol=0, atol=1e-6 * max(1.0, scale))


@quick
@drawn
def test_hidden_posteriors_against_every_joint_assignment(tree: tuple[int, int, int], seed: int, size: float) -> None:
    spn, x = network(tree, seed, size), inputs(seed, 2)
    found = spn.hidden_posteriors(x)
    assert len(found) == spn.layers
    for n in range(2):
        for layer, expected in zip(found, oracle(spn, x[n]).hidden_marginals(), strict=True):
            np.testing.assert_allclose(layer[n], expected, atol=1e-8)


@pytest.mark.slow
def test_three_layers_of_two_variables() -> None:
    """2 ** 14 assignments."""
    spn, x = network((3, 2, 2), 1, 3.0), inputs(1, 1)
    truth = oracle(spn, x[0])
    np.testing.assert_allclose(spn(x)[0].detach(), truth.log_potential(), atol=1e-8)
    for layer, expected in zip(spn.hidden_posteriors(x), truth.hidden_marginals(), strict=True):
        np.testing.assert_allclose(layer[0], expected, atol=1e-8)


def test_hidden_posteriors_of_the_maximum_point_at_the_best_assignment() -> None:
    spn, x = network((2, 2, 2), 4, 2.0, "max"), inputs(4, 1)
    truth = oracle(spn, x[0])
    found = [layer[0] for layer in spn.hidden_posteriors(x)]
    for label in range(2):
        best = max(truth.assignments(), key=lambda a: truth.score(label, a))
        for variable in truth.variables:
            place = truth.index(label, variable, best)
            assert found[len(variable) - 1][place] == 1.0
    assert all(set(layer.unique().tolist()) <= {0.0, 1.0} for layer in found)


def test_hidden_posteriors_want_no_gradient_of_the_caller_and_leave_none() -> None:
    spn, x = network((2, 2, 2), 0, 1.0), inputs(0)
    with torch.inference_mode():
        layers = spn.hidden_posteriors(x.clone())
    assert not any(layer.requires_grad for layer in layers)
    assert all(p.grad is None for p in spn.parameters())


@pytest.mark.parametrize("tree", [(1, 2, 3), (2, 2, 2), (3, 1, 2), (3, 2, 2)], ids=str)
def test_gradcheck(tree: tuple[int, int, int]) -> None:
    spn, x = network(tree, 2, 2.0), inputs(2)
    names = [name for name, _ in spn.named_parameters()]

    def potential(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(spn, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(potential, (x.requires_grad_(), *spn.parameters()))


def test_float32_against_the_float64_oracle() -> None:
    for tree in TREES:
        spn, x = network(tree, 7, 300.0), inputs(7)
        found = spn.float()(x.float())
        for n in range(3):
            # float32 rounds each of the path's terms, up to 300 in size
            np.testing.assert_allclose(
                found[n].detach(), oracle(spn.double(), x[n]).log_potential(), rtol=1e-5, atol=2e-3
            )


def test_equal_states_would_stay_equal_so_they_are_drawn_apart() -> None:
    spn = SumProductNetwork(4, 3, layers=2, products=2, states=3)
    spn.reset(torch.Generator().manual_seed(1))
    leaves = spn.weight.detach().reshape(3, 2, 3, 2, 3, 4)
    assert (leaves.std(2) > 0).all()
    assert (leaves.std(4) > 0).all()


def test_drawing_repeats_with_its_seed() -> None:
    spn = SumProductNetwork(4, 3, layers=2, products=2, states=2)
    drawn = []
    for seed in (1, 1, 2):
        spn.reset(torch.Generator().manual_seed(seed))
        drawn.append(spn.weight.detach().clone())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_no_samples_give_no_potentials() -> None:
    assert network((2, 2, 2), 0, 1.0)(torch.zeros(0, 2, dtype=torch.float64)).shape == (0, 2)


# ------------------------------------------------------------------------------------------------- the other factors


def randomise(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


@quick
@given(st.integers(0, 2**20), st.integers(1, 6), st.integers(1, 4))
def test_hidden_units_sum_over_every_setting_of_the_units(seed: int, units: int, outputs: int) -> None:
    factor = randomise(HiddenUnits(3, outputs, units=units).double(), seed)
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(4, 3)))
    found = factor(x).detach().numpy()
    for n in range(4):
        drive = (factor.weight @ x[n] + factor.hidden_bias).detach()  # type: ignore[operator]
        expected = hidden_units_log_potential(factor.bias, factor.label_weight.T, drive)
        np.testing.assert_allclose(found[n], expected, atol=1e-8)


@pytest.mark.parametrize("covariance", ["shared", "diagonal", "full"])
def test_a_gaussian_mixture_is_one_up_to_a_constant_of_the_input(covariance: str) -> None:
    """From means, covariances and weights to natural parameters; the log density ratios between labels count."""
    random = np.random.default_rng(5)
    labels, components, d = 3, 2, 2
    factor = GaussianMixture(d, labels, components=components, covariance=covariance).double()  # type: ignore[arg-type]
    means = random.normal(size=(labels, components, d))
    weights = random.dirichlet(np.ones(components), labels)
    roots = random.normal(size=(labels, components, d, d))
    if covariance == "shared":
        roots[:] = roots[0, 0]
    covariances = roots @ roots.swapaxes(-1, -2) + np.eye(d)
    if covariance == "diagonal":
        covariances *= np.eye(d)
    precision = np.linalg.inv(covariances)
    x = random.normal(size=(5, d))
    away = x[:, None, None] - means
    log_density = -0.5 * np.einsum("nkhi,khij,nkhj->nkh", away, precision, away)
    log_density -= 0.5 * np.linalg.slogdet(covariances)[1]
    expected = np.log((weights * np.exp(log_density)).sum(-1))

    linear = np.einsum("khij,khj->khi", precision, means)
    i, j = np.triu_indices(d)
    quadratic = {
        "shared": np.zeros((labels, components, 0)),
        "diagonal": -0.5 * np.diagonal(precision, axis1=-2, axis2=-1),
        "full": -np.where(i == j, 0.5, 1.0) * precision[..., i, j],
    }[covariance]
    centred = -0.5 * np.trace(precision, axis1=-2, axis2=-1) if covariance != "shared" else 0.0  # x^2 - 1 for x^2
    normaliser = 0.5 * np.einsum("khi,khi->kh", linear, means) + 0.5 * np.linalg.slogdet(covariances)[1]
    constant = np.log(weights) - normaliser + centred
    with torch.no_grad():
        weight = np.concatenate([linear, quadratic], -1).reshape(labels * components, -1)
        factor.mixture.weight.copy_(torch.from_numpy(weight))
        factor.mixture.bias[0].zero_()
        factor.mixture.bias[1].copy_(torch.from_numpy(constant[:, None, :]))
    found = factor(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-9)


def test_linear_and_perceptron_by_hand() -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)))
    linear = randomise(Linear(3, 2).double())
    np.testing.assert_allclose(linear(x).detach(), (x @ linear.weight.T + linear.bias).detach())  # type: ignore
    perceptron = randomise(Perceptron(3, 2, units=5).double())
    hidden = torch.tanh((x @ perceptron.hidden.weight.T + perceptron.hidden.bias).detach())  # type: ignore
    expected = hidden @ perceptron.output.weight.detach().T + perceptron.output.bias.detach()  # type: ignore
    np.testing.assert_allclose(perceptron(x).detach(), expected)


KINDS = [
    FactorSettings(kind="linear"),
    FactorSettings(kind="spn", layers=2, products=2, states=2),
    FactorSettings(kind="spn", layers=1, products=3, states=2, operator="max"),
    FactorSettings(kind="gaussian", states=2, covariance="shared"),
    FactorSettings(kind="gaussian", states=2, covariance="diagonal"),
    FactorSettings(kind="gaussian", states=2, covariance="full"),
    FactorSettings(kind="hidden-units", units=4),
    FactorSettings(kind="perceptron", units=4),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.kind}-{k.operator}-{k.covariance}")
def test_every_factor_has_the_same_face_and_an_exact_gradient(kind: FactorSettings) -> None:
    factor = randomise(build(kind, 3, 2).double())
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(4, 3)))
    assert factor(x).shape == (4, 2)
    assert factor(x[:0]).shape == (0, 2)
    names = [name for name, _ in factor.named_parameters()]

    def potential(*parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(factor, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(potential, tuple(factor.parameters()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.kind}-{k.operator}-{k.covariance}")
def test_reset_repeats_with_its_seed_and_touches_every_weight(kind: FactorSettings) -> None:
    factor = build(kind, 3, 2)
    states = []
    for seed in (3, 3):
        with torch.no_grad():
            for parameter in factor.parameters():
                parameter.fill_(torch.nan)
        factor.reset(torch.Generator().manual_seed(seed))
        states.append({k: v.clone() for k, v in factor.state_dict().items()})
    assert all(torch.isfinite(v).all() and torch.equal(v, states[1][k]) for k, v in states[0].items())
