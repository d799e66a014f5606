"""Subtitles: SubRip (`.srt`) and WebVTT (`.vtt`), as speech recognisers write them. Milliseconds.

Source: "WebVTT: The Web Video Text Tracks Format", W3C; SubRip has no specification, and is read as its program writes it.
A cue is an interval; a voice (`<v Name>`) sorts cues into a tier of its own; other tags are left out, and timestamps
inside a cue, which some recognisers set before each word, become a tier of words.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from phonechain.features.annotation.base import Annotation, Format, Source, Tier, check_count, excerpt, one_line
from phonechain.features.annotation.tiers import main_tier
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError
from phonechain.features.segments import Segment

_TIME = r"(?:([0-9]{1,6}):)?([0-9]{1,2}):([0-9]{1,2})(?:[.,]([0-9]{1,6}))?"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?")
_VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^>]*)>")
_STAMP = re.compile(rf"<{_TIME}>")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")

Cue = tuple[float, float, str, int]
"""start, end, unchanged text, line"""


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float:
    whole = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
    return float(f"{whole}.{fraction or 0}")


def sniff_vtt(source: Source) -> int:
    return 3 if re.match(r"WEBVTT(?:[ \t\n]|\Z)", source.head) else 0


def sniff_srt(source: Source) -> int:
    first = [line for line in source.head.split("\n", 8)[:8] if line.strip()][:3]
    return 3 if any(_TIMING.fullmatch(line) for line in first) and not sniff_vtt(source) else 0


def _cues(source: Source) -> Iterator[Cue]:
    """The cues: text runs from the line of times to a blank line, or to the beginning of the next cue."""
    lines = source.text.split("\n")
    at, count = 0, 0
    while at < len(lines):
        match = _TIMING.fullmatch(lines[at])
        if match is None:
            if "-->" in lines[at]:
                raise AnnotationSyntaxError(f"expected two times, got {excerpt(lines[at].strip())}", line=at + 1)
            at += 1
            continue
        times, number = match.groups(), at + 1
        at += 1
        text = []
        while at < len(lines) and lines[at].strip() and not _TIMING.fullmatch(lines[at]):
            text.append(lines[at].strip())
            at += 1
        if at < len(lines) and text and _TIMING.fullmatch(lines[at]):
            text.pop()  # the number of the cue that follows without a blank line
        count += 1
        check_count(count, number)
        yield _seconds(*times[:4]), _seconds(*times[4:]), " ".join(text), number


def _parse(source: Source, name: str, *, markup: bool) -> Annotation:
    tiers: dict[str, Tier] = {}
    words = Tier("words", "interval")
    for start, end, text, line in _cues(source):
        voice = _VOICE.search(text)
        title = html.unescape(voice[1]).strip() if voice else ""
        tier = tiers.setdefault(title, Tier(title or "cues", "interval"))
        if markup:
            words.entries += _words(start, end, text)
        plain = _TAG.sub("", _STAMP.sub("", text)).strip()
        tier.entries.append(Segment(start, end, html.unescape(plain) if markup else plain))
        tier.lines.append(line)
    found = [*tiers.values(), *([words] if words.entries else [])]
    return source.annotation(found or [Tier("cues", "interval")], name)


def _words(start: float, end: float, text: str) -> list[Segment]:
    """The words of a cue with timestamps inside; none for other cues."""
    parts = _STAMP.split(text)
    if len(parts) == 1:
        return []
    times = [start, *(_seconds(*parts[i : i + 4]) for i in range(1, len(parts), 5)), end]
    texts = [html.unescape(_TAG.sub("", part or "")).strip() for part in parts[::5]]
    return [Segment(a, b, word) for a, b, word in zip(times, times[1:], texts, strict=False) if word and a <= b]


def parse_vtt(source: Source) -> Annotation:
    """Read WebVTT. Raises AnnotationSyntaxError with the line."""
    return _parse(source, "vtt", markup=True)


def parse_srt(source: Source) -> Annotation:
    """Read SubRip. Raises AnnotationSyntaxError with the line."""
    return _parse(source, "srt", markup=False)


def _clock(seconds: float, point: str) -> str:
    if seconds < 0:
        raise AnnotationError(f"expected times from 0 s on, which subtitles can hold, got {seconds:g} s")
    ms = round(seconds * 1000)
    return f"{ms // 3_600_000:02d}:{ms // 60_000 % 60:02d}:{ms // 1000 % 60:02d}{point}{ms % 1000:03d}"


def write_vtt(annotation: Annotation) -> bytes:
    """One tier, the answer where there is one; times are rounded to milliseconds. UTF-8."""
    tier, _ = main_tier(annotation)
    cues = [
        f"{_clock(s.start, '.')} --> {_clock(s.end, '.')}\n{html.escape(one_line(s.label), quote=False)}\n"
        for s in tier.entries
    ]
    return "\n".join(["WEBVTT\n", *cues]).encode()


def write_srt(annotation: Annotation) -> bytes:
    """As `write_vtt`. Raises AnnotationError for a label that a reader would take for markup."""
    tier, _ = main_tier(annotation)
    cues = []
    for k, s in enumerate(tier.entries, 1):
        label = one_line(s.label, "-->")
        if _TAG.search(label) or _STAMP.search(label):
            raise AnnotationError(f"expected labels that SubRip can hold, got {excerpt(label)}, which reads as a tag")
        cues.append(f"{k}\n{_clock(s.start, ',')} --> {_clock(s.end, ',')}\n{label}\n")
    return "\n".join(cues).encode()


VTT = Format("vtt", "WebVTT", (".vtt",), "text/vtt", sniff_vtt, parse_vtt, write_vtt, holds="one")
SRT = Format("srt", "SubRip", (".srt",), "application/x-subrip", sniff_srt, parse_srt, write_srt, holds="one")
