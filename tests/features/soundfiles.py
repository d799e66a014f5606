"""Sound files for tests, made on the spot."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from typing import Any

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

CLICKS = (0.5, 1.5)
"""When, in seconds, `clicks` clicks."""


def clicks(rate: int) -> NDArray[np.float32]:
    """Two seconds of faint noise with a loud short tone around each of `CLICKS`, for finding out where time went."""
    sound = np.random.default_rng(0).normal(scale=1e-4, size=2 * rate)
    length = rate // 40
    burst = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(length) / rate) * np.hanning(length)
    for at in CLICKS:
        start = round(at * rate) - length // 2
        sound[start : start + length] += burst
    return sound.astype(np.float32)


def click_times(samples: NDArray[np.float32], rate: int) -> list[float]:
    """Seconds at which the clicks are: the centre of the energy in each second."""
    times = []
    for second in (0, 1):
        energy = samples[second * rate : (second + 1) * rate].astype(np.float64) ** 2
        energy[energy < 1e-3 * energy.max()] = 0
        times.append(second + float((energy * np.arange(len(energy))).sum() / energy.sum() / rate))
    return times


def write_sound(samples: NDArray, rate: int, container: str = "WAV", subtype: str | None = None, **more: str) -> bytes:
    """Through libsndfile, `[n]` or `[n, channels]`."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=subtype, **more)
    return file.getvalue()


def encode_sound(
    samples: NDArray[np.float32],
    rate: int,
    container: str,
    codec: str,
    *,
    options: dict[str, str] | None = None,
    drop: range = range(0),
    bits: int | None = None,
) -> bytes:
    """Through FFmpeg, mono, at `bits` a second; packets whose number is in `drop` are lost on the way."""
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options or {}) as out:
        more: Any = {} if bits is None else {"bit_rate": bits}
        stream: Any = out.add_stream(codec, rate=rate, layout="mono", **more)
        size = stream.codec_context.frame_size or 1024
        fifo = av.AudioFifo()
        kind = stream.codec_context.format.name
        depth = {"flt": 0, "s16": 16, "s32": 32}[kind.rstrip("p")]
        values = np.round(samples * (2.0 ** (depth - 1) - 128)).astype(f"int{depth}") if depth else samples
        frame = av.AudioFrame.from_ndarray(values[None], format=kind, layout="mono")
        frame.rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        fifo.write(frame)
        packets: list[av.Packet] = []
        while (piece := fifo.read(size, partial=True)) is not None:
            packets += stream.encode(piece)
        packets += stream.encode(None)
        for number, packet in enumerate(packets):
            if number not in drop:
                out.mux(packet)
    return file.getvalue()


def silent_film() -> bytes:
    """A video of one black picture and no sound."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as out:
        stream = out.add_stream("ffv1", rate=25, width=16, height=16, pix_fmt="yuv420p")
        picture = av.VideoFrame.from_ndarray(np.zeros((24, 16), np.uint8), format="yuv420p")
        for packet in [*stream.encode(picture), *stream.encode(None)]:
            out.mux(packet)
    return file.getvalue()


def riff(data: bytes, *, claims: int | None = None, rate: int = 16000) -> bytes:
    """A WAV of 16-bit samples by hand, whose data chunk claims what you like."""
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    body = b"WAVE" + fmt + struct.pack("<4sI", b"data", len(data) if claims is None else claims) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def sphere(data: bytes, **fields: str) -> bytes:
    """A NIST SPHERE file by hand."""
    strings = ("sample_byte_format", "sample_coding")
    lines = [f"{name} -{f's{len(value)}' if name in strings else 'i'} {value}" for name, value in fields.items()]
    return "\n".join(["NIST_1A", "   1024", *lines, "end_head", ""]).encode().ljust(1024, b" ") + data
