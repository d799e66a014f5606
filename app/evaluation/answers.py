"""Answers as `phonechain label` and labelling jobs leave them, read back for a corpus.

a folder of annotation files, the tree of the corpus    phonechain label FOLDER --out
a folder with segments.csv                              the unpacked zip of a labelling job
a file of JSON lines, an utterance each                 the result of a labelling job as jsonl
a CSV file with a segment a row                         phonechain label --table; the result of a job as csv
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from phonechain.features import annotation as notation
from phonechain.features.annotation.base import nfc
from phonechain.features.annotation.tiers import main_tier
from phonechain.features.corpora.base import AUDIO_SUFFIXES
from phonechain.features.errors import AnnotationError, CorpusError, PhonechainError
from phonechain.features.segments import Segment, Utterance

TABLE = "segments.csv"
"""What the zip of a labelling job keeps its rows in."""

_SUFFIXES = {*AUDIO_SUFFIXES, *notation.SUFFIXES}

Answers = dict[str, list[Segment]]
"""Utterance id -> its answered segments."""


def read_answers(path: Path, utterances: Sequence[Utterance], root: Path | None = None) -> tuple[Answers, list[str]]:
    """The answers to the utterances of a corpus, and a line for each file that could not be read.

    Args:
        path: one of the forms above.
        utterances: of the corpus.
        root: the corpus's folder, below which a folder of answers has the same tree.

    Raises:
        CorpusError: no such file, none of these forms, or no answer to any of the utterances.
    """
    names = _name_utterances(utterances, root)
    problems: list[str] = []
    if path.is_dir() and (path / TABLE).is_file():
        found = _group_by_utterance(_read_table(path / TABLE), names)
    elif path.is_dir():
        found = _read_folder(path, names, problems)
    elif not path.is_file():
        raise CorpusError(f"expected a model, or a file or folder of answers; {path} does not exist", value=str(path))
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        found = _group_by_utterance(_read_lines(path), names)
    elif path.suffix.lower() == ".csv":
        found = _group_by_utterance(_read_table(path), names)
    else:
        raise CorpusError(
            f"expected answers as a folder of annotation files, {TABLE}, .csv or .jsonl, got {path}", value=str(path)
        )
    if not found:
        what = f": {problems[0]}" if problems else f"; their names are such as {next(iter(names), '')!r}"
        raise CorpusError(f"expected answers to recordings of the corpus in {path}, got none{what}", value=str(path))
    return found, problems


def _name_utterances(utterances: Iterable[Utterance], root: Path | None) -> dict[str, str]:
    """What each utterance may be called -> its id: its id, its path below the root, its bare name if no other has it."""
    names: dict[str, str] = {}
    bare: dict[str, list[str]] = defaultdict(list)
    for u in utterances:
        names[nfc(u.id)] = u.id
        if root is not None and u.audio.is_relative_to(root):
            names[nfc(u.audio.relative_to(root).with_suffix("").as_posix())] = u.id
        bare[nfc(u.audio.stem)].append(u.id)
    for name, ids in bare.items():
        if len(ids) == 1:
            names.setdefault(name, ids[0])
    return names


def _find_utterance(name: str, names: Mapping[str, str]) -> str | None:
    """The utterance of this name, or of the file of this name."""
    path = PurePosixPath(nfc(name))
    stem = path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path
    tails = ("/".join(stem.parts[n:]) for n in range(len(stem.parts)))
    return next((names[n] for n in (nfc(name), *tails) if n in names), None)


def _read_folder(root: Path, names: Mapping[str, str], problems: list[str]) -> Answers:
    found: Answers = {}
    for file in sorted(root.rglob("*")):
        if file.suffix.lower() not in notation.SUFFIXES or not file.is_file():
            continue
        utterance = _find_utterance(file.relative_to(root).as_posix(), names)
        if utterance is None:
            continue
        try:
            tier, _ = main_tier(notation.read(file.read_bytes(), name=file.name, audio=file.stem))
        except (PhonechainError, OSError) as error:
            problems.append(f"{file}: {error}")
            continue
        if utterance in found:
            raise AnnotationError(f"expected one file of answers to {utterance}, got {file} as well", value=str(file))
        found[utterance] = notation.tier_segments(tier)
    return found


def _group_by_utterance(rows: Iterable[tuple[str, Segment]], names: Mapping[str, str]) -> Answers:
    found: Answers = defaultdict(list)
    for name, segment in rows:
        utterance = _find_utterance(name, names)
        if utterance is not None:
            found[utterance].append(segment)
    return dict(found)


def _read_lines(path: Path) -> Iterator[tuple[str, Segment]]:
    with path.open(encoding="utf-8", errors="strict") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                for segment in row["segments"]:
                    yield str(row["utterance"]), _parse_segment(segment)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise _malformed_error(path, number, "an object with utterance and segments") from error


def _read_table(path: Path) -> Iterator[tuple[str, Segment]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        column = next((c for c in ("utterance", "file") if c in (rows.fieldnames or ())), None)
        if column is None or not {"start", "end", "label"} <= set(rows.fieldnames or ()):
            raise _malformed_error(path, 1, "columns utterance (or file), start, end and label")
        try:
            for row in rows:
                yield row[column], _parse_segment({**row, "label": _strip_apostrophe(row["label"])})
        except (ValueError, TypeError, AttributeError, csv.Error) as error:
            raise _malformed_error(path, rows.line_num, "start and end in seconds") from error


def _parse_segment(row: Mapping[str, Any]) -> Segment:
    start, end, label = float(row["start"]), float(row["end"]), row["label"]
    if not (math.isfinite(start) and math.isfinite(end)):
        raise ValueError(f"expected finite times, got {start} and {end}")
    return Segment(start, end, str(label) if label else None)


def _strip_apostrophe(label: str) -> str:
    """The label as it was before it was kept from being taken for a formula by a spreadsheet."""
    return label[1:] if label[:1] == "'" and label[1:2] in ("=", "+", "-", "@", "\t", "\r") else label


def _malformed_error(path: Path, line: int, what: str) -> CorpusError:
    return CorpusError(f"{path}, line {line}: expected {what}", value=str(path))
