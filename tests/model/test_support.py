"""Given labels: their support against enumeration, what it knows of neighbours, and scores of pronunciation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from phonechain.features.errors import SettingsError
from phonechain.features.inputs import from_array
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Segment
from phonechain.model.answers import answers, pronunciation
from phonechain.model.chain.inference import log_score
from phonechain.model.chain.packing import Packing
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.networks import crf as networks
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.networks.memm import MaximumEntropyMarkovModel
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import FactorSettings, ModelSettings
from phonechain.model.support import evidence

LABELS = ["a", "b", "c"]


def network(trigram: str = "dense", seed: int = 0) -> ConditionalRandomField:
    made = ConditionalRandomField(
        ModelSettings(factors=(FactorSettings(kind="linear"),), trigram=trigram),  # type: ignore[arg-type]
        4, len(LABELS),
    )  # fmt: skip
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.randn(weight.shape, generator=draw))
    return made.double().eval()


@pytest.mark.parametrize("trigram", ["none", "dense"])
@pytest.mark.parametrize("lengths", [(1,), (2, 1), (5, 3)])
def test_support_is_the_marginal_of_labels_seen_through_errors(trigram: str, lengths: tuple[int, ...]) -> None:
    made, packing = network(trigram), Packing(lengths)
    random = np.random.default_rng(sum(lengths))
    h = torch.from_numpy(random.normal(size=(packing.rows, 4)))
    seen = torch.from_numpy(random.normal(size=(packing.rows, len(LABELS))) * 3)
    found = made.posteriors_with_evidence(h, seen, packing, temperature=1.7)
    for n, length in enumerate(lengths):
        rows = packing.rows_of(n)
        alone, potentials = Packing((length,)), made.potentials(h[rows], Packing((length,))).scale(1 / 1.7)
        expected = torch.zeros(length, len(LABELS), dtype=torch.float64)
        for path in itertools.product(range(len(LABELS)), repeat=length):
            y = torch.tensor(path)
            weight = (log_score(potentials, y) + seen[rows].gather(1, y[:, None]).sum()).exp()
            expected[torch.arange(length), y] += weight
        assert alone.rows == length
        torch.testing.assert_close(found[rows], expected / expected.sum(1, keepdim=True), rtol=1e-9, atol=1e-12)


def test_no_evidence_changes_nothing_and_parts_do_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    made, packing = network(), Packing((90, 40, 7))
    h = torch.randn(packing.rows, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    nothing = torch.zeros(packing.rows, len(LABELS), dtype=torch.float64)
    torch.testing.assert_close(made.posteriors_with_evidence(h, nothing, packing), made.posteriors(h, packing))
    some = torch.randn(packing.rows, len(LABELS), dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole = made.posteriors_with_evidence(h, some, packing)
    monkeypatch.setattr(networks, "BUDGET", 64 * made._bytes_per_row)
    torch.testing.assert_close(made.posteriors_with_evidence(h, some, packing), whole)


def test_evidence_is_a_distribution_over_given_labels_for_each_label() -> None:
    comparison = LabelSet(tuple(LABELS)).compare(["a", "b", None, "zzz"])
    segments = [Segment(0, 1, label) for label in ("a", "b", None, "zzz")]
    found = evidence(segments, comparison, error_rate=0.1)
    np.testing.assert_allclose(np.exp(found[0]), [0.9, 0.05, 0.05], rtol=1e-6)
    np.testing.assert_allclose(np.exp(found[1]), [0.05, 0.9, 0.05], rtol=1e-6)
    assert not found[2:].any()


def labeler() -> PhoneLabeler:
    made = network().float()
    normaliser = Normaliser(torch.zeros(4), torch.ones(4))
    labeler = PhoneLabeler("", model=made.settings)
    labeler._model = PhoneModel(made.settings, FeatureSettings(), LABELS, normaliser, made)
    return labeler


def test_labels_that_go_with_their_neighbours_have_support() -> None:
    """The chain hardly lets labels change: given a on both sides, what sound alone leaves open is open no more."""
    made = labeler()
    chain = made._model
    assert chain is not None
    network = chain.network
    assert isinstance(network, ConditionalRandomField)
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        assert network.bigram_weight is not None
        network.bigram_weight.fill_(-6.0).diagonal().fill_(0.0)
    x = np.zeros((3, 4), dtype=np.float32)
    given = [[Segment(0, 0.1, "a"), Segment(0.1, 0.2, label), Segment(0.2, 0.3, "a")] for label in ("a", "b")]
    right, wrong = made.label_inputs([from_array(x), from_array(x)], segments=given, support=True)
    assert right[1].given_posterior == pytest.approx(1 / 3, abs=1e-5)
    assert wrong[1].given_posterior == pytest.approx(1 / 3, abs=1e-5)
    assert right[1].given_support is not None
    assert right[1].given_support > 0.99
    assert wrong[1].given_support is not None
    assert wrong[1].given_support < 0.05
    plain, _ = made.label_inputs([from_array(x), from_array(x)], segments=given)
    assert plain[1].given_support is None


def test_a_chain_that_takes_no_evidence_says_so() -> None:
    memm = MaximumEntropyMarkovModel(ModelSettings("memm", factors=(FactorSettings(kind="linear"),)), 4, 3)
    with pytest.raises(SettingsError, match="evidence"):
        memm.posteriors_with_evidence(torch.zeros(2, 4), torch.zeros(2, 3), Packing((2,)))


# ------------------------------------------------------------------------------------------------------- pronunciation


def test_scores_are_what_their_names_say() -> None:
    scores = pronunciation(0.2, 0.7, 0.08)
    assert scores.log_posterior == pytest.approx(math.log(0.2))
    assert scores.log_ratio == pytest.approx(math.log(0.2 / 0.7))
    assert scores.goodness == pytest.approx(math.log(0.2 / 0.7) / 8)
    assert pronunciation(0.7, 0.2, 0.08).goodness == 0
    assert pronunciation(0.7, 0.2, 0.08).log_ratio == pytest.approx(math.log(3.5))
    assert math.isfinite(pronunciation(0.0, 1.0, 0.0).goodness)


@pytest.mark.parametrize(
    ("given", "scores"),
    [("a", (0.5, 0.3)), ("b", (0.3, 0.5)), ("c", (0.2, 0.5)), (None, None), ("zzz", None)],
)
def test_the_rival_is_the_best_of_the_other_labels(given: str | None, scores: tuple[float, float] | None) -> None:
    posterior = np.asarray([[0.5, 0.3, 0.2]], dtype=np.float32)
    segments = [Segment(0.0, 0.1, given)]
    comparison = LabelSet(tuple(LABELS)).compare(["a", "b", "c", given])
    [answer] = answers(LABELS, posterior, np.asarray([0]), segments, 1, comparison)
    if scores is None:
        assert answer.pronunciation is None
        return
    assert answer.pronunciation is not None
    assert answer.pronunciation.log_posterior == pytest.approx(math.log(scores[0]))
    assert answer.pronunciation.log_ratio == pytest.approx(math.log(scores[0] / scores[1]), abs=1e-6)
