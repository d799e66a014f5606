"""The same frames as `mfcc` and `filterbank`, computed by librosa: `stft`, `filters.mel`, `feature.mfcc`, `feature.delta`.

The windows are those of `mfcc.emphasised_windows`, since librosa has no window that loses its mean and is emphasised by
itself; laid end to end they are a signal whose `librosa.stft` with a hop of one window is the spectrum of each. What is
added, floors and the lifter, is ours. All values equal those of the other engine within 1e-4; blocks of one fixed shape keep the
promise that sound appended to a recording changes no earlier frame.

Loading librosa costs more than a second, and it compiles some functions the first time it is loaded: this module is imported
where `FeatureSettings.engine` asks for it, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import librosa
import numpy as np
from numpy.typing import NDArray

from phonechain.features.mfcc import (
    BLOCK,
    CEPSTRA,
    STATIC,
    FeatureSettings,
    emphasised_windows,
    frame_count,
    hamming,
    lifter_weights,
    with_derivatives,
)


def frames(samples: NDArray[np.float32], settings: FeatureSettings, *, warp: float = 1.0) -> NDArray[np.float32]:
    """As `mfcc.frames`, of samples that are checked: `[n]` -> `[1 + n // hop, 39]`."""
    lifter = lifter_weights(settings)
    filters = _filters(settings, settings.n_mels, warp)
    count = frame_count(len(samples), settings)
    out = np.empty((-(-count // BLOCK) * BLOCK, STATIC), dtype=np.float32)
    for at, power, energy in power_spectra(samples, settings):
        log_mel = np.log(filters @ power + settings.mel_floor)
        cepstra = librosa.feature.mfcc(S=log_mel, n_mfcc=STATIC, dct_type=2, norm="ortho")
        out[at : at + BLOCK, :CEPSTRA] = cepstra[1:].T * lifter
        out[at : at + BLOCK, CEPSTRA] = np.log(energy + settings.energy_floor)
    return with_derivatives(out[:count], settings.delta_width, derivative)


def log_mels(samples: NDArray[np.float32], settings: FeatureSettings) -> NDArray[np.float32]:
    """As `filterbank.log_mels`, of samples that are checked: `[n]` -> `[1 + n // hop, bands]`."""
    filters = _filters(settings, settings.bands, 1.0)
    count = frame_count(len(samples), settings)
    out = np.empty((-(-count // BLOCK) * BLOCK, settings.bands), dtype=np.float32)
    for at, power, _ in power_spectra(samples, settings):
        out[at : at + BLOCK] = np.log(filters @ power + settings.mel_floor).T
    return out[:count]


def power_spectra(
    samples: NDArray[np.float32], settings: FeatureSettings
) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float32]]]:
    """(first frame, power `[n_fft // 2 + 1, BLOCK]`, mean square `[BLOCK]`) of one block of frames after the other."""
    length, n_fft = settings.window_length, settings.n_fft
    taper = np.zeros(n_fft)
    taper[:length] = hamming(length)
    laid = np.zeros((BLOCK, n_fft))  # double precision: see mfcc.power_spectra
    for at, emphasised, energy in emphasised_windows(samples, settings):
        laid[:, :length] = emphasised
        spectrum = librosa.stft(
            laid.reshape(-1), n_fft=n_fft, hop_length=n_fft, win_length=n_fft, window=taper, center=False
        )
        yield at, spectrum.real**2 + spectrum.imag**2, energy


def derivative(track: NDArray[np.float32], order: int, width: int) -> NDArray[np.float32]:
    """As `mfcc.derivative`: `librosa.feature.delta` on a track that is long enough for it, its edges repeated."""
    half = width // 2
    padded = np.pad(track, ((half, half), (0, 0)), mode="edge")
    found = librosa.feature.delta(padded.T, width=width, order=order, mode="nearest")
    return np.ascontiguousarray(found[:, half : half + len(track)].T, dtype=np.float32)


@lru_cache(maxsize=16)
def _filters(settings: FeatureSettings, count: int, warp: float) -> NDArray[np.float64]:
    """`[count, n_fft // 2 + 1]` triangles of height 1."""
    filters: NDArray[np.float64] = librosa.filters.mel(
        sr=settings.rate * warp, n_fft=settings.n_fft, n_mels=count, fmin=settings.fmin, fmax=settings.fmax, norm=None,
        dtype=np.float64,
    )  # fmt: skip
    return filters
