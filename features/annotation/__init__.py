"""Annotation files: read tiers of labelled intervals, and write them with answers.

`read` goes by the content, and uses the suffix of the name only to break ties; `write` is its inverse. One file per format.
"""

from __future__ import annotations

import re

from phonechain.features.annotation import (
    aeneas,
    audacity,
    ctm,
    eaf,
    emu,
    gentle,
    htk,
    json,
    labelstudio,
    lhotse,
    mlf,
    par,
    rttm,
    subtitles,
    tabular,
    textgrid,
    textgrid_binary,
    timit,
    whisper,
    xlabel,
)
from phonechain.features.annotation.base import (
    MAX_BYTES,
    MAX_ENTRIES,
    SNIFFED,
    Annotation,
    Format,
    Options,
    Source,
    Tier,
    excerpt,
    name_stem,
)
from phonechain.features.annotation.tiers import add_labels, choose_tier, list_tiers, shift, tier_segments
from phonechain.features.annotation.tiers import omitted_tiers as _omitted_tiers
from phonechain.features.errors import AnnotationError, UnrecognisedAnnotation

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "READABLE",
    "SUFFIXES",
    "Annotation",
    "Format",
    "Options",
    "Tier",
    "add_labels",
    "choose_tier",
    "format_named",
    "format_of",
    "list_tiers",
    "omitted_tiers",
    "read",
    "read_all",
    "shift",
    "stem_of",
    "tier_segments",
    "write",
]

READABLE: dict[str, Format] = {
    f.name: f
    for f in (
        textgrid.LONG,
        textgrid.SHORT,
        textgrid_binary.FORMAT,
        eaf.FORMAT,
        htk.FORMAT,
        mlf.FORMAT,
        timit.FORMAT,
        ctm.FORMAT,
        xlabel.FORMAT,
        xlabel.BUCKEYE,
        par.FORMAT,
        audacity.FORMAT,
        tabular.CSV,
        tabular.TSV,
        labelstudio.FORMAT,
        emu.FORMAT,
        subtitles.VTT,
        subtitles.SRT,
        gentle.FORMAT,
        whisper.FORMAT,
        aeneas.FORMAT,
        lhotse.FORMAT,
        rttm.FORMAT,
        json.FORMAT,
    )
}
"""Every format by its name; the order breaks ties between formats that are equally sure."""

FORMATS: dict[str, Format] = {name: f for name, f in READABLE.items() if f.write is not None}
"""The formats that can also be written."""

_OTHERS = {
    b"RIFF": "a WAV recording",
    b"NIST_1A": "a SPHERE recording",
    b"fLaC": "a FLAC recording",
    b"OggS": "an Ogg recording",
    b"ID3": "an MP3 recording",
    b"FORM": "an AIFF recording",
    b"PK\x03\x04": "a zip archive (or an office document)",
    b"%PDF": "a PDF",
}
"""Files that people send in place of an annotation."""

SUFFIXES: tuple[str, ...] = tuple(dict.fromkeys(s for f in READABLE.values() for s in f.suffixes))
"""Suffixes of annotation files, in lower case with their dots."""


def read(
    data: bytes,
    *,
    name: str | None = None,
    format: str | None = None,
    encoding: str | None = None,
    rate: int | None = None,
    utterance: str | None = None,
    audio: str | None = None,
    channel: int | None = None,
) -> Annotation:
    r"""Read an annotation file of any format.

    Args:
        data: the file's bytes.
        name: its name; the suffix helps where the content fits several formats.
        format: a key of READABLE; None recognises it.
        encoding: of the text, a Python codec name; None recognises it.
        rate: samples per second, for formats that count in samples (TIMIT); None means 16000.
        utterance: name of the recording, in a file of several (MLF, CTM, Label Studio); None takes the one with the name of
            the sound, else of the file.
        audio: name of the sound, without folders and suffix.
        channel: number of the channel, from 0, in a file that distinguishes the channels of a sound (CTM).

    Raises:
        UnrecognisedAnnotation: no format matches.
        AnnotationSyntaxError: the format's grammar is broken, with the line.
        AnnotationError: too large, an unknown format name, or otherwise unusable.

    Examples:
        >>> found = read(b"0 1000000 HH\n1000000 2500000 AY\n", name="hi.lab")
        >>> found.format, found.tiers[0].entries
        ('htk', [Segment(start=0.0, end=0.1, label='HH'), Segment(start=0.1, end=0.25, label='AY')])
    """
    source = Source(data, name=name, encoding=encoding, options=Options(rate, utterance, audio, channel))
    if not data or data.isspace():
        raise UnrecognisedAnnotation("expected an annotation, got an empty file")
    if format is None and (other := describe_other(data)) is not None:
        raise UnrecognisedAnnotation(f"expected an annotation, got {other}; are the two files swapped?")
    return (_format(format, READABLE) if format is not None else sniff(source)).parse(source)


def describe_other(data: bytes) -> str | None:
    """What a file is that people send in place of an annotation, such as "a WAV recording"; None if it is no such file."""
    return next((what for magic, what in _OTHERS.items() if data.startswith(magic)), None)


