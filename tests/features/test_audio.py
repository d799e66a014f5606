from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonechain.features.audio.reader import Audio, decode, resample
from phonechain.features.errors import (
    AudioError,
    AudioTooLong,
    ChannelError,
    EmptyAudio,
    NonFiniteAudio,
    PhonechainError,
    SettingsError,
    TruncatedAudio,
    UnrecognisedAudio,
)
from tests.features.soundfiles import CLICKS, click_times, clicks, encode_sound, riff, silent_film, sphere, write_sound
from tests.features.speechlike import speechlike

SPEECH = speechlike(16000, 1.0)
PCM = (SPEECH * 32767).astype("<i2").tobytes()


def codes(audio: Audio) -> list[str]:
    return [notice.code for notice in audio.notices]


# Every kind of file


@pytest.mark.parametrize(
    ("container", "subtype", "tolerance"),
    [
        ("WAV", "PCM_U8", 2**-7),
        ("WAV", "PCM_16", 2**-15),
        ("WAV", "PCM_24", 2**-23),
        ("WAV", "PCM_32", 2**-24),
        ("WAV", "FLOAT", 0),
        ("WAV", "DOUBLE", 0),
        ("WAV", "ULAW", 0.02),
        ("WAV", "ALAW", 0.02),
        ("WAV", "IMA_ADPCM", 0.3),
        ("WAV", "MS_ADPCM", 0.3),
        ("WAVEX", "PCM_24", 2**-23),
        ("RF64", "PCM_16", 2**-15),
        ("W64", "PCM_16", 2**-15),
        ("AIFF", "PCM_16", 2**-15),
        ("AIFF", "PCM_24", 2**-23),
        ("AU", "ULAW", 0.02),
        ("CAF", "PCM_16", 2**-15),
        ("FLAC", "PCM_16", 2**-15),
        ("FLAC", "PCM_24", 2**-23),
        ("NIST", "PCM_16", 2**-15),
        ("NIST", "ULAW", 0.02),
        ("OGG", "VORBIS", 0.3),
        ("OGG", "OPUS", 0.3),
    ],
)
def test_containers_and_sample_types(container: str, subtype: str, tolerance: float) -> None:
    audio = decode(write_sound(SPEECH, 16000, container, subtype))
    assert (audio.rate, audio.channels) == (16000, 1)
    assert audio.samples.dtype == np.float32
    assert len(SPEECH) <= len(audio.samples) <= len(SPEECH) + 1024  # ADPCM fills its last block
    assert np.abs(audio.samples[: len(SPEECH)] - SPEECH).max() <= tolerance
    assert subtype in audio.format
    assert not audio.notices


@pytest.mark.parametrize("order", ["01", "10"])
def test_sphere_of_both_byte_orders(order: str) -> None:
    data = np.frombuffer(PCM, "<i2").astype({"01": "<i2", "10": ">i2"}[order]).tobytes()
    fields = {"sample_count": "16000", "sample_n_bytes": "2", "channel_count": "1", "sample_rate": "16000"}
    audio = decode(sphere(data, sample_byte_format=order, sample_coding="pcm", **fields))
    np.testing.assert_array_equal(audio.samples, np.frombuffer(PCM, "<i2").astype(np.float32) / 32768)


@pytest.mark.parametrize(
    ("container", "codec", "rate", "title"),
    [
        ("mp4", "aac", 16000, "MP4 aac"),
        ("mp4", "aac", 44100, "MP4 aac"),
        ("ipod", "alac", 16000, "MP4 alac"),
        ("mp4", "libopus", 16000, "MP4 opus"),
        ("webm", "libopus", 16000, "Matroska/WebM opus"),
        ("webm", "libopus", 48000, "Matroska/WebM opus"),
        ("matroska", "aac", 16000, "Matroska/WebM aac"),
        ("ogg", "libopus", 16000, "OGG OPUS"),
        ("mp3", "libmp3lame", 16000, "MP3 mp3"),
        ("mp3", "libmp3lame", 44100, "MP3 mp3"),
        ("wav", "adpcm_ms", 16000, "WAV MS_ADPCM"),
        ("amr", "libopencore_amrnb", 8000, "AMR amrnb"),
        ("avi", "pcm_s16le", 16000, "AVI pcm_s16le"),
    ],
)
def test_sound_keeps_its_time(container: str, codec: str, rate: int, title: str) -> None:
    audio = decode(encode_sound(clicks(rate), rate, container, codec))
    assert audio.format == title
    assert click_times(audio.samples, audio.rate) == pytest.approx(
        CLICKS, abs=0.008 if codec.endswith("amrnb") else 1e-3
    )
    assert 2 <= audio.duration < 2.05
    assert "audio-time-shift" not in codes(audio)


