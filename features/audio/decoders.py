"""The interface of both decoders, from a file to blocks of samples, and libsndfile; FFmpeg is in `ffmpeg.py`.

Both decode block by block. No header decides how much memory is used, and what a damaged file yields before the damage is
kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from phonechain.features.audio.raw import ENCODINGS, RawFormat

Block = NDArray[np.float32]
"""`[n, channels]`."""

BLOCK_VALUES = 1 << 20
"""Samples times channels of the largest block."""

_UNKNOWN = 1 << 40  # libsndfile's "frames" when a header leaves them open is about 2**63


class Undecodable(Exception):
    """The decoder cannot read the file; its own message."""


class NoSound(Undecodable):
    """The container is intact, but holds no track that an available codec can decode."""


@dataclass(slots=True)
class Stream:
    """An opened file.

    Iterating `blocks` gives `[n, channels]` float32 blocks and, where the file is damaged, sets `damage` to a message.
    `frames` is the length in the header, None if there is none. `late` is the number of samples that the encoder put in front,
    if they are left in and the file does not say so; `gaps` is how many were missing between packets and are zeros here.
    """

    rate: int
    channels: int
    format: str
    frames: int | None = None
    blocks: Iterator[Block] = field(default_factory=lambda: iter(()))
    damage: str | None = None
    late: int = 0
    gaps: int = 0


class SafeFile:
    """A binary file whose seeks cannot fail: with a broken header, libsndfile seeks to before the start."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.read = file.read
        self.tell = file.tell
        self.readinto = file.readinto  # type: ignore[attr-defined]

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._file.tell(), None)[whence]
        if base is None:
            base = self._file.seek(0, 2)
        return self._file.seek(max(0, base + offset))


@contextlib.contextmanager
def open_sndfile(file: BinaryIO, raw: RawFormat | None = None) -> Iterator[Stream]:
    """Open a file with libsndfile; `raw` is the format of a file without a header.

    Raises:
        Undecodable: libsndfile refuses the file, or does not know where it ends.
    """
    file.seek(0)
    try:
        sound = soundfile.SoundFile(SafeFile(file), **_headerless(raw))
    except (soundfile.LibsndfileError, RuntimeError, ValueError, TypeError) as error:
        raise Undecodable(decoder_words(error)) from None
    with sound:
        if sound.frames >= _UNKNOWN:  # libsndfile loses the last block of these
            raise Undecodable("the header gives no length")
        stream = Stream(sound.samplerate, sound.channels, f"{sound.format} {sound.subtype}", sound.frames)
        stream.blocks = _sndfile_blocks(sound, stream)
        yield stream


def _headerless(raw: RawFormat | None) -> dict[str, Any]:
    if raw is None:
        return {}
    subtype, endian = ENCODINGS[raw.encoding]
    return {
        "samplerate": raw.rate,
        "channels": raw.channels,
        "format": "RAW",
        "subtype": subtype,
        "endian": endian,
    }


def _sndfile_blocks(sound: soundfile.SoundFile, stream: Stream) -> Iterator[Block]:
    step = max(1, BLOCK_VALUES // stream.channels)
    while True:
        try:
            block = sound.read(step, dtype="float32", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError) as error:
            stream.damage = decoder_words(error)
            return
        if not len(block):
            return
        yield block


def decoder_words(error: Exception) -> str:
    """A decoder's own explanation, without the object it names."""
    text = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
