"""The list of a corpus's utterances, one JSON object a line, kept as a blob.

A line has `id`, `audio`, `annotation`; and `speaker` and `split` where known. Paths are relative to the corpus;
in a corpus by reference they are absolute, or URLs. In corpora without segments `annotation` is a transcript, or empty.
Jobs take ranges of lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Line:
    """One utterance. `index` counts from 0."""

    index: int
    id: str
    audio: str
    annotation: str
    speaker: str | None = None
    split: str | None = None


def render(lines: Iterable[Line]) -> Iterator[bytes]:
    """The lines as bytes."""
    for line in lines:
        entry: dict[str, Any] = {"id": line.id, "audio": line.audio, "annotation": line.annotation}
        if line.speaker is not None:
            entry["speaker"] = line.speaker
        if line.split is not None:
            entry["split"] = line.split
        yield json.dumps(entry, ensure_ascii=False).encode() + b"\n"


def read(path: Path, start: int = 0, count: int | None = None) -> Iterator[Line]:
    """`count` lines (all) from line `start` on."""
    with path.open("rb") as file:
        if start:
            starts = _starts(path)
            if start >= len(starts):
                return
            file.seek(int(starts[start]))
        for index, raw in enumerate(islice(file, count), start):
            entry = json.loads(raw)
            yield Line(
                index, entry["id"], entry["audio"], entry["annotation"], entry.get("speaker"), entry.get("split")
            )


@lru_cache(maxsize=8)
def find_spread_speakers(path: Path, size: int) -> frozenset[str]:
    """The speakers whose lines do not all follow each other, or are more than `size`; found once a process."""
    runs: dict[str, list[int]] = {}
    last: str | None = None
    for line in read(path):
        if line.speaker is not None:
            own = runs.setdefault(line.speaker, [])
            if line.speaker != last:
                own.append(0)
            own[-1] += 1
        last = line.speaker
    return frozenset(speaker for speaker, own in runs.items() if len(own) > 1 or own[0] > size)


@lru_cache(maxsize=8)
def _starts(path: Path) -> NDArray[np.int64]:
    """Where each line begins; a file of blobs never changes, so this is found once a process."""
    starts, at = [0], 0
    with path.open("rb") as file:
        for raw in file:
            at += len(raw)
            starts.append(at)
    return np.asarray(starts[:-1], dtype=np.int64)
