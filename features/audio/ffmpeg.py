"""FFmpeg, by PyAV, as a decoder: a module of its own, since few recordings need it and it takes a tenth of a second to load."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import av
import av.error
import numpy as np

from phonechain.features.audio.containers import AVI, MATROSKA, MP4, MPEG_TS, Container
from phonechain.features.audio.decoders import (
    BLOCK_VALUES,
    Block,
    NoSound,
    SafeFile,
    Stream,
    Undecodable,
    decoder_words,
)


@contextlib.contextmanager
def open_av(file: BinaryIO, container: Container) -> Iterator[Stream]:
    """Through FFmpeg, told which demuxer to use.

    Raises:
        Undecodable: it does not take the file.
        NoSound: it does, and finds no sound that it could decode.
    """
    file.seek(0)
    try:
        source = av.open(SafeFile(file), format=container.av, metadata_errors="ignore")
    except (av.error.FFmpegError, ValueError, OSError) as error:
        raise Undecodable(decoder_words(error)) from None
    with source:
        if not source.streams.audio:
            raise NoSound("there is no sound track in it")
        track = source.streams.audio[0]
        codec = track.codec_context
        if codec is None:
            raise NoSound("its codec is unknown")
        skip = 0
        if codec.name == "opus" and container in (MATROSKA, MP4):
            # FFmpeg counts Opus's pre-skip at the rate that the file names, but decodes at 48 kHz: 4 ms late from a 16
            # kHz source. RFC 7845, section 5.1: the pre-skip is in bytes 10 and 11 of the header, in samples at 48 kHz.
            codec.flags2 |= av.codec.context.Flags2.skip_manual
            skip = int.from_bytes((codec.extradata or b"")[10:12], "little")
        frames = _av_frames(source, track)
        try:
            first = next(frames, None)
        except (av.error.DecoderNotFoundError, NotImplementedError) as error:
            raise NoSound(decoder_words(error)) from None
        except (av.error.FFmpegError, ValueError, OSError) as error:
            raise Undecodable(decoder_words(error)) from None
        if first is None:
            raise Undecodable("there is no sound in its track")
        stream = Stream(
            first[0].sample_rate, first[0].layout.nb_channels, f"{container.title} {codec.name.removesuffix('float')}"
        )
        # A transport stream does not tell MPEG's layers apart, and nearly all of them carry layer II.
        stream.late = _priming_left(
            first[0], first[1], "mp2" if container is MPEG_TS and "mp3" in codec.name else codec.name
        )
        if container.av in ("mov", "matroska", "flac", "caf", "asf") or (container.av == "mp3" and not stream.late):
            stream.frames = _length(source, track, stream.rate)
        stream.blocks = _av_blocks(
            first[0],
            frames,
            stream,
            skip,
            trim=container.av == "mov" and first[1] < 0,
            fill=container is not AVI,  # its timestamps are counts of packets, by a rate that is wrong for AAC
        )
        yield stream


def _av_frames(source: Any, track: Any) -> Iterator[tuple[Any, int]]:
    """Decoded frames, each with the timestamp of the first packet of all."""
    start: int | None = None
    for packet in source.demux(track):
        if start is None:
            start = packet.pts or 0
        for frame in packet.decode():
            yield frame, start


def _av_blocks(
    first: Any, rest: Iterator[tuple[Any, int]], stream: Stream, skip: int, *, trim: bool, fill: bool
) -> Iterator[Block]:
    """Frames as blocks: without the first `skip` samples, zeros where timestamps leap if `fill`, cut to the length if `trim`."""
    done = -skip  # samples since the first frame's timestamp, less those skipped
    leap = max(1, stream.rate // 50)  # 20 ms: containers round their timestamps to milliseconds
    frame = first
    while frame is not None:
        if frame.sample_rate != stream.rate or frame.layout.nb_channels != stream.channels:
            stream.damage = "the rate or the number of channels changes in mid-stream"
            return
        if fill and frame.pts is not None and first.pts is not None and frame.time_base:
            missing = round((frame.pts - first.pts) * frame.time_base * stream.rate) - skip - done
            if missing > leap:
                stream.gaps += missing
                done += missing
                step = max(1, BLOCK_VALUES // stream.channels)
                for at in range(0, missing, step):
                    yield np.zeros((min(step, missing - at), stream.channels), dtype=np.float32)
        block = _floats(frame)
        before, done = done, done + len(block)
        block = block[max(0, -before) :]
        if trim and stream.frames is not None and done > stream.frames:
            block = block[: max(0, len(block) - (done - stream.frames))]
        if len(block):
            yield block
        try:
            frame, _ = next(rest, (None, 0))
        except (av.error.FFmpegError, ValueError, OSError) as error:
            stream.damage = decoder_words(error)
            return


def _floats(frame: Any) -> Block:
    """The samples of a frame, whatever their type, as `[n, channels]` with full scale 1."""
    if frame.format.name in ("s64", "s64p"):  # numpy arrays of these are not offered
        (frame,) = av.AudioResampler(format="dbl").resample(frame)
    values = frame.to_ndarray()
    values = values.T if frame.format.is_planar else values.reshape(-1, frame.layout.nb_channels)
    if values.dtype == np.uint8:
        return (values.astype(np.float32) - 128) / 128
    if values.dtype.kind == "i":
        return (values / float(1 << (8 * values.dtype.itemsize - 1))).astype(np.float32)
    return np.ascontiguousarray(values, dtype=np.float32)


def _length(source: Any, track: Any, rate: int) -> int | None:
    """Samples that the header announces. Where headers have no word on them FFmpeg guesses by bit rate: do not ask."""
    if track.duration is not None and track.time_base is not None:
        return round(track.duration * track.time_base * rate)
    return round(source.duration / av.time_base * rate) if source.duration else None


_PRIMING = {"aac": 1024, "mp3": 1105, "mp3float": 1105, "mp2": 481, "mp2float": 481, "ac3": 256, "eac3": 256}
"""Samples that an encoder of these puts in front, at least: its transform's overlap, and MP3's decoder delay."""


def _priming_left(frame: Any, start: int, codec: str) -> int:
    """Samples of priming that are left in: none where a negative or later timestamp of the first frame shows a cut."""
    cut = start < 0 or (frame.pts is not None and frame.pts > start)
    return 0 if cut else _PRIMING.get(codec, 0)
