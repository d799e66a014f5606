"""How sound becomes frames, as settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from phonechain.features.errors import SettingsError

CEPSTRA = 12
"""Cepstral coefficients kept: 1 to 12. The zeroth, a level, gives way to the log energy."""

STATIC = CEPSTRA + 1
"""Static values of a frame: the cepstra, then the log energy."""

ENGINES = ("native", "librosa")
"""What computes frames: numpy and scipy alone, or librosa over the same windows (`phonechain.features.librosa_engine`)."""


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
        window_length, hop_length: samples in a window, and between the centres of two frames; derived.
        frame_period: seconds between the centres of two frames, after rounding to whole samples; derived.
        reach: seconds on either side of its centre that a frame, derivatives included, depends on; derived.

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
    window_length: int = field(init=False, repr=False, compare=False)
    hop_length: int = field(init=False, repr=False, compare=False)
    frame_period: float = field(init=False, repr=False, compare=False)
    reach: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SettingsError(
                f"expected engine to be one of {', '.join(ENGINES)}, got {self.engine!r}",
                pointer="features/engine",
                value=str(self.engine),
            )
        for setting in _settings():
            if setting.name == "engine":
                continue
            value = getattr(self, setting.name)
            if setting.type == "bool":
                if not isinstance(value, bool):
                    raise SettingsError(
                        f"expected true or false for {setting.name}, got {value!r}", pointer=f"features/{setting.name}"
                    )
                continue
            whole = setting.type == "int"
            kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
            if isinstance(value, bool) or not isinstance(value, kinds) or not np.isfinite(value):
                expected = "a whole number" if whole else "a finite number"
                raise SettingsError(
                    f"expected {expected} for {setting.name}, got {value!r}",
                    pointer=f"features/{setting.name}",
                    value=value if isinstance(value, str | int | float) else repr(value),
                )
            object.__setattr__(self, setting.name, int(value) if whole else float(value))
        self._bound("rate", 4000, 192000)
        self._bound("window", 2 / self.rate, 1.0)
        self._bound("hop", 1 / self.rate, self.window)  # a longer hop would skip sound
        self._derive()
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

    def _derive(self) -> None:
        hop = max(1, round(self.hop * self.rate))
        period = hop / self.rate
        object.__setattr__(self, "window_length", max(2, round(self.window * self.rate)))
        object.__setattr__(self, "hop_length", hop)
        object.__setattr__(self, "frame_period", period)
        object.__setattr__(self, "reach", (self.delta_width // 2) * period + self.window_length / 2 / self.rate)

    def gives_same_frames(self, other: FeatureSettings) -> bool:
        """Whether frames are the same but for rounding: whether all is equal but the engine."""
        return replace(self, engine=other.engine) == other

    def extend_to(self, other: FeatureSettings) -> FeatureSettings:
        """The same with the inputs that a model with the `other` settings reads as well."""
        return replace(self, pooled=self.pooled or other.pooled, bands=self.bands or other.bands)

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, JSON-serialisable."""
        return {setting.name: getattr(self, setting.name) for setting in _settings()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FeatureSettings:
        """The inverse of `to_dict`; a name left out takes its default.

        Raises:
            SettingsError: a name that is no setting, or a value outside its bounds.
        """
        known = [setting.name for setting in _settings()]
        for name in values:
            if name not in known:
                raise SettingsError(
                    f"expected feature settings among {', '.join(known)}, got {name!r}",
                    pointer=f"features/{name}",
                    value=str(name),
                )
        return cls(**values)


def _settings() -> list[Field[Any]]:
    """The fields that are given, without the derived ones."""
    return [f for f in fields(FeatureSettings) if f.init]
