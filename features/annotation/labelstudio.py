"""Label Studio's JSON: the export of tasks, or its reduced form ("JSON-MIN"), for regions of audio.

Source: the Label Studio documentation, "Export annotations" and "Label Studio JSON format of annotated tasks". A region
belongs to the control that made it (`from_name`), and each control becomes a tier; regions are kept in the order in
which they were drawn, so they are sorted; a control whose regions all end where they start holds points. Seconds.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from operator import itemgetter
from typing import Any

from phonechain.features.annotation.base import (
    ANSWER,
    MAX_SECONDS,
    POSTERIOR,
    SCORE,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    is_derived,
    is_number,
    name_stem,
    pick,
    printable,
)
from phonechain.features.annotation.json import json_number, kind_of, load
from phonechain.features.annotation.tiers import derived_tier
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment

_CHOICES = ("text", "choices", "taxonomy", "number", "rating")

Found = dict[str, list[tuple[float, float, str, float | None]]]
"""By control: start, end, label, score of each region."""


def sniff(source: Source) -> int:
    head = source.head
    if head.lstrip()[:1] not in ("{", "["):
        return 0
    export = '"annotations"' in head and ('"result"' in head or '"to_name"' in head or '"predictions"' in head)
    reduced = re.search(r'"(?:labels|channel)"\s*:', head) and '"start"' in head and '"audio"' in head
    return 3 if export or reduced or '"from_name"' in head else 0


def parse(source: Source) -> Annotation:
    """Read one task of an export.

    Raises:
        AnnotationSyntaxError: with a pointer.
        AnnotationError: the task that is meant is not there, or it is not said which is.
    """
    tasks = _tasks(source)
    return _annotation(source, *tasks[pick(source, list(tasks))])


def parse_all(source: Source) -> dict[str, Annotation]:
    """Every task, by the stem of its audio."""
    return {name: _annotation(source, task, at) for name, (task, at) in _tasks(source).items()}


def _tasks(source: Source) -> dict[str, tuple[dict[str, Any], str]]:
    value = load(source.text)
    tasks = value if isinstance(value, list) else [value]
    out: dict[str, tuple[dict[str, Any], str]] = {}
    for i, task in enumerate(tasks):
        at = str(i) if isinstance(value, list) else ""
        if not isinstance(task, dict):
            raise AnnotationSyntaxError(f"expected a task as an object, got {kind_of(task)}", pointer=at)
        data = task.get("data", task)
        audio = next(
            (
                data[k]
                for k in ("audio", "url", "file_upload")
                if isinstance(data, dict) and isinstance(data.get(k), str)
            ),
            None,
        )
        # Label Studio puts eight characters and a hyphen in front of an upload's name.
        name = re.sub(r"^[0-9a-f]{8}-", "", name_stem(audio.split("?", 1)[0])) if audio else f"task {i + 1}"
        out.setdefault(name, (task, at))
    return out


def _annotation(source: Source, task: dict[str, Any], at: str) -> Annotation:
    notices = []
    if "annotations" in task or "predictions" in task or "result" in task:
        results, where, count = _results(task, at)
        if count > 1:
            message = f"{count} people annotated this recording; the first one's regions were taken"
            notices.append(Notice("annotators-several", message, where, float(count)))
        found, end = _regions(results, where)
    else:
        found, end = _parse_reduced(task, at)
    check_count(sum(map(len, found.values())))
    tiers: list[Tier] = []
    for control, regions in found.items():
        regions.sort(key=itemgetter(0, 1))
        entries = [Segment(a, b, label) for a, b, label, _ in regions]
        tiers.append(Tier(control, "point" if all(s.start == s.end for s in entries) else "interval", entries))
        if any(r[3] is not None for r in regions):
            base = control.removesuffix(ANSWER)
            name = base + (POSTERIOR if base != control else SCORE)
            numbers = [Segment(a, b, "" if score is None else f"{score:.4f}") for a, b, _, score in regions]
            tiers.append(Tier(name, "interval", numbers))
    return source.annotation(printable(tiers), "label-studio", end=end, notices=notices)


def _results(task: dict[str, Any], at: str) -> tuple[list[Any], str, int]:
    """(regions, pointer to them, how many annotators) of the first annotation not cancelled, else a prediction."""
    for key in ("annotations", "predictions"):
        given = task.get(key)
        if given is None:
            continue
        if not isinstance(given, list):
            pointer = f"{at}/{key}".lstrip("/")
            raise AnnotationSyntaxError(f'expected "{key}" as a list, got {kind_of(given)}', pointer=pointer)
        live = [(i, a) for i, a in enumerate(given) if isinstance(a, dict) and not a.get("was_cancelled")]
        for i, body in live:
            if isinstance(body.get("result"), list) and body["result"]:
                return body["result"], f"{at}/{key}/{i}/result".lstrip("/"), len(live)
    result = task.get("result")
    return (result, f"{at}/result".lstrip("/"), 1) if isinstance(result, list) else ([], at, 1)


def _regions(results: list[Any], where: str) -> tuple[Found, float | None]:
    found: Found = defaultdict(list)
    end: float | None = None
    for i, region in enumerate(results):
        if not isinstance(region, dict):
            pointer = f"{where}/{i}"
            raise AnnotationSyntaxError(f"expected a region as an object, got {kind_of(region)}", pointer=pointer)
        value = region.get("value")
        if not isinstance(value, dict) or "start" not in value:
            continue  # a choice for the whole recording, or a relation between regions
        start, stop = value["start"], value.get("end")
        if not (type(start) is float and type(stop) is float and abs(start) + abs(stop) <= MAX_SECONDS):
            start = json_number(start, f"{where}/{i}/value/start")
            stop = json_number(stop, f"{where}/{i}/value/end")
        end = end or _small(region.get("original_length"))
        control = region.get("from_name")
        score = _small(region["score"]) if "score" in region else None
        found[control if isinstance(control, str) else "labels"].append((start, stop, _label(value), score))
    return found, end


def _small(value: Any) -> float | None:
    """A plausible number, or None."""
    return float(value) if type(value) in (int, float) and abs(value) < 1e9 else None


def _parse_reduced(task: dict[str, Any], at: str) -> tuple[Found, float | None]:
    """Parse the form without annotators, in which each control's name has its regions."""
    found: Found = defaultdict(list)
    for control, regions in task.items():
        if not isinstance(regions, list):
            continue
        for i, value in enumerate(regions):
            if isinstance(value, dict) and "start" in value:
                pointer = f"{at}/{control}/{i}".lstrip("/")
                start = json_number(value["start"], f"{pointer}/start")
                found[control].append((start, json_number(value.get("end"), f"{pointer}/end"), _label(value), None))
    return found, None


