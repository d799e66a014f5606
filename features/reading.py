"""Read a file with one call: the functions that `import phonechain` offers.

Each function takes a path or the bytes themselves. The packages behind them have every option:
`phonechain.features.annotation`, `phonechain.features.audio.reader`, `phonechain.features.corpora`.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Literal

from phonechain.features import annotation
from phonechain.features.annotation import Annotation
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.corpora import read as read_corpus
from phonechain.features.segments import Segment

__all__ = ["read_annotation", "read_audio", "read_corpus", "read_segments"]

Readable = str | PathLike[str] | bytes
"""A path, or what a file holds."""


def read_annotation(
    source: Readable,
    *,
    name: str | None = None,
    format: str | None = None,
    encoding: str | None = None,
    rate: int | None = None,
    utterance: str | None = None,
) -> Annotation:
    r"""Read an annotation file of any format.

    Args:
        source: its path, or its bytes.
        name: the file's name, whose suffix helps where the content fits several formats; by default that of the path.
        format: a key of `phonechain.features.annotation.FORMATS`; by default the content decides.
        encoding: of the text, a Python codec name; by default it is recognised.
        rate: sample rate (Hz), for formats that count in samples (TIMIT); by default 16000.
        utterance: name of the recording, in a file of several (MLF, CTM, Label Studio); by default `name`'s stem.

    Raises:
        UnrecognisedAnnotation: no format matches.
        AnnotationSyntaxError: the format's grammar is broken, with the line.
        AnnotationError: too large, an unknown format name, or otherwise unusable.
        OSError: the file cannot be read.

    Examples:
        >>> read = read_annotation(b"0.00 0.10 HH\n0.10 0.25 AY\n")
        >>> read.format
        'audacity'
        >>> read.tiers[0].entries[1]
        Segment(start=0.1, end=0.25, label='AY')
    """
    if not isinstance(source, bytes):
        path = Path(fspath(source))
        source, name = path.read_bytes(), path.name if name is None else name
    return annotation.read(source, name=name, format=format, encoding=encoding, rate=rate, utterance=utterance)


def read_segments(source: Readable | Annotation, *, tier: str | None = None) -> list[Segment]:
    r"""The segments of one tier of an annotation, times in seconds.

    Args:
        source: a path, bytes, or an annotation.
        tier: the tier's name, or its number from 1; by default the tier of the phones (see
            `phonechain.features.annotation.choose_tier`).

    Raises:
        UnknownTier: no tier of that name.
        NoSegments: the file has no tier of intervals.
        AnnotationError, OSError: as `read_annotation`.

    Examples:
        >>> read_segments(b"0.00 0.10 HH\n0.10 0.25 AY\n")
        [Segment(start=0.0, end=0.1, label='HH'), Segment(start=0.1, end=0.25, label='AY')]
    """
    read = source if isinstance(source, Annotation) else read_annotation(source)
    chosen, _ = annotation.choose_tier(read, tier)
    return annotation.tier_segments(chosen)


def read_audio(
    source: Readable,
    *,
    channel: int | Literal["mix"] = "mix",
    rate: int | None = None,
    max_seconds: float = 3600.0,
) -> Audio:
    """Decode a sound file to one channel of float32 samples `[n]` in [-1, 1].

    Args:
        source: its path, or its bytes. It is recognised by its content.
        channel: index from 0, or "mix" for the mean of all.
        rate: sample rate of the result (Hz); by default the file's own.
        max_seconds: longest sound to decode.

    Raises:
        AudioError: not a sound file, damaged, empty or too long (see `phonechain.features.audio.reader.decode`).

    Examples:
        >>> audio = read_audio("samples/LJ001-0002.flac", rate=16000)
        >>> audio.samples.shape, audio.rate, round(audio.duration, 3)
        ((30393,), 16000, 1.9)
    """
    data = source if isinstance(source, bytes) else Path(fspath(source))
    return decode(data, channel=channel, rate=rate, max_seconds=max_seconds)
