"""Plain WAV by numpy: the same answers as by libsndfile, whatever the header says."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from phonechain.features.audio import reader
from phonechain.features.audio.checks import SILENCE, bandwidth, silent_share
from phonechain.features.audio.plain_wav import Layout, find_layout
from phonechain.features.audio.reader import decode
from phonechain.features.errors import PhonechainError
from tests.features.fuzz import mutate
from tests.features.soundfiles import write_sound
from tests.features.test_audio_fuzz import PIECES


def noise(count: int, channels: int = 1) -> NDArray[np.int16]:
    values = np.random.default_rng(count).integers(-32768, 32768, (count, channels)).astype(np.int16)
    return values[:, 0] if channels == 1 else values


def add_chunk(data: bytes, name: bytes, content: bytes) -> bytes:
    """The WAV with one more chunk at its end."""
    return data + name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def answer(data: bytes, *, by_libsndfile: bool) -> tuple[object, ...]:
    """What is decoded, or refused, of a file."""
    with pytest.MonkeyPatch.context() as patch:
        if by_libsndfile:
            patch.setattr(reader, "find_layout", lambda file: None)
        try:
            audio = decode(data, max_seconds=30.0)
        except PhonechainError as error:
            return type(error).__name__, str(error)
    return audio.samples.tobytes(), audio.rate, audio.channels, audio.format, audio.notices, audio.duration


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 160, 4801])
def test_samples_equal_those_of_libsndfile(count: int, channels: int) -> None:
    data = write_sound(noise(count, channels), 16000)
    assert find_layout(io.BytesIO(data)) == Layout(44, count, 16000, channels)
    assert answer(data, by_libsndfile=False) == answer(data, by_libsndfile=True)


def test_a_long_file_is_read_in_blocks(tmp_path: Path) -> None:
    values = noise((1 << 20) + 77)
    path = tmp_path / "long.wav"
    path.write_bytes(write_sound(values, 48000))
    np.testing.assert_array_equal(decode(path).samples, values / np.float32(32768))


def test_a_list_chunk_before_or_after_is_skipped() -> None:
    data = write_sound(noise(100), 8000)
    after = add_chunk(data, b"LIST", b"INFOIART\3\0\0\0abc\0")
    before = data[:36] + b"LIST" + struct.pack("<I", 4) + b"INFO" + data[36:]
    for changed in (after, before):
        assert find_layout(io.BytesIO(changed)) is not None
        assert answer(changed, by_libsndfile=False)[0] == answer(data, by_libsndfile=True)[0]
        assert answer(changed, by_libsndfile=False) == answer(changed, by_libsndfile=True)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "FLOAT", "ULAW"])
def test_other_encodings_are_left_to_libsndfile(subtype: str) -> None:
    data = write_sound(noise(100), 8000, subtype=subtype)
    assert find_layout(io.BytesIO(data)) is None


def test_what_is_odd_is_left_to_libsndfile() -> None:
    data = write_sound(noise(100), 8000)
    odd = {
        "big-endian": b"RIFX" + data[4:],
        "no WAVE": data[:8] + b"AVI " + data[12:],
        "cut": data[:-1],
        "longer": data + b"\0",
        "another chunk": add_chunk(data, b"cue ", b"\0\0\0\0"),
        "two of them": add_chunk(data, b"data", b"\0\0"),
        "half a sample": data[:40] + struct.pack("<I", 199) + data[44:-1] + b"\0",
        "no samples": data[:40] + struct.pack("<I", 0),
        "open": data[:40] + struct.pack("<I", 0xFFFFFFFF) + data[44:],
        "rates that disagree": data[:28] + struct.pack("<I", 8000) + data[32:],
        "the head alone": data[:20],
    }
    for name, changed in odd.items():
        assert find_layout(io.BytesIO(changed)) is None, name


def test_mutated_headers_give_the_answer_of_libsndfile() -> None:
    draw = random.Random(5)
    whole = [write_sound(noise(300), 16000), add_chunk(write_sound(noise(64, 2), 8000), b"LIST", b"INFOxy")]
    read = 0
    for k in range(400):
        data = whole[k % 2]
        changed = mutate(draw, [data[:60]], PIECES) + data[60:]
        if find_layout(io.BytesIO(changed)) is None:
            continue
        read += 1
        assert answer(changed, by_libsndfile=False) == answer(changed, by_libsndfile=True)
    assert read > 20


@pytest.mark.parametrize("rate", [8000, 11025, 48000])
def test_silent_cells_are_those_without_a_sample_of_a_bound(rate: int) -> None:
    draw = np.random.default_rng(rate)
    cell = rate // 100
    for _ in range(40):
        sound = draw.choice(
            [0.0, SILENCE / 2, np.nextafter(np.float32(SILENCE), np.float32(0)), SILENCE], 7 * cell + 31
        )
        sound *= draw.choice([-1.0, 1.0], len(sound))
        sound[draw.integers(0, 7) * cell :][: cell * draw.integers(1, 4)] *= draw.choice([0.0, 0.5, 1e4])
        sound = sound.astype(np.float32)
        plain = np.mean([np.abs(sound[at : at + cell]).max() < SILENCE for at in range(0, len(sound), cell)])
        assert silent_share(sound, rate) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("seconds", [0.01, 0.04, 0.3, 5.0])
def test_a_band_that_is_wide_enough_is_so_by_all_windows(seconds: float) -> None:
    """What a third of the windows says, against the power of all of them; sound of any band, in a part of the time or in all."""
    draw = np.random.default_rng(round(100 * seconds))
    early = 0
    for _ in range(60):
        sound = np.fft.rfft(draw.normal(size=round(16000 * seconds)))
        hertz = np.fft.rfftfreq(round(16000 * seconds), 1 / 16000)
        sound[hertz > draw.uniform(500, 8000)] *= 10.0 ** -draw.uniform(1, 6)
        signal = np.fft.irfft(sound, round(16000 * seconds)).astype(np.float32) * np.float32(0.1)
        signal[: draw.integers(0, len(signal))] *= np.float32(10.0 ** -draw.uniform(0, 4))
        exact, enough = bandwidth(signal, 16000), draw.uniform(1000, 7000)
        found = bandwidth(signal, 16000, enough)
        assert found in (exact, 8000.0)
        assert (found < enough) == (exact < enough)
        early += found != exact
    assert early > 10 or seconds < 0.3
