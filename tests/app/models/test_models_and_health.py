"""The models that the service has, and whether it is well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from phonechain.app.environment import load
from phonechain.app.models.catalog import Registry, model_files
from phonechain.features.errors import ModelFileError, SettingsError
from phonechain.model import pretrained_path
from tests.app.conftest import Client


def test_models_are_listed(client: Client, registry: Registry) -> None:
    [entry] = client.get("/models").json()["models"]
    assert entry["name"] == "default"
    assert entry["version"] == registry.get("default").version
    assert entry["labels"] == len(registry.get("default").labeler.labels_)


def test_a_card(client: Client) -> None:
    detail = client.get("/models/default").json()
    assert detail["label_set"] == sorted(detail["label_set"])
    assert detail["card"]["version"] == detail["version"]
    assert {"name", "licence", "data", "limits", "metrics", "created"} <= set(detail["card"])


def test_no_such_model(client: Client) -> None:
    response = client.get("/models/none")
    assert response.status_code == 404
    assert response.json()["type"] == "/problems/model-unknown"
    assert "default" in response.json()["detail"]


def test_a_folder_of_models(tmp_path: Path) -> None:
    for name in ("a.safetensors", "b-2.safetensors", "notes.txt"):
        shutil.copy(pretrained_path(), tmp_path / name)
    registry = Registry.load(load({"PHONECHAIN_MODELS": str(tmp_path)}))
    assert [entry.name for entry in registry] == ["default", "a", "b-2"]


@pytest.mark.parametrize("name", ["default.safetensors", "a b.safetensors", "é!.safetensors"])
def test_names_that_a_served_model_cannot_have(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(SettingsError, match="PHONECHAIN_MODELS"):
        model_files(load({"PHONECHAIN_MODELS": str(tmp_path)}))


def test_what_cannot_be_loaded_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="PHONECHAIN_MODELS"):
        Registry.load(load({"PHONECHAIN_MODELS": str(tmp_path / "none")}))
    with pytest.raises(ModelFileError):
        Registry.load(load({"PHONECHAIN_MODEL": str(tmp_path / "none.safetensors")}))


def test_health(client: Client) -> None:
    assert client.get("/health/live").json() == {"status": "alive"}
    ready = client.get("/health/ready")
    assert ready.status_code == 200
    parts = {"models": "ready", "database": "ready", "scheduler": "ready"}
    assert ready.json() == {
        "status": "ready",
        "models": ["default"],
        "device": "cpu",
        "requests": 0,
        "limit": 64,
        "parts": parts,
    }


def test_not_ready_once_stopped(client: Client) -> None:
    batcher = client.app.state.services.batcher
    batcher._stopping = True
    try:
        for response in (client.get("/health/ready"), client.classify()):
            assert response.status_code == 503
            assert response.headers["retry-after"] == "1"
            assert response.json()["type"] == "/problems/not-ready"
        assert client.get("/health/live").status_code == 200
    finally:
        batcher._stopping = False