def read_all(data: bytes, *, name: str | None = None) -> dict[str, Annotation]:
    r"""All recordings of a file, by name without folders and suffix; most formats have one per file.

    Raises:
        AnnotationError: as `read`.

    Examples:
        >>> data = b"#!MLF!#\n\"*/a.lab\"\n0 1000000 HH\n.\n\"*/b.lab\"\n0 2000000 AY\n.\n"
        >>> {name: one.tiers[0].entries for name, one in read_all(data, name="all.mlf").items()}
        {'a': [Segment(start=0.0, end=0.1, label='HH')], 'b': [Segment(start=0.0, end=0.2, label='AY')]}
    """
    source = Source(data, name=name)
    form = sniff(source)
    return form.parse_all(source) if form.parse_all is not None else {source.stem or "": form.parse(source)}


def sniff(source: Source) -> Format:
    """The format that the content fits best. Raises UnrecognisedAnnotation."""
    scored: list[tuple[int, bool, Format]] = []
    for f in READABLE.values():
        try:
            certainty = f.sniff(source)
        except UnrecognisedAnnotation:  # a format of text, which binary data cannot be
            certainty = 0
        if certainty == 3:  # a magic word; nothing further, so that binary data is never taken for text
            return f
        scored.append((certainty, source.suffix in f.suffixes, f))
    certainty, _, best = max(scored, key=lambda s: (s[0], s[1]))
    if certainty:
        return best
    start = excerpt(" ".join(source.head[:60].split()))  # binary data that no format knows is refused here
    by_name = next((f for _, named, f in scored if named), None)
    if by_name is not None and (not by_name.flat or (source.suffix != ".txt" and _has_times(source))):
        return by_name  # its parser gives a better error, with the line
    if not _has_times(source):
        raise UnrecognisedAnnotation(
            f"expected labels with their times, got text without times, which begins with {start}"
        )
    known = ", ".join(f.title for f in READABLE.values())
    raise UnrecognisedAnnotation(f"expected one of {known}; got a file that begins with {start}")


def _has_times(source: Source) -> bool:
    """True if most of the first lines contain a number."""
    lines = [line for line in source.head.split("\n", SNIFFED)[:SNIFFED] if line.strip()]
    return 2 * sum(any(c.isdigit() for c in line) for line in lines) > len(lines)


def write(annotation: Annotation, format: str, *, recording: str | None = None, rate: int | None = None) -> bytes:
    r"""The annotation as a file of that format.

    Args:
        annotation: what to write.
        format: a key of FORMATS.
        recording: name of the sound, without folders and suffix, for formats that name it (CTM, MLF, EMU).
        rate: samples per second of the sound, for formats that count in samples (TIMIT, EMU); None takes 16000.

    Raises:
        AnnotationError: no such format, or one that cannot hold these labels.

    Examples:
        >>> annotation = read(b"0 1000000 HH\n1000000 2500000 AY\n", name="hi.lab")
        >>> print(write(annotation, "audacity").decode())
        0	0.1	HH
        0.1	0.25	AY
        <BLANKLINE>
    """
    form = _format(format, FORMATS)
    assert form.write is not None
    about = {"recording": recording, "rate": rate} if form.names_sound else {}
    return form.write(annotation, **about)


def omitted_tiers(annotation: Annotation, format: str) -> list[str]:
    """Names of the tiers that `write` leaves out, for a file of that format has no room for them. Raises AnnotationError.

    Examples:
        >>> from pathlib import Path
        >>> annotation = read(Path("samples/LJ001-0002.TextGrid").read_bytes())
        >>> omitted_tiers(annotation, "htk")
        ['words']
    """
    return _omitted_tiers(annotation, _format(format, FORMATS))


def format_of(name: str) -> Format | None:
    """The written format with the suffix of this file name: the one with that name, else the first; None if there is none.

    Examples:
        >>> format_of("speech.TextGrid").name
        'textgrid'
        >>> format_of("speech.pdf") is None
        True
    """
    suffix = _suffix(name)
    found = [f for f in FORMATS.values() if suffix in f.suffixes]
    return next((f for f in found if suffix == f".{f.name}"), found[0] if found else None)


def stem_of(name: str) -> str:
    """A file's name without folders and annotation suffix (EMU's is `_annot.json`).

    >>> stem_of("a/b.c.TextGrid"), stem_of("b_annot.json"), stem_of("b.docx")
    ('b.c', 'b', 'b')
    """
    suffix = _suffix(name)
    return name_stem(name) if not suffix else re.split(r"[/\\\\]", name[: -len(suffix)])[-1]


def _suffix(name: str) -> str:
    """The longest suffix of an annotation that the name ends with, lower case; empty if there is none."""
    lower = re.split(r"[/\\\\]", name)[-1].lower()
    return max((s for s in SUFFIXES if lower.endswith(s) and len(lower) > len(s)), key=len, default="")


def format_named(name: str, formats: dict[str, Format] | None = None) -> Format | None:
    """The format of this name in any case, or of this suffix: `TextGrid`, `EAF`, `.phn`; None if there is none.

    >>> format_named("TextGrid").name, format_named(".PHN").name, format_named("docx")
    ('textgrid', 'timit', None)
    """
    known = FORMATS if formats is None else formats
    lower = name.strip().lower()
    by_suffix = (f for f in known.values() if f".{lower.lstrip('.')}" in f.suffixes)
    return known.get(lower) or next(by_suffix, None)


def _format(name: str, known: dict[str, Format]) -> Format:
    try:
        return known[name]
    except KeyError:
        raise AnnotationError(
            f"expected one of the formats {', '.join(known)}; got '{name[:40]}'", pointer="format", value=name[:40]
        ) from None