def test_a_wav_of_64_bit_integers() -> None:
    sound = clicks(16000)
    data = np.round(sound.astype(np.float64) * (2.0**63 - 2.0**40)).astype("<i8").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16000, 8 * 16000, 8, 64)
    chunks = b"WAVE" + form + b"data" + struct.pack("<I", len(data)) + data
    audio = decode(b"RIFF" + struct.pack("<I", len(chunks)) + chunks)
    np.testing.assert_allclose(audio.samples[: len(sound)], sound, atol=1e-6)


@pytest.mark.parametrize(
    ("container", "codec", "options", "shift"),
    [
        ("mp4", "aac", {"use_editlist": "0"}, 1024),
        ("adts", "aac", {}, 1024),
        ("mp3", "libmp3lame", {"write_xing": "0"}, 1105),
        ("wav", "libmp3lame", {}, 1105),
        ("avi", "libmp3lame", {}, 1105),
        ("avi", "aac", {}, 1024),
        ("mpegts", "aac", {}, 1024),
        ("mpegts", "mp2", {}, 481),
        ("mpeg", "mp2", {}, 481),
        ("vob", "ac3", {}, 256),
    ],
)
def test_a_file_that_hides_its_encoders_delay_says_so(container: str, codec: str, options: dict, shift: int) -> None:
    rate = 48000 if codec == "ac3" else 16000
    data = encode_sound(clicks(rate), rate, container, codec, options=options, bits=64000 if codec == "mp2" else None)
    audio = decode(data)
    late = np.array(click_times(audio.samples, audio.rate)) - CLICKS
    assert late == pytest.approx(shift / rate, abs=1e-3)
    (notice,) = [notice for notice in audio.notices if notice.code == "audio-time-shift"]
    assert notice.value == pytest.approx(shift / rate, abs=1e-4)
    assert f"late by {1000 * shift / rate:.0f} ms ({shift} samples)" in notice.message


@pytest.mark.parametrize("rate", [11025, 44100, 48000])
def test_the_length_is_the_files_at_any_rate(rate: int) -> None:
    data = write_sound(speechlike(rate, 0.7)[:-3], rate)
    audio = decode(data, rate=16000)
    assert audio.duration == decode(data).duration == (round(0.7 * rate) - 3) / rate
    assert (audio.rate, audio.source_rate, audio.source_samples) == (16000, rate, round(0.7 * rate) - 3)


def test_a_packet_before_the_sync_bytes_of_a_camera(tmp_path: Path) -> None:
    plain = encode_sound(clicks(16000), 16000, "mpegts", "aac")
    timed = b"".join(b"\0\0\0\0" + plain[at : at + 188] for at in range(0, len(plain), 188))
    np.testing.assert_array_equal(decode(timed).samples, decode(plain).samples)


def test_lost_packets_become_silence() -> None:
    audio = decode(encode_sound(clicks(48000), 48000, "webm", "libopus", drop=range(40, 50)))
    assert click_times(audio.samples, audio.rate) == pytest.approx(CLICKS, abs=2e-3)
    (notice,) = [notice for notice in audio.notices if notice.code == "audio-gaps"]
    assert notice.value == pytest.approx(0.2, abs=0.002)


def test_bytes_and_path_agree_and_the_name_is_not_asked(tmp_path: Path) -> None:
    data = write_sound(SPEECH, 16000, "FLAC")
    path = tmp_path / "sound.wav.txt"
    path.write_bytes(data)
    np.testing.assert_array_equal(decode(path).samples, decode(data).samples)


