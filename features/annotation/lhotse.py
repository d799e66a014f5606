"""Supervisions of lhotse: one JSON object per line, or a list of them, each for a stretch of a recording, in seconds.

Source: the lhotse documentation, "Supervisions". `alignment` has items `[symbol, start, duration, score]` by their kind,
each of which becomes a tier; `text`, or the speaker where there is none, labels the tier of supervisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phonechain.features.annotation.base import (
    SCORE,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    name_stem,
    pick,
    printable,
)
from phonechain.features.annotation.json import json_number, kind_of, load
from phonechain.features.errors import AnnotationSyntaxError
from phonechain.features.segments import Segment

_TITLES = {"word": "words", "phone": "phones", "phoneme": "phones"}

Supervisions = dict[str, list[tuple[dict[str, Any], str]]]
"""By recording: each supervision with its position in the file."""


def sniff(source: Source) -> int:
    head = source.head
    return 3 if head.lstrip()[:1] in ("{", "[") and '"recording_id"' in head and '"duration"' in head else 0


def _objects(source: Source) -> Iterator[tuple[Any, str]]:
    if source.head.lstrip()[:1] == "[":
        value = load(source.text)
        yield from ((one, str(i)) for i, one in enumerate(value if isinstance(value, list) else [value]))
        return
    for at, line in source.lines():
        try:
            yield load(line), f"line {at}"
        except AnnotationSyntaxError as error:
            raise AnnotationSyntaxError(str(error).partition(": ")[2] or str(error), line=at) from None


def _recordings(source: Source) -> Supervisions:
    found: Supervisions = {}
    for count, (one, at) in enumerate(_objects(source), 1):
        check_count(count)
        if not isinstance(one, dict) or not isinstance(one.get("recording_id"), str):
            raise AnnotationSyntaxError(
                f'expected a supervision with its "recording_id", got {kind_of(one)}', pointer=at
            )
        found.setdefault(name_stem(one["recording_id"]), []).append((one, at))
    return found


def _annotation(source: Source, supervisions: list[tuple[dict[str, Any], str]]) -> Annotation:
    spoken = Tier("supervisions", "interval")
    tiers: dict[str, Tier] = {}
    scores: dict[str, Tier] = {}
    channels = set()
    for one, at in supervisions:
        start = json_number(one.get("start"), f"{at}/start")
        end = round(start + json_number(one.get("duration"), f"{at}/duration"), 9)
        said = next((one[k] for k in ("text", "speaker") if isinstance(one.get(k), str)), "")
        spoken.entries.append(Segment(start, end, said))
        channels.add(one["channel"] if type(one.get("channel")) is int else None)
        alignment = one.get("alignment") or {}
        if not isinstance(alignment, dict):
            raise AnnotationSyntaxError(f"expected an alignment as an object, got {kind_of(alignment)}", pointer=at)
        for kind, items in alignment.items():
            title = str(_TITLES.get(kind, kind))
            tier = tiers.setdefault(title, Tier(title, "interval"))
            numbers = scores.setdefault(title, Tier(title + SCORE, "interval"))
            if not isinstance(items, list):
                raise AnnotationSyntaxError(f"expected items as a list, got {kind_of(items)}", pointer=f"{at}/{kind}")
            check_count(len(tier.entries) + len(items))
            for k, item in enumerate(items):
                segment, score = _item(item, f"{at}/alignment/{kind}/{k}")
                tier.entries.append(segment)
                numbers.entries.append(Segment(segment.start, segment.end, score))
    found = [spoken, *tiers.values(), *(t for t in scores.values() if any(s.label for s in t.entries))]
    for tier in found:
        tier.entries.sort(key=lambda s: (s.start, s.end))
    annotation = source.annotation(printable(found), "lhotse")
    known = channels.pop() if len(channels) == 1 else None
    annotation.channel = known if known else None  # 0 alone is written of any sound
    return annotation


def _item(item: Any, at: str) -> tuple[Segment, str]:
    if isinstance(item, dict):
        item = [item.get(key) for key in ("symbol", "start", "duration", "score")]
    if not isinstance(item, list) or len(item) < 3 or not isinstance(item[0], str):
        raise AnnotationSyntaxError(f"expected a symbol, a start and a duration, got {kind_of(item)}", pointer=at)
    start = json_number(item[1], f"{at}/1")
    end = round(start + json_number(item[2], f"{at}/2"), 9)
    score = item[3] if len(item) > 3 else None
    text = f"{score:.4f}" if isinstance(score, (int, float)) and abs(score) < 1e9 else ""
    return Segment(start, end, item[0]), text


def parse(source: Source) -> Annotation:
    """Read the supervisions of one recording.

    Raises:
        AnnotationSyntaxError: with a line or a pointer.
        AnnotationError: the recording that is meant is not there, or it is not said which is.
    """
    recordings = _recordings(source)
    return _annotation(source, recordings[pick(source, list(recordings))])


def parse_all(source: Source) -> dict[str, Annotation]:
    """Every recording of the file, by its id."""
    return {name: _annotation(source, found) for name, found in _recordings(source).items()}


FORMAT = Format(
    "lhotse", "lhotse supervisions", (".jsonl", ".json"), "application/jsonl", sniff, parse, parse_all=parse_all
)
