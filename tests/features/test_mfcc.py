from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import librosa
import numpy as np
import pytest
import scipy.fft
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.errors import AudioError, EmptyAudio, NonFiniteAudio, SettingsError
from phonechain.features.mfcc import (
    BLOCK,
    STATIC,
    FeatureSettings,
    derivative,
    frame_count,
    frames,
    mel_filters,
    power_spectra,
    static,
)
from tests.features import oracle
from tests.features.speechlike import speechlike

DEFAULT = FeatureSettings()


@pytest.mark.parametrize(
    "given_settings",
    [
        DEFAULT,
        FeatureSettings(preemphasis=0.0, lifter=22, n_mels=40, mel_floor=1e-9),
        FeatureSettings(rate=8000, fmax=3800, n_fft=256, delta_width=5),
        FeatureSettings(rate=11025, window=0.02, hop=0.007, n_fft=300, fmin=0, fmax=5512.5),  # odd lengths, inexact hop
    ],
    ids=["default", "lifter", "8 kHz", "odd"],
)
def test_static_values_equal_the_oracle(given_settings: FeatureSettings) -> None:
    sound = speechlike(given_settings.rate, 0.6, seed=1)
    np.testing.assert_allclose(
        static(sound, given_settings), oracle.static_track(sound, given_settings), rtol=0, atol=2e-5
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("width", [3, 5, 9, 21])
@pytest.mark.parametrize("count", [1, 2, 8, 9, 100])
def test_derivatives_equal_librosa(order: int, width: int, count: int) -> None:
    track = np.random.default_rng(count).normal(scale=10, size=(count, 13)).astype(np.float32)
    if count < width:  # librosa asks for as many frames as the width; repeating the edges is what both mean
        return np.testing.assert_allclose(
            derivative(track, order, width), oracle.derivatives(track, width)[order - 1], rtol=0, atol=1e-5
        )
    theirs = librosa.feature.delta(track.T, order=order, width=width, mode="nearest").T
    return np.testing.assert_allclose(derivative(track, order, width), theirs, rtol=0, atol=1e-5)


def test_power_spectra_equal_those_of_scipy() -> None:
    sound = speechlike(16000, 0.2, seed=2)
    length, hop = DEFAULT.window_length, DEFAULT.hop_length
    [(_, power, energy)] = power_spectra(sound, DEFAULT)
    padded = np.pad(sound, (length // 2, BLOCK * hop + length))
    windows = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop][:BLOCK].astype(np.float64)
    windows = windows - windows.mean(axis=1, keepdims=True)
    count = frame_count(len(sound), DEFAULT)  # rows after these mean nothing
    windows, power, energy = windows[:count], power[:count], energy[:count]
    np.testing.assert_allclose(energy, (windows**2).mean(axis=1), rtol=1e-4, atol=1e-12)
    before = np.concatenate([windows[:, :1], windows[:, :-1]], axis=1)
    tapered = (windows - DEFAULT.preemphasis * before) * scipy.signal.get_window("hamming", length)
    theirs = np.abs(scipy.fft.rfft(tapered, DEFAULT.n_fft, axis=1)) ** 2
    np.testing.assert_allclose(power, theirs, rtol=1e-3, atol=1e-6 * theirs.max())


def test_recordings_at_the_same_time_do_not_share_memory() -> None:
    one, other = speechlike(16000, 3.0, seed=3), speechlike(16000, 3.0, seed=4)
    alone = [power.copy() for _, power, _ in power_spectra(one, DEFAULT)]
    both = zip(power_spectra(one, DEFAULT), power_spectra(other, DEFAULT), strict=True)
    for before, ((at, power, _), _) in zip(alone, both, strict=True):
        rows = slice(frame_count(len(one), DEFAULT) - at)
        np.testing.assert_array_equal(power[rows], before[rows])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda sound: frames(sound, DEFAULT), [one, other] * 16))
    for track, sound in zip(found, [one, other] * 16, strict=True):
        np.testing.assert_array_equal(track, frames(sound, DEFAULT))


