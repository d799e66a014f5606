"""Sound like speech that can be sampled at any rate without a resampler: sums of sinusoids under moving formants."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

BAND = 7900.0
"""Highest frequency in it (Hz)."""


@lru_cache(maxsize=32)
def speechlike(rate: int, seconds: float = 1.0, seed: int = 0) -> NDArray[np.float32]:
    """`[round(seconds * rate)]` samples, read-only: voiced, hissing, nearly silent; the same sound for each rate."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate)) / rate
    formants = np.array([500.0, 1500.0, 2500.0, 3700.0])[:, None] * (
        1 + 0.3 * np.sin(2 * np.pi * rng.uniform(1, 5, (4, 1)) * t + rng.uniform(0, 6, (4, 1)))
    )
    voiced = np.clip(3 * np.sin(2 * np.pi * 2.7 * t) + 1, 0, 1) ** 2
    hiss = np.clip(3 * np.sin(2 * np.pi * 2.7 * t + 2.5) - 1, 0, 1) ** 2
    pitch = 120.0  # Hz, on average
    phase = 2 * np.pi * pitch * (t + 0.02 * np.sin(2 * np.pi * 1.5 * t))
    sound = np.zeros_like(t)
    for harmonic in range(1, int(BAND / (1.2 * pitch))):
        frequency = harmonic * pitch
        gain = (1 / (1 + ((frequency - formants) / 120) ** 2)).sum(axis=0) / harmonic**0.5
        sound += 0.05 * voiced * gain * np.sin(harmonic * phase)
    frequencies, phases = rng.uniform(100, BAND, 200), rng.uniform(0, 2 * np.pi, 200)
    for frequency, start in zip(frequencies, phases, strict=True):
        level = 0.0005 + 0.01 * hiss / (1 + ((frequency - 5500) / 1500) ** 2)
        sound += level * np.sin(2 * np.pi * frequency * t + start)
    sound *= np.clip(np.minimum(t, seconds - t) / 0.02, 0, 1)  # a cut edge would be another sound at another rate
    samples: NDArray[np.float32] = (np.round(2 * sound * 32767) / 32767).astype(np.float32)
    samples.flags.writeable = False
    return samples
