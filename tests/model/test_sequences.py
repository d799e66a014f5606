"""What a model says of whole sequences and of its hidden variables, against enumeration."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest
import torch

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import CorpusError, SettingsError
from phonechain.features.segments import Segment
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.networks import memm
from phonechain.model.networks.factors import Factor, HiddenUnits
from phonechain.model.networks.memm import MaximumEntropyMarkovModel
from phonechain.model.sequences import answer_sequence
from phonechain.model.settings import FactorSettings, ModelSettings
from tests.model.oracle import MemmOracle, log_sum_exp
from tests.model.test_crf import KINDS, batch, model, oracle

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize(("labels", "trigram"), [(1, "none"), (2, "sparse")], ids=["first", "second"])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_a_crfs_sequences_are_the_enumerated_ones(labels: int, trigram: str, temperature: float) -> None:
    network = model("spn", labels=labels, segments=3, trigram=trigram)
    x, y, _ = batch((5,), 3)
    given = [int(k) if n != 2 else -1 for n, k in enumerate(y)]
    found = answer_sequence(network, NAMES, x, temperature=temperature, n_best=7, given=given)
    cold = oracle(network, x)
    truth = type(cold)(cold.unary / temperature, cold.bigram / temperature, cold.trigram / temperature)
    best = truth.k_best(7)
    assert [s.labels for s in found.n_best] == [tuple(NAMES[k] for k in path) for path, _ in best]
    for s, (path, _) in zip(found.n_best, best, strict=True):
        assert s.log_probability == pytest.approx(truth.log_probability(path))
        assert s.probability == pytest.approx(np.exp(truth.log_probability(path)))
    marginals = truth.marginals()
    answered = marginals.argmax(1)
    assert found.answered.labels == tuple(NAMES[k] for k in answered)
    assert found.answered.log_probability == pytest.approx(truth.log_probability(answered))
    assert found.entropy == pytest.approx(truth.entropy())
    np.testing.assert_allclose(found.segment_entropies, -(marginals * np.log(marginals)).sum(1))
    fits = (truth.sequences == given)[:, [0, 1, 3, 4]].all(1)
    assert found.given == pytest.approx(log_sum_exp(truth.scores[fits]) - truth.log_z)
    assert found.posterior_error == [0.0] * 5


def test_a_memms_sequences_are_the_enumerated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ModelSettings(chain="memm", factors=(FactorSettings(kind="linear"),), history=2)
    network = MaximumEntropyMarkovModel(chosen, 2, 3).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    x, y, packing = batch((4,), 2)
    found = answer_sequence(network, NAMES, x, temperature=2.0, n_best=3, given=y.tolist())
    truth = MemmOracle(network.unary(x, packing) / 2, [d / 2 for d in network.distant])
    for s, (path, log_probability) in zip(found.n_best, truth.all, strict=False):
        assert s.labels == tuple(NAMES[k] for k in path)
        assert s.log_probability == pytest.approx(log_probability)
    assert found.given == pytest.approx(truth.log_probability(y.tolist()))
    assert found.entropy is None
    with pytest.raises(SettingsError, match="no entropies of sequences from this kind of chain"):
        network.entropy(x, packing)
    monkeypatch.setattr(memm, "EXACT_STATES", 1)
    monkeypatch.setattr(memm.beam_marginals, "__kwdefaults__", {"width": 2})
    narrow = answer_sequence(network, NAMES, x, temperature=2.0)
    assert max(narrow.posterior_error) > 0.01


def test_a_sequence_without_given_labels_has_no_probability_of_them() -> None:
    x, _, _ = batch((3,), 3)
    assert answer_sequence(model(), NAMES, x).given is None


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_hidden_variables_sum_to_the_labels_posteriors(kind: str) -> None:
    network = model(kind, bigram="dense", segments=2)
    x, _, packing = batch((4, 2), 5)
    label = network.posteriors(x, packing, temperature=1.5)
    (tables,) = network.hidden_posteriors(x, packing, temperature=1.5)
    assert bool(tables) == (kind not in ("linear", "perceptron"))
    if kind != "hidden-units":
        for depth, table in enumerate(tables, 1):
            states = tuple(range(3, 3 + 2 * depth, 2))  # axes of the states: N, Y, I, H, I, H
            total = table.sum(states)
            torch.testing.assert_close(total, label.view(*label.shape, *[1] * depth).expand_as(total))


def test_hidden_units_posteriors_are_the_enumerated_ones() -> None:
    factor = HiddenUnits(2, 3, units=4).double()
    assert isinstance(factor, Factor)
    with torch.no_grad():
        for weight in factor.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    x, _, _ = batch((3,), 1)
    (found,) = factor.hidden_posteriors(x)
    on = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    for n in range(3):
        visible = (factor.weight @ x[n] + factor.hidden_bias).detach().numpy()
        for k in range(3):
            score = on @ (visible + factor.label_weight[k].detach().numpy())
            p = np.exp(score - log_sum_exp(score))
            np.testing.assert_allclose(found[n, k], p @ on, atol=1e-12)


def test_training_sums_out_what_is_not_labelled() -> None:
    network = model("spn", labels=2, segments=3, trigram="sparse")
    x, y, packing = batch((4, 2), 6)
    known = y.clone()
    known[[1, 2]] = -1
    loss = float(network.loss(x, known, packing).detach())
    expected = 0.0
    for b in range(2):
        rows = [packing.offsets[t] + b for t in range(packing.lengths[b])]
        truth, given = oracle(network, x[rows]), known[rows].numpy()
        fits = ((truth.sequences == given) | (given < 0)).all(1)
        expected -= log_sum_exp(truth.scores[fits]) - truth.log_z
    assert loss == pytest.approx(expected / 4)


def test_a_labeler_answers_sequences_of_sound() -> None:
    labeler = PhoneLabeler.load(pretrained_path())
    times = np.arange(0, 0.9, 0.08)
    segments = [Segment(float(a), float(b), "AH" if n % 2 else None) for n, (a, b) in enumerate(pairwise(times))]
    audio = Audio(np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32), 16000)
    found = labeler.label_sequence(audio, segments, n_best=3)
    posteriors = [s.posterior for s in labeler.label(audio, segments)]
    assert len(found.answered.labels) == len(segments)
    assert 0 <= found.answered.probability <= found.n_best[0].probability + 1e-9 <= min(1.0, min(posteriors)) + 1e-6
    assert found.n_best[0].log_probability >= found.n_best[1].log_probability >= found.n_best[2].log_probability
    assert found.given is not None
    assert found.entropy is not None
    assert max(found.segment_entropies) <= found.entropy + 1e-5 <= sum(found.segment_entropies) + 2e-5
    with pytest.raises(CorpusError, match="at least one segment"):
        labeler.label_sequence(audio, [])
