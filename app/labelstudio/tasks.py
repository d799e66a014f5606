"""Tasks of Label Studio as segments, and answers as its predictions.

Source: the Label Studio documentation, "Import pre-annotated data" and "Webhook event format reference". Times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phonechain.app.labelstudio.config import Interface
from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Segment

TRANSCRIPTS = ("transcript", "text", "words")
"""Members of a task's data under which people keep what is said."""
MAX_REGIONS = 20_000


def read_regions(interface: Interface, results: Any) -> list[Segment]:
    """The regions of the interface's control among `results`, in the order of time; those without times are left out."""
    found: list[Segment] = []
    for one in results if isinstance(results, list) else ():
        value = one.get("value") if isinstance(one, dict) else None
        if not isinstance(value, dict) or one.get("from_name") != interface.control:
            continue
        start, end = _parse_time(value.get("start")), _parse_time(value.get("end"))
        if start is None or end is None or end <= start:
            continue
        labels = value.get("labels")
        label = str(labels[0])[:200] if isinstance(labels, list) and labels else None
        found.append(Segment(start, end, label))
    return sorted(found[:MAX_REGIONS], key=lambda s: (s.start, s.end))


def read_given(interface: Interface, task: Mapping[str, Any], context: Any) -> list[Segment]:
    """The regions that a task has already: those on the screen, else of its first annotation, else of a prediction."""
    on_screen = read_regions(interface, context.get("result")) if isinstance(context, dict) else []
    if on_screen:
        return on_screen
    for member in ("drafts", "annotations", "predictions"):
        for one in task.get(member) or () if isinstance(task.get(member), list) else ():
            found = read_regions(interface, one.get("result")) if isinstance(one, dict) else []
            if found and not one.get("was_cancelled"):
                return found
    return []


def read_finished(interface: Interface, task: Mapping[str, Any]) -> list[Segment]:
    """The labelled regions of a task's first annotation that was not cancelled."""
    for one in task.get("annotations") or ():
        if isinstance(one, dict) and not one.get("was_cancelled"):
            found = [s for s in read_regions(interface, one.get("result")) if s.label is not None]
            if found:
                return found
    return []


def find_transcript(task: Mapping[str, Any]) -> str | None:
    """What is said, where the task's data has it as text."""
    data = task.get("data")
    if isinstance(data, dict):
        for name in TRANSCRIPTS:
            if isinstance(data.get(name), str) and data[name].strip():
                return str(data[name])
    return None


def map_spelling(interface: Interface, known: LabelSet) -> dict[str, str]:
    """How the interface spells the labels of a model; those that it does not offer keep the model's own spelling."""
    if not interface.labels:
        return {}
    comparison = known.compare(interface.labels)
    found: dict[str, str] = {}
    for label in interface.labels:
        target = comparison.targets.get(label)
        for member in comparison.classes[target] if target is not None else ():
            found.setdefault(known.labels[member], label)
    return found


def prediction(
    interface: Interface,
    segments: Iterable[tuple[float, float, str, float]],
    spelled: Mapping[str, str],
    duration: float,
    version: str,
) -> dict[str, Any]:
    """A prediction: a region for each (start, end, label, posterior), and their mean as the score of the task."""
    found = [
        {
            "id": f"p{n}",
            "from_name": interface.control,
            "to_name": interface.sound,
            "type": "labels",
            "original_length": round(duration, 6),
            "score": round(p, 5),
            "value": {"start": start, "end": end, "channel": 0, "labels": [spelled.get(label, label)]},
        }
        for n, (start, end, label, p) in enumerate(segments, 1)
    ]
    return {"result": found, "score": _mean([r["score"] for r in found]), "model_version": version}  # type: ignore[misc]


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 5) if values else 0.0


def _parse_time(value: Any) -> float | None:
    """Seconds; None for what is no time."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and 0 <= value < 1e7 else None
