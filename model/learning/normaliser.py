"""Normalisation: zero mean and unit deviation over the training set, and over a speaker's or a recording's own sound.

    N  segments       D  features of a segment       F  frames       B  log-mel bands

A recording's level is subtracted from its frames first, so that its gain does not matter. The statistics of a speaker or
recording are estimated with the training set's as a prior (maximum a posteriori): little sound changes them little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.errors import SettingsError
from phonechain.features.filterbank import level
from phonechain.features.inputs import Frames, Inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.statistics import Rows, SpeakerStatistics, Statistics, blocks

SPEAKER_PRIOR = 30.0
"""Weight of the training set's statistics, in segments, when a speaker's own are mixed with them."""

FRAME_PRIOR = 300.0
"""The same in frames."""

Mode = Literal["model", "recording", "speaker"]
"""What is normalised over, besides the training set: nothing, each recording by itself, or all of a speaker's recordings."""

MODES: dict[str, tuple[Mode, ...]] = {
    "model": ("model",),
    "speaker": ("recording", "speaker"),
    "any": ("model", "recording", "speaker"),
}
"""The modes that a model trained with `ModelSettings.normalise` answers in."""


def _blocks_of_all(several: Sequence[Rows]) -> Iterator[NDArray[np.float32]]:
    return (block for rows in several for block in blocks(rows))