def _label(value: dict[str, Any]) -> str:
    said = value.get("labels")
    if said is None:
        said = next((value[k] for k in _CHOICES if value.get(k) is not None), "")
    if type(said) is list:
        if len(said) == 1 and type(said[0]) is str:
            return said[0]
        return ", ".join(str(s) for s in said[:20] if isinstance(s, (str, int, float)))
    return said if isinstance(said, str) else excerpt(str(said)[:40]) if isinstance(said, dict) else str(said)


def write(annotation: Annotation) -> bytes:
    """One task with every tier; an answer's posteriors are its regions' scores. UTF-8."""
    _, end = annotation.extent
    results = []
    for k, tier in enumerate(annotation.tiers, 1):
        numbers = None
        if tier.name.endswith(ANSWER):
            base = Tier(tier.name.removesuffix(ANSWER), "interval", tier.entries)
            numbers = derived_tier(annotation, base, POSTERIOR)
        elif not is_derived(tier.name):
            numbers = derived_tier(annotation, tier, SCORE)
        elif _is_score_tier(annotation, tier):
            continue
        for i, s in enumerate(tier.entries):
            region: dict[str, Any] = {
                "id": f"r{k}-{i + 1}",
                "from_name": tier.name,
                "to_name": "audio",
                "type": "labels",
                "original_length": end,
                "value": {"start": s.start, "end": s.end, "channel": 0, "labels": [s.label] if s.label else []},
            }
            score = numbers.entries[i].label if numbers else None
            if score and is_number(score) and abs(float(score)) < 1e9:
                region["score"] = float(score)
            results.append(region)
    task = {"data": {"audio": ""}, "annotations": [{"result": results}]}
    return (json.dumps([task], ensure_ascii=False) + "\n").encode()


def _is_score_tier(annotation: Annotation, tier: Tier) -> bool:
    """True for a tier of numbers that are written as the scores of another tier's regions."""
    for kind, of in ((POSTERIOR, ANSWER), (SCORE, "")):
        base = tier.name.removesuffix(kind)
        if base != tier.name and (owner := annotation.tier(base + of)) is not None:
            return derived_tier(annotation, Tier(base, "interval", owner.entries), kind) is tier
    return False


FORMAT = Format(
    "label-studio", "Label Studio JSON", (".json",), "application/json", sniff, parse, write, parse_all=parse_all
)
