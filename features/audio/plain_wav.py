"""WAV of 16-bit PCM, most recordings of speech, by numpy alone: libsndfile takes ten times as long for them.

Only files without any oddity are read here; `decoders` has the others. The samples are those of libsndfile, bit for bit.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from phonechain.features.audio.decoders import BLOCK_VALUES, Block, Stream

_PCM = 1
_MOST_CHANNELS = 1024  # of libsndfile
_HEADER = struct.Struct("<4s4x4s4sIHHIIHH4sI")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the samples lie: the first byte and the number of samples per channel; rate in Hz."""

    begin: int
    frames: int
    rate: int
    channels: int


def find_layout(file: BinaryIO) -> Layout | None:
    """Where the samples of a plain WAV lie; None if it is not one.

    A plain one is little-endian, of 16-bit PCM, and has nothing but chunks `fmt `, `data` and `LIST`, in this order but for the
    last, each once at most and all inside the file, which they fill.
    """
    file.seek(0)
    header = file.read(_HEADER.size)  # to the head of the chunk after fmt
    if len(header) < _HEADER.size:
        return None
    form, wave, name, length, kind, channels, rate, per_second, align, bits, *following = _HEADER.unpack(header)
    if (form, wave, name, length, kind, bits, align) != (b"RIFF", b"WAVE", b"fmt ", 16, _PCM, 16, 2 * channels):
        return None
    if not 0 < channels <= _MOST_CHANNELS or not 0 < rate < 1 << 31 or per_second != rate * align:
        return None
    size = file.seek(0, io.SEEK_END)
    chunks, at = {}, 36
    name, length = following
    while name not in chunks and name in (b"data", b"LIST"):
        chunks[name] = at + 8, length
        at += 8 + length + length % 2
        if at == size:
            begin, length = chunks.get(b"data", (0, 0))
            whole = length > 0 and length % align == 0
            return Layout(begin, length // align, rate, channels) if whole else None
        file.seek(at)
        header = file.read(8)
        if len(header) < 8:
            return None
        name, length = struct.unpack("<4sI", header)
    return None


def open_plain(file: BinaryIO, layout: Layout) -> Stream:
    """The stream of a file that has this layout."""
    stream = Stream(layout.rate, layout.channels, "WAV PCM_16", layout.frames)
    stream.blocks = _blocks(file, layout, stream)
    return stream


def _blocks(file: BinaryIO, layout: Layout, stream: Stream) -> Iterator[Block]:
    step = max(1, BLOCK_VALUES // layout.channels)
    file.seek(layout.begin)
    for at in range(0, layout.frames, step):
        count = min(step, layout.frames - at)
        data = file.read(2 * count * layout.channels)
        values = np.frombuffer(data, dtype="<i2", count=len(data) // 2)
        block = values.astype(np.float32)
        block *= np.float32(1 / 32768)
        if len(block) >= layout.channels:
            yield block[: len(block) // layout.channels * layout.channels].reshape(-1, layout.channels)
        if len(data) < 2 * count * layout.channels:  # somebody has shortened it meanwhile
            stream.damage = "the file became shorter while it was read"
            return
