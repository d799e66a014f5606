"""The whole way: a corpus goes up, a model is trained on it, the corpus is labelled and the model scored by it."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from phonechain.features import annotation as notation
from phonechain.model.labeler import PhoneLabeler
from tests.app.conftest import Client
from tests.app.jobs.conftest import started, wait_for_end
from tests.app.jobs.speech import SEGMENTS, utterance


def test_a_corpus_is_counted(corpus: dict[str, Any]) -> None:
    assert corpus["utterances"] == 20
    assert corpus["segments"] == 20 * SEGMENTS
    assert corpus["speakers"] == 5
    assert corpus["splits"] == {"train": 16, "test": 4}
    assert sum(corpus["labels"].values()) == 20 * SEGMENTS
    assert corpus["problems"] == []


def test_train_label_evaluate(service: Client, corpus: dict[str, Any]) -> None:
    job = started(
        service, kind="train", corpus=corpus["id"], name="mine", training={"epochs": 3, "batch": 4}, licence="none"
    )
    assert job["state"] == "queued"
    trained = wait_for_end(service, job)
    assert trained["state"] == "succeeded", trained
    assert trained["progress"]["done"] == 1 or trained["progress"]["metrics"]["epoch"] == 3
    version = trained["result"]["version"]
    models = service.get("/models").json()["models"]
    assert ("mine", version) in [(m["name"], m["version"]) for m in models]
    file = service.get(f"/jobs/{job['id']}/result")
    labeler = PhoneLabeler.load(file.content)
    assert labeler.version_ == version
    assert labeler.card_["licence"] == "none"
    assert service.get("/models/mine/file").content == file.content

    done = wait_for_end(
        service, started(service, kind="label", corpus=corpus["id"], model="mine", formats=["textgrid", "htk"])
    )
    assert done["state"] == "succeeded", done
    assert done["progress"]["done"] == done["progress"]["total"] == 20
    assert done["result"] == {"utterances": 20, "segments": 20 * SEGMENTS, "failed": 0}
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{done['id']}/result").content)) as archive:
        names = archive.namelist()
        assert len([n for n in names if n.startswith("textgrid/")]) == 20
        read = notation.read(archive.read("textgrid/train/s0/u0000.TextGrid"))
        assert len(read.tiers[0].entries) == SEGMENTS
        assert archive.testzip() is None

    rows = [json.loads(r) for r in service.get(f"/jobs/{done['id']}/result?format=jsonl").text.splitlines()]
    assert len({r["utterance"] for r in rows}) == len(rows) == 20
    wav, lab = utterance(3)
    direct = service.post(
        "/classify", files={"audio": wav, "segments": ("a.lab", lab)}, data={"model": f"mine@{version}"}
    ).json()
    by_job = next(r for r in rows if r["utterance"] == "u0003")
    assert [s["label"] for s in by_job["segments"]] == [s["label"] for s in direct["segments"]]

    lines = list(csv.DictReader(io.StringIO(service.get(f"/jobs/{done['id']}/result?format=csv&sort=doubt").text)))
    posteriors = [float(line["posterior"]) for line in lines]
    assert len(posteriors) == 20 * SEGMENTS
    assert posteriors == sorted(posteriors)

    scored = wait_for_end(service, started(service, kind="evaluate", corpus=corpus["id"], model="mine"))
    assert scored["state"] == "succeeded", scored
    found = service.get(f"/jobs/{scored['id']}/result").json()
    assert found["segments"] == 4 * SEGMENTS
    assert found["corpus"]["split"] == "test"
    assert scored["result"]["per"] == found["per"]
    assert {"confidence", "accuracy", "interval"} <= set(found["reliability"][0])
    assert found["calibration"] == service.get("/models/mine").json()["card"]["calibration"]


def test_files_can_come_with_the_job(service: Client) -> None:
    files = []
    for n in (1, 2):
        wav, lab = utterance(n)
        files += [("files", (f"a{n}.wav", wav)), ("files", (f"a{n}.lab", lab))]
    answer = service.post("/jobs", files=files, data={"job": json.dumps({"kind": "label"})})
    assert answer.status_code == 202, answer.text
    assert wait_for_end(service, answer.json())["result"]["utterances"] == 2


def test_a_model_is_uploaded_named_and_removed(service: Client, tiny_model: Path) -> None:
    answer = service.post(
        "/models?name=other", content=tiny_model.read_bytes(), headers={"content-type": "application/octet-stream"}
    )
    assert answer.status_code == 201, answer.text
    version = answer.json()["version"]
    again = service.post("/models?name=other", files={"model": tiny_model.read_bytes()})
    assert again.status_code == 409
    assert again.json()["type"] == "/problems/model-exists"
    assert service.request("PUT", "/aliases/best", json={"model": "other"}).json()["version"] == version
    assert service.get("/models/best").json()["name"] == "other"
    assert service.request("DELETE", f"/models/other@{version}").status_code == 409
    assert service.request("DELETE", "/aliases/best").status_code == 204
    assert service.request("DELETE", f"/models/other@{version}").status_code == 204
    assert service.get("/models/other").status_code == 404


def test_a_refused_model_file_is_not_told_where_the_service_keeps_it(service: Client) -> None:
    answer = service.post(
        "/models?name=bad", content=b"\x80\x04K\x01.", headers={"content-type": "application/octet-stream"}
    )
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/model-file"
    assert "got the uploaded file" in answer.json()["detail"]
    assert "blobs" not in answer.text
