"""The face of both decoders, a file in and blocks of samples out, and libsndfile behind it; FFmpeg is in `ffmpeg.py`.

Both decode piece by piece. No header decides how much memory is taken, and what a broken file gave before it broke is
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
    """The decoder can do nothing with the file: its own words, for the message."""


class NoSound(Undecodable):
    """The container is sound, but nothing in it that a codec here could turn into samples."""


@dataclass(slots=True)
class Stream:
    """An opened file.

    Iterating `blocks` gives `[n, channels]` float32 blocks and, at the end of damaged ones, leaves a word in `damage`.
    `frames` is what the header says of the length, None if nothing. `late` is how many samples of the encoder's own the
    sound begins with, as far as the file leaves them in and does not say so; `gaps` how many were missing between
    packets and are zeros here.
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
    """A binary file whose seeks cannot fail: libsndfile, led by a broken header, asks for places before the start."""

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
    """Through libsndfile; `raw` says what a file without a header holds.

    Raises:
        Undecodable: it does not take the file, or does not know where the file ends.
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
