"""Augmentation: changes to frames that a model should learn to ignore, such as voices, tempi, rooms, noises and boundaries.

Nearly everything works on log-mel energies `[F, B]`, so that a corpus is decoded once and changed in every epoch at little cost;
only clipping needs the samples (`clip`), and each recording is clipped once. Changes to the power of the bands (gain, channel,
noise, a cut-off) respect the floor of the front end, as if the sound itself were changed.

Sources: vocal tract length (Jaitly and Hinton 2013), tempo (Ko et al. 2015), masks (Park et al. 2019, SpecAugment).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import SettingsError
from phonechain.features.filterbank import band_centres, band_filters, level, preemphasis_gain
from phonechain.features.mfcc import FeatureSettings

DECIBEL = np.log(10.0) / 10
"""Nats of power in a decibel."""

WARPS = (0.88, 0.94, 1.06, 1.12)
"""Warping factors of the filter bank of the segment features, which are computed once for each recording."""


@dataclass(frozen=True)
class AugmentationSettings:
    """How often and how much training changes its input; nothing if all are 0. Shares are of the utterances of an epoch.

    Attributes:
        warp: share of the utterances whose frequencies are multiplied by exp(U(-warp_range, warp_range)).
        warp_range: largest change of the logarithm of frequencies.
        stretch: time is multiplied by exp(U(-stretch, stretch)).
        gain: share of the utterances whose level changes by U(gain_low, gain_high) dB.
        gain_low: lowest change of the level (dB).
        gain_high: highest change of the level (dB).
        channel: share of the utterances that are filtered, smoothly over the bands, with a standard deviation of about 2.5 dB.
        noise: share of the utterances with added noise of random colour, U(snr_low, snr_high) dB below the speech.
        snr_low: least distance of the noise below the speech (dB).
        snr_high: largest distance of the noise below the speech (dB).
        cutoff: share of the utterances that lose all bands above a random one, down to 2.5 kHz.
        clipping: share of the utterances that are clipped, hard or soft, with peaks U(clip_low, clip_high) dB above the limit.
        clip_low: least excess of the peaks over the limit (dB), drawn once for each recording.
        clip_high: largest excess of the peaks over the limit (dB), drawn once for each recording.
        jitter: share of the utterances whose boundaries move by normally distributed steps, with a deviation drawn for each.
        jitter_deviation: largest deviation of the steps of boundaries (s).
        masks: number of masks over neighbouring bands.
        mask_bands: most bands of a mask.
        mask_frames: most neighbouring frames masked in every 1.5 s; 0 masks none.
    """

    warp: float = 0.0
    warp_range: float = 0.13
    stretch: float = 0.0
    gain: float = 0.0
    gain_low: float = -30.0
    gain_high: float = 10.0
    channel: float = 0.0
    noise: float = 0.0
    snr_low: float = 0.0
    snr_high: float = 30.0
    cutoff: float = 0.0
    clipping: float = 0.0
    clip_low: float = 3.0
    clip_high: float = 30.0
    jitter: float = 0.0
    jitter_deviation: float = 0.02
    masks: int = 0
    mask_bands: int = 8
    mask_frames: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "warp_range": (0, 0.5), "stretch": (0, 1), "gain_low": (-80, 80), "gain_high": (-80, 80),
            "snr_low": (-30, 80), "snr_high": (-30, 80), "clip_low": (0, 80), "clip_high": (0, 80),
            "jitter_deviation": (0, 0.2), "masks": (0, 20), "mask_bands": (0, 100), "mask_frames": (0, 100),
        }  # fmt: skip
        for field in fields(self):
            low, high = bounds.get(field.name, (0, 1))
            value = getattr(self, field.name)
            if not low <= value <= high:
                raise SettingsError(
                    f"expected augmentation.{field.name} between {low} and {high}, got {value}",
                    pointer=f"augmentation/{field.name}", value=value, limit=[low, high],
                )  # fmt: skip
        for low_name, high_name in (("gain_low", "gain_high"), ("snr_low", "snr_high"), ("clip_low", "clip_high")):
            if getattr(self, low_name) > getattr(self, high_name):
                raise SettingsError(
                    f"expected augmentation.{low_name} to be at most {high_name}, got {getattr(self, low_name):g} and "
                    f"{getattr(self, high_name):g}",
                    pointer=f"augmentation/{low_name}",
                )

    @property
    def active(self) -> bool:
        """Whether anything is changed."""
        return any((self.warp, self.stretch, self.gain, self.channel, self.noise, self.cutoff, self.clipping, self.jitter,
                    self.masks, self.mask_frames))  # fmt: skip


@dataclass(frozen=True)
class Voice:
    """How an augmented utterance's voice and channel differ from the recorded ones, to adapt the speaker's statistics.

    Attributes:
        lower, share: [B] each band is `(1 - share)` of the band `lower` and `share` of the next.
        shift: [B] what is added to the bands after the level is subtracted.
        additive: whether noise or a cut-off makes the speaker's other recordings useless as a reference.
    """

    lower: NDArray[np.int64]
    share: NDArray[np.float32]
    shift: NDArray[np.float32]
    additive: bool

    def apply(self, bands: NDArray[np.float32]) -> NDArray[np.float32]:
        """[..., B] in the warped bands, before any shift."""
        mixed: NDArray[np.float32] = bands[..., self.lower] * (1 - self.share) + bands[..., self.lower + 1] * self.share
        return mixed


def augment(
    frames: NDArray[np.float32],
    times: NDArray[np.float64],
    settings: AugmentationSettings,
    features: FeatureSettings,
    random: np.random.Generator,
) -> tuple[NDArray[np.float32], NDArray[np.float64], Voice]:
    """An utterance as it could have been recorded otherwise; masks come later (`mask`), after normalising.

    Args:
        frames: [F, B] log-mel energies, F at least 2.
        times: [T, 2] of the segments, seconds from the first frame's centre.
        random: the same state gives the same utterance.

    Returns:
        frames [F', B], times [T, 2], and the voice.
    """
    wanted = random.random(6)  # drawn together: a setting changed leaves the other draws as they are
    bands = frames.shape[1]
    lower, share = warp_bands(
        random.uniform(-1, 1) * settings.warp_range if wanted[0] < settings.warp else 0.0, features
    )
    voice = Voice(lower, share, np.zeros(bands, dtype=np.float32), False)
    before = level(frames, features)
    if wanted[0] < settings.warp:
        frames = voice.apply(frames)
    if settings.stretch:
        frames, times = stretch(frames, times, np.exp(random.uniform(-settings.stretch, settings.stretch)))
    gain = random.uniform(settings.gain_low, settings.gain_high) * DECIBEL if wanted[1] < settings.gain else 0.0
    shape = random_channel(bands, random) if wanted[2] < settings.channel else np.zeros(bands)
    noisy, cut = wanted[3] < settings.noise, wanted[4] < settings.cutoff
    if gain or shape.any() or noisy or cut:
        power = np.maximum(np.exp(frames) - features.mel_floor, 1e-12) * np.exp(shape + gain).astype(np.float32)
        if cut:
            centres = band_centres(features)
            first = int(np.searchsorted(centres, random.uniform(2500.0, features.fmax)))
            power[:, first:] *= 1e-5
        if noisy:
            power = power + random_noise(power, random.uniform(settings.snr_low, settings.snr_high), features, random)
        frames = np.log(power + features.mel_floor).astype(np.float32)
    if wanted[5] < settings.jitter:
        times = jitter(times, random.uniform(0, settings.jitter_deviation), random)
    moved = (shape + gain - (level(frames, features) - before)).astype(np.float32)
    return frames, times, Voice(lower, share, moved, noisy or cut)


def warp_bands(log_factor: float, features: FeatureSettings) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Where each band of a voice with frequencies `exp(log_factor)` times as high lies in the bands as they are.

    Returns:
        lower [B], share [B]: see `Voice`. Bands that come from outside take the last one inside.
    """
    centres = band_centres(features)
    at = np.interp(centres * np.exp(-log_factor), centres, np.arange(len(centres)))
    lower = np.minimum(at.astype(np.int64), len(centres) - 2)
    return lower, (at - lower).astype(np.float32)


def stretch(
    frames: NDArray[np.float32], times: NDArray[np.float64], rate: float
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """`rate` times as many frames, interpolated, and times that go with them."""
    count = len(frames)
    longer = max(2, round(count * rate))
    if longer == count or count < 2:
        return frames, times
    at = np.linspace(0, count - 1, longer)
    lower = np.minimum(at.astype(np.int64), count - 2)
    share = (at - lower).astype(np.float32)[:, None]
    return frames[lower] * (1 - share) + frames[lower + 1] * share, times * ((longer - 1) / (count - 1))


def random_channel(bands: int, random: np.random.Generator) -> NDArray[np.float64]:
    """[B] nats of power: a slope, an arch and a wave, each of random size and sign."""
    at = np.linspace(-1, 1, bands)
    slope, arch, wave = random.normal(size=3) * (0.35, 0.35, 0.25)
    shape: NDArray[np.float64] = slope * at + arch * np.cos(np.pi * at) + wave * np.sin(2 * np.pi * at)
    return shape


def random_noise(
    power: NDArray[np.float32], snr: float, features: FeatureSettings, random: np.random.Generator
) -> NDArray[np.float32]:
    """[F, B] power of a steady noise, between white and brownish, `snr` dB under the sound with `power` [F, B].

    The power of noise in a band of `a` bins scatters like a gamma variate of about 0.6 a degrees of freedom: the window
    makes neighbouring bins depend on one another.
    """
    area, gain = band_filters(features).sum(0, dtype=np.float64), preemphasis_gain(features)
    at = np.linspace(-1, 1, power.shape[1])
    colour = random.uniform(-2.5, 0.5) * at + 0.6 * random.normal() * np.cos(np.pi * at * random.integers(1, 3))
    spectrum = area * gain * np.exp(colour)
    loud = float((power @ (1 / gain)).mean())
    spectrum *= loud * np.exp(-snr * DECIBEL) / (spectrum / gain).sum()
    freedom = np.maximum(0.6 * area, 1.0)
    scatter = random.standard_gamma(np.broadcast_to(freedom, power.shape)) / freedom
    return (spectrum * scatter).astype(np.float32)


def clip(
    samples: NDArray[np.float32], settings: AugmentationSettings, random: np.random.Generator
) -> NDArray[np.float32]:
    """Samples [n] as an overdriven input gives them, at their own level: cut off, or pressed through tanh."""
    excess, soft = random.uniform(settings.clip_low, settings.clip_high), random.random() < 0.5
    limit = float(np.abs(samples).max(initial=0.0)) * 10 ** (-excess / 20)
    if not limit:
        return samples
    return (np.tanh(samples / limit) * limit if soft else np.clip(samples, -limit, limit)).astype(np.float32)


def jitter(times: NDArray[np.float64], deviation: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Boundaries moved by up to two deviations, and by 40 % of the shorter segment at most: none swallows another.

    Segments that touch go on touching: one step moves the end of one and the start of the next.
    """
    if not len(times):
        return times
    steps = np.clip(random.normal(size=len(times) + 1), -2, 2) * deviation
    room = 0.4 * (times[:, 1] - times[:, 0])
    steps = np.clip(steps, -np.minimum(np.r_[room[:1], room], np.r_[room, room[-1:]]),
                    np.minimum(np.r_[room[:1], room], np.r_[room, room[-1:]]))  # fmt: skip
    return np.stack([times[:, 0] + steps[:-1], times[:, 1] + steps[1:]], 1)


def mask(frames: NDArray[np.float32], settings: AugmentationSettings, random: np.random.Generator) -> None:
    """Set stretches of normalised frames [F, B] to 0, the mean, in place."""
    count, bands = frames.shape
    for _ in range(settings.masks):
        width = random.integers(0, min(settings.mask_bands, bands) + 1)
        first = random.integers(0, bands - width + 1)
        frames[:, first : first + width] = 0
    if settings.mask_frames:
        for _ in range(max(1, count // 150)):
            width = random.integers(0, min(settings.mask_frames, count) + 1)
            first = random.integers(0, count - width + 1)
            frames[first : first + width] = 0
