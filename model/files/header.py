"""The header of a model file: labels, settings, provenance, card; checked strictly, for files may come from anyone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, TypeVar

import torch

from phonechain.features.errors import ModelFileError

ALIGNMENT_KIND = "segmental"
"""The kind in the header of an alignment model; labelling models have none."""
MAX_LABELS = 400
"""Most labels of a model: a second-order chain has a number for each triple of them."""
MAX_TEXT = 100_000
"""Longest string among the facts, in characters."""
MAX_DEPTH = 12
"""Deepest nesting among the facts."""

_R = TypeVar("_R", "Provenance", "Card")
_V = TypeVar("_V")


@dataclass(frozen=True)
class Provenance:
    """How a model was made, in enough detail to train it again.

    `created` is an ISO 8601 time; `phonechain` and `torch` are versions; `corpus` describes the training data.
    """

    created: str
    phonechain: str = ""
    torch: str = ""
    command: str = ""
    seed: int | None = None
    corpus: str = ""
    commit: str | None = None

    @classmethod
    def now(
        cls, *, command: str = "", seed: int | None = None, corpus: str = "", commit: str | None = None
    ) -> Provenance:
        """The provenance of a model that is being made now, in UTC, by the installed versions."""
        created = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            own = metadata.version("phonechain")
        except metadata.PackageNotFoundError:  # run from a checkout that was not installed
            own = ""
        return cls(created, own, torch.__version__, command, seed, corpus, commit)


@dataclass(frozen=True)
class Card:
    """What users should know about a model, as free text; `limits` says what it is not suitable for."""

    name: str
    description: str = ""
    licence: str = ""
    data: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Header:
    """The facts of a model file.

    labels: the label of each output, in order.
    features: `FeatureSettings.to_dict()`.
    model: how the model is built: preset, factors, chain.
    normaliser, ngrams: what each tensor of the normaliser and of the n-gram inventory is called in the file
        (`{"mean": "normaliser.mean"}`); every one of them has to be there.
    calibration, metrics: JSON values.
    version: the file's own, 12 hexadecimal digits; set by `write` and `read`, ignored by `write`.
    """

    labels: tuple[str, ...]
    provenance: Provenance
    card: Card
    features: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    normaliser: dict[str, str] = field(default_factory=dict)
    ngrams: dict[str, str] = field(default_factory=dict)
    calibration: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    version: str = field(default="", compare=False)


def to_facts(header: Header) -> dict[str, Any]:
    """The header as a JSON object for `from_facts`, without the version, which is computed from it."""
    facts = asdict(header)
    del facts["version"]
    facts["labels"] = list(header.labels)
    return facts


def from_facts(facts: dict[str, Any]) -> Header:
    """The header from a JSON object, which must have exactly its fields, with their types."""
    names = {f.name for f in fields(Header)} - {"version"}
    if set(facts) != names:
        odd = sorted(set(facts) ^ names)
        raise ModelFileError(f"expected the facts {', '.join(sorted(names))}, got a difference in {str(odd)[:200]}")
    for name, value in facts.items():
        _check_json(value, name)
    labels = _of_type(facts["labels"], list, "labels")
    if not 1 <= len(labels) <= MAX_LABELS:
        raise ModelFileError(
            f"expected 1 to {MAX_LABELS} labels, got {len(labels)}", pointer="labels", value=len(labels)
        )
    for index, label in enumerate(labels):
        if not _of_type(label, str, f"labels/{index}"):
            raise ModelFileError("expected a label, got an empty string", pointer=f"labels/{index}")
    if len(set(labels)) < len(labels):
        double = sorted(label for label in set(labels) if labels.count(label) > 1)
        raise ModelFileError(f"expected each label once, got {', '.join(double[:5])} more than once", pointer="labels")
    objects = ("features", "model", "normaliser", "ngrams", "calibration", "metrics")
    settings: dict[str, Any] = {key: _of_type(facts[key], dict, key) for key in objects}
    for group in ("normaliser", "ngrams"):
        for role, name in settings[group].items():
            _of_type(name, str, f"{group}/{role}")
    provenance = _record(Provenance, facts["provenance"], "provenance")
    try:
        datetime.fromisoformat(provenance.created)
    except ValueError:
        raise ModelFileError(
            f"expected an ISO 8601 time, got {provenance.created[:40]!r}", pointer="provenance/created"
        ) from None
    return Header(tuple(labels), provenance, _record(Card, facts["card"], "card"), **settings)


def _record(kind: type[_R], value: Any, where: str) -> _R:
    """One of the small dataclasses, whose fields are text unless another type is stated."""
    record = _of_type(value, dict, where)
    names = [f.name for f in fields(kind)]
    if sorted(record) != sorted(names):
        raise ModelFileError(f"expected {', '.join(names)} in {where}, got {', '.join(record)[:200]}", pointer=where)
    for name, content in record.items():
        if name == "seed" and content is not None:
            _of_type(content, int, f"{where}/{name}")
        elif name != "seed" and not (name == "commit" and content is None):
            _of_type(content, str, f"{where}/{name}")
    return kind(**record)


def _check_json(value: Any, where: str, depth: int = 0) -> None:
    """Check that a value is finite JSON of bounded depth and text length, and can be written as UTF-8."""
    if depth > MAX_DEPTH:
        raise ModelFileError(f"expected at most {MAX_DEPTH} levels of nesting in {where[:80]}", limit=MAX_DEPTH)
    if isinstance(value, dict):
        for key, item in value.items():
            _of_type(key, str, f"the keys of {where}")
            _check_json(key, f"the keys of {where}")
            _check_json(item, f"{where}/{key[:40]}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_json(item, f"{where}/{index}", depth + 1)
    elif isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ModelFileError(
                f"expected at most {MAX_TEXT} characters in {where}, got {len(value)}", value=len(value), limit=MAX_TEXT
            )
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise ModelFileError(f"expected Unicode text in {where}, got half a surrogate pair", pointer=where)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ModelFileError(f"expected a finite number in {where}, got {value}", pointer=where)
    elif value is not None and not isinstance(value, (bool, int)):
        raise ModelFileError(f"expected a JSON value in {where}, got {kind_of(value)}", pointer=where)


def _of_type(value: Any, kind: type[_V], where: str) -> _V:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        words = {list: "a list", dict: "an object", str: "text", int: "a whole number"}
        raise ModelFileError(f"expected {words[kind]} in {where}, got {kind_of(value)}", pointer=where)
    return value


def kind_of(value: Any) -> str:
    """JSON's name for the type of a value, for error messages."""
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return words.get(type(value), f"a value of type {type(value).__name__}")
