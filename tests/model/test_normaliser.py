"""Normalising: over the training set, a recording or a speaker; what gain and length do to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phonechain.features import statistics
from phonechain.features.errors import SettingsError
from phonechain.features.inputs import Inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.statistics import SpeakerStatistics, Statistics
from phonechain.model.learning.normaliser import FRAME_PRIOR, MODES, SPEAKER_PRIOR, Normaliser

FEATURES = FeatureSettings(bands=40)


def inputs(seed: int, segments: int = 20, shift: float = 0.0, level: float = 0.0) -> Inputs:
    random = np.random.default_rng(seed)
    times = np.stack([0.1 * np.arange(segments), 0.1 * np.arange(1, segments + 1)], 1)
    x = random.normal(size=(segments, 92)).astype(np.float32) + np.float32(shift)
    frames = random.normal(-2.0, 1.0, size=(10 * segments, 40)).astype(np.float32) + np.float32(level)
    return Inputs(x, times, frames, 0.01)


def fit(normalise: str = "any") -> Normaliser:
    return Normaliser.fit_inputs([inputs(n) for n in range(20)], FEATURES, normalise=normalise)  # type: ignore[arg-type]


def by_hand(rows: NDArray[np.float32], prior: float) -> NDArray[np.float64]:
    """Mean and variance with `prior` rows of mean 0 and variance 1 among them, from their definitions."""
    n, total = len(rows), rows.sum(0, dtype=np.float64)
    mean = total / (n + prior)
    variance = (((rows - mean) ** 2).sum(0) + prior) / (n + prior)
    out: NDArray[np.float64] = (rows - mean) / np.sqrt(variance)
    return out


@pytest.mark.parametrize("prior", [SPEAKER_PRIOR, FRAME_PRIOR])
def test_own_statistics_are_mixed_with_the_training_sets(prior: float) -> None:
    rows = np.random.default_rng(0).normal(1.5, 2.0, size=(50, 4)).astype(np.float32)
    np.testing.assert_allclose(Statistics.of(rows).standardise(rows, prior), by_hand(rows, prior), atol=1e-5)


def test_the_training_set_has_mean_zero_and_unit_deviation() -> None:
    normal = fit("model")
    items = [inputs(n) for n in range(20)]
    made = normal.apply_inputs(items, FEATURES, list(range(20)), "model")
    x = np.concatenate([i.segments for i in made])
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-3)


def test_a_recordings_gain_leaves_no_trace_in_its_frames() -> None:
    normal = fit()
    soft, loud = inputs(100), inputs(100, level=3.0)
    for mode in ("recording", "speaker"):
        [a], [b] = (normal.apply_inputs([i], FEATURES, [0], mode) for i in (soft, loud))
        np.testing.assert_allclose(a.frames, b.frames, atol=1e-3)
    [a], [b] = (normal.apply_inputs([i], FEATURES, [0], "model") for i in (soft, loud))
    assert np.abs(a.frames - b.frames).min() > 1


def test_what_is_normalised_over_the_training_set_does_not_depend_on_the_rest() -> None:
    normal = fit()
    longer = inputs(7, segments=30)
    part = longer.part(0, 12)
    [whole], [alone] = (normal.apply_inputs([i], FEATURES, [0], "model") for i in (longer, part))
    assert np.array_equal(whole.segments[:12], alone.segments)
    assert np.array_equal(whole.frames[: len(alone.frames)], alone.frames)
    [whole], [alone] = (normal.apply_inputs([i], FEATURES, [0], "recording") for i in (longer, part))
    assert not np.allclose(whole.segments[:12], alone.segments, atol=1e-3)


def test_a_group_is_normalised_together_and_apart_from_others() -> None:
    normal = fit()
    items = [inputs(1, shift=2.0), inputs(2, shift=2.0), inputs(3, shift=-2.0)]
    together = normal.apply_inputs(items, FEATURES, [5, 5, 9], "speaker")
    pair = np.concatenate([i.segments for i in together[:2]])
    scaled = np.concatenate([(i.segments - normal.mean.numpy()) / normal.std.numpy() for i in items[:2]])
    np.testing.assert_allclose(pair, by_hand(scaled, SPEAKER_PRIOR), atol=1e-4)
    [alone] = normal.apply_inputs(items[2:], FEATURES, [0], "recording")
    np.testing.assert_allclose(alone.segments, together[2].segments, atol=1e-6)
    np.testing.assert_allclose(alone.frames, together[2].frames, atol=1e-6)


def test_a_model_answers_in_the_modes_that_it_was_trained_for() -> None:
    normal = fit("any")
    assert normal.check_mode(None, known_speakers=False) == "recording"
    assert normal.check_mode(None, known_speakers=True) == "speaker"
    assert normal.check_mode("model", known_speakers=True) == "model"
    assert fit("model").check_mode(None, known_speakers=True) == "model"
    assert fit("speaker").check_mode(None, known_speakers=False) == "recording"
    with pytest.raises(SettingsError, match="expected normalise to be model with this model, got 'speaker'"):
        fit("model").check_mode("speaker", known_speakers=True)
    assert set(MODES) == {"model", "speaker", "any"}


def test_statistics_in_blocks_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).normal(-6, 2, (101, 5)).astype(np.float32)
    whole = Statistics.of(rows)
    scaled = whole.standardise(rows, 10.0)
    monkeypatch.setattr(statistics, "ROWS", 7)
    parts = Statistics.of(rows)
    np.testing.assert_allclose(parts.variance, rows.var(0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-12)
    np.testing.assert_allclose(parts.standardise(rows, 10.0), scaled, atol=1e-6)


@pytest.mark.parametrize("bands", [0, 40])
def test_a_speaker_measured_in_parts_is_normalised_as_together(bands: int) -> None:
    features, normal = FeatureSettings(bands=bands), fit()
    items = [inputs(n, segments=3 + n, shift=0.5 * n, level=float(n)) for n in range(7)]
    other = inputs(50, shift=3.0)
    together = normal.apply_inputs([*items, other], features, [0] * 7 + [1], "speaker")
    parts = [normal.measure(own, features).to_dict() for own in (items[:1], items[1:5], items[5:])]
    speaker = SpeakerStatistics.merge([SpeakerStatistics.from_dict(part) for part in parts])
    known = [replace(item, speaker=speaker) for item in items]
    apart = [*known[:2], other, *known[2:]]
    made = normal.apply_inputs(apart[:4], features, [3, 3, 1, 3], "speaker")
    made += normal.apply_inputs(apart[4:], features, [0] * 4, "speaker")
    assert made[2].speaker is None
    for one, whole in zip([*made[:2], *made[3:], made[2]], together, strict=True):
        np.testing.assert_allclose(one.segments, whole.segments, atol=1e-5)
        np.testing.assert_allclose(one.frames, whole.frames, atol=1e-5)
    # a part of a recording keeps what is known of the speaker; alone and by recording it is not used
    assert known[3].part(1, 4).speaker is speaker
    [alone], [plain] = (normal.apply_inputs([i], features, [0], "recording") for i in (known[3], items[3]))
    assert np.array_equal(alone.segments, plain.segments)


def test_a_constant_feature_and_a_model_without_frames() -> None:
    plain = FeatureSettings()
    constant = Inputs(np.ones((5, 92), dtype=np.float32), np.zeros((5, 2)), np.zeros((0, 0), dtype=np.float32), 0.01)
    normal = Normaliser.fit_inputs([constant], plain)
    assert torch.equal(normal.std, torch.ones(92))
    assert len(normal.frame_mean) == 0
    [made] = normal.apply_inputs([constant], plain, [0], "model")
    assert np.array_equal(made.segments, np.zeros((5, 92)))
