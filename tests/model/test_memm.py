"""The MEMM against full enumeration: likelihood, exact marginals and search, and what a beam may miss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.errors import SettingsError
from phonechain.model.chain.packing import Packing
from phonechain.model.networks import memm
from phonechain.model.networks.memm import MaximumEntropyMarkovModel
from phonechain.model.settings import FactorSettings, ModelSettings
from tests.model.oracle import MemmOracle


def rows_of(packing: Packing, sequence: int) -> list[int]:
    return [packing.offsets[t] + sequence for t in range(packing.lengths[sequence])]


@st.composite
def cases(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, Packing]:
    """u [N, Y], distant bigrams [M-1, Y, Y] and a ragged packing: up to 4 labels, 6 positions, 5 previous labels."""
    labels = draw(st.integers(2, 4))
    longest = draw(st.integers(1, 6 if labels < 4 else 5))
    lengths = [longest, *draw(st.lists(st.integers(1, longest), max_size=3))]
    packing = Packing(tuple(sorted(lengths, reverse=True)))
    history, size = draw(st.integers(0, 5)), draw(st.sampled_from([0.5, 3.0, 300.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    unary = torch.from_numpy(random.normal(0, size, (packing.rows, labels)))
    distant = torch.from_numpy(random.normal(0, size, (history, labels, labels)))
    return unary, distant, packing


def model(labels: int = 3, history: int = 2, **changes: object) -> MaximumEntropyMarkovModel:
    given = ModelSettings(chain="memm", factors=(FactorSettings(kind="linear"),), history=history, **changes)  # type: ignore[arg-type]
    network = MaximumEntropyMarkovModel(given, 2, labels).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return network


@given(cases())
@settings(max_examples=60, deadline=None)
def test_marginals_and_viterbi_are_the_enumerated_ones(case: tuple[torch.Tensor, torch.Tensor, Packing]) -> None:
    unary, distant, packing = case
    marginals = memm.forward_marginals(unary, distant, packing)
    labels, scores = memm.viterbi(unary, distant, packing)
    for b in range(len(packing.lengths)):
        rows = rows_of(packing, b)
        oracle = MemmOracle(unary[rows], list(distant))
        np.testing.assert_allclose(marginals[rows], oracle.marginals(), atol=1e-8)
        np.testing.assert_allclose(scores[b], oracle.best()[1], rtol=1e-10, atol=1e-8)
        np.testing.assert_allclose(oracle.log_probability(labels[rows].tolist()), scores[b], rtol=1e-10, atol=1e-8)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_a_beam_wide_enough_for_all_prefixes_is_exact(case: tuple[torch.Tensor, torch.Tensor, Packing]) -> None:
    unary, distant, packing = case
    width = unary.shape[1] ** packing.lengths[0]
    labels, scores = memm.beam_search(unary, distant, packing, width=width)
    _, exact_scores = memm.viterbi(unary, distant, packing)
    torch.testing.assert_close(scores, exact_scores)
    for b in range(len(packing.lengths)):
        rows = rows_of(packing, b)
        oracle = MemmOracle(unary[rows], list(distant))
        np.testing.assert_allclose(oracle.log_probability(labels[rows].tolist()), scores[b], rtol=1e-10, atol=1e-8)
    posteriors, error = memm.beam_marginals(unary, distant, packing, width=width)
    torch.testing.assert_close(posteriors, memm.forward_marginals(unary, distant, packing))
    torch.testing.assert_close(error, torch.zeros_like(error), atol=1e-9, rtol=0)


@given(cases(), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_a_beams_posteriors_are_no_further_off_than_they_say(
    case: tuple[torch.Tensor, torch.Tensor, Packing], width: int
) -> None:
    unary, distant, packing = case
    posteriors, error = memm.beam_marginals(unary, distant, packing, width=width)
    exact = memm.forward_marginals(unary, distant, packing)
    assert bool(((posteriors - exact).abs().amax(1) <= error + 1e-9).all())


@given(cases(), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_n_best_of_a_wide_beam_are_the_enumerated_ones(
    case: tuple[torch.Tensor, torch.Tensor, Packing], n: int
) -> None:
    unary, distant, packing = case
    labels, scores = memm.beam_n_best(unary, distant, packing, n, width=unary.shape[1] ** packing.lengths[0])
    for b in range(len(packing.lengths)):
        rows = rows_of(packing, b)
        expected = MemmOracle(unary[rows], list(distant)).all[:n]
        np.testing.assert_allclose(scores[: len(expected), b], [e[1] for e in expected], rtol=1e-10, atol=1e-8)
        assert bool(scores[len(expected) :, b].isneginf().all())
        assert len({tuple(p) for p in labels[: len(expected), rows].tolist()}) == len(expected)


@given(cases(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_narrow_beam_answers_a_real_sequence_and_never_a_better_one(
    case: tuple[torch.Tensor, torch.Tensor, Packing], width: int
) -> None:
    unary, distant, packing = case
    labels, scores = memm.beam_search(unary, distant, packing, width=width)
    posterior, _ = memm.beam_marginals(unary, distant, packing, width=width)
    torch.testing.assert_close(posterior.sum(1), torch.ones(packing.rows, dtype=torch.float64))
    for b in range(len(packing.lengths)):
        rows = rows_of(packing, b)
        oracle = MemmOracle(unary[rows], list(distant))
        np.testing.assert_allclose(oracle.log_probability(labels[rows].tolist()), scores[b], rtol=1e-10, atol=1e-8)
        assert scores[b] <= oracle.best()[1] + 1e-9


def test_the_beam_can_miss_what_exact_search_finds() -> None:
    # the first label seems worse by itself, but makes the second one certain
    unary = torch.tensor([[0.1, 0.0], [0.0, 0.0]], dtype=torch.float64)
    distant = torch.tensor([[[0.0, 0.0], [9.0, 0.0]]], dtype=torch.float64)
    packing = Packing((2,))
    exact, score = memm.viterbi(unary, distant, packing)
    found, lower = memm.beam_search(unary, distant, packing, width=1)
    assert exact.tolist() == [1, 0]
    assert found[0] == 0
    assert lower < score


def test_loss_and_likelihood_are_the_enumerated_ones() -> None:
    network, packing = model(labels=3, history=2), Packing((5, 3, 1))
    x = torch.randn(packing.rows, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.randint(0, 3, (packing.rows,), generator=torch.Generator().manual_seed(2))
    expected = []
    for b in range(3):
        rows = rows_of(packing, b)
        oracle = MemmOracle(network.unary(x, packing)[rows], list(network.distant))
        expected.append(oracle.log_probability(y[rows].tolist()))
    np.testing.assert_allclose(network.log_likelihood(x, y, packing).detach(), expected, atol=1e-10)
    np.testing.assert_allclose(float(network.loss(x, y, packing).detach()), -sum(expected) / packing.rows, atol=1e-10)


def test_gradients_are_those_of_differences() -> None:
    network, packing = model(labels=3, history=3), Packing((4, 2))
    x = torch.randn(packing.rows, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.tensor([0, 2, 1, 1, 2, 0])
    names = [name for name, _ in network.named_parameters()]

    def loss(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(network, dict(zip(names, values, strict=True)), (x, y, packing))

    network.forward = network.loss
    assert torch.autograd.gradcheck(loss, tuple(p.detach().clone().requires_grad_() for p in network.parameters()))


def test_posteriors_are_the_beams_where_the_table_of_histories_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    network, packing = model(labels=3, history=2), Packing((6, 4))
    x = torch.randn(packing.rows, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = network.posteriors(x, packing)
    monkeypatch.setattr(memm, "EXACT_STATES", 8)
    by_beam = network.posteriors(x, packing)
    assert not torch.equal(exact, by_beam)
    torch.testing.assert_close(by_beam, exact, atol=0.05, rtol=0)  # 20 of at most 243 prefixes hold most of the mass
    assert float(network.posteriors(x, packing, temperature=100.0).max()) < 0.4


def test_history_dropout_hides_labels_in_training_only() -> None:
    network, packing = model(history=1, history_dropout=0.9), Packing((6,))
    x, y = torch.zeros(6, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    network.noise = torch.Generator().manual_seed(1)
    hidden = float(network.train().loss(x, y, packing).detach())
    assert hidden != float(network.eval().loss(x, y, packing))
    assert float(network.loss(x, y, packing)) == float(network.loss(x, y, packing))


def test_a_factor_over_two_labels_is_refused() -> None:
    wide = ModelSettings(chain="memm", factors=(FactorSettings(), FactorSettings(labels=2, segments=2)))
    with pytest.raises(SettingsError, match="labels = 2"):
        MaximumEntropyMarkovModel(wide, 2, 3)


def test_scores_of_the_input_are_scaled_in_use_and_not_in_training() -> None:
    plain, scaled, packing = model(), model(input_scale=0.5), Packing((5, 3, 1))
    x = torch.randn(packing.rows, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.randint(0, 3, (packing.rows,), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(scaled.train().loss(x, y, packing), plain.train().loss(x, y, packing))
    found = scaled.eval().log_likelihood(x, y, packing).detach()
    for b in range(3):
        rows = rows_of(packing, b)
        oracle = MemmOracle(0.5 * plain.scores(x, packing)[1].detach()[rows], list(plain.distant))
        np.testing.assert_allclose(found[b], oracle.log_probability(y[rows].tolist()), atol=1e-10)
