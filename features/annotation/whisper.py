"""The JSON of the recognisers Whisper and WhisperX: utterances, words, and optionally characters, in seconds.

Source: the programs' own writers. A word's `score` (WhisperX) or `probability` (Whisper) becomes a tier of numbers beside
the words. Words and characters that could not be aligned have no times and are left out.
"""

from __future__ import annotations

import re
from typing import Any

from phonechain.features.annotation.base import SCORE, Annotation, Format, Source, Tier, check_count, printable
from phonechain.features.annotation.json import json_number, kind_of, load
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment

_LEVELS = (("words", "words", ("word", "text")), ("chars", "characters", ("char",)))
"""Key in a segment, name of the tier, keys of the label."""

_SCORES = ("score", "probability", "confidence")


def sniff(source: Source) -> int:
    head = source.head
    if head.lstrip()[:1] != "{" or '"segments"' not in head:
        return 0
    return 3 if re.search(r'"(?:words|chars|word_segments)"\s*:\s*\[', head) and '"text"' in head else 0


def parse(source: Source) -> Annotation:
    """Read a transcription. Raises AnnotationSyntaxError with a pointer."""
    value = load(source.text)
    given = value.get("segments") if isinstance(value, dict) else None
    if not isinstance(given, list):
        raise AnnotationSyntaxError(f'expected "segments" as a list, got {kind_of(given)}', pointer="segments")
    spoken = Tier("utterances", "interval")
    tiers = {key: (Tier(title, "interval"), Tier(title + SCORE, "interval")) for key, title, _ in _LEVELS}
    lost = 0
    for i, segment in enumerate(given):
        at = f"segments/{i}"
        if not isinstance(segment, dict):
            raise AnnotationSyntaxError(f"expected a segment as an object, got {kind_of(segment)}", pointer=at)
        start, end = (json_number(segment.get(key), f"{at}/{key}") for key in ("start", "end"))
        spoken.entries.append(Segment(start, end, _text(segment, ("text",))))
        for key, _, labels in _LEVELS:
            parts = segment.get(key)
            if parts is None:
                continue
            if not isinstance(parts, list):
                raise AnnotationSyntaxError(f'expected "{key}" as a list, got {kind_of(parts)}', pointer=f"{at}/{key}")
            check_count(len(tiers[key][0].entries) + len(parts))
            for k, part in enumerate(parts):
                lost += not _add(part, labels, tiers[key], f"{at}/{key}/{k}")
    notices = []
    if lost:
        message = f"{lost} words or characters have no times and were left out"
        notices.append(Notice("words-without-times", message, "segments", float(lost)))
    found = [t for pair in tiers.values() for t in pair if any(s.label for s in t.entries)]
    return source.annotation(printable([*found, spoken]), "whisper", notices=notices)


def _add(part: Any, labels: tuple[str, ...], tiers: tuple[Tier, Tier], at: str) -> bool:
    """Put a word or a character into its tiers; False if it has no times."""
    if not isinstance(part, dict):
        raise AnnotationSyntaxError(f"expected a word as an object, got {kind_of(part)}", pointer=at)
    label = _text(part, labels)
    if part.get("start") is None or part.get("end") is None:
        return not label  # a blank between words has none either
    start, end = json_number(part["start"], f"{at}/start"), json_number(part["end"], f"{at}/end")
    score = next((part[k] for k in _SCORES if type(part.get(k)) in (int, float)), None)
    tiers[0].entries.append(Segment(start, end, label))
    tiers[1].entries.append(Segment(start, end, "" if score is None or not abs(score) < 1e9 else f"{score:.4f}"))
    return True


def _text(part: dict[str, Any], keys: tuple[str, ...]) -> str:
    said = next((part[k] for k in keys if isinstance(part.get(k), str)), "")
    return said.strip()


FORMAT = Format("whisper", "Whisper and WhisperX JSON", (".json",), "application/json", sniff, parse)
