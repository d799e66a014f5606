"""Log-mel energies of every frame: the input of encoders that read frames.

The windows, the spectrum, the floor and the frequencies between which the filters lie are those of the MFCCs
(`phonechain.features.mfcc`); the filters are finer (40 by default), and no cosine transform follows. Frame `i` is centred
at `i * settings.frame_period` seconds and depends on the samples of its own window alone.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phonechain.features.mfcc import (
    BLOCK,
    FeatureSettings,
    check_samples,
    emphasised_windows,
    frame_count,
    hamming,
    mel_filters,
    power_spectra,
)

_ROWS = 1 << 15
"""Frames whose powers exist at once in float64."""


def log_mels(samples: ArrayLike, settings: FeatureSettings) -> NDArray[np.float32]:
    """Logarithm of the power in `settings.bands` mel bands, `[n]` -> `[1 + n // hop, bands]`.

    Raises:
        EmptyAudio, NonFiniteAudio, AudioError: as `phonechain.features.mfcc.frames`.
    """
    sound = check_samples(samples)
    if settings.engine == "librosa":
        from phonechain.features import librosa_engine  # takes over a second to load

        windows, taper = emphasised_windows(sound, settings), hamming(settings.window_length)
        return librosa_engine.log_mels(windows, frame_count(len(sound), settings), settings, taper=taper)
    filters = band_filters(settings)
    count = frame_count(len(sound), settings)
    out = np.empty((-(-count // BLOCK) * BLOCK, settings.bands), dtype=np.float32)
    for at, power, _ in power_spectra(sound, settings):
        bands = np.matmul(power, filters, out=out[at : at + BLOCK])
        bands += np.float32(settings.mel_floor)
        np.log(bands, out=bands)
    return out[:count]


@lru_cache(maxsize=16)
def band_filters(settings: FeatureSettings) -> NDArray[np.float32]:
    """`[n_fft // 2 + 1, bands]` triangular filters of height 1."""
    return mel_filters(settings.rate, settings.n_fft, settings.bands, settings.fmin, settings.fmax).astype(np.float32)


@lru_cache(maxsize=16)
def band_centres(settings: FeatureSettings) -> NDArray[np.float64]:
    """`[bands]` centre of gravity of each filter (Hz)."""
    filters = band_filters(settings).astype(np.float64)
    hertz = np.fft.rfftfreq(settings.n_fft, 1.0 / settings.rate)
    centres: NDArray[np.float64] = (filters * hertz[:, None]).sum(0) / filters.sum(0)
    return centres


@lru_cache(maxsize=16)
def preemphasis_gain(settings: FeatureSettings) -> NDArray[np.float64]:
    """`[bands]` power gain of the pre-emphasis at the centre of each band."""
    angle = 2 * np.pi * band_centres(settings) / settings.rate
    gain: NDArray[np.float64] = np.abs(1 - settings.preemphasis * np.exp(-1j * angle)) ** 2
    return gain


def level(bands: NDArray[np.floating], settings: FeatureSettings) -> float:
    """Log of the mean power of the sound with log-mel energies `[F, bands]`, with the pre-emphasis undone.

    A factor `g` on the samples adds `2 log g` to it, as to every band above the floor: after subtracting it, energies do not
    depend on the recording's gain.
    """
    if not len(bands):
        return 0.0
    gain = 1.0 / preemphasis_gain(settings)
    blocks = (bands[at : at + _ROWS] for at in range(0, len(bands), _ROWS))  # an hour in float64 would be 115 MB
    power = np.concatenate([np.exp(block, dtype=np.float64) @ gain for block in blocks])
    return float(np.log(power.mean() + settings.mel_floor))