def test_samples_may_lie_apart_in_memory() -> None:
    stereo = np.stack([speechlike(16000, 0.7, seed=3), speechlike(16000, 0.7, seed=4)], axis=1)
    np.testing.assert_array_equal(frames(stereo[:, 0], DEFAULT), frames(stereo[:, 0].copy(), DEFAULT))


@pytest.mark.parametrize("order", [1, 2])
def test_weights_of_derivatives_equal_those_of_scipy(order: int) -> None:
    for width in (3, 5, 9, 51, 999):
        impulse = np.zeros((2 * width + 1, 1), dtype=np.float32)
        impulse[width] = 1.0
        around = derivative(impulse, order, width)[width - width // 2 : width + width // 2 + 1, 0]
        theirs = scipy.signal.savgol_coeffs(width, polyorder=order, deriv=order, use="conv")
        np.testing.assert_allclose(around, theirs, rtol=1e-6, atol=1e-7 * np.abs(theirs).max())


def test_frames_are_static_values_and_their_derivatives() -> None:
    sound = speechlike(16000, 0.4)
    track = frames(sound, DEFAULT)
    assert track.dtype == np.float32
    first, second = oracle.derivatives(oracle.static_track(sound, DEFAULT), 9)
    np.testing.assert_allclose(track[:, STATIC : 2 * STATIC], first, rtol=0, atol=2e-5)
    np.testing.assert_allclose(track[:, 2 * STATIC :], second, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("samples", "count"), [(1, 1), (159, 1), (160, 2), (161, 2), (16000, 101), (32007, 201)])
def test_frame_count(samples: int, count: int) -> None:
    track = frames(speechlike(16000, 2.1)[:samples], DEFAULT)
    assert track.shape == (count, 39)
    assert np.isfinite(track).all()


def test_a_frame_is_centred_at_its_time() -> None:
    click = np.zeros(16000, dtype=np.float32)
    click[8000] = 0.9
    energy = frames(click, DEFAULT)[:, STATIC - 1]
    lively = np.flatnonzero(energy > energy.min() + 1)
    assert lively.mean() == 50  # 8000 / 160


@pytest.mark.parametrize("samples", [3200, 16000, 16001, 20480, 20559, 32123])
def test_appended_sound_changes_only_the_frames_that_reach_it(samples: int) -> None:
    sound = speechlike(16000, 2.1)[:samples]
    loud = np.concatenate([sound, np.random.default_rng(0).uniform(-1, 1, 16000).astype(np.float32)])
    alone, longer = frames(sound, DEFAULT), frames(loud, DEFAULT)
    centre = np.arange(len(alone)) * 160
    for columns, reach in ((slice(0, 13), 200), (slice(13, 39), 4 * 160 + 200)):
        kept = centre + reach <= samples
        np.testing.assert_array_equal(alone[kept, columns], longer[: len(alone)][kept, columns])
        first_touched = int(kept.sum())
        if samples % 160 == 0:  # the window is well into the loud second, not a sample
            assert np.abs(alone[first_touched, columns] - longer[first_touched, columns]).max() > 1e-3


def test_sound_before_changes_nothing_but_the_edge() -> None:
    sound = speechlike(16000, 1.0)
    later = np.concatenate([np.full(160 * 137, 0.5, dtype=np.float32), sound])
    reach = 4 + 2  # frames
    np.testing.assert_allclose(frames(later, DEFAULT)[137 + reach :], frames(sound, DEFAULT)[reach:], rtol=0, atol=2e-5)


def test_loudness_moves_only_the_log_energy() -> None:
    sound = np.random.default_rng(0).normal(scale=0.3, size=16000).astype(np.float32)
    loud, soft = static(sound, DEFAULT), static(sound / np.float32(4), DEFAULT)
    np.testing.assert_allclose(loud[:, :12], soft[:, :12], atol=5e-3)  # the floor is small, not nothing
    np.testing.assert_allclose(loud[:, 12] - soft[:, 12], 2 * np.log(4), atol=1e-4)


def test_a_constant_offset_leaves_no_trace() -> None:
    sound = speechlike(16000)
    inside = slice(3, -3)
    np.testing.assert_allclose(
        static(sound + np.float32(0.2), DEFAULT)[inside], static(sound, DEFAULT)[inside], atol=2e-2
    )


def test_silence_lies_on_the_floors() -> None:
    track = frames(np.zeros(4000, dtype=np.float32), DEFAULT)
    np.testing.assert_allclose(track[:, :12], 0, atol=1e-5)
    np.testing.assert_allclose(track[:, 12], np.log(DEFAULT.energy_floor), rtol=1e-6)
    np.testing.assert_allclose(track[:, 13:], 0, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40),
    st.integers(1, 30),
    st.sampled_from([0.0, 1.0, -1.0, 1e-30]),
)
def test_any_finite_sound_gives_finite_frames(values: list[float], repeats: int, offset: float) -> None:
    sound = np.tile(np.array(values, dtype=np.float32), repeats) + np.float32(offset)
    track = frames(sound, DEFAULT)
    assert track.shape == (1 + len(sound) // 160, 39)
    assert np.isfinite(track).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_non_finite_samples_are_named(bad: float) -> None:
    sound = np.zeros(1000, dtype=np.float32)
    sound[[321, 500]] = bad
    with pytest.raises(NonFiniteAudio, match="at sample 321") as caught:
        frames(sound, DEFAULT)
    assert caught.value.value == 321


def test_no_samples_and_wrong_shape() -> None:
    with pytest.raises(EmptyAudio):
        frames(np.zeros(0, dtype=np.float32), DEFAULT)
    with pytest.raises(AudioError, match=r"\[n\], got \[2, 5\]"):
        frames(np.zeros((2, 5), dtype=np.float32), DEFAULT)


def test_settings_survive_json() -> None:
    changed = FeatureSettings(rate=22050, n_fft=1024, delta_width=5, mel_floor=1e-8)
    assert FeatureSettings.from_dict(json.loads(json.dumps(changed.to_dict()))) == changed
    assert FeatureSettings.from_dict({}) == DEFAULT
    assert DEFAULT.reach == pytest.approx(0.0525)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nmels": 40}, "nmels"),
        ({"rate": 16000.5}, "whole number for rate, got 16000.5"),
        ({"rate": True}, "whole number for rate"),
        ({"rate": "16000"}, "whole number for rate"),
        ({"hop": None}, "finite number for hop"),
        ({"hop": float("nan")}, "finite number for hop"),
        ({"hop": 0.03}, "hop between"),
        ({"hop": 0.0}, "hop between"),
        ({"n_fft": 256}, "n_fft between 400 and"),
        ({"fmax": 8001}, "fmax between 0 and 8000, got 8001"),
        ({"fmin": 7200}, "fmin between"),
        ({"n_mels": 12}, "n_mels between 13"),
        ({"mel_floor": 0}, "mel_floor between"),
        ({"preemphasis": 1.1}, "preemphasis between 0 and 1"),
        ({"delta_width": 4}, "odd delta_width, got 4"),
    ],
)
def test_settings_outside_their_bounds_are_refused(values: dict, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        FeatureSettings.from_dict(values)
    assert caught.value.pointer == f"features/{next(iter(values))}"


@pytest.mark.parametrize(
    ("rate", "n_fft", "count", "lowest", "highest"),
    [
        (16000, 512, 26, 0.0, 8000.0),
        (16000, 400, 40, 20.0, 7600.0),
        (8000, 256, 23, 64.0, 4000.0),
        (48000, 2048, 128, 1500.0, 24000.0),
    ],
)
def test_mel_filters_equal_librosa(rate: int, n_fft: int, count: int, lowest: float, highest: float) -> None:
    ours = mel_filters(rate, n_fft, count, lowest, highest)
    theirs = librosa.filters.mel(
        sr=rate, n_fft=n_fft, n_mels=count, fmin=lowest, fmax=highest, norm=None, dtype=np.float64
    )
    np.testing.assert_allclose(ours, theirs.T, rtol=0, atol=1e-13)
    assert ours.max() > 0.5
