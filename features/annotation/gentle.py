"""The JSON of the aligner Gentle: words with their times, and their phones with durations, in seconds.

Source: the program's README and what its server answers. A phone begins where the one before ends; its name carries the
place in the word (`ih_B`) and is kept so. Words that were not found have no times and are left out.
"""

from __future__ import annotations

from typing import Any

from phonechain.features.annotation.base import Annotation, Format, Source, Tier, check_count, excerpt, printable
from phonechain.features.annotation.json import json_number, kind_of, load
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment


def sniff(source: Source) -> int:
    head = source.head
    found = head.lstrip()[:1] == "{" and '"words"' in head and ('"alignedWord"' in head or '"case"' in head)
    return 3 if found else 0


def parse(source: Source) -> Annotation:
    """Read an answer of Gentle. Raises AnnotationSyntaxError with a pointer."""
    value = load(source.text)
    given = value.get("words") if isinstance(value, dict) else None
    if not isinstance(given, list):
        raise AnnotationSyntaxError(f'expected "words" as a list, got {kind_of(given)}', pointer="words")
    words, phones = Tier("words", "interval"), Tier("phones", "interval")
    lost: list[str] = []
    for i, word in enumerate(given):
        at = f"words/{i}"
        if not isinstance(word, dict):
            raise AnnotationSyntaxError(f"expected a word as an object, got {kind_of(word)}", pointer=at)
        spelling = word.get("word", word.get("alignedWord", ""))
        spelling = spelling if isinstance(spelling, str) else ""
        if word.get("start") is None or word.get("end") is None:
            lost.append(spelling)
            continue
        start, end = json_number(word["start"], f"{at}/start"), json_number(word["end"], f"{at}/end")
        words.entries.append(Segment(start, end, spelling))
        phones.entries += _phones(word.get("phones"), start, f"{at}/phones")
        check_count(len(words.entries) + len(phones.entries))
    notices = []
    if lost:
        message = f"{len(lost)} of {len(given)} words were not found in the sound and have no times, the first {excerpt(lost[0])}"
        notices.append(Notice("words-without-times", message, "words", float(len(lost))))
    tiers = [words, *([phones] if phones.entries else [])]
    return source.annotation(printable(tiers), "gentle", notices=notices)


def _phones(given: Any, start: float, at: str) -> list[Segment]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise AnnotationSyntaxError(f"expected phones as a list, got {kind_of(given)}", pointer=at)
    out = []
    for i, phone in enumerate(given):
        if not isinstance(phone, dict) or not isinstance(phone.get("phone"), str):
            raise AnnotationSyntaxError(
                f"expected a phone with its duration, got {kind_of(phone)}", pointer=f"{at}/{i}"
            )
        # Sums of decimals, rounded to what decimals can say.
        end = round(start + json_number(phone.get("duration"), f"{at}/{i}/duration"), 9)
        out.append(Segment(start, end, phone["phone"]))
        start = end
    return out


FORMAT = Format("gentle", "Gentle JSON", (".json",), "application/json", sniff, parse)