def test_an_id3_tag_before_a_flac(tmp_path: Path) -> None:
    tagged = b"ID3\x04\x00\x00\x00\x00\x00\x14" + bytes(20) + write_sound(SPEECH, 16000, "FLAC")
    assert decode(tagged).format == "FLAC PCM_16"


# Channels and rates


def test_channels_are_picked_or_mixed() -> None:
    both = np.stack([SPEECH, 0.5 * SPEECH], axis=1)
    data = write_sound(both, 16000, "WAV", "FLOAT")
    np.testing.assert_array_equal(decode(data, channel=0).samples, SPEECH)
    np.testing.assert_array_equal(decode(data, channel=1).samples, both[:, 1])
    np.testing.assert_allclose(decode(data).samples, both.mean(axis=1), atol=1e-7)
    assert decode(data).channels == 2
    assert not decode(data).notices


@pytest.mark.parametrize("channel", [2, -1, "left", None, True])
def test_a_channel_that_is_not_there(channel: object) -> None:
    data = write_sound(np.stack([SPEECH, SPEECH], axis=1), 16000)
    with pytest.raises(ChannelError, match=f"expected 'mix' or a channel from 0 to 1, got {channel}") as caught:
        decode(data, channel=channel)  # type: ignore[arg-type]
    assert caught.value.limit == 1


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_decoding_at_a_rate_equals_resampling_afterwards(rate: int) -> None:
    sound = speechlike(rate, 0.8)
    data = write_sound(np.tile(sound, 15), rate, "WAV", "FLOAT")  # several blocks at the higher rates
    at_once = decode(data, rate=16000)
    plain = decode(data)
    assert (at_once.rate, plain.rate) == (16000, rate)
    assert at_once.duration == pytest.approx(plain.duration, abs=1e-3)
    np.testing.assert_allclose(at_once.samples, resample(plain.samples, rate, 16000), atol=2e-6)


def test_resampling_keeps_time_and_sound() -> None:
    for rate in (44100, 48000):
        samples = resample(speechlike(rate, 1.0), rate, 16000)
        assert len(samples) == 16000
        assert np.abs(samples - SPEECH)[100:-100].max() < 0.05  # what the transition band takes from a hiss
    assert resample(SPEECH, 16000, 16000) is SPEECH


@pytest.mark.parametrize("rate", [-1, 0, 10**7])
def test_absurd_rates_cannot_be_asked_for(rate: int) -> None:
    with pytest.raises(SettingsError, match=f"got {rate}"):
        decode(riff(PCM), rate=rate)


@pytest.mark.parametrize("rate", [999, 2_000_000_000])
def test_absurd_rates_are_refused(rate: int) -> None:
    with pytest.raises(AudioError, match="sample rate from 1000 to 768000 Hz, got"):
        decode(riff(PCM, rate=rate))


# Headers that lie, files that break off


@pytest.mark.parametrize("claims", [0, 0xFFFFFFFF])
def test_a_wav_of_unknown_length_is_decoded_to_its_end(claims: int) -> None:
    audio = decode(riff(PCM, claims=claims))
    np.testing.assert_array_equal(audio.samples, decode(riff(PCM)).samples)
    assert codes(audio) == ["audio-length-unknown"]
    assert "1.000 s" in audio.notices[0].message


@pytest.mark.parametrize("claims", [64000, 0x7FFFFFF0])
def test_a_wav_that_claims_more_than_it_holds(claims: int) -> None:
    audio = decode(riff(PCM, claims=claims))
    assert audio.duration == 1.0
    assert codes(audio) == ["audio-truncated"]
    assert (audio.notices[0].value, audio.notices[0].limit) == (1.0, pytest.approx(claims / 32000, abs=1e-3))


@pytest.mark.parametrize("count", ["¹000", "-5", "9" * 5000, ""])
def test_a_sphere_header_with_a_broken_count_is_not_believed(count: str) -> None:
    fields = {"sample_n_bytes": "2", "channel_count": "1", "sample_rate": "16000", "sample_byte_format": "01"}
    header = sphere(b"", sample_coding="pcm", **fields).replace(
        b"end_head", f"sample_count -i {count}\nend_head".encode()
    )
    assert decode(header[:8192].ljust(8192) + PCM).duration > 0.9


