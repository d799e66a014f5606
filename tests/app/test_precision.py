"""A service whose models multiply in bfloat16: answers and readiness say so, and posteriors move a little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.environment import load
from phonechain.app.main import create_app
from phonechain.app.models.catalog import Registry
from phonechain.features.errors import SettingsError
from tests.app.conftest import AUDIO, TEXTGRID, Client, serving


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    settings = load({"PHONECHAIN_PRECISION": "bfloat16", "PHONECHAIN_DATA": str(tmp_path_factory.mktemp("reduced"))})
    with serving(create_app(settings, Registry.load(settings))) as client:
        yield client


def codes(answer: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def test_answers_move_a_little_and_say_why(client: Client, reduced: Client) -> None:
    whole, rounded = client.classify().json(), reduced.classify().json()
    assert codes(rounded) == [*codes(whole), "precision-reduced"]
    moved = [abs(a["posterior"] - b["posterior"]) for a, b in zip(whole["segments"], rounded["segments"], strict=True)]
    assert 0 < max(moved) < 0.02


def test_files_and_speakers_say_it_too(reduced: Client) -> None:
    assert "precision-reduced; count=1" in reduced.classify(format="textgrid").headers["X-Phonechain-Warnings"]
    for tier in reduced.classify(all_speakers="true").json()["tiers"]:
        assert "precision-reduced" in codes(tier)


def test_labels_beside_an_alignment_say_it_and_the_alignment_alone_does_not(reduced: Client) -> None:
    files = {"audio": AUDIO, "transcript": ("sample.TextGrid", TEXTGRID)}
    alone = reduced.post("/align", files=files, data={"refine": "true"}).json()
    assert "precision-reduced" not in codes(alone)
    labelled = reduced.post("/align", files=files, data={"refine": "true", "label_with": "default"}).json()
    assert codes(labelled) == [*codes(alone), "precision-reduced"]


def test_a_stored_model_is_loaded_in_it(reduced: Client) -> None:
    from phonechain.model import pretrained_path

    made = reduced.post("/models?name=mine", files={"model": pretrained_path("small").read_bytes()})
    assert made.status_code == 201, made.text
    assert "precision-reduced" in codes(reduced.classify(model="mine").json())


def test_readiness_names_it(client: Client, reduced: Client) -> None:
    found = [one.get("/health/ready").json()["precision"] for one in (client, reduced)]
    assert found == ["float32", "bfloat16"]


def test_other_precisions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="PHONECHAIN_PRECISION"):
        load({"PHONECHAIN_PRECISION": "float16"})