@dataclass(frozen=True)
class Normaliser:
    """Statistics of the training set (the paper, "Labeling Experiments").

    Attributes:
        mean, std: [D] of the segment features.
        normalise: what `ModelSettings.normalise` says.
        frame_mean, frame_std: [B] of the frames, after subtracting their recordings' levels; [0] for a model without frames.
        level: mean level of the training recordings, which "model" subtracts instead of each recording's own.
    """

    mean: Tensor
    std: Tensor
    normalise: Literal["model", "speaker", "any"] = "model"
    frame_mean: Tensor = field(default_factory=lambda: torch.zeros(0))
    frame_std: Tensor = field(default_factory=lambda: torch.zeros(0))
    level: float = 0.0

    @classmethod
    def fit(cls, x: NDArray[np.float32], *, normalise: Literal["model", "speaker", "any"] = "model") -> Normaliser:
        """Statistics of the rows of `x` [N, D]; a constant feature gets unit deviation."""
        return cls(*_mean_and_deviation(x), normalise)

    @classmethod
    def fit_inputs(
        cls,
        items: Sequence[Inputs],
        features: FeatureSettings,
        *,
        normalise: Literal["model", "speaker", "any"] = "model",
    ) -> Normaliser:
        """Statistics of the segments and, where there are any, the frames of the training set."""
        items = [i.reduce_to(features) for i in items]
        made = cls.fit(np.concatenate([i.segments for i in items]), normalise=normalise)
        framed = [i.frames for i in items if len(i.frames)]
        if not features.bands or not framed:
            return made
        levels = [level(f, features) for f in framed]
        rows = np.concatenate(
            [f[::5].astype(np.float32) - np.float32(own) for f, own in zip(framed, levels, strict=True)]
        )  # every fifth is enough
        mean, std = _mean_and_deviation(rows)
        return replace(made, frame_mean=mean, frame_std=std, level=float(np.mean(levels)))

    def take_over(self, other: Normaliser) -> Normaliser:
        """The same with those statistics that `other` has, of segment features, frames, or both."""
        made = replace(self, mean=other.mean, std=other.std) if len(other.mean) else self
        if not len(other.frame_mean):
            return made
        return replace(made, frame_mean=other.frame_mean, frame_std=other.frame_std, level=other.level)

    def reduce_to(self, features: FeatureSettings) -> Normaliser:
        """The same without the statistics of anything that a model with these settings does not read."""
        made = self if features.pooled else replace(self, mean=self.mean[:0], std=self.std[:0])
        return made if features.bands else replace(made, frame_mean=torch.zeros(0), frame_std=torch.zeros(0), level=0.0)

    def check_mode(self, mode: str | None, *, known_speakers: bool) -> Mode:
        """The mode to use for `mode`; None gives the best one possible.

        Raises:
            SettingsError: a mode that the model was not trained for.
        """
        possible = MODES[self.normalise]
        if mode is None:
            return "speaker" if known_speakers and "speaker" in possible else possible[-2] if possible[1:] else "model"
        if mode not in possible:
            names = " or ".join(filter(None, (", ".join(possible[:-1]), possible[-1])))
            raise SettingsError(
                f"expected normalise to be {names} with this model, got {mode[:40]!r}",
                pointer="normalise", value=mode[:40],
            )  # fmt: skip
        return mode

    def apply(
        self,
        x: NDArray[np.float32],
        groups: Sequence[int] | NDArray[np.int64] | None = None,
        *,
        mode: Mode | None = None,
        known: Mapping[int, Statistics] | None = None,
    ) -> NDArray[np.float32]:
        """[N, D] normalised. `groups` [N] says whose rows belong together; None takes all as one speaker's.

        Groups have the statistics of their rows, except those whose statistics are `known`.
        """
        scaled: NDArray[np.float32] = (x - self.mean.numpy()) / self.std.numpy()
        if (mode or self.check_mode(None, known_speakers=True)) == "model" or not len(x):
            return scaled
        group = np.zeros(len(x), dtype=np.int64) if groups is None else np.asarray(groups)
        out = np.empty_like(scaled)
        for g in np.unique(group).tolist():
            rows = group == g
            own = (known or {}).get(g) or Statistics.of(scaled[rows])
            out[rows] = own.standardise(scaled[rows], SPEAKER_PRIOR)
        return out

    def measure(self, items: Sequence[Inputs], features: FeatureSettings) -> SpeakerStatistics:
        """The statistics of a speaker's utterances, at least one, which `Inputs.speaker` may give to any of them."""
        items = [i.reduce_to(features) for i in items]
        rows = np.concatenate([i.segments for i in items])
        frames = [ScaledFrames(self, i.frames, self._level(i.frames, features, own=True)) for i in items]
        return SpeakerStatistics(
            Statistics.of((rows - self.mean.numpy()) / self.std.numpy()),
            Statistics.of_blocks(partial(_blocks_of_all, frames if features.bands else []), features.bands),
        )

    def scale_frames(self, frames: Frames, features: FeatureSettings, *, own: bool) -> NDArray[np.float32]:
        """[F, B] normalised over the training set, after subtracting the recording's `own` level or the training set's."""
        frames = np.asarray(frames, dtype=np.float32)
        return ScaledFrames(self, frames, self._level(frames, features, own=own))[:]

    def apply_inputs(
        self, items: Sequence[Inputs], features: FeatureSettings, groups: Sequence[int], mode: Mode
    ) -> list[Inputs]:
        """Normalise several utterances, each with the rest of its group (`groups`, one number per utterance).

        In the mode "speaker", a group whose utterances say what is known of their `speaker` has those statistics.
        """
        return self.apply_lazily(items, features, groups, mode)[0]

    def apply_lazily(
        self, items: Sequence[Inputs], features: FeatureSettings, groups: Sequence[int], mode: Mode,
        longest: int | None = None,
    ) -> tuple[list[Inputs], dict[int, ScaledFrames]]:  # fmt: skip
        """The same; the frames of utterances of more than `longest` segments are apart, by number, and not computed yet."""
        if not items:
            return [], {}
        items = [i.reduce_to(features) for i in items]
        lengths = [len(i.segments) for i in items]
        known = {g: i.speaker for i, g in zip(items, groups, strict=True) if i.speaker and mode == "speaker"}
        x = self.apply(
            np.concatenate([i.segments for i in items]), np.repeat(groups, lengths), mode=mode,
            known={g: of.segments for g, of in known.items() if features.pooled},
        )  # fmt: skip
        rows = np.split(x, np.cumsum(lengths)[:-1])
        made = [replace(i, segments=own) for i, own in zip(items, rows, strict=True)]
        if not features.bands:
            return made, {}
        scaled = [ScaledFrames(self, i.frames, self._level(i.frames, features, own=mode != "model")) for i in items]
        lazy = {n for n, length in enumerate(lengths) if longest is not None and length > longest}
        frames = {n: f[:] for n, f in enumerate(scaled) if n not in lazy}
        for g in dict.fromkeys(groups) if mode != "model" else ():
            members = [n for n, other in enumerate(groups) if other == g]
            own = (
                known[g].frames
                if g in known
                else Statistics.of_blocks(
                    partial(_blocks_of_all, [frames.get(n, scaled[n]) for n in members]), features.bands
                )
            )
            for n in members:
                if n in lazy:
                    scaled[n] = replace(scaled[n], own=own)
                else:
                    own.standardise(frames[n], FRAME_PRIOR, out=frames[n])
        made = [replace(i, frames=frames.get(n, i.frames[:0])) for n, i in enumerate(made)]
        return made, {n: scaled[n] for n in lazy}

    def _level(self, frames: Frames, features: FeatureSettings, *, own: bool) -> np.float32:
        """What is subtracted of a recording's frames."""
        return np.float32(level(frames, features) if own else self.level)


@dataclass(frozen=True)
class ScaledFrames:
    """The frames of a recording, normalised when they are asked for.

    Attributes:
        taken: the level that is subtracted.
        own: statistics of the recording or its speaker, normalised over the training set; None for no such normalisation.
    """

    normaliser: Normaliser
    frames: Frames
    taken: np.float32
    own: Statistics | None = None

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.frames)

    def __getitem__(self, span: slice) -> NDArray[np.float32]:
        scaled: NDArray[np.float32] = np.asarray(self.frames[span], dtype=np.float32) - self.taken
        scaled -= self.normaliser.frame_mean.numpy()
        scaled /= self.normaliser.frame_std.numpy()
        return scaled if self.own is None else self.own.standardise(scaled, FRAME_PRIOR, out=scaled)


def _mean_and_deviation(x: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    if not x.shape[1]:
        return torch.zeros(0), torch.zeros(0)
    mean, std = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    std[std < 1e-6] = 1.0
    return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(std.astype(np.float32))
