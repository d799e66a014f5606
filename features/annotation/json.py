"""Our own JSON, and the JSON that aligners write.

    {"start": 0.0, "end": 1.5, "tiers": [{"name": "phones", "kind": "interval",
                                          "entries": [{"start": 0.0, "end": 0.12, "label": "h"}, ...]}, ...]}

is what we write. Read are also: a bare list of segments; `{"segments": [...]}`, which is how the service answers; a
segment as `[start, end, label]`; tiers as an object by name (Montreal Forced Aligner, praatIO). Seconds.
"""

from __future__ import annotations

import json
import math
from typing import Any

from phonechain.features.annotation.base import (
    ANSWER,
    MAX_SECONDS,
    POSTERIOR,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    printable,
)
from phonechain.features.errors import AnnotationSyntaxError, UnrecognisedAnnotation
from phonechain.features.segments import Segment

_STARTS = ("start", "begin", "xmin", "time", "number")
_ENDS = ("end", "stop", "xmax")
_LABELS = ("label", "text", "phone", "mark", "value")
_ENTRIES = ("entries", "segments", "intervals", "points", "entryList")


def sniff(source: Source) -> int:
    return 2 if source.head.lstrip()[:1] in ("{", "[") else 0


def parse(source: Source) -> Annotation:
    """Read JSON. Raises AnnotationSyntaxError with the line (JSON itself) or with a pointer (its meaning)."""
    return from_object(load(source.text), source)


