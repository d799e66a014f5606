"""A reviewed file in the format in which it came, with everything else of the file as it was."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace

from phonechain.app.labelling import conversion
from phonechain.app.reviews.edits import ReviewSegment
from phonechain.app.reviews.tables import ReviewFile
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier, eaf_edit, textgrid_edit, tier_segments, timit
from phonechain.features.annotation.base import name_stem
from phonechain.features.errors import Notice
from phonechain.features.segments import Segment

_MARKS = {
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@dataclass(frozen=True, slots=True)
class Export:
    """The bytes of a file, its media type, and what its format could not keep."""

    data: bytes
    media_type: str
    notices: tuple[Notice, ...] = ()


def export(file: ReviewFile, source: bytes, segments: Sequence[ReviewSegment], format: str | None = None) -> Export:
    """The annotation `source` of a file with the segments of the review, in its own format or in `format`.

    Raises:
        AnnotationError: the format cannot hold the labels.
    """
    annotation = notation.read(source, name=file.annotation_name)
    if any(notice.code == "rate-assumed" for notice in annotation.notices) and file.original_rate is not None:
        annotation = conversion.change_rate(annotation, timit.RATE, file.original_rate)
    return rewrite(
        source, annotation, file.tier_index, segments, format or annotation.format,
        rate=file.original_rate, sound=file.name, name=file.annotation_name,
    )  # fmt: skip


def rewrite(
    source: bytes,
    annotation: Annotation,
    index: int,
    segments: Sequence[ReviewSegment],
    to: str,
    *,
    rate: int | None,
    sound: str,
    name: str,
) -> Export:
    """The file `source`, which was read as `annotation`, with the segments as its tier number `index`, in the format `to`.

    Without a change the bytes are those that came. In a TextGrid and in an ELAN file only the one tier is written anew;
    files of other formats are written as a whole, in the encoding and with the line ends that they had.

    Args:
        rate: sample rate of the recording `sound` (Hz), for formats that count in samples.
        name: the annotation's file name.

    Raises:
        AnnotationError: the format cannot hold the labels.
    """
    tier = annotation.tiers[index]
    wanted = [Segment(s.start, s.end, s.label) for s in segments]
    media_type = notation.FORMATS[to].media_type
    same = tier_segments(tier) == wanted
    if same and to == annotation.format:
        return Export(source, media_type)
    tiers = list(annotation.tiers)
    tiers[index] = Tier(tier.name, tier.kind, list(tier.entries) if same else wanted)
    changed = replace(annotation, tiers=tiers)
    if to == annotation.format and to in ("textgrid", "textgrid-short"):
        edited = textgrid_edit.replace_tier(source, index, wanted)
        if edited is not None:
            return Export(edited, media_type)
    if to == annotation.format == "eaf":
        edited = eaf_edit.edit_tier(source, index, [(s.id, s.start, s.end, s.label) for s in segments])
        if edited is not None:
            return Export(edited, media_type)
    data = conversion.render(changed, to, rate=rate, recording=name_stem(sound))
    back = notation.read(data, format=to, rate=rate if to == "timit" else None, name=name)
    lost = notation.omitted_tiers(changed, to)
    notices = tuple(conversion.find_losses(changed, back, lost))
    return Export(_restore_encoding(data, source, annotation) if to == annotation.format else data, media_type, notices)


def _restore_encoding(data: bytes, source: bytes, annotation: Annotation) -> bytes:
    """Text in the source's encoding and with its line ends, where it can be encoded so."""
    encoding = annotation.encoding
    if encoding is None or b"\0" in data:
        return data
    text = data.decode("utf-8")
    mark = _MARKS.get(encoding, b"")
    if mark and not source.startswith(mark):
        mark = b""
    elif encoding == "utf-8" and source.startswith(codecs.BOM_UTF8):
        mark = codecs.BOM_UTF8
    if "\r\n" in source.decode(encoding, errors="replace") and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    try:
        return mark + text.encode(encoding)
    except UnicodeEncodeError:
        return data
