"""Every preset trains on a small corpus, learns something, and comes back from its model file bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import SettingsError
from phonechain.features.inputs import Inputs
from phonechain.features.segments import Segment, Utterance
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised
from phonechain.model.presets import Preset, preset, preset_names
from phonechain.model.settings import from_dict, to_dict

NAMES = [
    "cnf", "gmm-lc-crf", "gmm-lc-crf-diag", "gmm-lc-crf-full", "ho-hu-crf", "hu-crf", "lc-crf", "nho-lc-crf",
    "spn-ho-lc-crf", "spn-ho-memm", "spn-lc-crf", "spn-lc-crf-2", "spn-memm",
]  # fmt: skip


def corpus(utterances: int, seed: int) -> list[Featurised]:
    """Utterances of 2 to 12 segments, 5 labels in a noisy cycle, each with a mean of its own in features and frames."""
    random = np.random.default_rng(seed)
    means = np.random.default_rng(0).normal(0.0, 0.35, (5, 92))
    spectra = np.random.default_rng(1).normal(0.0, 1.0, (5, 40))
    items = []
    for n in range(utterances):
        y = (np.arange(random.integers(2, 13)) + random.integers(5)) % 5
        y = np.where(random.random(len(y)) < 0.2, random.integers(0, 5, len(y)), y)
        segments = [Segment(0.1 * t, 0.1 * (t + 1), "abcde"[label]) for t, label in enumerate(y)]
        x = (means[y] + random.normal(0.0, 1.0, (len(y), 92))).astype(np.float32)
        times = np.asarray([(s.start, s.end) for s in segments])
        # ten frames per segment, about a mean of each label, at the level of speech
        frames = np.repeat(spectra[y], 10, axis=0) + random.normal(0.0, 1.0, (10 * len(y), 40)) - 2
        inputs = Inputs(x, times, frames.astype(np.float32), 0.01)
        items.append(Featurised(Utterance(f"u{n}", Path(f"u{n}.wav"), segments, f"s{n % 4}", None), segments, inputs))
    return items


def small(given: Preset) -> Preset:
    """Two epochs; encoders narrow, with a few more."""
    epochs = 2 if given.model.encoder.kind == "none" else 8
    encoder = dataclasses.replace(given.model.encoder, channels=24, frame_units=16, width=32, segment_units=24)
    return dataclasses.replace(
        given,
        model=dataclasses.replace(given.model, encoder=encoder),
        training=dataclasses.replace(
            given.training,
            epochs=epochs,
            batch=8,
            learning_rate=min(1e-2, 5 * given.training.learning_rate) if epochs > 2 else given.training.learning_rate,
        ),
    )


def test_the_systems_of_the_paper_are_there() -> None:
    assert set(NAMES) <= set(preset_names())


def test_an_unknown_preset_is_refused_with_the_names() -> None:
    with pytest.raises(SettingsError, match=r"cnf, gmm-lc-crf.*got 'spn'"):
        preset("spn")


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_plain_values(name: str) -> None:
    given = preset(name)
    assert given.title
    assert from_dict(Preset, to_dict(given)) == given


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_trains_and_survives_its_model_file(name: str, tmp_path: Path) -> None:
    given = small(preset(name))
    labeler = PhoneLabeler(name, model=given.model, training=given.training)
    dev = corpus(20, 2)
    labeler.fit_featurised(corpus(80, 1), dev)
    assert labeler.metrics_["dev_error"] < 0.6  # 0.8 by chance
    assert labeler.history_.epochs[-1]["loss"] < labeler.history_.epochs[0]["loss"]
    labeler.save(tmp_path / "a.safetensors")
    again = PhoneLabeler.load(tmp_path / "a.safetensors")
    assert again.network_ is not None
    assert labeler.network_ is not None
    stored = again.network_.state_dict()
    assert all(torch.equal(stored[k], v) for k, v in labeler.network_.state_dict().items())
    items = [i.inputs for i in dev]
    for viterbi in (False, True):
        p, best = labeler.posteriors(items, viterbi=viterbi)
        p_again, best_again = again.posteriors(items, viterbi=viterbi)
        assert all(np.array_equal(a, b) for a, b in zip(p, p_again, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(best, best_again, strict=True))
        np.testing.assert_allclose(np.concatenate(p).sum(1), 1.0, atol=1e-5)


def test_the_same_seed_gives_the_same_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        training = dataclasses.replace(preset("spn-memm").training, epochs=1, batch=8, seed=seed)
        labeler = PhoneLabeler("spn-memm", training=training).fit_featurised(corpus(20, 1), corpus(5, 2))
        assert labeler.network_ is not None
        return torch.cat([p.detach().flatten() for p in labeler.network_.parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))
