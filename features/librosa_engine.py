"""The same frames as `mfcc` and `filterbank`, computed by librosa: `stft`, `filters.mel`, `feature.mfcc`, `feature.delta`.

It starts from the windows of `mfcc.emphasised_windows`, since librosa cannot subtract a window's mean and emphasise it by itself;
concatenated, they are a signal whose `librosa.stft` with a hop of one window is the spectrum of each. Floors and lifter are
ours. All values equal those of the other engine within 1e-4; blocks of one fixed shape keep the promise that sound appended to a
recording changes no earlier frame.

Loading librosa takes more than a second, and it compiles some functions the first time: this module is imported only where
`FeatureSettings.engine` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import librosa
import numpy as np
from numpy.typing import NDArray

from phonechain.features.feature_settings import CEPSTRA, STATIC, FeatureSettings

Windows = Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]
"""What `mfcc.emphasised_windows` gives: (first frame, windows, mean square of each), block by block."""


def static(
    windows: Windows,
    count: int,
    settings: FeatureSettings,
    *,
    taper: NDArray[np.float64],
    lifter: NDArray[np.float64],
    warp: float = 1.0,
) -> NDArray[np.float32]:
    """As `mfcc.static`: `[count, 13]` from the windows of `count` frames, their taper and the factors of the cepstra."""
    filters = _filters(settings, settings.n_mels, warp)
    blocks = []
    for power, energy in _power_spectra(windows, settings, taper):
        log_mel = np.log(filters @ power + settings.mel_floor)
        cepstra = librosa.feature.mfcc(S=log_mel, n_mfcc=STATIC, dct_type=2, norm="ortho")
        block = np.empty((len(energy), STATIC), dtype=np.float32)
        block[:, :CEPSTRA] = cepstra[1:].T * lifter
        block[:, CEPSTRA] = np.log(energy + settings.energy_floor)
        blocks.append(block)
    return np.concatenate(blocks)[:count]


def log_mels(
    windows: Windows, count: int, settings: FeatureSettings, *, taper: NDArray[np.float64]
) -> NDArray[np.float32]:
    """As `filterbank.log_mels`: `[count, bands]` from the windows of `count` frames and their taper."""
    filters = _filters(settings, settings.bands, 1.0)
    blocks = [
        np.log(filters @ power + settings.mel_floor).T.astype(np.float32)
        for power, _ in _power_spectra(windows, settings, taper)
    ]
    return np.concatenate(blocks)[:count]


def _power_spectra(
    windows: Windows, settings: FeatureSettings, taper: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float32]]]:
    """(power `[n_fft // 2 + 1, BLOCK]`, mean square `[BLOCK]`), block by block."""
    length, n_fft = settings.window_length, settings.n_fft
    padded = np.pad(taper, (0, n_fft - length))
    for _, emphasised, energy in windows:
        laid = np.zeros((len(emphasised), n_fft))  # double precision: see mfcc.power_spectra
        laid[:, :length] = emphasised
        spectrum = librosa.stft(
            laid.reshape(-1), n_fft=n_fft, hop_length=n_fft, win_length=n_fft, window=padded, center=False
        )
        yield spectrum.real**2 + spectrum.imag**2, energy


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
