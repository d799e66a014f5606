"""Products of experts: their chain against enumeration, their file, what is refused, and the training that goes on from one."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import ModelFileError, SettingsError
from phonechain.features.inputs import Inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.chain.inference import log_score
from phonechain.model.chain.packing import Packing
from phonechain.model.combination import combine
from phonechain.model.files import modelfile
from phonechain.model.files.header import Provenance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.networks.build import build
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import EncoderSettings, FactorSettings, ModelSettings, TrainingSettings
from phonechain.model.settings import replace as change

LABELS = ["a", "b", "c"]
BIGRAMS = torch.tensor([(0, 1), (1, 2), (2, 0), (2, 2)])
TRIGRAMS = torch.tensor([(0, 1, 2), (1, 2, 0)])
FRONT = FeatureSettings(bands=20)
SMALL = EncoderSettings(bands=20, channels=6, frame_units=4, width=5, segment_units=3, pooled=False)


def model(kind: str, seed: int, features: FeatureSettings = FRONT) -> PhoneModel:
    """An untrained model that reads frames alone, or the 92 features through a recurrent network, or as they are."""
    encoder = change(SMALL, {"kind": kind, "pooled": kind != "frames"})
    settings = ModelSettings(
        factors=(FactorSettings(layers=1, scale=0.3), FactorSettings(kind="perceptron", segments=2, labels=2, units=4)),
        bigram="sparse", trigram="sparse", normalise="any", encoder=encoder,
    )  # fmt: skip
    features = encoder.features(features)
    width = 92 if features.pooled else 0
    network = ConditionalRandomField(settings, width, len(LABELS), bigrams=BIGRAMS, trigrams=TRIGRAMS)
    network.reset(torch.Generator().manual_seed(seed))
    draw = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for weight in (*network.ngram_parameters(), *network.factor_parameters()):
            weight.add_(0.5 * torch.randn(weight.shape, generator=draw))
    bands = torch.zeros(features.bands)
    normaliser = Normaliser(torch.zeros(width), torch.ones(width), "any", bands, bands + 1)
    return PhoneModel(settings, features, LABELS, normaliser, network.eval(), 1.5)


def inputs(segments: int = 5, seed: int = 0) -> Inputs:
    random = np.random.default_rng(seed)
    times = np.stack([0.1 * np.arange(segments), 0.1 * np.arange(1, segments + 1)], 1)
    frames = random.normal(size=(10 * segments + 2, 20)).astype(np.float32)
    return Inputs(random.normal(size=(segments, 92)).astype(np.float32), times, frames, 0.01)


@pytest.mark.parametrize("kinds", [("frames", "frames"), ("frames", "segments"), ("segments", "none", "frames")])
def test_a_products_posteriors_are_those_of_the_experts_sequences_multiplied(kinds: tuple[str, ...]) -> None:
    members = [model(kind, seed) for seed, kind in enumerate(kinds)]
    both = combine(members)
    assert both.temperature == 1.5 * len(kinds)
    both.temperature = 1.0
    item = inputs(4)
    [found], _ = both.posteriors([item], mode="recording")
    weights = torch.zeros(len(LABELS) ** 4, dtype=torch.float64)
    paths = torch.tensor(list(itertools.product(range(len(LABELS)), repeat=4)))
    for member in members:
        _, packing, h = member._encode([item], [0], "recording")
        assert isinstance(member.network, ConditionalRandomField)
        with torch.inference_mode():
            potentials = member.network.potentials(h, packing).to(torch.float64)
            weights += torch.cat([log_score(potentials, path) for path in paths])
    share = weights.softmax(0)
    expected = torch.stack([share @ (paths == y).double() for y in range(len(LABELS))], 1)
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-5)


def test_no_answer_depends_on_its_batch() -> None:
    both = combine([model("frames", 1), model("segments", 2)])
    items = [inputs(n, n) for n in (9, 3, 6)]
    together, _ = both.posteriors(items, mode="recording")
    for item, answer in zip(items, together, strict=True):
        [alone], _ = both.posteriors([item], mode="recording")
        np.testing.assert_allclose(alone, answer, atol=1e-6)


def labeler(both: PhoneModel) -> PhoneLabeler:
    made = PhoneLabeler("", model=both.settings, training=TrainingSettings(), features=both.features, name="both")
    made._model, made.provenance_ = both, Provenance.now()
    return made


def test_a_products_file_answers_as_it_did(tmp_path: Path) -> None:
    made = labeler(combine([model("frames", 1), model("segments", 2)]))
    for weight in made.network_.parameters():
        weight.data.copy_(weight.half().float())
    made.save(tmp_path / "m.safetensors")
    again = PhoneLabeler.load(tmp_path / "m.safetensors")
    item = inputs()
    [a], _ = made.posteriors([item])
    [b], _ = again.posteriors([item])
    assert np.array_equal(a, b)
    assert again.card_["encoder"] == "frames + segments"
    assert len(again.network_.hidden_posteriors(again._require_model()._encode([item], [0], "recording")[2],
                                               Packing((len(item),)))) == 2  # fmt: skip


def test_a_file_with_weights_that_belong_to_no_expert_is_refused(tmp_path: Path) -> None:
    labeler(combine([model("frames", 1), model("segments", 2)])).save(tmp_path / "m.safetensors")
    tensors, header = modelfile.read(tmp_path / "m.safetensors")
    modelfile.write(tmp_path / "odd.safetensors", {**tensors, "network.members.7.x": torch.zeros(2)}, header)
    stray = {**tensors, "network.x": torch.zeros(2)}
    modelfile.write(tmp_path / "stray.safetensors", stray, header)
    with pytest.raises(ModelFileError, match="no expert"):
        PhoneLabeler.load(tmp_path / "stray.safetensors")
    with pytest.raises(ModelFileError, match="no expert"):
        PhoneLabeler.load(tmp_path / "odd.safetensors")
    lost = {k: v for k, v in tensors.items() if not k.startswith("network.members.1.encoder")}
    modelfile.write(tmp_path / "lost.safetensors", lost, header)
    with pytest.raises(ModelFileError):
        PhoneLabeler.load(tmp_path / "lost.safetensors")
    tensors["network.members.0.bigrams"][0, 0] = 9
    modelfile.write(tmp_path / "out.safetensors", tensors, header)
    with pytest.raises(ModelFileError, match="outside"):
        PhoneLabeler.load(tmp_path / "out.safetensors")


def test_training_goes_on_from_the_first_expert() -> None:
    first = model("frames", 1)
    start = labeler(combine([first, model("segments", 2)])).trainable()
    assert start.model == first.settings
    assert start.features_ == first.features
    [a], _ = start.posteriors([inputs()])
    [b], _ = labeler(first).posteriors([inputs()])
    assert np.array_equal(a, b)
    assert labeler(first).trainable().model == first.settings


def test_what_cannot_be_combined_or_trained_is_refused() -> None:
    one = model("frames", 1)
    with pytest.raises(SettingsError, match="two models"):
        combine([one])
    other = dataclasses.replace(model("frames", 2), labels=["a", "b", "d"])
    with pytest.raises(SettingsError, match="same labels"):
        combine([one, other])
    with pytest.raises(SettingsError, match="front end"):
        combine([one, model("frames", 2, dataclasses.replace(FRONT, fmax=4000.0))])
    moved = model("frames", 2)
    moved.normaliser = dataclasses.replace(moved.normaliser, frame_mean=moved.normaliser.frame_mean + 1)
    with pytest.raises(SettingsError, match="normalisers differ"):
        combine([one, moved])
    both = combine([one, model("segments", 2)])
    with pytest.raises(SettingsError, match="CRF"):
        combine([both, one])
    with pytest.raises(SettingsError, match="train each"):
        build(both.settings, 92, LABELS, None)
    with pytest.raises(SettingsError, match="no products"):
        ModelSettings(experts=(both.settings,))
    assert both.settings.order == 2
