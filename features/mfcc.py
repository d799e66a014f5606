"""Frames: 12 MFCCs and the log energy of every 10 ms of sound, with their first and second derivatives.

Nothing here is global. Frame `i` is centred at sample `i * hop`, and its 13 static values depend only on the samples of its own
window: there is no normalisation by the loudest frame, and no adaptive floor. Its derivatives depend on the `delta_width // 2`
frames on either side. So when sound is appended to a recording of `n` samples, only frames whose window reaches past the old end
may change,

    static values   i * hop + window / 2 > n
    derivatives     (i + delta_width // 2) * hop + window / 2 > n      (in samples)

and all frames before them keep every bit: the computation uses blocks of one fixed shape, because the rounding of a matrix
product depends on its shape. `FeatureSettings.reach` is the second rule in seconds (52.5 ms by default).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phonechain.features.errors import AudioError, EmptyAudio, NonFiniteAudio
from phonechain.features.feature_settings import CEPSTRA, STATIC, FeatureSettings

__all__ = [
    "BLOCK",
    "CEPSTRA",
    "STATIC",
    "FeatureSettings",
    "check_samples",
    "derivative",
    "emphasised_windows",
    "frame_count",
    "frames",
    "hamming",
    "lifter_weights",
    "mel_filters",
    "power_spectra",
    "static",
    "with_derivatives",
]

BLOCK = 64
"""Frames of a block: all buffers, 0.8 MB, stay in the second-level cache."""

_LOUDEST = 1e9  # far above any scale that samples come in, far below what overflows single precision when squared


def frames(samples: ArrayLike, settings: FeatureSettings, *, warp: float = 1.0) -> NDArray[np.float32]:
    """Static values and derivatives of a whole recording.

    Args:
        samples: `[n]` sound at `settings.rate`, full scale 1; beyond its ends it is taken as silent.
        settings: how.
        warp: factor by which the filter bank takes every frequency to be higher than it is: what a shorter or longer
            vocal tract does to the formants.

    Returns:
        `[1 + n // hop, 39]`: 12 MFCCs and the log energy, then the first derivatives of these 13, then the second (per
        frame and per frame squared). Row `i` is centred at `i * settings.frame_period` seconds.

    Raises:
        EmptyAudio: no samples.
        NonFiniteAudio: NaN, infinity, or a magnitude of 1e9 and more among the samples.
        AudioError: not one row of samples.

    Examples:
        >>> frames(np.zeros(16000, dtype=np.float32), FeatureSettings()).shape
        (101, 39)
    """
    sound = check_samples(samples)
    if settings.engine == "librosa":
        from phonechain.features import librosa_engine  # takes over a second to load

        values = librosa_engine.static(
            emphasised_windows(sound, settings), frame_count(len(sound), settings), settings,
            taper=hamming(settings.window_length), lifter=lifter_weights(settings), warp=warp,
        )  # fmt: skip
        return with_derivatives(values, settings.delta_width, librosa_engine.derivative)
    return with_derivatives(static(sound, settings, warp=warp), settings.delta_width, derivative)


def static(samples: NDArray[np.float32], settings: FeatureSettings, *, warp: float = 1.0) -> NDArray[np.float32]:
    """12 MFCCs and the log energy of every frame, `[n]` -> `[1 + n // hop, 13]`; `warp` as in `frames`."""
    filters, cosines = _constants(settings, warp)
    count = frame_count(len(samples), settings)
    out = np.empty((-(-count // BLOCK) * BLOCK, STATIC), dtype=np.float32)
    for at, power, energy in power_spectra(samples, settings):
        bands = power @ filters  # of the whole block, though some rows of the last may be of no frame: see the module
        bands += np.float32(settings.mel_floor)
        out[at : at + BLOCK, :CEPSTRA] = np.log(bands, out=bands) @ cosines
        out[at : at + BLOCK, CEPSTRA] = np.log(energy + settings.energy_floor)
    return out[:count]


def power_spectra(
    samples: NDArray[np.float32], settings: FeatureSettings
) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]:
    """(first frame, power `[BLOCK, n_fft // 2 + 1]`, mean square `[BLOCK]`), block by block.

    Rows of the last block past the last frame are finite, and mean nothing. The memory is reused for the next block.
    """
    with _borrow(settings) as memory:
        length = settings.window_length
        for at, emphasised, _ in _windows(samples, settings, memory):
            rows = len(emphasised)
            # Only the transform is in double precision: a quiet band 100 dB below a loud one would be lost in its rounding.
            # The steps before and after it have no cancellation.
            np.multiply(emphasised, memory.taper, out=emphasised)
            np.copyto(memory.tapered[:rows, :length], emphasised)
            np.fft.rfft(memory.tapered[:rows], axis=1, out=memory.spectrum[:rows])
            parts = memory.spectrum[:rows].view(np.float64)  # [rows, n_fft + 2]: real and imaginary parts side by side
            np.square(parts, out=parts)
            np.add(parts[:, ::2], parts[:, 1::2], out=memory.power[:rows], casting="same_kind")
            yield at, memory.power, memory.energy


def derivative(track: NDArray[np.float32], order: int, width: int) -> NDArray[np.float32]:
    """Savitzky-Golay derivative along time, `[F, C]` -> `[F, C]`, with the first and last frames repeated beyond the
    ends.

    The polynomial fitted over `width` frames has the degree of the derivative, as in `librosa.feature.delta(track.T,
    order=order, width=width, mode="nearest")`, which this equals; it is several times faster, and any number of frames
    will do.
    """
    half = width // 2
    count = len(track)
    padded = np.concatenate([track[:1].repeat(half, axis=0), track, track[-1:].repeat(half, axis=0)])
    taps = _taps(order, width)
    # The taps are odd or even about the middle: each pair costs one product.
    pair = np.subtract if order % 2 else np.add
    out = np.multiply(track, taps[half], dtype=np.float32)
    for k in range(1, half + 1):
        both = pair(padded[half + k : half + k + count], padded[half - k : half - k + count])
        both *= taps[half + k]
        out += both
    return out


@lru_cache(maxsize=16)
def _taps(order: int, width: int) -> list[float]:
    """`[width]` weights of the frames from `-width // 2` to `width // 2`, for derivatives of order 1 and 2.

    The least-squares line, or parabola, through points at `k` has the slope `sum k y / sum k^2`, or the second derivative
    `2 sum (w k^2 - sum k^2) y / (w sum k^4 - (sum k^2)^2)` with `w` points: what `scipy.signal.savgol_coeffs` solves for.
    """
    half = width // 2
    steps = range(-half, half + 1)
    squares = sum(k**2 for k in steps)
    if order == 1:
        return [k / squares for k in steps]
    below = width * sum(k**4 for k in steps) - squares**2
    return [2 * (width * k**2 - squares) / below for k in steps]


def mel_filters(rate: float, n_fft: int, count: int, lowest: float, highest: float) -> NDArray[np.float64]:
    """`[n_fft // 2 + 1, count]` triangles of height 1, evenly wide in mel between two frequencies in Hz.

    Each begins at the middle of the one before and ends at the middle of the one after. The mel scale is that of Slaney's
    Auditory Toolbox: linear under 1000 Hz, with 15 mel there, and logarithmic above, a factor of 6.4 in 27 mel. What
    `librosa.filters.mel(norm=None)` gives, but for rounding, without librosa's second of loading.
    """
    linear, knee, knee_mel, step = 200.0 / 3, 1000.0, 15.0, np.log(6.4) / 27.0

    def to_mel(hertz: float) -> float:
        return float(knee_mel + np.log(hertz / knee) / step) if hertz >= knee else hertz / linear

    mels = np.linspace(to_mel(lowest), to_mel(highest), count + 2)
    corners = np.where(mels >= knee_mel, knee * np.exp(step * (mels - knee_mel)), linear * mels)
    away = corners[:, None] - np.fft.rfftfreq(n_fft, 1.0 / rate)[None, :]  # Hz by which a corner lies above a bin
    widths = np.diff(corners)[:, None]
    rising, falling = -away[:-2] / widths[:-1], away[2:] / widths[1:]
    return np.ascontiguousarray(np.maximum(0.0, np.minimum(rising, falling)).T)


@lru_cache(maxsize=16)
def _constants(settings: FeatureSettings, warp: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mel filters `[n_fft // 2 + 1, n_mels]`, liftered cosines `[n_mels, 12]`."""
    filters = mel_filters(settings.rate * warp, settings.n_fft, settings.n_mels, settings.fmin, settings.fmax)
    # The orthonormal DCT-II as a matrix: row m holds what filter m adds to each coefficient.
    k = np.arange(1, CEPSTRA + 1)
    middles = (2 * np.arange(settings.n_mels) + 1) / (2 * settings.n_mels)
    cosines = np.sqrt(2 / settings.n_mels) * np.cos(np.pi * np.outer(middles, k)) * lifter_weights(settings)
    return filters.astype(np.float32), np.ascontiguousarray(cosines, dtype=np.float32)


