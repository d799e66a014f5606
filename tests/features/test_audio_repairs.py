"""Sound behind padding, in a WAV whose chunk lacks its padding byte, and without a header: sample for sample."""

import io
import struct

import numpy as np
import pytest
import soundfile

from phonechain.features.audio.raw import ENCODINGS, RawFormat
from phonechain.features.audio.reader import channels_of, decode
from phonechain.features.errors import EmptyAudio, SettingsError, UnrecognisedAudio
from tests.features.speechlike import speechlike

RATE = 22050


def encode(samples, form, subtype):
    out = io.BytesIO()
    soundfile.write(out, samples, RATE, format=form, subtype=subtype)
    return out.getvalue()


@pytest.fixture(scope="module")
def samples():
    return speechlike(RATE, 1.3)


@pytest.fixture(scope="module")
def mp3(samples):
    return encode(samples, "MP3", "MPEG_LAYER_III")


def add_tag(body, padding):
    return b"ID3\x03\x00\x00" + bytes([0, 0, 0, 10]) + b"\0" * 10 + b"\0" * padding + body


@pytest.mark.parametrize("zeros", [1, 300, 4096, 70_000])
@pytest.mark.parametrize("behind", ["zeros", "tag"])
def test_an_mp3_behind_zero_bytes_is_not_late(mp3, zeros, behind, tmp_path):
    data = b"\0" * zeros + mp3 if behind == "zeros" else add_tag(mp3, zeros)
    known, _ = soundfile.read(io.BytesIO(mp3), dtype="float32")
    file = tmp_path / "a.mp3"
    file.write_bytes(data)
    for source in (data, file):
        audio = decode(source)
        assert len(audio.samples) == len(known)
        assert np.abs(audio.samples - known).max() < 1e-3  # two decoders, of the same frames
        assert "audio-time-shift" not in [n.code for n in audio.notices]
        assert channels_of(source) == 1
    if zeros == 4096:
        assert "4096 zero bytes in front of the sound were skipped" in [n.message for n in audio.notices]


def test_zeros_alone_are_no_sound():
    with pytest.raises(UnrecognisedAudio, match="nothing but zero bytes"):
        decode(b"\0" * 100_000)


def test_sound_without_a_header_is_told_what_it_needs() -> None:
    with pytest.raises(UnrecognisedAudio, match=r"bytes that start f8 ff 00 00.*; .* needs its format \(raw, --raw\)"):
        decode(b"\xf8\xff\x00\x00" * 4000)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW"])
@pytest.mark.parametrize("text", [b"odd", b"INFOx", b"a longer chunk of an odd length "[:31]])
def test_a_chunk_without_its_padding_byte(samples, subtype, text):
    data = encode(samples, "WAV", subtype)
    at = data.index(b"data")
    broken = data[:at] + b"LIST" + struct.pack("<I", len(text)) + text + data[at:]
    whole, repaired = decode(data), decode(broken)
    assert np.array_equal(whole.samples, repaired.samples)
    assert [n.code for n in repaired.notices] == ["audio-chunk-unpadded", *(n.code for n in whole.notices)]
    padded = data[:at] + b"LIST" + struct.pack("<I", len(text)) + text + b"\0" + data[at:]
    assert [n.code for n in decode(padded).notices] == [n.code for n in whole.notices]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_sound_without_a_header(samples, encoding):
    subtype, endian = ENCODINGS[encoding]
    both = np.stack([samples, -samples], axis=1)
    out = io.BytesIO()
    soundfile.write(out, both, RATE, format="RAW", subtype=subtype, endian=endian)
    raw = RawFormat.parse(f"{RATE},{encoding},2")
    audio = decode(out.getvalue(), channel=1, raw=raw)
    assert (audio.rate, audio.channels, len(audio.samples)) == (RATE, 2, len(samples))
    loudest = np.abs(samples).max()
    assert np.abs(audio.samples + samples).max() < (0.04 if encoding in ("mulaw", "alaw") else 0.01) * max(1, loudest)
    with pytest.raises(EmptyAudio):
        decode(b"", raw=raw)


@pytest.mark.parametrize(
    "text", ["", "16000", "16000,s16", "0x10,s16le,1", "16000,s16le,0", "16000,s16le,65", "1,2,3,4"]
)
def test_what_says_too_little_of_a_raw_file(text):
    with pytest.raises(SettingsError, match="raw: expected a rate, an encoding and a number of channels"):
        RawFormat.parse(text)
