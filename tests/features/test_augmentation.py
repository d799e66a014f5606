"""Augmentation: repeatable, bounded, and each change is what its name says, against changed sound."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from phonechain.features.augmentation import (
    AugmentationSettings,
    augment,
    clip,
    jitter,
    mask,
    random_noise,
    stretch,
    warp_bands,
)
from phonechain.features.errors import SettingsError
from phonechain.features.filterbank import band_centres, level, log_mels
from phonechain.features.inputs import frames_around, from_array
from phonechain.features.mfcc import FeatureSettings, mel_filters
from tests.features.speechlike import speechlike

FEATURES = FeatureSettings(bands=40)
NOTHING = AugmentationSettings()
ALL = AugmentationSettings(
    warp=1, stretch=0.15, gain=1, channel=1, noise=1, cutoff=0.5, jitter=1, masks=2, mask_frames=8
)


def sound(seed: int = 0, seconds: float = 2.0) -> NDArray[np.float32]:
    return np.asarray(speechlike(16000, seconds, seed=seed), dtype=np.float32)


def times(count: int = 8) -> NDArray[np.float64]:
    edges = np.linspace(0.1, 1.9, count + 1)
    return np.stack([edges[:-1], edges[1:]], 1)


def test_nothing_wanted_is_nothing_done() -> None:
    frames = log_mels(sound(), FEATURES)
    changed, when, voice = augment(frames, times(), NOTHING, FEATURES, np.random.default_rng(0))
    assert np.array_equal(changed, frames)
    assert np.array_equal(when, times())
    assert not voice.additive
    assert not NOTHING.active
    assert ALL.active


def test_the_same_state_gives_the_same_utterance_and_another_another() -> None:
    frames = log_mels(sound(), FEATURES)
    first, second, third = (augment(frames, times(), ALL, FEATURES, np.random.default_rng(n)) for n in (1, 1, 2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
    assert first[0].shape != third[0].shape or not np.array_equal(first[0], third[0])
    assert np.isfinite(first[0]).all()


@pytest.mark.parametrize("gain", [-30.0, -10.0, 6.0])
def test_a_gain_is_what_the_front_end_makes_of_quieter_sound(gain: float) -> None:
    original = sound()
    frames = log_mels(original, FEATURES)
    wanted = dataclasses.replace(NOTHING, gain=1.0, gain_low=gain, gain_high=gain)
    changed, _, voice = augment(frames, times(), wanted, FEATURES, np.random.default_rng(0))
    np.testing.assert_allclose(changed, log_mels(original * 10 ** (gain / 20), FEATURES), atol=2e-3)
    # nothing of it is left once the level is taken off
    np.testing.assert_allclose(voice.shift, 0.0, atol=2e-2)


def test_the_level_is_the_sounds_and_moves_with_its_gain() -> None:
    original = sound()
    quiet = level(log_mels(0.1 * original, FEATURES), FEATURES)
    assert level(log_mels(original, FEATURES), FEATURES) - quiet == pytest.approx(np.log(100), abs=0.01)


@pytest.mark.parametrize("snr", [0.0, 10.0, 20.0])
def test_noise_is_as_loud_as_it_says(snr: float) -> None:
    frames = log_mels(sound(), FEATURES)
    power = np.exp(frames)
    noise = random_noise(power, snr, FEATURES, np.random.default_rng(3))
    distance = level(frames, FEATURES) - level(np.log(noise), FEATURES)
    assert distance == pytest.approx(snr * np.log(10) / 10, abs=0.05)


def test_a_warped_voice_is_what_a_warped_filter_bank_hears() -> None:
    """A smooth spectrum through filters that count every frequency as 10 % higher."""
    random = np.random.default_rng(0)
    hertz = np.fft.rfftfreq(512, 1 / 16000)
    spectrum = np.exp(np.interp(hertz, np.linspace(0, 8000, 12), random.normal(0, 1.5, 12)))
    plain = np.log(spectrum @ mel_filters(16000, 512, 40, 60, 7200))
    warped = np.log(spectrum @ mel_filters(16000 * 1.1, 512, 40, 60, 7200))
    lower, share = warp_bands(np.log(1.1), FEATURES)
    mine = plain[lower] * (1 - share) + plain[lower + 1] * share
    inner = slice(4, 36)  # the outermost reach out of the band
    # filters of other widths: the heights differ by the logarithm of the factor, the shape does not
    offset = (mine - warped)[inner].mean()
    assert np.abs((mine - warped)[inner] - offset).max() < 0.25
    assert np.abs((plain - warped)[inner] - (plain - warped)[inner].mean()).max() > 0.4


def test_no_warp_takes_each_band_for_itself() -> None:
    lower, share = warp_bands(0.0, FEATURES)
    np.testing.assert_allclose(lower + share, np.arange(40), atol=1e-6)


def test_stretching_keeps_what_is_heard_at_a_segments_edge() -> None:
    slow = np.sin(np.arange(200)[:, None] / 20 + np.arange(40)).astype(np.float32)
    longer, when = stretch(slow, times(), 1.1)
    assert len(longer) == 220
    for before, after in zip(times().ravel(), when.ravel(), strict=True):
        assert after == pytest.approx(before * 219 / 199)
        np.testing.assert_allclose(_at(longer, after / 0.01), _at(slow, before / 0.01), atol=2e-3)


def _at(frames: NDArray[np.float32], index: float) -> NDArray[np.float32]:
    low = int(index)
    return frames[low] * (1 - (index - low)) + frames[min(low + 1, len(frames) - 1)] * (index - low)


@pytest.mark.parametrize("seed", range(20))
def test_moved_boundaries_stay_in_order_and_touching_ones_touch(seed: int) -> None:
    random = np.random.default_rng(seed)
    edges = np.cumsum(random.uniform(0.005, 0.2, 12))
    when = np.stack([edges[:-1], edges[1:]], 1)
    when[5:] += 0.1  # a gap
    moved = jitter(when, 0.05, random)
    assert (moved[:, 1] > moved[:, 0]).all()
    assert (moved[1:, 0] >= moved[:-1, 1] - 1e-12).all()
    touching = np.isclose(when[1:, 0], when[:-1, 1])
    np.testing.assert_allclose(moved[1:, 0][touching], moved[:-1, 1][touching])
    assert np.abs(moved - when).max() <= 0.1 + 1e-9
    assert not np.array_equal(moved, when)


def test_masks_are_stretches_of_zeros() -> None:
    frames = np.ones((400, 40), dtype=np.float32)
    mask(frames, AugmentationSettings(masks=1, mask_frames=8), np.random.default_rng(5))
    bands = int((frames == 0).all(0).sum())
    rows = int((frames == 0).all(1).sum())
    assert bands <= 8
    assert rows <= 2 * 8
    assert bands + rows > 0


@pytest.mark.parametrize("seed", range(4))
def test_clipped_sound_keeps_its_level_and_loses_what_is_above_the_limit(seed: int) -> None:
    settings = AugmentationSettings(clipping=1, clip_low=12, clip_high=12)
    quiet = 0.3 * sound(seed)
    clipped = clip(quiet, settings, np.random.default_rng(seed))
    limit = np.abs(quiet).max() * 10 ** (-12 / 20)
    assert np.abs(clipped).max() == pytest.approx(limit, rel=0.01)
    small = np.abs(quiet) < 0.1 * limit
    np.testing.assert_allclose(clipped[small], quiet[small], rtol=0.01)
    assert np.array_equal(clip(np.zeros(10, np.float32), settings, np.random.default_rng(0)), np.zeros(10))


@pytest.mark.parametrize(
    "wrong",
    [{"clip_low": 9, "clip_high": 3}, {"warp": 1.5}, {"noise": -0.1}, {"gain_low": 5, "gain_high": 1}, {"masks": 99}],
)
def test_settings_outside_their_bounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="augmentation"):
        AugmentationSettings(**wrong)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------------- frames


def test_frames_do_not_change_when_sound_is_appended() -> None:
    original = sound()
    longer = np.concatenate([original, sound(1)])
    before, after = log_mels(original, FEATURES), log_mels(longer, FEATURES)
    whole = (len(original) - FEATURES.window_length // 2) // FEATURES.hop_length
    assert np.array_equal(before[:whole], after[:whole])
    assert before.shape == (1 + len(original) // 160, 40)


def test_band_centres_rise_between_the_edges() -> None:
    centres = band_centres(FEATURES)
    assert (np.diff(centres) > 0).all()
    assert 60 < centres[0] < centres[-1] < 7200


def test_the_frames_around_segments_begin_at_an_even_one() -> None:
    first, last = frames_around(np.array([[1.0, 1.1], [1.1, 2.0]]), 1000, 0.01)
    assert first % 2 == 0
    assert first * 0.01 <= 0.75
    assert (last - 1) * 0.01 >= 2.24
    assert frames_around(np.array([[0.0, 0.01]]), 1, 0.01) == (0, 1)
    assert frames_around(np.array([[5.0, 5.1]]), 10, 0.01)[1] == 10


def test_plain_arrays_have_two_dimensions() -> None:
    with pytest.raises(SettingsError, match="segments, features"):
        from_array(np.zeros(3))
