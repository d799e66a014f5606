"""The 92 features again, from the paper's text: loops, plain numpy, double precision, no code of `features`."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np


def mel_of(hertz: float) -> float:
    """Slaney's Auditory Toolbox scale: linear to 1 kHz, then 27 steps to each factor of 6.4."""
    return 3 * hertz / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)


def hertz_of(mel: float) -> float:
    return 200 * mel / 3 if mel < 15 else 1000 * math.exp((mel - 15) * math.log(6.4) / 27)


def mel_triangles(rate: int, n_fft: int, n_mels: int, fmin: float, fmax: float) -> np.ndarray:
    corners = [hertz_of(m) for m in np.linspace(mel_of(fmin), mel_of(fmax), n_mels + 2)]
    triangles = np.zeros((n_mels, n_fft // 2 + 1))
    for m, (low, peak, high) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        for k in range(n_fft // 2 + 1):
            f = k * rate / n_fft
            triangles[m, k] = max(0.0, min((f - low) / (peak - low), (high - f) / (high - peak)))
    return triangles


def static_track(x: np.ndarray, s) -> np.ndarray:
    length, hop = round(s.window * s.rate), round(s.hop * s.rate)
    hamming = np.array([0.54 - 0.46 * math.cos(2 * math.pi * n / length) for n in range(length)])
    triangles = mel_triangles(s.rate, s.n_fft, s.n_mels, s.fmin, s.fmax)
    rows = []
    for i in range(1 + len(x) // hop):
        at = range(i * hop - length // 2, i * hop - length // 2 + length)
        window = np.array([float(x[n]) if 0 <= n < len(x) else 0.0 for n in at])
        window -= window.mean()
        energy = math.log(float(np.mean(window**2)) + s.energy_floor)
        emphasised = np.array([window[n] - s.preemphasis * window[max(n - 1, 0)] for n in range(length)])
        spectrum = np.fft.fft(emphasised * hamming, s.n_fft)[: s.n_fft // 2 + 1]
        log_mel = np.log(triangles @ np.abs(spectrum) ** 2 + s.mel_floor)
        cepstra = []
        for k in range(1, 13):
            basis = np.array([math.cos(math.pi * k * (m + 0.5) / s.n_mels) for m in range(s.n_mels)])
            lift = 1 + s.lifter / 2 * math.sin(math.pi * k / s.lifter) if s.lifter else 1.0
            cepstra.append(lift * math.sqrt(2 / s.n_mels) * float(basis @ log_mel))
        rows.append([*cepstra, energy])
    return np.array(rows)


def derivatives(track: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a line, and of a parabola, fitted by least squares to `width` frames."""
    half = width // 2
    k = np.arange(-half, half + 1)
    first, second = np.zeros_like(track), np.zeros_like(track)
    for i in range(len(track)):
        near = track[np.clip(i + k, 0, len(track) - 1)]
        first[i] = np.polyfit(k, near, 1)[0]
        second[i] = 2 * np.polyfit(k, near, 2)[0]
    return first, second


def features(x: np.ndarray, segments: list[tuple[float, float]], s) -> np.ndarray:
    track = static_track(x, s)
    first, second = derivatives(track, s.delta_width)
    period = round(s.hop * s.rate) / s.rate
    rows = []
    for start, end in segments:
        duration = end - start
        borders = [start, start + 0.3 * duration, start + 0.7 * duration, end]
        row: list[float] = []
        for a, b in pairwise(borders):
            total, weight = np.zeros(13), 0.0
            for i in range(len(track)):
                overlap = min(b, (i + 0.5) * period) - max(a, (i - 0.5) * period)
                if overlap > 0:
                    total, weight = total + overlap * track[i], weight + overlap
            row.extend(total / weight)
        for t in (start, end):
            i = min(int(t / period), len(track) - 1)
            j, share = min(i + 1, len(track) - 1), t / period - i
            row.extend((1 - share) * first[i] + share * first[j])
            row.extend((1 - share) * second[i] + share * second[j])
        row.append(math.log(duration))
        rows.append(row)
    return np.array(rows)
