"""Bytes of a sound file -> one channel of samples, with notices about anything odd.

A file is recognised by its first bytes (`containers`). libsndfile decodes it, or FFmpeg where libsndfile does not know the
container or stops early (`decoders`). Decoding goes block by block, and each block is mixed to one channel and resampled at
once, so that memory grows only with the sound that is kept, and the limit on seconds holds whatever the header claims: an
hour of silence is a FLAC file of 181 kB.

    WAV (8 to 32 bits, float, double, mu-law, A-law, ADPCM, extensible, RF64), Wave64, AIFF, AU, CAF, FLAC,
    Ogg (Vorbis, Opus, FLAC), MP3, NIST SPHERE (PCM of both byte orders, mu-law, A-law), and through FFmpeg
    M4A and MP4 (AAC, ALAC), AAC, WebM and Matroska, AMR, Windows Media, and the sound of AVI and MPEG films
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import soxr
from numpy.typing import NDArray

from phonechain.features.audio import checks as soundcheck
from phonechain.features.audio.containers import (
    HEAD,
    MP3,
    RAW,
    SPHERE,
    WAV,
    Container,
    container_notices,
    describe,
    is_empty_wav,
    refuse_compressed_sphere,
    sniff,
)
from phonechain.features.audio.decoders import Block, NoSound, Stream, Undecodable, open_sndfile
from phonechain.features.audio.plain_wav import Layout, find_layout, open_plain
from phonechain.features.audio.raw import RawFormat
from phonechain.features.audio.repairs import repair
from phonechain.features.errors import (
    AudioError,
    AudioTooLong,
    ChannelError,
    EmptyAudio,
    NonFiniteAudio,
    Notice,
    SettingsError,
    TruncatedAudio,
    UnrecognisedAudio,
)
from phonechain.features.notebook import player

RATES = (1000, 768000)
"""Lowest and highest sample rate of a file or an answer (Hz)."""

OVERSHOOT = 2.0
"""Peak up to which samples over full scale are clipped (lossy decoders overshoot); a higher one means another scale."""

_WANTED = "WAV, FLAC, Ogg, MP3, AIFF, NIST SPHERE, M4A, MP4, WebM, AMR or another known sound file"


@dataclass(frozen=True, slots=True)
class Audio:
    """One channel of sound.

    `samples` `[n]` float32 in [-1, 1] at `rate` Hz; `channels` and `format` ("WAV PCM_16", "MP4 aac") are the file's;
    `notices` say what is odd. `source_rate` and `source_samples` (per channel) are the file's too; None if they are those of
    `samples`.
    """

    samples: NDArray[np.float32]
    rate: int
    channels: int = 1
    format: str = ""
    notices: tuple[Notice, ...] = ()
    source_rate: int | None = None
    source_samples: int | None = None

    @property
    def duration(self) -> float:
        """Decoded seconds, exact to a sample of the file."""
        if self.source_rate is not None and self.source_samples is not None:
            return self.source_samples / self.source_rate
        return len(self.samples) / self.rate

    def _repr_html_(self) -> str:
        return f"{player(self.samples, self.rate)}<p>{self.duration:.3f} s at {self.source_rate or self.rate} Hz</p>"


def decode(
    source: bytes | Path,
    *,
    channel: int | Literal["mix"] = "mix",
    rate: int | None = None,
    max_seconds: float = 3600.0,
    raw: RawFormat | None = None,
) -> Audio:
    """Decode a sound file.

    Args:
        source: its bytes, or its path. The name does not matter.
        channel: index from 0, or "mix" for the mean of all.
        rate: sample rate of the result (Hz); None keeps the file's. If given, memory does not grow with the file's rate.
        max_seconds: longest sound to decode.
        raw: format of a file without a header; nothing is then recognised.

    Raises:
        EmptyAudio: no bytes, or no samples in them.
        UnrecognisedAudio: not a sound file, or one that no decoder knows.
        TruncatedAudio: a sound file that ends, or is damaged, before its first sample.
        AudioTooLong: longer than `max_seconds`, according to its header or in fact.
        NonFiniteAudio: NaN or infinity among the samples.
        ChannelError: no such channel.
        AudioError: the file cannot be read, or its sample rate is out of bounds.
        SettingsError: `rate` is out of bounds.

    Examples:
        >>> audio = decode(Path("samples/LJ001-0002.flac"))
        >>> audio.samples.shape, audio.rate, audio.format
        ((41885,), 22050, 'FLAC PCM_16')
        >>> decode(Path("samples/LJ001-0002.flac"), rate=16000).samples.shape
        (30393,)
    """
    if rate is not None and not RATES[0] <= rate <= RATES[1]:
        raise SettingsError(f"expected a rate from {RATES[0]} to {RATES[1]} Hz, got {rate}", pointer="rate", value=rate)
    with _open(source) as file:
        if raw is None and (layout := _plain_layout(file)) is not None:
            stream = open_plain(file, layout)
            intake = _collect(stream, channel, rate, max_seconds)
            if not stream.damage:  # nothing else can be wrong with one
                return intake.audio([])
        container: Container | None = RAW
        repaired: tuple[Notice, ...] = ()
        if raw is None:
            file, container, head, repaired = _recognise(file)
        size = file.seek(0, io.SEEK_END)
        if not size:
            raise EmptyAudio("expected a sound file, got no bytes", pointer="audio", value=0, limit=1)
        if container is None:
            what = describe(head)
            hint = "; sound without a header needs its format (raw, --raw)" if what.startswith("bytes") else ""
            raise UnrecognisedAudio(f"expected {_WANTED}, got {what}{hint}", pointer="audio", value=what)
        if container is SPHERE:
            refuse_compressed_sphere(file)
        stream, intake = _decode(container, file, size, channel, rate, max_seconds, raw)
        return intake.audio([*repaired, *container_notices(container, file, stream, intake.count)])


def channels_of(source: bytes | Path) -> int | None:
    """Number of channels in the header of a sound file; None if it cannot be read."""
    stream = _read_header(source)
    return None if stream is None else stream.channels


def announced_seconds(source: bytes | Path) -> float | None:
    """Length in the header of a sound file (s); None if it has none or cannot be read."""
    stream = _read_header(source)
    return None if stream is None or stream.frames is None else stream.frames / max(1, stream.rate)


def _read_header(source: bytes | Path) -> Stream | None:
    """The stream of the first decoder that opens the file, before anything is decoded."""
    try:
        with _open(source) as opened:
            if (layout := _plain_layout(opened)) is not None:
                return open_plain(opened, layout)
            file, container, _, _ = _recognise(opened)
            size = file.seek(0, io.SEEK_END)
            for opening in _decoders(container, file, size) if container is not None else ():
                with contextlib.suppress(Undecodable), opening as stream:
                    return stream
    except AudioError:
        return None
    return None


def _plain_layout(file: BinaryIO) -> Layout | None:
    file.seek(0)
    return find_layout(file) if file.read(4) == b"RIFF" else None


def _recognise(file: BinaryIO) -> tuple[BinaryIO, Container | None, bytes, tuple[Notice, ...]]:
    """The file as a decoder reads it, its container, its first bytes, and what was repaired."""
    file.seek(0)
    head = file.read(HEAD)
    container = sniff(head)
    if container in (None, MP3, WAV):  # the only ones whose faults are known
        return repair(file, container, head)
    return file, container, head, ()


def resample(samples: NDArray[np.float32], source: int, target: int) -> NDArray[np.float32]:
    """`samples [n]` at `source` Hz -> the same sound at `target` Hz (soxr's HQ: flat to 0.91 of the lower band).

    Examples:
        >>> resample(np.zeros(44100, dtype=np.float32), 44100, 16000).shape
        (16000,)
    """
    if source == target:
        return samples
    converted: NDArray[np.float32] = soxr.resample(samples, source, target, quality="HQ")
    return converted


class _Collector:
    """Collects the blocks of a stream as one channel at the requested rate, with their statistics."""

    def __init__(self, stream: Stream, channel: int | Literal["mix"], rate: int | None, max_seconds: float) -> None:
        if not RATES[0] <= stream.rate <= RATES[1]:
            raise AudioError(
                f"expected a sample rate from {RATES[0]} to {RATES[1]} Hz, got {stream.rate}",
                pointer="audio",
                value=stream.rate,
                limit=RATES[0] if stream.rate < RATES[0] else RATES[1],
            )
        whole = isinstance(channel, int | np.integer) and not isinstance(channel, bool)
        if channel != "mix" and not (whole and 0 <= channel < stream.channels):
            known = "0" if stream.channels == 1 else f"from 0 to {stream.channels - 1}"
            raise ChannelError(
                f"expected 'mix' or a channel {known}, got {channel}",
                pointer="channel",
                value=channel,
                limit=stream.channels - 1,
            )
        self.rate = rate or stream.rate
        self._asked = rate
        self.count = 0  # samples of the stream so far, a channel
        self._channel = channel
        self._stream = stream
        self._max_seconds = max_seconds
        self._kept: list[NDArray[np.float32]] = []
        resampling = self.rate != stream.rate
        self._resampler = soxr.ResampleStream(stream.rate, self.rate, 1, quality="HQ") if resampling else None
        self._clipped = 0
        self._peak = 0.0
        self._gram = np.zeros((stream.channels, stream.channels))
        self._sums = np.zeros(stream.channels)
        self._result: NDArray[np.float32] | None = None
        if stream.frames is not None:
            self._cap(stream.frames)

    def take(self, block: Block) -> None:
        """Add one block `[n, channels]`."""
        self._cap(self.count + len(block))
        peak = max(float(block.max()), -float(block.min()))
        if not np.isfinite(peak):
            bad, where = np.argwhere(~np.isfinite(block))[0]
            at = self.count + int(bad)
            raise NonFiniteAudio(
                f"expected finite samples, got {block[bad, where]} at sample {at} of channel {where}",
                pointer=f"audio/{at}",
                value=at,
            )
        self._peak = max(self._peak, peak)
        if peak >= soundcheck.FULL_SCALE:
            self._clipped += int((np.abs(block) >= soundcheck.FULL_SCALE).sum())
        if self._channel != "mix":
            one = block[:, self._channel]
        elif block.shape[1] == 1:
            one = block[:, 0]
        else:
            one = block @ np.full(block.shape[1], 1 / block.shape[1], dtype=np.float32)
            wide = block.astype(np.float64)
            self._gram += wide.T @ wide
            self._sums += wide.sum(axis=0)
        self.count += len(block)
        if self._resampler is not None:
            one = self._resampler.resample_chunk(np.ascontiguousarray(one))
        self._kept.append(one)

    def samples(self) -> NDArray[np.float32]:
        """The collected samples `[n]`, within [-1, 1]."""
        if self._result is None:
            if self._resampler is not None:
                self._kept.append(self._resampler.resample_chunk(np.zeros(0, dtype=np.float32), last=True))
            kept = np.ascontiguousarray(self._kept[0] if len(self._kept) == 1 else np.concatenate(self._kept))
            self._kept.clear()
            if self._peak > OVERSHOOT:
                kept = kept / np.float32(self._peak)
            overshoots = 0.5 if self._resampler is not None else np.nextafter(1.0, 2.0)
            self._result = np.clip(kept, -1, 1) if self._peak >= overshoots else kept
        return self._result

    def audio(self, found: Sequence[Notice]) -> Audio:
        """The sound, with the notices on its file, and those on its samples."""
        stream, notices = self._stream, (*found, *self.notices())
        return Audio(
            self.samples(), self.rate, stream.channels, stream.format, notices, stream.rate, self.count
        )  # fmt: skip

    def notices(self) -> list[Notice]:
        """Notices about anything odd in the samples."""
        notices = []
        clipped = self._clipped
        if self._peak > OVERSHOOT:
            message = f"expected samples within [-1, 1], got a peak of {self._peak:g}; all were divided by it"
            notices.append(Notice("audio-scaled", message, "audio", self._peak, 1.0))
            clipped = 0
        if self._channel == "mix" and self._stream.channels > 1:
            notices += soundcheck.compare_channels(self._gram, self._sums, self.count)
        values = self.count * self._stream.channels
        return notices + soundcheck.check(self.samples(), self.rate, self._stream.rate, self._asked, clipped, values)

    def _cap(self, count: int) -> None:
        seconds = count / self._stream.rate
        if seconds > self._max_seconds:
            raise AudioTooLong(
                f"expected at most {self._max_seconds:g} s of sound, got {seconds:.1f} s or more",
                pointer="audio",
                value=round(seconds, 3),
                limit=self._max_seconds,
            )


def _collect(stream: Stream, channel: int | Literal["mix"], rate: int | None, max_seconds: float) -> _Collector:
    """All blocks of a stream."""
    intake = _Collector(stream, channel, rate, max_seconds)
    for block in stream.blocks:
        intake.take(block)
    return intake


@contextlib.contextmanager
def _open(source: bytes | Path) -> Iterator[BinaryIO]:
    if not isinstance(source, Path):
        yield io.BytesIO(source)
        return
    try:
        file = source.open("rb")
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise AudioError(
            f"expected a sound file at {source}, got {reason}", pointer="audio", value=str(source)
        ) from None
    with file:
        yield file


def _decode(
    container: Container,
    file: BinaryIO,
    size: int,
    channel: int | Literal["mix"],
    rate: int | None,
    max_seconds: float,
    raw: RawFormat | None = None,
) -> tuple[Stream, _Collector]:
    """Decode with the first decoder that yields all that the header promises, else with the one that yields most."""
    best: tuple[Stream, _Collector] | None = None
    reasons: list[Undecodable] = []
    empty = False
    for opening in _decoders(container, file, size, raw):
        try:
            with opening as stream:
                intake = _collect(stream, channel, rate, max_seconds)
        except Undecodable as error:
            reasons.append(error)
            continue
        if stream.damage:
            reasons.append(Undecodable(stream.damage))
        elif stream.frames == 0:
            empty = True
        if intake.count and (best is None or intake.count / stream.rate > best[1].count / best[0].rate):
            best = stream, intake
        if intake.count and not stream.damage and intake.count >= (stream.frames or 0):
            break
    if best is not None:
        return best
    if empty or not reasons:
        raise EmptyAudio(
            f"expected at least one sample, got a {container.title} header and none", pointer="audio", value=0, limit=1
        )
    reason = reasons[-1]
    if isinstance(reason, NoSound):
        raise UnrecognisedAudio(f"expected sound, got a {container.title} file; {reason}", pointer="audio")
    raise TruncatedAudio(
        f"expected a complete {container.title} file, got {size} bytes that end or are damaged before the first sample "
        f"({reason})",
        pointer="audio",
        value=size,
    )


def _decoders(
    container: Container, file: BinaryIO, size: int, raw: RawFormat | None = None
) -> Iterator[contextlib.AbstractContextManager[Stream]]:
    if container.sndfile:
        yield open_sndfile(file, raw)
        if container is WAV and is_empty_wav(file, size):
            return
    if container.av:
        from phonechain.features.audio.ffmpeg import open_av

        yield open_av(file, container)
