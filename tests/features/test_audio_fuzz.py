"""Whatever the bytes, decoding gives sound or one of our errors, soon and in little memory.

The long form is the same with more: `python -m tests.features.test_audio_fuzz SEED COUNT`.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from phonechain.features.audio.checks import FULL_SCALE
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import PhonechainError
from tests.features.fuzz import Watch, mutate
from tests.features.soundfiles import encode_sound, riff, silent_film, sphere, write_sound
from tests.features.speechlike import speechlike

SECONDS = 30.0
"""Cap on the decoded length, as a service has one."""

PIECES = [
    *(struct.pack(form, value) for value in (0, 1, 255, 65535, 2**31 - 1, 2**32 - 1) for form in ("<I", ">I")),
    *(struct.pack(form, value) for value in (1, 2, 3, 8000, 65535) for form in ("<H", ">H")),
    *(b"\0", b"\xff", b"\x7f", b"\x80", b"\0" * 64, b"\xff" * 64, struct.pack("<f", np.nan), struct.pack("<f", np.inf)),
    *(b"data", b"fmt ", b"LIST", b"ftyp", b"moov", b"mdat", b"OggS", b"OpusHead", b"fLaC", b"\xff\xfb\x90\x00", b"ID3"),
    *(b"\xff\xf1\x50\x80", b"\x1aE\xdf\xa3", b"sample_count -i 99999999999999999999", b"channel_count -i 0", b"ulaw"),
]


@cache
def seeds() -> tuple[bytes, ...]:
    """A short file of every kind that is decoded."""
    speech = speechlike(16000, 0.25)
    stereo = np.stack([speech, speech[::-1]], axis=1)
    pcm = (speech * 32767).astype("<i2").tobytes()
    plain = [
        ("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("WAV", "ULAW"), ("WAV", "ALAW"),
        ("WAV", "IMA_ADPCM"), ("WAV", "MS_ADPCM"), ("WAV", "GSM610"), ("WAVEX", "PCM_24"), ("RF64", "PCM_16"),
        ("W64", "PCM_16"), ("AIFF", "PCM_16"), ("AU", "ULAW"), ("AU", "FLOAT"), ("CAF", "PCM_16"), ("CAF", "ALAC_16"),
        ("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("NIST", "PCM_16"), ("NIST", "ULAW"), ("OGG", "VORBIS"), ("OGG", "OPUS"),
    ]  # fmt: skip
    through_ffmpeg = [
        ("mp3", "libmp3lame"), ("mp4", "aac"), ("mp4", "alac"), ("mov", "pcm_s16le"), ("adts", "aac"), ("webm", "libopus"),
        ("matroska", "flac"), ("matroska", "pcm_s16le"), ("ogg", "flac"),
        ("avi", "pcm_s16le"), ("avi", "libmp3lame"), ("mpegts", "aac"),
    ]  # fmt: skip
    return (
        riff(pcm),
        riff(pcm, claims=0xFFFFFFFF),
        sphere(pcm, sample_rate="16000", channel_count="1", sample_n_bytes="2", sample_byte_format="01"),
        *(write_sound(speech if kind != "PCM_24" else stereo, 16000, name, kind) for name, kind in plain),
        *(encode_sound(speech, 16000, name, codec) for name, codec in through_ffmpeg),
        encode_sound(speechlike(44100, 0.25), 44100, "asf", "wmav2", bits=64000),
        encode_sound(speechlike(8000, 0.25), 8000, "amr", "libopencore_amrnb"),
        silent_film(),
    )


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """`count` mutated files, the same for the same seed; every second one is changed in its header only."""
    draw = random.Random(seed)
    pool = seeds()
    heads = [data[:200] for data in pool]
    for k in range(count):
        if k % 2:
            yield mutate(draw, pool, PIECES)
        else:
            chosen = draw.randrange(len(pool))
            yield mutate(draw, heads[chosen : chosen + 1], PIECES) + pool[chosen][200:]


def survive(data: bytes, k: int) -> bool:
    """True if it was sound. By turns at the file's rate and at 16 kHz, mixed and of one channel."""
    try:
        audio = decode(data, max_seconds=SECONDS, rate=16000 if k % 3 else None, channel="mix" if k % 5 else 0)
    except PhonechainError as error:
        said = str(error)
        assert said.startswith("expected"), said
        assert "\n" not in said
        assert len(said) < 2000
        return False
    check(audio)
    return True


def check(audio: Audio) -> None:
    samples = audio.samples
    assert samples.ndim == 1
    assert samples.dtype == np.float32
    assert len(samples) > 0
    assert audio.duration <= SECONDS
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1
    assert abs(len(samples) / audio.rate - audio.duration) < 0.01 + 1 / audio.rate
    for notice in audio.notices:
        assert "\n" not in notice.message


def run(seed: int, count: int, *, tell: bool = False) -> int:
    """How many of the mutated files were sound."""
    watch = Watch("audio", seed, count, tell=tell, beforehand=tell)
    for k, data in enumerate(mutations(seed, count)):
        with watch.over(k, data):
            watch.good += survive(data, k)
    watch.end()
    return watch.good


@pytest.mark.parametrize("seed", range(2))
def test_mutated_files(seed: int) -> None:
    # Enough of them are still sound for the decoders to be tried, not their first checks alone.
    assert run(seed, 250) > 50


def test_the_unchanged_ones_are_sound() -> None:
    *files, film = seeds()
    assert all(survive(data, k) for k, data in enumerate(files))
    assert not survive(film, 0)
    assert FULL_SCALE < 1


def test_a_file_that_breaks_a_bound_is_kept() -> None:
    watch = Watch("broken", 7, 1)
    with pytest.raises(ZeroDivisionError) as caught, watch.over(3, b"the input"):
        1 / 0  # noqa: B018
    (note,) = caught.value.__notes__
    assert "input 3 of seed 7" in note
    kept = Path(note.rsplit(" ", 1)[1])
    assert kept.read_bytes() == b"the input"
    kept.unlink()


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), tell=True)
