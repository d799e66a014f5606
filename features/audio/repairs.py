"""Repair small faults in front of the sound of a file. Only headers are copied."""

from __future__ import annotations

import io
import struct
from typing import BinaryIO, cast

from phonechain.features.audio.containers import HEAD, MP3, WAV, Container, riff_chunks, sniff
from phonechain.features.errors import Notice

_MOST_ZEROS = 1 << 24
"""Zero bytes in front of an MP3 that are skipped; more of them are no padding."""


class View(io.RawIOBase):
    """`prefix`, and then `length` bytes of a file from `start` on (to its end if None), as a file of its own."""

    def __init__(self, file: BinaryIO, start: int, *, prefix: bytes = b"", length: int | None = None) -> None:
        self._file = file
        self._prefix = prefix
        self._start = start
        rest = max(0, file.seek(0, io.SEEK_END) - start)
        self._size = len(prefix) + (rest if length is None else min(rest, length))
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._at, self._size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: object) -> int:
        """As io.RawIOBase: fill the buffer; the number of bytes read."""
        view = memoryview(cast(bytearray, buffer)).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        if self._at < len(self._prefix):
            part = self._prefix[self._at : self._at + count]
        else:
            self._file.seek(self._start + self._at - len(self._prefix))
            part = self._file.read(count)
        view[: len(part)] = part
        self._at += len(part)
        return len(part)


def repair(
    file: BinaryIO, container: Container | None, head: bytes
) -> tuple[BinaryIO, Container | None, bytes, tuple[Notice, ...]]:
    """Repair a file with that container and those first bytes: the file as a decoder reads it, both of them, and notices.

    Zero bytes in front of an MP3's first frame, also between its tag and the frame, are skipped: they hide the header in
    which the encoder says how many samples it put in front. A WAV whose chunk of odd length lacks its padding byte is
    given a header that says where its samples are.
    """
    if container is None or container is MP3:
        start, zeros = _first_frame(file, head)
        if zeros:
            view = cast(BinaryIO, io.BufferedReader(View(file, start)))
            inner = view.read(HEAD)
            if sniff(inner) is MP3:
                message = f"{zeros} zero bytes in front of the sound were skipped"
                return view, MP3, inner, (Notice("audio-padding", message, "audio", float(zeros)),)
    if container is WAV and (whole := _repair_padding(file)) is not None:
        message = "a chunk of odd length lacks its padding byte; the sound after it was read all the same"
        return whole, WAV, head, (Notice("audio-chunk-unpadded", message, "audio"),)
    return file, container, head, ()


def _first_frame(file: BinaryIO, head: bytes) -> tuple[int, int]:
    """(where the first byte lies that is neither tag nor zero, zero bytes before it)."""
    at = 0
    while head[:3] == b"ID3" and len(head) >= 10:
        at += 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
        file.seek(at)
        head = file.read(HEAD)
    begin = at
    while at - begin < _MOST_ZEROS:
        file.seek(at)
        block = file.read(1 << 16)
        rest = block.lstrip(b"\0")
        at += len(block) - len(rest)
        if rest or not block:
            return at, at - begin
    return at, 0


def _repair_padding(file: BinaryIO) -> BinaryIO | None:
    """The WAV with a header of its own, if its samples are found only where a padding byte is not counted."""
    strict = {name for name, _, _ in riff_chunks(file)}
    if b"data" in strict:
        return None
    chunks = {name: (at, length) for name, at, length in reversed(list(riff_chunks(file, tolerant=True)))}
    if b"data" not in chunks or b"fmt " not in chunks:
        return None
    file.seek(0)
    form = file.read(4)
    order = ">" if form == b"RIFX" else "<"
    prefix = b"WAVE"
    for name in (b"fmt ", b"fact"):
        if name in chunks:
            at, length = chunks[name]
            file.seek(at)
            content = file.read(min(length, HEAD))
            prefix += name + struct.pack(f"{order}I", len(content)) + content + b"\0" * (len(content) % 2)
    at, length = chunks[b"data"]
    prefix += b"data" + struct.pack(f"{order}I", length)
    prefix = form + struct.pack(f"{order}I", min(len(prefix) + length, 0xFFFFFFFF)) + prefix
    return cast(BinaryIO, io.BufferedReader(View(file, at, prefix=prefix, length=length)))
