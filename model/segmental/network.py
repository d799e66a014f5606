"""The segmental CRF: frames -> track (through a frame network or as they are) -> scores of all candidates.

B  recordings   T  frames of 10 ms   C  channels of the track   N, D  grid steps and longest duration   K  labels
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phonechain.features.mfcc import STATIC
from phonechain.model.segmental.factor import ROLES, SUM_SCALE, SegmentFactor
from phonechain.model.segmental.settings import SegmentalSettings
from phonechain.model.segmental.sums import NEVER, Lattice

INPUTS = 3 * STATIC
"""Values of a frame: 13 static ones, their first and second derivatives."""

PLAIN = INPUTS + 3
"""Channels of every track: the frame's values, its flux, the logarithm of the flux, and a one."""

FRAME = 0.010
"""Seconds between two frames."""

PRIOR = 300.0
"""Weight, in frames, of the training set's statistics when a recording's own are mixed with them."""


class SemiCRF(nn.Module):
    """Scores of all segmentations of recordings.

    Args:
        settings: how it is built.
        labels: K.
    """

    def __init__(self, settings: SegmentalSettings, labels: int) -> None:
        super().__init__()
        self.settings, self.labels = settings, labels
        self.network = FrameNetwork(settings.units) if settings.units else None
        channels = PLAIN + settings.units
        self.factor = SegmentFactor(channels, labels, products=settings.products, states=settings.states)
        self.head = nn.Linear(channels, labels)
        self.durations = nn.Parameter(torch.zeros(round(settings.max_duration / FRAME) + 1, labels))
        self.bigram = nn.Parameter(torch.zeros(labels, labels))
        self.first = nn.Parameter(torch.zeros(labels))
        self.last = nn.Parameter(torch.zeros(labels))
        self.mean = nn.Buffer(torch.zeros(INPUTS))
        self.deviation = nn.Buffer(torch.ones(INPUTS))

    @property
    def device(self) -> torch.device:
        """Where its weights are, and its inputs have to be."""
        return self.mean.device

    def normalise(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """[T, 39] by the training set's statistics, then by the recording's own, mixed with these as a prior."""
        x = (frames - self.mean.cpu().numpy()) / self.deviation.cpu().numpy()
        count = len(x)
        mean = x.sum(0) / (count + PRIOR)
        variance = (np.square(x - mean).sum(0) + PRIOR * (1.0 + mean**2)) / (count + PRIOR)
        normal: NDArray[np.float32] = ((x - mean) / np.sqrt(variance)).astype(np.float32)
        return normal

    def track(self, x: Tensor, lengths: Tensor) -> Tensor:
        """[B, T, C] from normalised frames [B, T, 39]; past its end, a recording goes on with its last frame.

        That is how `scores` fills the last step of a recording by itself, so that scores do not depend on the batch.
        """
        static = x[:, :, :STATIC]
        flux = torch.zeros_like(x[:, :, 0])
        flux[:, 1:-1] = (static[:, 2:] - static[:, :-2]).square().mean(2)
        last = lengths[:, None] - 1
        position = torch.arange(x.shape[1], device=x.device)
        flux = torch.where(position < last, flux, 0.0)  # the last frame has no frame behind it, padded or not
        plain = torch.cat([x, flux[..., None], torch.log(flux + 0.02)[..., None], torch.ones_like(flux)[..., None]], 2)
        track = plain if self.network is None else torch.cat([plain, self.network(x, lengths)], 2)
        return _go_on(track, lengths)

    def scores(self, track: Tensor, steps: int, step: float | None = None, *, keep: Tensor | None = None) -> Tensor:
        """[B, N, D, K] log-potentials of the candidates on a grid of `step` seconds.

        Args:
            keep: [C] mask on the channels, for dropout: one for all candidates, because a mask for each would let the
                partition function chase its noise.
        """
        stride = round((step or self.settings.step) / FRAME)
        longest = round(self.settings.max_duration / FRAME) // stride
        track = track if keep is None else track * keep
        short = steps * stride + 1 - track.shape[1]
        if short > 0:
            track = functional.pad(track.transpose(1, 2), (0, short), mode="replicate").transpose(1, 2)
        scores: Tensor = self.factor(track, steps, longest, stride)
        return scores + self.duration_table()[stride : stride * longest + 1 : stride]

    def placed_scores(self, track: Tensor, begin: Tensor, end: Tensor, labels: Tensor) -> Tensor:
        """[B, P, W, W] log-potentials of a label each on the grid of frames, `sums.NEVER` for impossible durations.

        Args:
            begin, end: [B, P, W] frames where each may begin and end.
            labels: [B, P].
        """
        short = int(end.max()) + 1 - track.shape[1]
        if short > 0:
            track = functional.pad(track.transpose(1, 2), (0, short), mode="replicate").transpose(1, 2)
        lasts = end[:, :, None, :] - begin[:, :, :, None]
        table = self.duration_table()
        longest = len(table) - 1
        scores = self.factor.placed(track, begin, end, labels) + table[lasts.clamp(0, longest), labels[..., None, None]]
        return torch.where((lasts > 0) & (lasts <= longest), scores, NEVER)

    def duration_table(self) -> Tensor:
        """[M, K] log-potential of a duration of m * 10 ms, smoothed over +-20 ms."""
        padded = functional.pad(self.durations.T[None], (2, 2), mode="replicate")
        return functional.avg_pool1d(padded, 5, 1)[0].T

    def lattice(self, scores: Tensor, steps: Tensor) -> Lattice:
        """The scores with the model's n-gram weights."""
        return Lattice(scores, self.bigram, self.first, self.last, steps)

    def start_from_head(self, share: float = 0.3) -> None:
        """Let the factor begin as a sum of the frames' log-odds: the start is a hybrid HSMM."""
        with torch.no_grad():
            k = self.factor
            whole = (self.head.weight * share / SUM_SCALE / k.products).repeat(k.states * k.products, 1)
            k.weight[ROLES.index("sum")] += whole
            one = INPUTS + 2
            bias = self.head.bias * share / SUM_SCALE / k.products
            k.weight[ROLES.index("sum"), :, one] += bias.repeat(k.states * k.products)

    def ngram_parameters(self) -> list[nn.Parameter]:
        """Durations and n-grams, which learn with a larger step."""
        return [self.durations, self.bigram, self.first, self.last]


class FrameNetwork(nn.Module):
    """Two convolutions, a bidirectional LSTM at 20 ms, and what it says brought back to 10 ms beside the first convolution.

    Shape:
        [B, T, 39], lengths [B] -> [B, T, units]
    """

    def __init__(self, units: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.near = nn.Conv1d(INPUTS, units, 5, padding=2)
        self.wide = nn.Conv1d(units, units, 5, stride=2, padding=2)
        self.norms = nn.ModuleList(nn.LayerNorm(units) for _ in range(2))
        self.there = nn.LSTM(units, units, batch_first=True)
        self.back = nn.LSTM(units, units, batch_first=True)
        self.join = nn.Linear(3 * units, units)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        inside = (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[..., None]
        near = self.norms[0](functional.gelu(self.near((x * inside).transpose(1, 2)).transpose(1, 2))) * inside
        half = self.norms[1](functional.gelu(self.wide(near.transpose(1, 2)).transpose(1, 2)))
        half = self.dropout(half)
        counts = (lengths + 1) // 2
        turned = _reverse(half, counts)
        both = torch.cat([self.there(half)[0], _reverse(self.back(turned)[0], counts)], 2)
        whole = _upsample(_go_on(both, counts), x.shape[1])
        return self.dropout(functional.gelu(self.join(torch.cat([whole, near], 2)))) * inside


def _reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row reversed within its own length; what is past it stays."""
    at = torch.arange(x.shape[1], device=x.device)
    index = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[2]))


def _go_on(x: Tensor, lengths: Tensor) -> Tensor:
    """[B, T, C]: past its length, a row goes on with its last value, as if it were alone and padded by that."""
    if len(x) == 1:
        return x
    at = torch.arange(x.shape[1], device=x.device)
    return x.gather(1, at.minimum(lengths[:, None] - 1)[..., None].expand_as(x))


def _upsample(x: Tensor, length: int) -> Tensor:
    """[B, T / 2, C] -> [B, T, C]: frames between two are their mean."""
    following = torch.cat([x[:, 1:], x[:, -1:]], 1)
    return torch.stack([x, 0.5 * (x + following)], 2).flatten(1, 2)[:, :length]