def frame_count(n: int, settings: FeatureSettings) -> int:
    """Frames of `n` samples: `1 + n // hop`, one at least as soon as there is a sample.

    Examples:
        >>> frame_count(16000, FeatureSettings())  # a second: centres at 0, 10, ..., 1000 ms
        101
    """
    return 1 + n // settings.hop_length


def check_samples(samples: ArrayLike) -> NDArray[np.float32]:
    """The samples `[n]` in single precision.

    Raises:
        EmptyAudio: no samples.
        NonFiniteAudio: NaN, infinity, or a magnitude of 1e9 and more among the samples.
        AudioError: not one row of samples.
    """
    sound = np.asarray(samples, dtype=np.float32)
    if sound.ndim != 1:
        raise AudioError(f"expected samples of shape [n], got {list(sound.shape)}", pointer="audio")
    if sound.size == 0:
        raise EmptyAudio("expected at least one sample, got none", pointer="audio", value=0, limit=1)
    peak = max(float(sound.max()), -float(sound.min()))  # NaN if any sample is
    if not peak < _LOUDEST:
        first = int(np.flatnonzero(~(np.abs(sound) < _LOUDEST))[0])
        raise NonFiniteAudio(
            f"expected samples of full scale 1, got {sound[first]} at sample {first}",
            pointer=f"audio/{first}",
            value=first,
        )
    return sound


