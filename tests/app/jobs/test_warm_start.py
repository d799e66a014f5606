"""Training goes on from the shipped model with next to nothing: it says so, and does no harm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from tests.app.conftest import Client
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end
from tests.app.jobs.speech import SEGMENTS


@pytest.fixture(scope="module")
def shipped(own_service: Callable[..., Any]) -> Iterator[Client]:
    """The service with the model that comes with it."""
    with own_service(model=pretrained_path()) as client:
        yield client


@pytest.fixture(scope="module")
def reviewed(shipped: Client) -> str:
    """The id of a corpus of one reviewed recording of 1.9 s: the sample, as the page makes it."""
    review = shipped.post("/reviews", json={"name": "one"}).json()["id"]
    files = {
        "audio": ("a.flac", samples.AUDIO.read_bytes()),
        "segments": ("a.TextGrid", samples.SEGMENTS.read_bytes()),
    }
    assert shipped.post(f"/reviews/{review}/files", files=files).status_code == 201
    made = shipped.post(f"/reviews/{review}/corpus")
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def messages(service: Client, job: dict[str, Any]) -> list[str]:
    """What the events of a job said."""
    lines = service.get(f"/jobs/{job['id']}/events").text.splitlines()
    return [json.loads(line[6:])["progress"]["message"] for line in lines if line.startswith("data: ")]


def test_one_recording_does_not_make_its_base_worse(shipped: Client, reviewed: str, tmp_path: Path) -> None:
    asked = {"epochs": 6, "base_step": "full"}  # 0.7 after six epochs, 0.9 after all 35
    job = started(shipped, kind="train", corpus=reviewed, name="one", base="default", fold=True, training=asked)
    result = wait_for_end(shipped, job, 1500)["result"]
    metrics = result["metrics"]
    assert metrics["dev_segments"] == 10
    assert metrics["train_segments"] == SEGMENTS - 10
    assert metrics["dev_error"] <= metrics["start_error"] <= 0.6
    warnings = {w["code"]: w["message"] for w in result["warnings"]}
    assert f"{SEGMENTS} labelled segments in 1 recording," in warnings["corpus-small"]
    assert "too small to fit the temperature" in warnings["calibration-unsettled"]
    said = messages(shipped, job)
    assert any("very little to train on" in message for message in said)
    assert any("too small to fit the temperature" in message for message in said)
    (tmp_path / "one.safetensors").write_bytes(shipped.get(f"/jobs/{job['id']}/result").content)
    answer = PhoneLabeler.load(tmp_path / "one.safetensors")
    assert answer.metrics_["dev_error"] == metrics["dev_error"]


def test_a_step_that_ruins_the_base_leaves_the_base(shipped: Client, reviewed: str) -> None:
    asked = {"learning_rate": 0.2, "epochs": 3, "schedule": "constant", "base_step": "full"}
    job = started(shipped, kind="train", corpus=reviewed, name="ruined", base="default", fold=True, training=asked)
    result = wait_for_end(shipped, job, 1500)["result"]
    assert (result["metrics"]["best_epoch"], result["metrics"]["epochs"]) == (0, 3)
    assert result["metrics"]["dev_error"] == result["metrics"]["start_error"]
    codes = [w["code"] for w in result["warnings"]]
    assert codes == ["corpus-small", "base-kept", "calibration-unsettled"]
    made = PhoneLabeler.load(shipped.get(f"/jobs/{job['id']}/result").content)
    base = PhoneLabeler.load(pretrained_path()).trainable()
    assert made.temperature_ == base.temperature_
    assert all((made.network_.state_dict()[k] == v).all() for k, v in base.network_.state_dict().items())


def test_a_small_corpus_is_warned_of_without_a_base_too(service: Client, corpus: dict[str, Any]) -> None:
    few = wait_for_end(
        service, started(service, kind="train", corpus=corpus["id"], name="few", training={"epochs": 1}), 1500
    )
    assert few["result"]["warnings"][0]["code"] == "corpus-small"


def test_auto_lets_systems_compete_and_says_how(shipped: Client, corpus_folder: Path) -> None:
    taken = shipped.post(
        "/corpora", content=speech.zip_folder(corpus_folder), headers={"content-type": "application/zip"}
    )
    asked = {"kind": "train", "corpus": taken.json()["id"], "name": "chosen", "preset": "auto"}
    job = started(shipped, **asked, training={"epochs": 1})
    result = wait_for_end(shipped, job, 1500)["result"]
    table = result["metrics"]["candidates"]
    assert {"spn-lc-crf", "spn-ho-lc-crf", "lc-crf", "blstm-seg-lc-crf"} <= {row["preset"] for row in table}
    assert [row["preset"] for row in table if row["warm"]] == ["blstm-ho-lc-crf"]
    assert any("% errors on" in message for message in messages(shipped, job))
    made = PhoneLabeler.load(shipped.get(f"/jobs/{job['id']}/result").content)
    assert made.preset == table[0]["preset"]
    assert made.metrics_["candidates"] == table
    for wrong in ({"training": {"l2": 1.0}}, {"model_settings": {"bigram": "none"}}):
        answer = shipped.post("/jobs", json={**asked, **wrong})
        assert answer.status_code == 422, answer.text
        assert "the preset auto chooses" in answer.json()["detail"]
