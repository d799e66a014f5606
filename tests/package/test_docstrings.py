"""Every example in a docstring runs, from the checkout, and gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("features", "model", "app")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
EXPECTED = {
    "phonechain.features.annotation",
    "phonechain.features.annotation.tiers",
    "phonechain.features.audio.reader",
    "phonechain.features.corpora",
    "phonechain.features.mfcc",
    "phonechain.features.phones.comparison",
    "phonechain.features.phones.sets",
    "phonechain.features.pooling",
    "phonechain.features.reading",
    "phonechain.features.segments",
    "phonechain.model",
    "phonechain.model.chain.inference",
    "phonechain.model.chain.layer",
    "phonechain.model.chain.packing",
    "phonechain.model.labeler",
    "phonechain.model.networks.spn",
    "phonechain.model.scoring.calibration",
    "phonechain.model.scoring.significance",
    "phonechain.model.settings",
}
"""Modules whose main functions show how they are used."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("phonechain", *(parts[:-1] if parts[-1] == "__init__" else parts)))


MODULES = sorted(
    module_name(path)
    for layer in LAYERS
    for path in (ROOT / layer).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_the_main_modules_have_examples() -> None:
    assert set(MODULES) >= EXPECTED


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # for the files in samples/
    found = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert found.attempted
    assert not found.failed
