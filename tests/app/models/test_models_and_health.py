"""The models that the service has, and whether it is well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from phonechain.app import samples
from phonechain.app.environment import load
from phonechain.app.main import create_app
from phonechain.app.models.catalog import Registry, model_files
from phonechain.app.settings import Settings
from phonechain.features.errors import ModelFileError, SettingsError
from phonechain.features.reading import read_audio, read_segments
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.segmental.aligner import PhoneAligner
from tests.app.conftest import Client, serving


def test_models_are_listed(client: Client, registry: Registry) -> None:
    entry, paper, small, aligner = client.get("/models").json()["models"]
    assert (entry["name"], entry["kind"]) == ("default", "labelling")
    assert entry["version"] == registry.get("default").version
    assert entry["labels"] == len(registry.get("default").labeler.labels_)
    assert (aligner["name"], aligner["kind"]) == ("english-alignment", "alignment")
    card = client.get("/models/english-alignment").json()
    assert (card["version"], card["label_set"]) == (aligner["version"], card["card"]["labels"])
    assert client.get("/models/english-alignment/file").content == pretrained_path(ALIGNMENT).read_bytes()
    for shipped, name in ((paper, "paper"), (small, "small")):
        assert (shipped["name"], shipped["kind"]) == (name, "labelling")
        assert client.get(f"/models/{name}/file").content == pretrained_path(name).read_bytes()
    for kind, names in {"labelling": ["default", "paper", "small"], "alignment": ["english-alignment"]}.items():
        assert [m["name"] for m in client.get(f"/models?kind={kind}").json()["models"]] == names
    assert client.get("/models?kind=both").status_code == 422


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
    assert [entry.name for entry in registry] == ["default", "paper", "small", "a", "b-2"]
    shutil.copy(pretrained_path("small"), tmp_path / "paper.safetensors")
    replaced = Registry.load(load({"PHONECHAIN_MODELS": str(tmp_path)}))
    assert replaced.get("paper").version == replaced.get("small").version


def test_alignment_models_of_the_operator(tmp_path: Path) -> None:
    """A folder with models of both kinds, one of them in place of the shipped alignment model."""
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(pretrained_path("small"), folder / "labels.safetensors")
    shutil.copy(pretrained_path(ALIGNMENT), folder / "times.safetensors")
    own = PhoneAligner.load(pretrained_path(ALIGNMENT))
    own.temperature_ = 3.0
    own.save(folder / "english-alignment.safetensors")
    body = {"files": {"audio": samples.AUDIO.read_bytes()}, "data": {"text": samples.TEXT}}
    with serving(create_app(Settings(models=folder, data=tmp_path / "data", workers=0))) as client:
        known = {m["name"]: (m["kind"], m["version"]) for m in client.get("/models").json()["models"]}
        assert {name: kind for name, (kind, _) in known.items()} == {
            "default": "labelling", "paper": "labelling", "small": "labelling", "labels": "labelling",
            "english-alignment": "alignment", "times": "alignment",
        }  # fmt: skip
        for name, version in (("times", known["times"][1]), ("default", own.version_)):
            assert client.post(f"/align?model={name}", **body).json()["model"]["version"] == version
        refused = client.post("/align?model=labels", **body)
        assert (refused.status_code, refused.json()["pointer"]) == (422, "#/model")
        assert "expected an alignment model, got labels, which labels given segments" in refused.json()["detail"]
        given = {"audio": samples.AUDIO.read_bytes(), "segments": samples.SEGMENTS.read_bytes()}
        refused = client.post("/classify?model=times", files=given)
        assert (refused.status_code, refused.json()["pointer"]) == (422, "#/model")
        assert "expected a model that labels given segments, got times, which aligns" in refused.json()["detail"]


def test_an_alignment_model_cannot_be_the_default(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="PHONECHAIN_MODEL: expected a model that labels given segments"):
        Registry.load(load({"PHONECHAIN_MODEL": str(pretrained_path(ALIGNMENT))}))


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
        "models": ["default", "paper", "small"],
        "device": "cpu",
        "precision": "float32",
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


def test_a_shipped_model_is_asked_for_by_name(client: Client) -> None:
    body = {"audio": samples.AUDIO.read_bytes(), "segments": samples.SEGMENTS.read_bytes()}
    for name in ("paper", "small"):
        answer = client.post(f"/classify?model={name}", files=body).json()
        labeler = PhoneLabeler.load(pretrained_path(name))
        told = labeler.label(read_audio(samples.AUDIO), read_segments(samples.SEGMENTS))
        assert answer["model"] == {"name": name, "version": labeler.version_}
        assert [s["label"] for s in answer["segments"]] == [s.label for s in told]


def test_a_stored_model_hides_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    with serving(create_app(Settings(data=tmp_path, workers=0))) as client:
        stored = client.post("/models?name=paper", content=pretrained_path("small").read_bytes(), headers=kind).json()
        listed = [m for m in client.get("/models").json()["models"] if m["name"] == "paper"]
        assert [m["version"] for m in listed] == [stored["version"]]
        assert client.get("/models/paper").json()["version"] == stored["version"]
        assert client.request("DELETE", f"/models/paper@{stored['version']}").status_code == 204
        assert [m["size"] for m in client.get("/models").json()["models"] if m["name"] == "paper"] == [None]