def test_a_flac_without_a_length_is_decoded_to_its_end() -> None:
    data = bytearray(write_sound(SPEECH, 16000, "FLAC"))
    data[21:26] = bytes([data[21] & 0xF0, 0, 0, 0, 0])
    audio = decode(bytes(data))
    assert audio.duration == 1.0
    assert codes(audio) == ["audio-length-unknown"]


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        (riff(PCM)[:20000], 0.62),
        (riff(PCM)[:-2000], 0.93),
        (write_sound(SPEECH, 16000, "FLAC")[:-6000], 0.5),
        (write_sound(np.tile(SPEECH, 8), 16000, "OGG", "VORBIS")[:-4000], 4.0),
        (encode_sound(SPEECH, 16000, "mp3", "libmp3lame")[:-2000], 0.3),
        (encode_sound(SPEECH, 16000, "webm", "libopus")[:-4000], 0.3),
        (write_sound(SPEECH, 16000, "AIFF")[:20000], 0.62),
        (write_sound(SPEECH, 16000, "NIST")[:20000], 0.59),
    ],
    ids=["wav", "wav by a little", "flac", "ogg", "mp3", "webm", "aiff", "sphere"],
)
def test_truncated_files_give_what_they_hold_and_say_so(data: bytes, seconds: float) -> None:
    audio = decode(data)
    assert seconds <= audio.duration < (0.97 if seconds < 1 else 7.9)
    (notice,) = [notice for notice in audio.notices if notice.code == "audio-truncated"]
    assert notice.value == pytest.approx(audio.duration, abs=1e-3)


@pytest.mark.parametrize(
    "data",
    [
        riff(PCM)[:30],
        write_sound(SPEECH, 16000, "FLAC")[:60],
        write_sound(SPEECH, 16000, "OGG", "OPUS")[:100],
        encode_sound(SPEECH, 16000, "mp4", "aac")[:3000],
        encode_sound(SPEECH, 16000, "webm", "libopus")[:60],
        write_sound(SPEECH, 16000, "NIST")[:100],
        b"fLaC" + bytes(100),
        b"#!AMR\n",
        b"\x00\x00\x00\x18ftypmp42",
    ],
    ids=["wav", "flac", "opus", "mp4", "webm", "sphere", "flac-zeros", "amr", "mp4-start"],  # the bytes differ by run
)
def test_files_that_break_off_before_any_sound(data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TruncatedAudio, match=r"expected a complete .* file, got \d+ bytes"):
        decode(data)
    assert capfd.readouterr().err == ""  # decoders keep their complaints to themselves


def test_a_wav_of_an_unknown_codec() -> None:
    unknown = bytearray(riff(PCM))
    unknown[20:22] = struct.pack("<H", 0x4242)
    with pytest.raises(UnrecognisedAudio, match="a WAV file; its codec is unknown"):
        decode(bytes(unknown))


def test_a_video_without_sound() -> None:
    with pytest.raises(UnrecognisedAudio, match="a Matroska/WebM file; there is no sound track in it"):
        decode(silent_film())


# What is no sound


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"0 1200 h#\n1200 2300 sh\n", "text that starts '0 1200 h# 1200 2300 sh'"),
        ("ʃiː hæd".encode(), "text that starts 'ʃiː hæd'"),
        ("0.1 ʃ".encode("utf-16"), "text that starts '0.1 ʃ'"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (b"<!DOCTYPE html><html></html>", "an HTML page"),
        (b'<?xml version="1.0"?><ANNOTATION_DOCUMENT/>', "an XML document"),
        (b'File type = "ooTextFile"\nObject class = "TextGrid"\n', "a Praat text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "a Git LFS pointer"),
        (b"\x80\x04\x95\x10", "a Python pickle"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "a RIFF file of type b'WEBP'"),
        (bytes(500), "nothing but zero bytes"),
        (b"\x01\x02\x03\x04\x05\x06\x07\x08\x09", "bytes that start 01 02 03 04 05 06 07 08"),
        (b"\xff\xfb", "bytes that start ff fb"),
    ],
)
def test_unrecognised_bytes_are_described(data: bytes, what: str) -> None:
    with pytest.raises(UnrecognisedAudio) as caught:
        decode(data)
    assert str(caught.value).startswith("expected WAV, FLAC, Ogg")
    assert f"got {what}" in str(caught.value)


