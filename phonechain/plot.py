"""Pictures of labelled speech, for notebooks, papers and `phonechain label --plot`. Needs matplotlib (`phonechain[plot]`).

import phonechain
from phonechain import plot

audio = phonechain.read_audio("speech.wav")
figure = plot.utterance(audio, labeler.label(audio, phonechain.read_segments("speech.TextGrid")))
figure.savefig("speech.pdf")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phonechain.features.annotation import Tier, tier_segments
from phonechain.features.audio.reader import Audio
from phonechain.features.errors import SettingsError
from phonechain.features.segments import Segment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from phonechain.model.answers import LabelledSegment

__all__ = ["spectrogram", "utterance"]

WINDOW = 0.010
"""Length of the Gaussian window (s); half of it counts, as in Praat's wide-band spectrograms of 5 ms."""
STEP = 0.001
RANGE = 55.0
"""Decibels from the darkest to the lightest."""
MAX_SECONDS = 120.0
"""Longest stretch in one picture: beyond, no label can be read."""


def spectrogram(samples: NDArray[np.float32], rate: int, *, top: float = 8000.0) -> NDArray[np.float32]:
    """Power in dB `[bins, frames]`, one frame every STEP seconds, from 0 Hz to `top` (Hz) or half the rate.

    Frames are centred: frame `t` is about the time `t * STEP`. A rise of 6 dB an octave is applied, as for the ear.
    """
    import librosa

    length, hop = max(2, round(WINDOW * rate)), max(1, round(STEP * rate))
    raised = np.append(samples[:1], samples[1:] - np.float32(0.97) * samples[:-1])
    window = np.exp(-12.0 * ((np.arange(length) + 0.5) / length - 0.5) ** 2).astype(np.float32)
    size = _transform_size(rate)
    bins = max(2, min(size // 2, int(top / rate * size))) + 1
    if not len(raised):
        return np.zeros((bins, 0), dtype=np.float32)
    spectra = librosa.stft(raised, n_fft=size, hop_length=hop, win_length=length, window=window, pad_mode="constant")
    power = np.abs(spectra[:bins, : -(-len(samples) // hop)]) ** 2
    return np.asarray(librosa.power_to_db(power, amin=1e-12, top_db=None), dtype=np.float32)


def _transform_size(rate: int) -> int:
    """Samples of a Fourier transform: the power of two that holds two windows."""
    return 1 << int(np.ceil(np.log2(2 * max(2, round(WINDOW * rate)))))


def utterance(
    audio: Audio,
    labelled: Sequence[LabelledSegment],
    *,
    tiers: Sequence[Tier] = (),
    start: float = 0.0,
    end: float | None = None,
    title: str | None = None,
) -> Figure:
    """Waveform, spectrogram, tiers, given labels and answers of one recording, each coloured by its posterior.

    Args:
        audio: the recording.
        labelled: its segments with their answers, as `PhoneLabeler.label` gives them.
        tiers: further tiers of its annotation, such as the words, drawn above the labels.
        start, end: the stretch to draw, seconds; the end of the sound if None.
        title: above the picture.

    Raises:
        SettingsError: matplotlib is not installed; an empty stretch, or one longer than MAX_SECONDS.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError("matplotlib is not installed: pip install 'phonechain[plot]'") from None
    end = audio.duration if end is None else min(end, audio.duration)
    if not 0 <= start < end:
        raise SettingsError(f"expected a stretch inside {audio.duration:.3f} s of sound, got {start:g} to {end:g} s")
    if end - start > MAX_SECONDS:
        raise SettingsError(
            f"a picture shows at most {MAX_SECONDS:g} s, this stretch has {end - start:.1f} s: choose a part of it",
            value=end - start,
            limit=MAX_SECONDS,
        )
    given = any(segment.given is not None for segment in labelled)
    heights = [1.0, 2.4, *([0.3] * len(tiers)), *([0.5] if given else []), 0.5]
    figure = Figure(figsize=(max(6.0, min(60.0, 4.5 * (end - start))), 0.9 * sum(heights) + 0.9), layout="constrained")
    axes = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0])
    samples = audio.samples[int(start * audio.rate) : int(np.ceil(end * audio.rate))]
    _wave(axes[0], samples, audio.rate, start)
    _spectrogram(axes[1], samples, audio.rate, start, end)
    for row, tier in zip(axes[2:], tiers, strict=False):
        _intervals(row, tier.name, [(s, s.label, None) for s in tier_segments(tier)], start, end)
    if given:
        rows = [(Segment(s.start, s.end), s.given, s.given_posterior) for s in labelled]
        _intervals(axes[-2], "given", rows, start, end)
    _intervals(axes[-1], "answer", [(Segment(s.start, s.end), s.label, s.posterior) for s in labelled], start, end)
    for axis in axes[:-1]:
        axis.tick_params(bottom=False)
    axes[-1].set_xlim(start, end)
    axes[-1].set_xlabel("time (s)")
    if title:
        axes[0].set_title(title, loc="left", fontsize=10)
    from matplotlib.cm import ScalarMappable

    scale = figure.colorbar(ScalarMappable(cmap="cividis"), ax=axes, fraction=0.02, pad=0.01, aspect=40)
    scale.set_label("posterior")
    return figure


def _wave(axis: Any, samples: NDArray[np.float32], rate: int, start: float) -> None:
    step = max(1, len(samples) // 4000)
    count = len(samples) // step * step
    blocks = samples[:count].reshape(-1, step)
    times = start + np.arange(len(blocks)) * step / rate
    if step == 1:
        axis.plot(times, blocks[:, 0], linewidth=0.6, color="#48617d")
    else:
        axis.fill_between(times, blocks.min(axis=1), blocks.max(axis=1), linewidth=0, color="#48617d")
    axis.set_yticks([])
    axis.margins(x=0)
    for side in ("top", "right", "left", "bottom"):
        axis.spines[side].set_visible(False)


def _spectrogram(axis: Any, samples: NDArray[np.float32], rate: int, start: float, end: float) -> None:
    from librosa.display import specshow
    from matplotlib.ticker import AutoLocator, ScalarFormatter

    power = spectrogram(samples, rate)
    loudest = float(np.percentile(power, 99.7)) if power.size else 0.0
    times = start + np.arange(power.shape[1]) * max(1, round(STEP * rate)) / rate
    kilohertz = np.arange(power.shape[0]) * rate / _transform_size(rate) / 1000
    # As an image inside a vector file: a cell for every millisecond and bin would make megabytes of it.
    specshow(
        power, x_coords=times, y_coords=kilohertz, ax=axis, cmap="gray_r", vmin=loudest - RANGE, vmax=loudest,
        rasterized=True, auto_aspect=False,
    )  # fmt: skip
    for scale in (axis.xaxis, axis.yaxis):  # without a named scale, librosa takes the numbers away
        scale.set_major_locator(AutoLocator())
        scale.set_major_formatter(ScalarFormatter())
    axis.set_xlim(start, end)
    axis.set_ylabel("kHz")


def _intervals(
    axis: Any, name: str, rows: Sequence[tuple[Segment, str | None, float | None]], start: float, end: float
) -> None:
    """A lane of labelled intervals, coloured where a posterior is known."""
    from matplotlib import colormaps

    colours = colormaps["cividis"]
    axis.set_ylim(0, 1)
    wide = (end - start) / axis.get_figure().get_size_inches()[0]  # seconds an inch
    axis.set_yticks([])
    axis.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    for segment, label, posterior in rows:
        if segment.end <= start or segment.start >= end:
            continue
        fill = colours(posterior) if posterior is not None else (0, 0, 0, 0)
        axis.axvspan(segment.start, segment.end, facecolor=fill, edgecolor="#8a919d", linewidth=0.5)
        dark = posterior is not None and posterior < 0.5
        middle = (max(segment.start, start) + min(segment.end, end)) / 2
        style = {"ha": "center", "va": "center", "color": "white" if dark else "black", "clip_on": True}
        axis.text(middle, 0.5 if posterior is None else 0.66, _plain(label), fontsize=8, **style)
        if posterior is not None and segment.end - segment.start > 0.26 * wide:
            axis.text(middle, 0.26, f"{posterior:.2f}", fontsize=5.5, **style)


def _plain(label: str | None) -> str:
    """A label as text: matplotlib takes dollars for mathematics."""
    return (label or "").replace("$", r"\$")[:40]
