"""Bytes of a sound file -> samples. (First cut: libsndfile only.)"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from features.errors import AudioTooLong, ChannelError, EmptyAudio, NonFiniteAudio, Notice, UnrecognisedAudio

_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Audio:
    """One channel of sound: `samples` `[n]` float32 at `rate` Hz; `channels` and `format` are the file's."""

    samples: NDArray[np.float32]
    rate: int
    channels: int = 1
    format: str = ""
    notices: tuple[Notice, ...] = ()

    @property
    def duration(self) -> float:
        """Seconds."""
        return len(self.samples) / self.rate


def decode(
    source: bytes | Path,
    *,
    channel: int | Literal["mix"] = "mix",
    rate: int | None = None,
    max_seconds: float = 3600.0,
) -> Audio:
    """Decode a sound file."""
    data = source.read_bytes() if isinstance(source, Path) else source
    if not data:
        raise EmptyAudio("expected a sound file, got no bytes", pointer="audio", value=0)
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.frames > max_seconds * file.samplerate:
                seconds = file.frames / file.samplerate
                raise AudioTooLong(
                    f"expected at most {max_seconds:g} s of sound, got {seconds:.1f} s",
                    pointer="audio",
                    value=seconds,
                    limit=max_seconds,
                )
            if channel != "mix" and not 0 <= channel < file.channels:
                raise ChannelError(
                    f"expected a channel from 0 to {file.channels - 1}, got {channel}",
                    pointer="channel",
                    value=channel,
                    limit=file.channels - 1,
                )
            blocks = list(file.blocks(_BLOCK, dtype="float32", always_2d=True))
            source_rate, channels, kind = file.samplerate, file.channels, file.format
    except soundfile.LibsndfileError as error:
        raise UnrecognisedAudio(f"expected a sound file, got bytes that no decoder knows ({error})") from None
    if not blocks or not sum(map(len, blocks)):
        raise EmptyAudio("expected at least one sample, got none", pointer="audio", value=0, limit=1)
    both = np.concatenate(blocks)
    samples = np.ascontiguousarray(both.mean(axis=1) if channel == "mix" else both[:, channel])
    if not np.isfinite(samples).all():
        first = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise NonFiniteAudio(
            f"expected finite samples, got {samples[first]} at sample {first}", pointer=f"audio/{first}"
        )
    if rate is not None:
        samples, source_rate = resample(samples, source_rate, rate), rate
    return Audio(samples, source_rate, channels, kind)


def resample(samples: NDArray[np.float32], source: int, target: int) -> NDArray[np.float32]:
    """`samples [n]` at `source` Hz -> the same sound at `target` Hz."""
    if source == target:
        return samples
    converted: NDArray[np.float32] = soxr.resample(samples, source, target, quality="HQ")
    return converted