def test_shortened_sphere_names_the_program_that_helps() -> None:
    data = sphere(PCM, sample_count="16000", sample_rate="16000", sample_coding="pcm,embedded-shorten-v2.00")
    with pytest.raises(UnrecognisedAudio, match="sph2pipe"):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [b"", riff(b""), riff(b"", claims=0) + b"LIST\x04\x00\x00\x00INFO", write_sound(SPEECH[:0], 16000, "AIFF")],
    ids=["nothing", "wav", "wav with a chunk", "aiff"],
)
def test_no_samples(data: bytes) -> None:
    with pytest.raises(EmptyAudio):
        decode(data)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no such file"):
        decode(tmp_path / "absent.wav")
    with pytest.raises(AudioError, match="directory"):
        decode(tmp_path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_samples_are_refused_with_the_first_index(bad: float) -> None:
    both = np.zeros((1000, 2), dtype=np.float32)
    both[700, 0] = both[321, 1] = bad
    with pytest.raises(NonFiniteAudio, match="at sample 321 of channel 1") as caught:
        decode(write_sound(both, 16000, "WAV", "FLOAT"))
    assert caught.value.value == 321


# The cap


def silence(seconds: int, rate: int = 16000) -> bytes:
    return write_sound(np.zeros(seconds * rate, dtype=np.int16), rate, "FLAC")


def test_the_cap_holds_by_the_header() -> None:
    with pytest.raises(AudioTooLong, match=r"at most 60 s of sound, got 120.0 s") as caught:
        decode(silence(120), max_seconds=60)
    assert (caught.value.value, caught.value.limit) == (120.0, 60)
    assert decode(silence(60), max_seconds=60).duration == 60


def test_the_cap_holds_against_a_header_that_hides_the_length() -> None:
    data = bytearray(silence(300))
    data[21:26] = bytes([data[21] & 0xF0, 0, 0, 0, 0])
    tracemalloc.start()
    with pytest.raises(AudioTooLong):
        decode(bytes(data), max_seconds=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20  # 60 s are 4 MB


def test_a_header_does_not_decide_how_much_memory_is_taken() -> None:
    data = bytearray(write_sound(SPEECH, 16000, "FLAC"))
    data[21:26] = bytes([data[21] & 0xF0, 0x7F, 0xFF, 0xFF, 0xFF])
    tracemalloc.start()
    audio = decode(bytes(data), max_seconds=1e9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.7 < audio.duration <= 1
    assert "audio-truncated" in codes(audio)
    assert peak < 32 << 20


# Oddities


def test_plain_speech_has_no_notices() -> None:
    assert not decode(write_sound(SPEECH, 16000)).notices
    assert not decode(write_sound(speechlike(48000, 1.0), 48000), rate=16000).notices


def test_digital_silence() -> None:
    audio = decode(write_sound(np.zeros(16000), 16000))
    assert codes(audio) == ["audio-silent"]
    half = np.concatenate([SPEECH, np.zeros(16000, dtype=np.float32)])
    (notice,) = decode(write_sound(half, 16000)).notices
    assert notice.code == "audio-silent"
    assert notice.value == pytest.approx(0.5, abs=0.01)


def test_clipping() -> None:
    (notice,) = decode(write_sound(np.clip(20 * SPEECH, -1, 1), 16000)).notices
    assert notice.code == "audio-clipped"
    assert notice.value == (np.abs(20 * SPEECH) >= 0.9995).sum()
    assert not decode(write_sound(SPEECH / np.abs(SPEECH).max(), 16000)).notices  # normalised is not clipped


def test_samples_over_full_scale() -> None:
    over = decode(write_sound(1.5 * SPEECH / np.abs(SPEECH).max(), 16000, "WAV", "FLOAT"))
    assert np.abs(over.samples).max() == 1
    integers = decode(write_sound(np.round(SPEECH * 32767), 16000, "WAV", "FLOAT"))
    assert codes(integers) == ["audio-scaled"]
    np.testing.assert_allclose(integers.samples, SPEECH / np.abs(SPEECH).max(), atol=1e-4)


def test_dc_offset() -> None:
    (notice,) = decode(write_sound(SPEECH + 0.05, 16000)).notices
    assert notice.code == "audio-dc-offset"
    assert notice.value == pytest.approx(0.05, abs=0.002)


def test_quiet_sound() -> None:
    """Its level is named; what is a little quieter than usual has no notice."""
    loud = SPEECH / np.abs(SPEECH).max()
    (notice,) = decode(write_sound(loud * 10 ** (-46 / 20), 16000)).notices
    assert (notice.code, notice.value, notice.limit) == ("audio-quiet", pytest.approx(-46, abs=0.1), -35.0)
    assert "46 dB below full scale" in notice.message
    assert not decode(write_sound(loud * 10 ** (-34 / 20), 16000)).notices


def test_telephone_band() -> None:
    """8 kHz sound, as it is and put into a 16 kHz file."""
    narrow = speechlike(16000, 2.0)[::2]  # folded, but what matters is where it ends
    for audio in (
        decode(write_sound(narrow, 8000)),
        decode(write_sound(narrow, 8000), rate=16000),
        decode(write_sound(resample(narrow, 8000, 16000), 16000)),
    ):
        (notice,) = [n for n in audio.notices if n.code == "audio-bandwidth"]
        assert notice.value == pytest.approx(4000, abs=150)
    assert not decode(write_sound(narrow, 8000), rate=8000).notices


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (0.01 * SPEECH, "channel 0 is at"),
        (np.zeros_like(SPEECH), "channel 0 is at"),
        (SPEECH[::-1], "hold different sound"),
        (-SPEECH, "correlation -1.00"),
    ],
    ids=["quiet", "silent", "other speaker", "inverted"],
)
def test_channels_that_differ(right: np.ndarray, said: str) -> None:
    data = write_sound(np.stack([SPEECH, right], axis=1), 16000, "WAV", "FLOAT")
    (notice,) = [n for n in decode(data).notices if n.code == "audio-channels-differ"]
    assert said in notice.message
    assert "audio-channels-differ" not in codes(decode(data, channel=0))


# Anything at all

SEEDS = [
    riff(PCM[:4000]),
    write_sound(np.stack([SPEECH, SPEECH], axis=1)[:3000], 16000, "WAVEX", "PCM_24"),
    write_sound(SPEECH[:4000], 16000, "WAV", "MS_ADPCM"),
    write_sound(SPEECH[:4000], 16000, "AIFF"),
    write_sound(SPEECH[:4000], 16000, "NIST"),
    write_sound(SPEECH[:4000], 16000, "FLAC"),
    write_sound(SPEECH[:4000], 16000, "OGG", "VORBIS"),
    write_sound(SPEECH[:4000], 16000, "OGG", "OPUS"),
    encode_sound(SPEECH[:4000], 16000, "mp3", "libmp3lame"),
    encode_sound(SPEECH[:4000], 16000, "mp4", "aac"),
    encode_sound(SPEECH[:4000], 16000, "webm", "libopus"),
    encode_sound(speechlike(8000, 0.5), 8000, "amr", "libopencore_amrnb"),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8),
    st.floats(0.05, 1),
    st.booleans(),
)
def test_a_mutated_file_gives_sound_or_a_readable_error(
    seed: bytes, changes: list[tuple[float, int]], kept: float, in_head: bool
) -> None:
    data = bytearray(seed)
    for where, value in changes:
        data[int(where * (min(len(data), 120 if in_head else len(data)) - 1))] = value
    try:
        audio = decode(bytes(data[: int(kept * len(data))]), max_seconds=30, rate=16000)
    except PhonechainError as error:
        said = str(error)
        assert "\n" not in said
        assert said.startswith("expected")
    else:
        assert audio.samples.ndim == 1
        assert 0 < len(audio.samples) <= 31 * 16000
        assert np.isfinite(audio.samples).all()
        assert np.abs(audio.samples).max() <= 1
