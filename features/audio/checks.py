"""Notices about usable sound that is odd in some way, with numbers. Nothing here changes a sample."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import Notice

FULL_SCALE = 0.999
"""Magnitude from which a sample counts as clipped."""

CLIPPED_SHARE = 1e-4
"""Share of clipped samples that is reported; a peak normalised to full scale stays below."""

DC_OFFSET = 0.01
"""Mean of the samples, full scale 1."""

QUIET = -35.0
"""Peak (dB of full scale) below which answers begin to differ from those at a normal level."""

SILENCE = 2.0**-17
"""Magnitude under which a sample is digital silence: less than half the last of 16 bits."""

SILENT_SHARE = 0.2
"""Share of the sound in silent cells of 10 ms."""

NARROW_BAND = 0.55
"""Share of the band that must hold energy: telephone speech in a 16 kHz file fills half of it."""

BAND_POWER = 1e-6
"""Share of the power that counts as silence (-60 dB)."""

_BAND_WINDOW = 512  # samples of which the power is looked at

LEVEL_DIFFERENCE = 20.0
"""dB between channels that are to be mixed."""

CORRELATION = 0.3
"""Correlation under which channels hold different sound."""


def check(
    samples: NDArray[np.float32], rate: int, source_rate: int, asked: int | None, clipped: int, values: int
) -> list[Notice]:
    """Notices on one channel of sound.

    Args:
        samples: `[n]` at `rate` Hz, full scale 1.
        rate: Hz.
        source_rate: that of the file (Hz).
        asked: the rate that is wanted, if any; it says what band the listener expects. None expects 16 kHz's.
        clipped: samples of the file at full scale, of `values` in all its channels.
        values: see `clipped`.
    """
    notices = []
    silent = silent_share(samples, rate)
    if silent == 1:
        return [Notice("audio-silent", "expected sound, got digital silence throughout", "audio", 1.0, SILENT_SHARE)]
    if silent > SILENT_SHARE:
        message = f"{silent:.0%} of the sound is digital silence"
        notices.append(Notice("audio-silent", message, "audio", round(silent, 4), SILENT_SHARE))
    peak = 20 * np.log10(max(float(samples.max()), -float(samples.min()), SILENCE))
    if peak < QUIET:
        message = f"quiet: the loudest sample is {-peak:.0f} dB below full scale; answers may differ from those at a normal level"
        notices.append(Notice("audio-quiet", message, "audio", round(float(peak), 1), QUIET))
    if clipped > CLIPPED_SHARE * values:
        message = f"clipped: {clipped} samples ({clipped / values:.2%}) are at full scale"
        notices.append(Notice("audio-clipped", message, "audio", clipped, round(CLIPPED_SHARE * values)))
    mean = float(samples.mean())  # summed in pairs: exact to far more than is said
    if abs(mean) > DC_OFFSET:
        message = f"expected a mean near 0, got {mean:.3f} of full scale; the features leave a constant offset out"
        notices.append(Notice("audio-dc-offset", message, "audio", round(mean, 4), DC_OFFSET))
    band = min(asked or 16000, 16000) / 2
    needed = NARROW_BAND * band
    top = min(bandwidth(samples, rate, needed if needed <= source_rate / 2 else np.inf), source_rate / 2)
    if top < needed:
        message = f"expected speech up to about {band / 1000:g} kHz, got nothing above {top / 1000:.1f} kHz"
        notices.append(
            Notice("audio-bandwidth", f"{message} (sampled at {source_rate} Hz)", "audio", round(top), needed)
        )
    return notices


def silent_share(samples: NDArray[np.float32], rate: int) -> float:
    """Share of 10 ms cells without a sample of `SILENCE` or more; a last, shorter cell counts as one.

    A cell with more power than samples just below `SILENCE` could have is not silent; only the others are looked at one by one.
    """
    cell = max(1, rate // 100)
    cells = samples[: len(samples) // cell * cell].reshape(-1, cell)
    power = np.einsum("ij,ij->i", cells, cells)
    faint = cells[power < 1.01 * cell * SILENCE**2]
    silent = int((np.abs(faint).max(axis=1) < SILENCE).sum())
    rest = samples[cells.size :]
    silent += bool(len(rest)) and bool(np.abs(rest).max() < SILENCE)
    return silent / (len(cells) + bool(len(rest)))


def bandwidth(samples: NDArray[np.float32], rate: int, enough: float = np.inf) -> float:
    """Frequency (Hz) above which lies no more than `BAND_POWER` of the power, from 48 windows over the sound.

    Half the rate for a sound shorter than a window, for one so quiet that 16-bit rounding fills the band, and for one where a
    third of the windows show that it is at least `enough`, as nearly all speech does.
    """
    length = _BAND_WINDOW
    if len(samples) < length:
        return rate / 2
    starts = np.linspace(0, len(samples) - length, min(48, 1 + (len(samples) - length) // length)).astype(np.intp)
    samples = np.ascontiguousarray(samples)
    shape = (len(samples) - length + 1, length)
    views = np.ndarray(shape, samples.dtype, samples, strides=2 * samples.strides)
    power = np.zeros(length // 2 + 1)
    for third in range(3):  # more at once would be fresh pages for each recording, which take longer
        windows = views[starts[third::3]].astype(np.float64)
        windows *= _hann()
        parts = np.fft.rfft(windows, axis=1).view(np.float64)
        squares = np.square(parts, out=parts).sum(axis=0)
        power += squares[::2] + squares[1::2]
        if third == 0 and enough < rate / 2:
            above = power[int(np.ceil(enough * length / rate)) :].sum()
            # the windows do not overlap: the power of them all is no more than the sound's (Parseval)
            if above > BAND_POWER * length * float(np.dot(samples, samples)):
                return rate / 2
    power[: 1 + 60 * length // rate] = 0  # hum and offset are not speech
    loudness = power.sum() / (len(starts) * length * length / 4)
    if loudness < 1e-5:
        return rate / 2
    above = np.cumsum(power[::-1])[::-1]
    return float(np.flatnonzero(above > BAND_POWER * power.sum())[-1] * rate / length)


@lru_cache(maxsize=1)
def _hann() -> NDArray[np.float64]:
    return np.hanning(_BAND_WINDOW)


def compare_channels(gram: NDArray[np.float64], sums: NDArray[np.float64], count: int) -> list[Notice]:
    """A Notice if channels that are being mixed hold different sound.

    Args:
        gram: `[C, C]` sums of products of the channels over `count` samples.
        sums: `[C]` sums of the channels.
        count: samples.
    """
    covariance = gram / count - np.outer(sums, sums) / count**2
    power = np.maximum(np.diag(covariance), 0)
    level = 10 * np.log10(power + 1e-12)
    loud, soft = int(level.argmax()), int(level.argmin())
    advice = "they were mixed; a channel can be chosen"
    if level[loud] - level[soft] > LEVEL_DIFFERENCE:
        message = f"channel {loud} is at {level[loud]:.0f} dB, channel {soft} at {level[soft]:.0f} dB; {advice}"
        difference = round(float(level[loud] - level[soft]), 1)
        return [Notice("audio-channels-differ", message, "channel", difference, LEVEL_DIFFERENCE)]
    scale = np.sqrt(np.outer(power, power))
    correlation = np.divide(covariance, scale, out=np.ones_like(covariance), where=scale > 1e-12)
    one, other = np.unravel_index(int(correlation.argmin()), correlation.shape)
    lowest = float(correlation[one, other])
    if lowest < CORRELATION:
        message = f"channels {one} and {other} hold different sound (correlation {lowest:.2f}); {advice}"
        return [Notice("audio-channels-differ", message, "channel", round(lowest, 3), CORRELATION)]
    return []
