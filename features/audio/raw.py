"""The format of sound without a header."""

from __future__ import annotations

from dataclasses import dataclass

from phonechain.features.errors import SettingsError

ENCODINGS = {
    "s8": ("PCM_S8", "FILE"),
    "u8": ("PCM_U8", "FILE"),
    "s16le": ("PCM_16", "LITTLE"),
    "s16be": ("PCM_16", "BIG"),
    "s24le": ("PCM_24", "LITTLE"),
    "s24be": ("PCM_24", "BIG"),
    "s32le": ("PCM_32", "LITTLE"),
    "s32be": ("PCM_32", "BIG"),
    "f32le": ("FLOAT", "LITTLE"),
    "f32be": ("FLOAT", "BIG"),
    "f64le": ("DOUBLE", "LITTLE"),
    "f64be": ("DOUBLE", "BIG"),
    "mulaw": ("ULAW", "FILE"),
    "alaw": ("ALAW", "FILE"),
}
"""FFmpeg's names of encodings, and libsndfile's subtype and byte order."""

MOST_CHANNELS = 64


@dataclass(frozen=True, slots=True)
class RawFormat:
    """Sample rate (Hz), a key of ENCODINGS, and the number of interleaved channels."""

    rate: int
    encoding: str
    channels: int = 1

    def duration(self, size: int) -> float:
        """Seconds of sound in `size` bytes.

        Examples:
            >>> RawFormat(16000, "s16le").duration(48000)
            1.5
        """
        bits = 8 if self.encoding in ("mulaw", "alaw") else int("".join(c for c in self.encoding if c.isdecimal()))
        return size / (self.rate * self.channels * bits / 8)

    @classmethod
    def parse(cls, text: str) -> RawFormat:
        """`rate,encoding,channels`, of which the last may be left out.

        Examples:
            >>> RawFormat.parse("22050,s16le,1")
            RawFormat(rate=22050, encoding='s16le', channels=1)

        Raises:
            SettingsError: it is something else.
        """
        parts = [part.strip().lower() for part in text.split(",")]
        parts += ["1"] if len(parts) == 2 else []
        whole = len(parts) == 3 and all(p.isascii() and p.isdecimal() and len(p) < 8 for p in (parts[0], parts[2]))
        if not whole or parts[1] not in ENCODINGS or not 1 <= int(parts[2]) <= MOST_CHANNELS:
            raise SettingsError(
                f"raw: expected a rate, an encoding and a number of channels, such as 16000,s16le,1, got '{text[:40]}'; "
                f"encodings: {', '.join(ENCODINGS)}",
                pointer="raw",
                value=text[:40],
            )
        return cls(int(parts[0]), parts[1], int(parts[2]))
