"""bfloat16: only what encoders and factors multiply is rounded, training repeats and resumes bit for bit, files do not know it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import TrainingError
from phonechain.model import phone_model, pretrained_path
from phonechain.model.chain.packing import Packing
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.checkpoint import CHECKPOINT
from phonechain.model.learning.training import train
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.presets import preset, preset_names
from phonechain.model.settings import FactorSettings, ModelSettings
from tests.model.test_presets import corpus, small
from tests.model.test_training import CRF, QUICK, data, end_after, network, same, weights

BOUND = 0.02
"""Largest difference of a posterior that rounding to 8 binary digits makes in these small models."""

TRAIN, DEV = corpus(12, 1), corpus(4, 2)


@pytest.mark.parametrize("name", preset_names())
def test_posteriors_of_every_preset_stay_near_those_in_full_precision(name: str) -> None:
    given = small(preset(name))
    labeler = PhoneLabeler(
        name, model=given.model, training=dataclasses.replace(given.training, epochs=2), device="cpu"
    )
    labeler.fit_featurised(TRAIN, DEV)
    inputs = [i.inputs for i in TRAIN]
    expected = np.concatenate(labeler.posteriors(inputs)[0])
    labeler.network_.compute_in("bfloat16")
    found = np.concatenate(labeler.posteriors(inputs)[0])
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < BOUND
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-5)
    labeler.network_.compute_in("float32")
    np.testing.assert_array_equal(np.concatenate(labeler.posteriors(inputs)[0]), expected)


@pytest.mark.parametrize("kind", ["linear", "spn", "gaussian", "hidden-units"])
@pytest.mark.parametrize("order", [1, 2])
def test_nothing_but_products_is_rounded(kind: str, order: int) -> None:
    """Whole numbers below 256 are exact in bfloat16, and so are their products: then not a bit of a posterior may change."""
    generator = torch.Generator().manual_seed(order)
    factors = tuple(FactorSettings(kind=kind, segments=n, labels=n) for n in range(1, order + 2))  # type: ignore[arg-type]
    ngrams = [torch.cartesian_prod(*[torch.arange(4)] * n)[::3] for n in (2, 3)]
    made = ConditionalRandomField(ModelSettings(factors=factors), 6, 4, bigrams=ngrams[0], trigrams=ngrams[1])
    with torch.no_grad():
        for parameter in made.factor_parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=generator))
        for parameter in made.ngram_parameters():
            parameter.normal_(generator=generator)
    packing = Packing((9, 7, 2))
    x = torch.randint(-2, 3, (packing.rows, 6), generator=generator).float()
    labels = torch.randint(0, 4, (packing.rows,), generator=generator)
    expected, loss = made.posteriors(x, packing), made.loss(x, labels, packing)
    made.compute_in("bfloat16")
    assert torch.equal(made.posteriors(x, packing), expected)
    assert torch.equal(made.loss(x, labels, packing), loss)


def test_gradients_stay_near_those_in_full_precision() -> None:
    made, batch = network(), data(20, 3).batch(np.arange(20))
    made.eval()

    def gradient() -> torch.Tensor:
        made.zero_grad()
        made.loss(made.encode(batch.x, batch.packing), batch.y, batch.packing).backward()
        return torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])

    expected = gradient()
    made.compute_in("bfloat16")
    found = gradient()
    assert found.dtype == torch.float32
    assert 0 < float((found - expected).norm() / expected.norm()) < 0.02


def test_training_repeats_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, precision="bfloat16")
    whole, again, broken, exact = network(), network(), network(), network()
    train(whole, data(60, 1), data(40, 2), settings)
    train(again, data(60, 1), data(40, 2), settings)
    train(exact, data(60, 1), data(40, 2), QUICK)

    with pytest.raises(KeyboardInterrupt):
        train(broken, data(60, 1), data(40, 2), settings, run_dir=tmp_path, progress=end_after(2))
    assert broken.precision == "float32"
    assert (tmp_path / CHECKPOINT).exists()
    resumed = network()
    train(resumed, data(60, 1), data(40, 2), settings, run_dir=tmp_path)
    assert same(weights(whole), weights(again))
    assert same(weights(whole), weights(resumed))
    assert not same(weights(whole), weights(exact))
    with pytest.raises(TrainingError, match="other data or settings"):
        train(network(), data(60, 1), data(40, 2), QUICK, run_dir=tmp_path)


@pytest.mark.parametrize("model", [CRF, small(preset("blstm-ho-lc-crf")).model], ids=["crf", "recurrent"])
def test_a_model_has_weights_of_32_bits_and_answers_in_full_precision(model: ModelSettings) -> None:
    labeler = PhoneLabeler("", model=model, training={"epochs": 1, "precision": "bfloat16"}, device="cpu")
    labeler.fit_featurised(TRAIN, DEV)
    assert labeler.network_.precision == "float32"
    assert {p.dtype for p in labeler.network_.parameters()} == {torch.float32}


def test_a_product_and_a_long_recording_are_computed_in_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    labeler = PhoneLabeler.load(pretrained_path(), device="cpu")
    inputs = [i.inputs for i in corpus(1, 5)]
    exact = labeler.posteriors(inputs)[0][0]
    labeler.network_.compute_in("bfloat16")
    batched = labeler.posteriors(inputs)[0][0]
    monkeypatch.setattr(phone_model, "LONG", 0)
    piecewise = labeler.posteriors(inputs)[0][0]
    for found in (batched, piecewise):
        assert 0 < np.abs(found - exact).max() < BOUND