def emphasised_windows(
    samples: NDArray[np.float32], settings: FeatureSettings
) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]:
    """(first frame, windows `[BLOCK, window_length]` before the taper, mean square `[BLOCK]`), block by block.

    The order is Kaldi's: the window loses its mean, so that a constant offset of the converter leaves no trace; the log
    of its mean square is the log energy; then pre-emphasis inside the window, the Hamming taper, the spectrum. The last
    block continues past the end of the sound with zeros; the windows' memory is reused for the next block.
    """
    with _borrow(settings) as memory:
        yield from _windows(samples, settings, memory, whole=True)


def _windows(
    samples: NDArray[np.float32], settings: FeatureSettings, memory: _Memory, *, whole: bool = False
) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]:
    """As `emphasised_windows`, in the memory given; unless the last block is wanted `whole`, only the windows of frames.

    Rows are worked on as one run wherever a step allows it: numpy takes three times as long for each short row by itself.
    """
    length, hop = settings.window_length, settings.hop_length
    count = frame_count(len(samples), settings)
    samples = np.ascontiguousarray(samples)
    for at in range(0, count, BLOCK):
        rows = BLOCK if whole else min(BLOCK, count - at)
        windows, delayed, energy = memory.windows[:rows], memory.delayed[:rows], memory.energy[:rows]
        np.copyto(windows, _strided(samples, at * hop - length // 2, settings)[:rows])
        mean = (memory.windows @ memory.ones)[:rows]
        mean /= np.float32(length)
        np.subtract(windows, mean[:, None], out=windows)
        np.einsum("ij,ij->i", windows, windows, out=energy)
        energy /= np.float32(length)
        np.multiply(windows, -settings.preemphasis, out=delayed)
        first = windows[:, 0] + delayed[:, 0]  # the sample before the first is taken to equal it
        flat = windows.reshape(-1)
        np.add(flat[1:], delayed.reshape(-1)[:-1], out=flat[1:])
        windows[:, 0] = first
        yield at, windows, energy


def _strided(samples: NDArray[np.float32], begin: int, settings: FeatureSettings) -> NDArray[np.float32]:
    """The windows `[BLOCK, window_length]` of a block whose first one begins at a sample, silent beyond the sound."""
    hop, length = settings.hop_length, settings.window_length
    size = (BLOCK - 1) * hop + length
    if begin >= 0 and begin + size <= len(samples):
        block = samples[begin : begin + size]
    else:
        block = np.zeros(size, dtype=np.float32)
        inside = samples[max(begin, 0) : begin + size]
        block[max(-begin, 0) :][: len(inside)] = inside
    return np.ndarray((BLOCK, length), np.float32, block, strides=(hop * block.itemsize, block.itemsize))


class _Memory:
    """Arrays of a block, kept from one recording to the next: a fresh page costs more than what is computed on it."""

    def __init__(self, settings: FeatureSettings) -> None:
        windows = (BLOCK, settings.window_length)
        spectra = (BLOCK, settings.n_fft // 2 + 1)
        self.windows = np.zeros(windows, dtype=np.float32)
        self.delayed = np.empty(windows, dtype=np.float32)
        self.ones = np.ones(settings.window_length, dtype=np.float32)
        self.energy = np.zeros(BLOCK, dtype=np.float32)
        self.tapered = np.zeros((BLOCK, settings.n_fft), dtype=np.float64)  # right of the window it stays zero
        self.taper = hamming(settings.window_length).astype(np.float32)
        self.spectrum = np.empty(spectra, dtype=np.complex128)
        self.power = np.zeros(spectra, dtype=np.float32)


_LARGEST_KEPT = 4096
"""Points of the longest transform whose memory (20 MB) is kept."""


@lru_cache(maxsize=4)
def _list_spare(window_length: int, n_fft: int) -> list[_Memory]:
    """Memory that nobody uses now, as much of it as there were recordings at the same time."""
    return []


@contextmanager
def _borrow(settings: FeatureSettings) -> Iterator[_Memory]:
    """Memory for the blocks of one recording, which nobody else has meanwhile."""
    spare = _list_spare(settings.window_length, settings.n_fft)
    try:
        memory = spare.pop()
    except IndexError:
        memory = _Memory(settings)
    try:
        yield memory
    finally:
        if settings.n_fft <= _LARGEST_KEPT:
            spare.append(memory)


def hamming(length: int) -> NDArray[np.float64]:
    """`[length]`, of that period: `scipy.signal.get_window("hamming", length)` without scipy, a second of every start."""
    weight = 0.54
    return weight + (1.0 - weight) * np.cos(np.linspace(-np.pi, np.pi, length + 1)[:-1])


def lifter_weights(settings: FeatureSettings) -> NDArray[np.float64]:
    """`[12]` factors of the cepstra; ones without a lifter."""
    k = np.arange(1, CEPSTRA + 1)
    return 1 + settings.lifter / 2 * np.sin(np.pi * k / settings.lifter) if settings.lifter else np.ones(CEPSTRA)


def with_derivatives(
    static_values: NDArray[np.float32],
    width: int,
    derive: Callable[[NDArray[np.float32], int, int], NDArray[np.float32]],
) -> NDArray[np.float32]:
    """`[F, 39]` frames from their static values `[F, 13]`; `derive` is `derivative` or equals it."""
    out = np.empty((len(static_values), 3 * STATIC), dtype=np.float32)
    out[:, :STATIC] = static_values
    out[:, STATIC : 2 * STATIC] = derive(static_values, 1, width)
    out[:, 2 * STATIC :] = derive(static_values, 2, width)
    return out
