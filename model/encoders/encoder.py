"""Encoders: the input of the factors for each segment, `[N, E]`, from its features, frames and neighbouring segments.

    N  packed rows (see model/chain/packing.py)      D  segment features      E  width of the encoding

Every encoder has the same interface, so that any factor, chain and preset can use any of them. With none of them does an
answer depend on what else is in its batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phonechain.features.errors import SettingsError
from phonechain.model.chain.packing import Packing
from phonechain.model.encoders.frames import FrameBatch, FrameEncoder, LongFrames
from phonechain.model.encoders.long import LONG_CHUNK, Chunks, LongRows, count_chunks, rows_of, run_layers
from phonechain.model.encoders.recurrent import Bidirectional, drop, groups_of, reset_linear, saves_padding
from phonechain.model.settings import EncoderSettings


class Encoder(nn.Module):
    """The paper's: factors see the D features themselves. Subclasses learn an encoding.

    Attributes:
        width: E.
        noise: generator of the dropout.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.width = features
        self.noise: torch.Generator | None = None

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights."""

    def forward(self, x: Tensor, packing: Packing, frames: FrameBatch | None = None) -> Tensor:
        return x

    def run_long(self, x: Tensor, frames: LongFrames | None = None) -> LongRows:
        """The encoding of one long recording, computed some rows at a time; not for training."""
        return LongRows(len(x), self.width, x.__getitem__)


class RecurrentEncoder(Encoder):
    """A bidirectional LSTM over the segments, each given by its features, its pooled frames, or both.

    The encoding of a segment is the states of both directions and the projection that they read: E = 2 U + P.
    """

    def __init__(self, settings: EncoderSettings, features: int) -> None:
        super().__init__(2 * settings.segment_units + settings.width)
        self.settings = settings
        self.frames = FrameEncoder(settings) if settings.kind == "frames" else None
        inputs = features + (self.frames.width if self.frames is not None else 0)
        self.projection = nn.Linear(inputs, settings.width)
        self.norm = nn.LayerNorm(settings.width)
        self.layers = nn.ModuleList(
            Bidirectional(2 * settings.segment_units if n else settings.width, settings.segment_units)
            for n in range(settings.segment_layers)
        )

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights."""
        if self.frames is not None:
            self.frames.reset(generator)
        reset_linear(self.projection, generator)
        self.norm.reset_parameters()
        for layer in self.layers:
            layer.reset(generator)  # type: ignore[operator]

    def forward(self, x: Tensor, packing: Packing, frames: FrameBatch | None = None) -> Tensor:
        settings = self.settings
        parts = [drop(x, settings.input_dropout, self.training, self.noise)]
        if self.frames is not None:
            if frames is None:
                raise ValueError("expected frames for an encoder that reads them, got none")
            parts.append(self.frames(frames, packing, self.noise))
        inside = self._project(torch.cat(parts, 1) if x.shape[1] else parts[-1])
        inside = drop(inside, settings.dropout, self.training, self.noise)
        state = inside
        for n, layer in enumerate(self.layers):
            state = drop(state, settings.dropout, self.training and n > 0, self.noise)
            state = self._run(layer, state, packing)
        return torch.cat([state, inside], 1)

    def _project(self, seen: Tensor) -> Tensor:
        """[N, C] -> [N, P]."""
        return nn.functional.gelu(self.norm(self.projection(seen)))

    def run_long(self, x: Tensor, frames: LongFrames | None = None) -> LongRows:
        """The same; it holds one projection of each segment, and the states at the seams of chunks."""
        inside = x.new_empty(len(x), self.settings.width)
        states: Chunks | None = None
        if self.frames is not None:
            if frames is None:
                raise ValueError("expected frames for an encoder that reads them, got none")
            states = self.frames.run_long(frames)
        for at in range(0, len(x), LONG_CHUNK):
            here = slice(at, at + LONG_CHUNK)
            seen = x[here]
            if self.frames is not None and frames is not None and states is not None:
                seen = torch.cat([seen, self.frames.pool_long(frames, here, states)], 1)
            inside[here] = self._project(seen)
        chunks: Chunks = lambda k: inside[k * LONG_CHUNK : (k + 1) * LONG_CHUNK]  # noqa: E731
        layers = [layer for layer in self.layers if isinstance(layer, Bidirectional)]
        chunks = run_layers(layers, chunks, count_chunks(len(x)))
        return LongRows(len(x), self.width, lambda span: torch.cat([rows_of(chunks, span), inside[span]], 1))

    def _run(self, layer: nn.Module, rows: Tensor, packing: Packing) -> Tensor:
        """[N, C] -> [N, 2 U]; outside training in groups of sequences of similar length, to save padding."""
        lengths = packing.lengths
        if saves_padding(self, rows.device, len(lengths)):
            assert isinstance(layer, Bidirectional)
            at = torch.tensor(packing.offsets[:-1])[:, None] + torch.arange(len(lengths))
            return layer.run_rows(rows, at.clamp_max(len(rows) - 1), lengths).rows(packing.time, packing.sequence)
        out: Tensor | None = None
        for begin, end in [(0, len(lengths))] if self.training else groups_of(lengths):
            here = None if (begin, end) == (0, len(lengths)) else (
                (packing.sequence >= begin) & (packing.sequence < end)
            ).nonzero()[:, 0]  # fmt: skip
            time = packing.time if here is None else packing.time[here]
            sequence = packing.sequence - begin if here is None else packing.sequence[here] - begin
            own = rows if here is None else rows[here]
            padded = own.new_zeros(lengths[begin], end - begin, own.shape[1]).index_put((time, sequence), own)
            states = layer(padded, torch.tensor(lengths[begin:end], device=own.device))[time, sequence]
            if here is None:
                return states
            out = rows.new_empty(len(rows), states.shape[1]) if out is None else out
            out[here] = states
        assert out is not None
        return out


def build_encoder(settings: EncoderSettings, features: int) -> Encoder:
    """The encoder that `settings` describe, for segments of `features` features.

    Raises:
        SettingsError: nothing for it to read.
    """
    if settings.kind == "none":
        return Encoder(features)
    if settings.kind == "segments" and not features:
        raise SettingsError("expected segment features for an encoder of segments, got none", pointer="encoder")
    return RecurrentEncoder(settings, features)
