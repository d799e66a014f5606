"""Recognise a file by its first bytes, and read what its header promises.

Suffixes and declared types are ignored: both are often wrong. `sniff` knows the containers that can be decoded; `describe`
names other things that people send, for error messages. `announced_length` reads the number of samples in a header, because
libsndfile silently takes the end of a file for the end of the sound.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from phonechain.features.errors import Notice, UnrecognisedAudio

if TYPE_CHECKING:
    from phonechain.features.audio.decoders import Stream

HEAD = 4096
"""Bytes that `sniff` and `describe` need."""


@dataclass(frozen=True, slots=True)
class Container:
    """A kind of sound file.

    `av` is the name of FFmpeg's demuxer for it; None if only libsndfile reads it. FFmpeg never guesses the format: it could
    guess a playlist, and open other files and addresses.
    """

    title: str
    sndfile: bool
    av: str | None


WAV = Container("WAV", True, "wav")
W64 = Container("Wave64", True, "w64")
AIFF = Container("AIFF", True, "aiff")
AU = Container("AU", True, "au")
CAF = Container("CAF", True, "caf")
FLAC = Container("FLAC", True, "flac")
OGG = Container("Ogg", True, "ogg")
MP3 = Container("MP3", False, "mp3")  # libsndfile loses the end of a broken one, and complains on stderr
SPHERE = Container("NIST SPHERE", True, None)
MP4 = Container("MP4", False, "mov")
MATROSKA = Container("Matroska/WebM", False, "matroska")
AMR = Container("AMR", False, "amr")
ADTS = Container("AAC (ADTS)", False, "aac")
ASF = Container("Windows Media", False, "asf")
RAW = Container("raw", True, None)
AVI = Container("AVI", False, "avi")
MPEG_PS = Container("MPEG", False, "mpeg")
MPEG_TS = Container("MPEG-TS", False, "mpegts")

_BEGINNINGS = (
    (b"RF64", WAV),
    (b"BW64", WAV),
    (b"riff\x2e\x91\xcf\x11", W64),
    (b".snd", AU),
    (b"caff", CAF),
    (b"fLaC", FLAC),
    (b"OggS", OGG),
    (b"NIST_1A\n", SPHERE),
    (b"\x1aE\xdf\xa3", MATROSKA),
    (b"#!AMR\n", AMR),
    (b"#!AMR-WB\n", AMR),
    (b"0&\xb2u\x8ef\xcf\x11", ASF),
    (b"\x00\x00\x01\xba", MPEG_PS),
)

_OTHERS = (
    (b"PK\x03\x04", "a zip archive (or an Office document)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"ajkg", "Shorten-compressed sound without a header"),
    (b"ooTextFile", "a binary Praat file"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x7fELF", "a program"),
    (b"MThd", "a MIDI file, which holds notes and no sound"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file it stands for"),
)


def sniff(head: bytes) -> Container | None:
    """The container of a file with these first bytes (4096, or the whole file); None if unknown."""
    if head[:4] in (b"RIFF", b"RIFX") and head[8:12] == b"WAVE":
        return WAV
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return AVI
    if _is_transport_stream(head):
        return MPEG_TS
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return AIFF
    if head[4:8] == b"ftyp" or (head[:1] == b"\x00" and head[4:8] in (b"moov", b"mdat", b"wide", b"free")):
        return MP4
    for magic, container in _BEGINNINGS:
        if head.startswith(magic):
            return container
    if head.startswith(b"ID3"):
        tag = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=False))
        rest = head[tag:]
        return (sniff(rest) if rest and not rest.startswith(b"ID3") else None) or MP3
    if head[:1] == b"\xff" and len(head) > 6 and head[1] & 0xF6 == 0xF0:
        return ADTS
    return MP3 if _mpeg_frame(head) is not None else None


def describe(head: bytes) -> str:
    """Describe unrecognised bytes in a few words, for an error message."""
    for magic, what in _OTHERS:
        if head.startswith(magic):
            return what
    if head[:4] == b"RIFF":
        return f"a RIFF file of type {head[8:12]!r}, not WAVE"
    if not head.strip(b"\x00"):
        return "nothing but zero bytes"
    for encoding in ("utf-16",) if head[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8",):
        text = head.decode(encoding, errors="replace")
        if (
            len(text) > 3
            and all(c.isprintable() or c.isspace() for c in text[:-3].lstrip("\ufeff"))
            and "\ufffd" not in text[:-3]
        ):
            start = " ".join(text.lstrip("\ufeff").split())[:40]
            lower = start.lower()
            if lower.startswith(("<!doctype html", "<html")):
                return "an HTML page"
            if lower.startswith("<?xml"):
                return "an XML document"
            if "ootextfile" in lower:
                return "a Praat text file"
            return f"text that starts {start!r}"
    return f"bytes that start {head[:8].hex(' ')}"


def announced_length(container: Container, file: BinaryIO) -> tuple[int | None, bool]:
    """(samples per channel in the header, whether it leaves the length open).

    The number is None if there is none, or if only a decoder can tell.
    """
    return _read_length(container, file), _is_open_ended(container, file)


def _read_length(container: Container, file: BinaryIO) -> int | None:
    try:
        if container is WAV and (data := _chunk(file, b"data")) and (fmt := _chunk(file, b"fmt ")):
            file.seek(0)
            order = _order(file.read(4))
            file.seek(fmt[0])
            kind, _, _, _, align = struct.unpack(f"{order}HHIIH", file.read(14))
            plain = kind in (1, 3, 6, 7, 0xFFFE)  # PCM, float, A-law, mu-law, extensible: a sample a block
            return data[1] // align if plain and align and data[1] not in _OPEN else None
        if container is AIFF and (comm := _chunk(file, b"COMM")):
            file.seek(comm[0] + 2)
            return int.from_bytes(file.read(4), "big")
        if container is SPHERE:
            count = sphere_fields(file).get("sample_count", "")
            return int(count) if re.fullmatch("[0-9]{1,18}", count) else None
    except struct.error:
        return None
    return None


_OPEN = (0, 0xFFFFFFFF)
"""Sizes of the data that writers of streams leave in the header, for they cannot go back to it."""


def _is_open_ended(container: Container, file: BinaryIO) -> bool:
    """Whether the header leaves the length open: in a WAV a data size of 0 or the maximum, in a FLAC no total."""
    file.seek(0)
    head = file.read(26)
    if container is WAV and head[:4] in (b"RIFF", b"RIFX"):
        data = _chunk(file, b"data")
        return data is not None and data[1] in _OPEN
    if container is FLAC and head[4] & 0x7F == 0:  # RFC 9639, section 8.2: 36 bits from the middle of byte 21
        return int.from_bytes(head[21:26], "big") & 0xFFFFFFFFF == 0
    return False


def refuse_compressed_sphere(file: BinaryIO) -> None:
    """Raise UnrecognisedAudio for a NIST SPHERE file whose samples are compressed."""
    coding = sphere_fields(file).get("sample_coding", "pcm")
    if "embedded" in coding:
        raise UnrecognisedAudio(
            f"expected NIST SPHERE with plain samples, got sample_coding {coding}; "
            "`sph2pipe -f wav IN OUT` decompresses it",
            pointer="audio",
            value=coding,
        )


def container_notices(container: Container, file: BinaryIO, stream: Stream, count: int) -> list[Notice]:
    """Notices where a file holds less than its header promises, or where its sound may be shifted."""
    notices = []
    seconds = count / stream.rate
    exactly, is_open = announced_length(container, file)
    wanted = exactly if exactly is not None else (stream.frames or 0) - stream.rate // 10  # others round and pad
    if stream.damage:
        message = f"the file is damaged after {seconds:.3f} s: {stream.damage}; what comes before was decoded"
        notices.append(Notice("audio-truncated", message, "audio", round(seconds, 3)))
    elif count < wanted:
        announced = (exactly or stream.frames or 0) / stream.rate
        message = f"the header announces {announced:.3f} s, the file holds {seconds:.3f} s"
        notices.append(Notice("audio-truncated", message, "audio", round(seconds, 3), round(announced, 3)))
    elif container is OGG and not ogg_ends(file, file.seek(0, io.SEEK_END)):
        message = f"the file ends without its last page, after {seconds:.3f} s"
        notices.append(Notice("audio-truncated", message, "audio", round(seconds, 3)))
    elif is_open:
        message = f"the header gives no length; {seconds:.3f} s were decoded"
        notices.append(Notice("audio-length-unknown", message, "audio", round(seconds, 3)))
    if stream.gaps:
        message = f"{stream.gaps / stream.rate:.3f} s were missing between packets and are silence now"
        notices.append(Notice("audio-gaps", message, "audio", round(stream.gaps / stream.rate, 3)))
    if container is ASF:
        message = "Windows Media does not say where its sound starts: it may be shifted by some 30 ms either way"
        notices.append(Notice("audio-time-shift", message, "audio"))
    late = stream.late
    if stream.format.startswith("WAV MPEG"):
        late = 1105  # libsndfile's decoder, and no room in a WAV for the encoder's word
    if late:
        shift = 1000 * late / stream.rate
        message = (
            f"{stream.format} does not say how many samples its encoder put in front: the sound is probably late by "
            f"{shift:.0f} ms ({late} samples) or more"
        )
        notices.append(Notice("audio-time-shift", message, "audio", round(shift / 1000, 4)))
    return notices


def is_empty_wav(file: BinaryIO, size: int) -> bool:
    """Whether a WAV whose data chunk claims to be empty really is: nothing but complete chunks follows."""
    data = _chunk(file, b"data")
    if data is None:
        return True
    file.seek(0)
    order = _order(file.read(4))
    at, _ = data
    while at + 8 <= size:
        file.seek(at)
        name, length = struct.unpack(f"{order}4sI", file.read(8))
        if not name.isascii() or not name.strip().isalnum():
            return False
        at += 8 + length + length % 2
    return at - 1 <= size <= at + 1


def sphere_fields(file: BinaryIO) -> dict[str, str]:
    """The fields in the header of a NIST SPHERE file: lines `name -type value`, up to `end_head`."""
    file.seek(0)
    fields = {}
    for line in file.read(1 << 14).decode("latin-1").splitlines()[2:]:
        if line.strip() == "end_head":
            break
        name, _, rest = line.strip().partition(" ")
        fields[name] = rest.partition(" ")[2].strip()
    return fields


def ogg_ends(file: BinaryIO, size: int) -> bool:
    """Whether the last page of an Ogg file is complete and marked as the last (RFC 3533, section 6)."""
    file.seek(max(0, size - (1 << 16) - 300))  # a page has at most 65 307 bytes
    tail = file.read()
    at = tail.rfind(b"OggS")
    if at < 0 or at + 27 > len(tail):
        return False
    lacing = tail[at + 27 : at + 27 + tail[at + 26]]
    return bool(tail[at + 5] & 4) and at + 27 + tail[at + 26] + sum(lacing) <= len(tail)


def _chunk(file: BinaryIO, name: bytes) -> tuple[int, int] | None:
    """Offset and claimed length of the content of the first RIFF or IFF chunk with that name."""
    return next(((at, length) for found, at, length in riff_chunks(file) if found == name), None)


def riff_chunks(file: BinaryIO, *, tolerant: bool = False) -> Iterator[tuple[bytes, int, int]]:
    """(name, offset of the content, claimed length) of each chunk of a RIFF or IFF file.

    A chunk of odd length is followed by a padding byte; `tolerant` accepts that it is missing if a chunk's name is in its
    place.
    """
    file.seek(0)
    order = _order(file.read(4))
    at = 12
    for _ in range(1000):
        file.seek(at)
        header = file.read(8)
        if len(header) < 8:
            return
        name, length = struct.unpack(f"{order}4sI", header)
        yield name, at + 8, length
        at += 8 + length
        if length % 2:
            file.seek(at)
            after = file.read(5)
            at += not (tolerant and _is_name(after[:4]) and not _is_name(after[1:]))


def _is_name(four: bytes) -> bool:
    return len(four) == 4 and four.isascii() and four.strip(b" ").isalnum()


def _order(form: bytes) -> str:
    """Byte order of a file of that form, for `struct`."""
    return ">" if form in (b"FORM", b"RIFX") else "<"


def _mpeg_frame(head: bytes) -> int | None:
    """Offset in the first bytes of an MPEG audio frame (layer II or III) that is followed by another."""
    at = head.find(b"\xff")
    while 0 <= at <= len(head) - 4:
        length = _mpeg_frame_length(head[at : at + 4])
        if length and (
            at + length == len(head) or (at + length + 4 <= len(head) and _mpeg_frame_length(head[at + length :][:4]))
        ):
            return at
        at = head.find(b"\xff", at + 1)
    return None


def _is_transport_stream(head: bytes) -> bool:
    """Whether packets of 188 bytes (192 on Blu-ray and in cameras, with a timestamp before each) begin with a sync byte."""
    for offset, length in ((0, 188), (4, 192)):
        marks = head[offset::length]
        if len(marks) >= 3 and set(marks) == {0x47}:
            return True
    return False


_KBITS = {  # (MPEG-1?, layer) -> kbit/s by index (ISO 11172-3, 2.4.2.3; ISO 13818-3)
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


def _mpeg_frame_length(header: bytes) -> int:
    """Length of the frame with that header; 0 if it is not one. Layer I is left out, for it looks like UTF-16."""
    word = int.from_bytes(header, "big")
    version, layer = word >> 19 & 3, 4 - (word >> 17 & 3)
    bitrate, rate = word >> 12 & 15, word >> 10 & 3
    if word >> 21 != 0x7FF or version == 1 or layer not in (2, 3) or bitrate in (0, 15) or rate == 3:
        return 0
    hertz = (44100, 48000, 32000)[rate] >> {3: 0, 2: 1, 0: 2}[version]
    slots = 72 if layer == 3 and version != 3 else 144
    return slots * 1000 * _KBITS[version == 3, layer][bitrate] // hertz + (word >> 9 & 1)
