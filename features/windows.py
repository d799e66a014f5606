"""How sound becomes frames, as settings, and the windows that every engine computes them from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phonechain.features.errors import AudioError, EmptyAudio, NonFiniteAudio, SettingsError

CEPSTRA = 12
"""Cepstral coefficients kept: 1 to 12. The zeroth, a level, gives way to the log energy."""

STATIC = CEPSTRA + 1
"""Static values of a frame: the cepstra, then the log energy."""

BLOCK = 128
"""Frames of a block: all buffers stay in the second-level cache."""

ENGINES = ("native", "librosa")
"""What computes frames: numpy and scipy alone, or librosa over the same windows (`phonechain.features.librosa_engine`)."""
_LOUDEST = 1e9  # far above any scale that samples come in, far below what overflows single precision when squared


@dataclass(frozen=True, slots=True)
class FeatureSettings:
    """How sound becomes frames. Stored in the model file, so that a model always hears as it was trained.

    Attributes:
        rate: samples per second that the features are computed at (Hz); other sound is resampled to it.
        window: length of a frame's Hamming window (s).
        hop: time between the centres of two frames (s).
        n_fft: points of the Fourier transform; the window is padded with zeros up to it.
        n_mels: triangular filters, equal in height, spaced evenly in (Slaney's) mel between `fmin` and `fmax`.
        fmin: lower edge of the first filter (Hz); above mains hum and rumble.
        fmax: upper edge of the last (Hz); below the band in which resamplers and converters roll off.
        preemphasis: `p` of the high-pass `x[n] - p x[n-1]`, before the spectrum; 0 leaves it out.
        lifter: `L` of the sine lifter `1 + L/2 sin(pi k / L)` on cepstrum `k`; 0 leaves it out.
        mel_floor: power added to each filter's output before the logarithm, where full scale is 1: an absolute floor.
        energy_floor: mean square added to that of the frame before the logarithm (1e-8: -80 dB of full scale).
        delta_width: frames that a derivative is fitted over, odd, at least 3.
        pooled: whether a model reads the 92 features of each segment.
        bands: log-mel bands of each frame that a model's encoder reads (`phonechain.features.filterbank`); 0: no frames.
        engine: what computes the frames; both give the same, but for rounding.

    Raises:
        SettingsError: a value out of range; the message names it and its bound.

    Examples:
        >>> FeatureSettings(hop=0.005).frame_period
        0.005
    """

    rate: int = 16000
    window: float = 0.025
    hop: float = 0.010
    n_fft: int = 512
    n_mels: int = 26
    fmin: float = 60.0
    fmax: float = 7200.0
    preemphasis: float = 0.97
    lifter: int = 0
    mel_floor: float = 1e-6
    energy_floor: float = 1e-8
    delta_width: int = 9
    pooled: bool = True
    bands: int = 0
    engine: Literal["native", "librosa"] = "native"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SettingsError(
                f"expected engine to be one of {', '.join(ENGINES)}, got {self.engine!r}",
                pointer="features/engine",
                value=str(self.engine),
            )
        for field in fields(self):
            if field.name == "engine":
                continue
            value = getattr(self, field.name)
            if field.type == "bool":
                if not isinstance(value, bool):
                    raise SettingsError(
                        f"expected true or false for {field.name}, got {value!r}", pointer=f"features/{field.name}"
                    )
                continue
            whole = field.type == "int"
            kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
            if isinstance(value, bool) or not isinstance(value, kinds) or not np.isfinite(value):
                expected = "a whole number" if whole else "a finite number"
                raise SettingsError(
                    f"expected {expected} for {field.name}, got {value!r}",
                    pointer=f"features/{field.name}",
                    value=value if isinstance(value, str | int | float) else repr(value),
                )
            object.__setattr__(self, field.name, int(value) if whole else float(value))
        self._bound("rate", 4000, 192000)
        self._bound("window", 2 / self.rate, 1.0)
        self._bound("hop", 1 / self.rate, self.window)  # a longer hop would skip sound
        self._bound("n_fft", self.window_length, 1 << 16)
        self._bound("n_mels", CEPSTRA + 1, 512)
        self._bound("fmax", 0.0, self.rate / 2)
        self._bound("fmin", 0.0, np.nextafter(self.fmax, 0.0))
        self._bound("preemphasis", 0.0, 1.0)
        self._bound("lifter", 0, 1000)
        self._bound("mel_floor", 1e-30, 1.0)
        self._bound("energy_floor", 1e-30, 1.0)
        self._bound("delta_width", 3, 999)
        self._bound("bands", 0, 512)
        if self.delta_width % 2 == 0:
            raise SettingsError(
                f"expected an odd delta_width, got {self.delta_width}",
                pointer="features/delta_width",
                value=self.delta_width,
            )

    def _bound(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if not low <= value <= high:
            raise SettingsError(
                f"expected {name} between {low:g} and {high:g}, got {value:g}",
                pointer=f"features/{name}",
                value=value,
                limit=float(low if value < low else high),
            )

    @property
    def window_length(self) -> int:
        """Samples in a window."""
        return max(2, round(self.window * self.rate))

    @property
    def hop_length(self) -> int:
        """Samples between the centres of two frames."""
        return max(1, round(self.hop * self.rate))

    @property
    def frame_period(self) -> float:
        """Seconds between the centres of two frames, after rounding to whole samples."""
        return self.hop_length / self.rate

    @property
    def reach(self) -> float:
        """Seconds on either side of its centre that a frame, derivatives included, depends on."""
        return (self.delta_width // 2) * self.frame_period + self.window_length / 2 / self.rate

    def gives_same_frames(self, other: FeatureSettings) -> bool:
        """Whether frames are the same but for rounding: whether all is equal but the engine."""
        return replace(self, engine=other.engine) == other

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, JSON-serialisable."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FeatureSettings:
        """The inverse of `to_dict`; a name left out takes its default.

        Raises:
            SettingsError: a name that is no setting, or a value outside its bounds.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise SettingsError(
                    f"expected feature settings among {', '.join(known)}, got {name!r}",
                    pointer=f"features/{name}",
                    value=str(name),
                )
        return cls(**values)


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
    block runs past the end of the sound, on zeros; the windows' memory is used again for the next block.
    """
    length, hop = settings.window_length, settings.hop_length
    blocks = -(-frame_count(len(samples), settings) // BLOCK)
    padded = np.zeros((blocks * BLOCK - 1) * hop + length, dtype=np.float32)
    half = length // 2
    inside = min(len(samples), len(padded) - half)  # the last window may end before the sound does
    padded[half : half + inside] = samples[:inside]
    windows = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop]

    centred = np.empty((BLOCK, length), dtype=np.float32)
    emphasised = np.empty((BLOCK, length), dtype=np.float32)
    for at in range(0, blocks * BLOCK, BLOCK):
        window = windows[at : at + BLOCK]
        np.subtract(window, window.mean(axis=1, keepdims=True), out=centred)
        energy = np.einsum("ij,ij->i", centred, centred) / length
        np.multiply(centred, -settings.preemphasis, out=emphasised)
        emphasised[:, 1:] = centred[:, 1:] + emphasised[:, :-1]
        emphasised[:, 0] += centred[:, 0]  # the sample before the first is taken to equal it
        yield at, emphasised, energy


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