def load(text: str) -> Any:
    """`json.loads` whose errors are ours; NaN and Infinity are no JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        got = excerpt(text[error.pos : error.pos + 20]) if error.pos < len(text) else "the end of the file"
        message = f"expected JSON, got {got}: {error.msg} (column {error.colno})"
        raise AnnotationSyntaxError(message, line=error.lineno) from None
    except RecursionError:
        raise AnnotationSyntaxError("expected JSON of a few levels, got nesting without end") from None
    except ValueError as error:
        raise AnnotationSyntaxError(f"expected JSON, got {excerpt(str(error))}") from None


def _refuse(name: str) -> float:
    raise ValueError(name)


def from_object(value: Any, source: Source | None = None) -> Annotation:
    """The annotation that a parsed JSON value means. Raises AnnotationSyntaxError with a pointer."""
    start, end = 0.0, None
    if isinstance(value, list):
        tiers = _tier(value, "segments", "interval", "")
    elif isinstance(value, dict):
        start = _time(value, ("start", "xmin"), "", default=0.0)
        end = _time(value, ("end", "xmax"), "", default=None)
        tiers = _all_tiers(value)
    else:
        raise AnnotationSyntaxError(f"expected a JSON object or list, got {kind_of(value)}", pointer="")
    check_count(sum(len(t.entries) for t in tiers))
    tiers = printable(tiers)
    return source.annotation(tiers, "json", start=start, end=end) if source else Annotation(tiers, "json", start, end)


def _all_tiers(value: dict[str, Any]) -> list[Tier]:
    if "tiers" not in value:
        key = next((k for k in _ENTRIES if k in value), None)
        if key is None:
            raise UnrecognisedAnnotation('expected "tiers" or "segments", got ' + _keys(value), pointer="")
        entries = value[key]
        if not isinstance(entries, list):
            raise AnnotationSyntaxError(f'expected "{key}" as a list, got {kind_of(entries)}', pointer=key)
        name = value.get("tier")
        return _tier(entries, name if isinstance(name, str) else "segments", "interval", "segments")
    given = value["tiers"]
    if isinstance(given, dict):
        pairs = [(f"tiers/{name}", name, body) for name, body in given.items()]
    elif isinstance(given, list):
        pairs = [
            (f"tiers/{i}", body.get("name", f"tier {i + 1}") if isinstance(body, dict) else "", body)
            for i, body in enumerate(given)
        ]
    else:
        raise AnnotationSyntaxError(f'expected "tiers" as a list, got {kind_of(given)}', pointer="tiers")
    tiers: list[Tier] = []
    for at, name, body in pairs:
        if not isinstance(body, dict):
            raise AnnotationSyntaxError(f"expected a tier as an object, got {kind_of(body)}", pointer=at)
        if not isinstance(name, str):
            raise AnnotationSyntaxError(f"expected a tier's name as text, got {kind_of(name)}", pointer=f"{at}/name")
        key = next((k for k in _ENTRIES if k in body), None)
        entries = body[key] if key else None
        if not isinstance(entries, list):
            raise AnnotationSyntaxError(
                f'expected "entries" as a list, got {kind_of(entries)}', pointer=f"{at}/entries"
            )
        said = str(body.get("kind", body.get("type", body.get("class", "interval")))).casefold()
        kind = "point" if "point" in said or said == "texttier" else "interval"
        tiers += _tier(entries, name, kind, f"{at}/{key}")
    return tiers


def _tier(entries: list[Any], name: str, kind: str, at: str) -> list[Tier]:
    check_count(len(entries))
    point = kind == "point"
    tier = Tier(name, "point" if point else "interval")
    answers: list[tuple[Any, Any]] = []
    for i, entry in enumerate(entries):
        if type(entry) is dict and not point and (span := _plain(entry)) is not None:
            tier.entries.append(span)
            answers.append((entry.get("given"), entry.get("posterior")) if len(entry) > 3 else _NO_ANSWER)
            continue
        where = f"{at}/{i}" if at else str(i)
        if isinstance(entry, dict):
            start = _time(entry, _STARTS, where)
            end = start if point else _time(entry, _ENDS, where)
            label = next((entry[k] for k in _LABELS if k in entry), None)
            answers.append((entry.get("given"), entry.get("posterior")))
        elif isinstance(entry, list) and (2 <= len(entry) <= 3):
            start = json_number(entry[0], f"{where}/0")
            end = start if point else json_number(entry[1], f"{where}/1")
            label = entry[1] if point else entry[2] if len(entry) == 3 else None
            answers.append(_NO_ANSWER)
        else:
            raise AnnotationSyntaxError(
                f"expected a segment with start, end and label, got {kind_of(entry)}", pointer=where
            )
        if label is not None and not isinstance(label, str):
            raise AnnotationSyntaxError(
                f"expected a label as text or null, got {kind_of(label)}", pointer=f"{where}/label"
            )
        tier.entries.append(Segment(start, end, label))
    if not any(isinstance(p, (int, float)) and not isinstance(p, bool) for _, p in answers):
        return [tier]
    # An answer of the service: its labels beside those that it was given.
    spans = [(s.start, s.end) for s in tier.entries]
    given = [Segment(a, b, g if isinstance(g, str) else None) for (a, b), (g, _) in zip(spans, answers, strict=True)]
    sure = [
        Segment(a, b, f"{p:.4f}" if isinstance(p, (int, float)) else None)
        for (a, b), (_, p) in zip(spans, answers, strict=True)
    ]
    return [
        Tier(name, "interval", given),
        Tier(name + ANSWER, "interval", tier.entries),
        Tier(name + POSTERIOR, "interval", sure),
    ]


def _plain(entry: dict[str, Any]) -> Segment | None:
    """An entry as we write it, without looking for other spellings; None if it is another kind."""
    start, end, label = entry.get("start"), entry.get("end"), entry.get("label", 0)
    if type(start) is not float or type(end) is not float or not (label is None or type(label) is str):
        return None
    return Segment(start, end, label) if abs(start) <= MAX_SECONDS and abs(end) <= MAX_SECONDS else None


_MISSING = object()
_NO_ANSWER = (None, None)


def _time(entry: dict[str, Any], keys: tuple[str, ...], at: str, default: Any = _MISSING) -> Any:
    key = next((k for k in keys if k in entry), None)
    if key is None or (entry[key] is None and default is not _MISSING):
        if default is not _MISSING:
            return default
        raise AnnotationSyntaxError(f'expected "{keys[0]}", got {_keys(entry)}', pointer=at)
    return json_number(entry[key], f"{at}/{key}" if at else key)


def json_number(value: Any, at: str) -> float:
    """A JSON value as a time. Raises AnnotationSyntaxError with `at` as its pointer."""
    try:
        result = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        result = math.inf
    if not abs(result) <= MAX_SECONDS:
        raise AnnotationSyntaxError(f"expected a time in seconds, got {kind_of(value)}", pointer=at)
    return result


def kind_of(value: Any) -> str:
    """A JSON value in words, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    try:
        return excerpt(str(value))
    except ValueError:  # an integer too long to print
        return "a number without end"


def _keys(value: dict[str, Any]) -> str:
    return "the keys " + ", ".join(excerpt(k) for k in list(value)[:8]) if value else "an empty object"


def to_object(annotation: Annotation) -> dict[str, Any]:
    """What `write` writes, as Python values."""
    start, end = annotation.extent
    return {
        "start": start,
        "end": end,
        "tiers": [
            {
                "name": t.name,
                "kind": t.kind,
                "entries": [{"start": s.start, "end": s.end, "label": s.label} for s in t.entries],
            }
            for t in annotation.tiers
        ],
    }


def write(annotation: Annotation) -> bytes:
    """Every tier, one entry per line. UTF-8."""
    body = to_object(annotation)
    tiers = []
    for tier in body.pop("tiers"):
        entries = ",\n".join("    " + json.dumps(e, ensure_ascii=False) for e in tier.pop("entries"))
        tiers.append(f'  {json.dumps(tier, ensure_ascii=False)[:-1]}, "entries": [\n{entries}\n  ]}}')
    head = json.dumps(body, ensure_ascii=False)[:-1]
    return (head + ', "tiers": [\n' + ",\n".join(tiers) + "\n]}\n").encode()


FORMAT = Format("json", "Phonechain JSON", (".json",), "application/json", sniff, parse, write)
