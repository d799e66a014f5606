"""Two services on one PostgreSQL and one scheduler, and what happens when either is away for a while."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.jobs import speech
from tests.app.jobs.postgres import Postgres
from tests.storm.stage import Patient, Stage
from tests.storm.storm import Storm, no_orphans

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """(a model, a corpus)."""
    root = tmp_path_factory.mktemp("cluster")
    corpus = speech.folder(root / "corpus", 24)
    return speech.model(root / "tiny.safetensors", corpus), speech.zip_folder(corpus)


@pytest.fixture(scope="module")
def stage(
    postgres: Postgres, material: tuple[Path, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Two services, a scheduler, two workers."""
    folder = tmp_path_factory.mktemp("stage")
    made = Stage(folder, material[0], clustered=True, services=2, database=postgres.fresh())
    with made:
        yield made
    no_orphans(made)


def test_no_job_runs_twice_to_a_result(stage: Stage, material: tuple[Path, bytes]) -> None:
    storm = Storm(stage, material[1], seed=1)
    client = Patient(stage, 400)
    ids = []
    for n in range(6):
        body: dict[str, Any] = {"kind": "label", "corpus": storm.corpus["id"], "formats": ["htk"]}
        if n % 2:
            body = {"kind": "train", "corpus": storm.corpus["id"], "name": "twice", "training": {"epochs": 2}}
        key = {"Idempotency-Key": f"key {n}"}
        with ThreadPoolExecutor(4) as pool:  # both services are asked for the same thing at once
            answers = list(
                pool.map(lambda s, b=body, k=key: client.post("/jobs", json=b, headers=k, service=s % 2), range(4))
            )
        assert {a.status_code for a in answers} == {202}, [a.text for a in answers]
        assert len({a.json()["id"] for a in answers}) == 1
        ids.append(answers[0].json()["id"])
    stage.kill("service", lambda pids: pids[0])
    for id in ids:
        job = client.wait_for_end(id, 600)
        assert job["state"] == "succeeded", job
        states = [e["state"] for e in storm.events(id) if e["type"] == "state"]
        assert states.count("succeeded") == 1, states
        if job["kind"] == "label":
            rows = [json.loads(r) for r in client.get(f"/jobs/{id}/result?format=jsonl").text.splitlines()]
            assert len({r["utterance"] for r in rows}) == len(rows) == 24
    trained = [m for m in client.get("/models", service=1).json()["models"] if m["name"] == "twice"]
    assert {m["job"] for m in trained} <= set(ids)


def _ask(stage: Stage, method: str, path: str, **more: Any) -> httpx.Response:
    return httpx.request(method, f"http://127.0.0.1:{stage.ports[0]}{path}", timeout=60, **more)


def test_a_database_that_is_away(stage: Stage, material: tuple[Path, bytes], postgres: Postgres) -> None:
    storm = Storm(stage, material[1], seed=2)
    client = Patient(stage, 400)
    body = {"kind": "train", "corpus": storm.corpus["id"], "name": "patient", "training": {"epochs": 60, "patience": 0}}
    job = client.post("/jobs", json=body).json()
    while client.get(f"/jobs/{job['id']}").json()["state"] == "queued":
        time.sleep(0.1)
    postgres.stop()
    try:
        for method, path, more in (("GET", "/jobs", {}), ("POST", "/jobs", {"json": body}), ("GET", "/corpora", {})):
            answer = _ask(stage, method, path, **more)
            assert answer.status_code == 503, answer.text
            assert answer.json()["type"] == "/problems/database-away"
            assert int(answer.headers["retry-after"]) >= 1
        assert _ask(stage, "GET", "/health/live").status_code == 200
    finally:
        postgres.start()
    done = client.wait_for_end(job["id"], 600)
    assert done["state"] == "succeeded", done
    assert done["attempt"] == 1  # the worker waited with what it had


def test_a_scheduler_that_is_away(stage: Stage, material: tuple[Path, bytes]) -> None:
    storm = Storm(stage, material[1], seed=3)
    client = Patient(stage, 400)
    body = {"kind": "train", "corpus": storm.corpus["id"], "name": "patient", "training": {"epochs": 60, "patience": 0}}
    job = client.post("/jobs", json=body).json()
    while client.get(f"/jobs/{job['id']}").json()["state"] == "queued":
        time.sleep(0.1)
    stage.hold("scheduler")
    limit = time.monotonic() + 60
    while (answer := _ask(stage, "POST", "/jobs", json=body)).status_code != 503:
        _ask(stage, "POST", f"{answer.headers['location']}/cancel")
        assert time.monotonic() < limit
        time.sleep(0.5)
    assert answer.json()["type"] == "/problems/scheduler-away"
    assert int(answer.headers["retry-after"]) >= 1
    assert _ask(stage, "GET", f"/jobs/{job['id']}").status_code == 200
    stage.release("scheduler")
    done = client.wait_for_end(job["id"], 600)
    assert done["state"] == "succeeded", done


def test_a_full_disk(material: tuple[Path, bytes], tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    size = len(material[1]) + 2**20
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(store)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        made = Stage(tmp_path, material[0], clustered=False, store=store)
        with made:
            storm = Storm(made, material[1], seed=4)
            client = Patient(made, 400)
            first = storm.submit("label")
            assert client.wait_for_end(first, 600)["state"] == "succeeded"
            filler = store / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
            free = filler.stat().st_size - 5 * 4096
            with filler.open("r+b") as file:
                file.truncate(free)
            again = client.post(
                "/jobs", json={"kind": "label", "corpus": storm.corpus["id"], "formats": ["textgrid", "eaf"]}
            ).json()
            failed = client.wait_for_end(again["id"], 600)
            assert failed["state"] == "failed", failed
            assert failed["error"]["type"] == "/problems/storage-full"
            assert "disk full" in failed["error"]["detail"]
            rows = client.get(f"/jobs/{again['id']}/result?format=jsonl").text.splitlines()
            assert len(rows) == failed["progress"]["done"] < 24  # what was finished stays
            upload = client.http.post(
                f"http://127.0.0.1:{made.ports[0]}/corpora", content=material[1] + b"x" * 200_000,
                headers={"content-type": "application/zip"},
            )  # fmt: skip
            assert upload.status_code == 507, upload.text
            filler.unlink()
            assert client.wait_for_end(storm.submit("label"), 600)["state"] == "succeeded"
        no_orphans(made)
    finally:
        subprocess.run(["umount", "-l", str(store)], check=False)
