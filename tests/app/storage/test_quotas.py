"""What is stored has limits and an end, and the disk holds what rows name and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from phonechain.app.jobs import cleanup, dask_cluster
from phonechain.app.jobs.dask_cluster import DaskCluster
from phonechain.app.settings import Settings
from phonechain.app.storage.accounting import measure
from phonechain.app.storage.tables import Event, Job, Replay
from phonechain.app.storage.workspace import Workspace
from phonechain.model import pretrained_path
from tests.app.conftest import AUDIO, TEXTGRID, Client
from tests.app.storage.test_references import archive, upload, workspace

ADMIN = "admin-key-of-this-test"
NOBODY = "tcp://127.0.0.1:9"
"""A scheduler that does not answer: jobs wait."""


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def make_key(client: Client, name: str, scope: str = "train") -> dict[str, str]:
    made = client.post("/keys", json={"name": name, "scopes": [scope]}, headers=bearer(ADMIN))
    return bearer(made.json()["key"])


def start(client: Client, headers: dict[str, str] | None = None, **form: Any) -> Any:
    """A labelling job with its files."""
    client.app.state.services.cluster.away = None
    files = form.get("files") or [("files", ("a.flac", AUDIO)), ("files", ("a.TextGrid", TEXTGRID))]
    return client.post("/jobs", data={"job": '{"kind": "label"}'}, files=files, headers=headers or {})


def end(client: Client, ago: float = 0.0) -> None:
    with workspace(client).db.write() as session:
        session.execute(update(Job).values(state="succeeded", ended=time.time() - ago))


def test_the_disk_holds_what_rows_name(serve: Callable[..., Any], tmp_path: Path) -> None:
    """Refused requests of every kind, some at the same time, leave nothing; a job's uploads leave with it."""
    bad = [
        ("/corpora?tier=none", {"content": archive("x"), "headers": {"content-type": "application/zip"}}),
        ("/corpora", {"content": b"no archive" * 9999, "headers": {"content-type": "application/zip"}}),
        ("/corpora", {"files": {"archive": ("a.zip", archive("y")[:-30])}}),
        ("/models", {"content": b"no model" * 999, "headers": {"content-type": "application/octet-stream"}}),
        ("/models?name=%20", {"content": pretrained_path().read_bytes(), "headers": {"content-type": "application/octet-stream"}}),
        ("/jobs", {"data": {"job": '{"kind": "label", "model": "none"}'}, "files": [("files", ("a.zip", archive("z")))]}),
        ("/jobs", {"data": {"job": "{"}, "files": [("files", ("a.zip", archive("z")))]}),
    ]  # fmt: skip
    with serve(data=tmp_path, scheduler=NOBODY) as client:
        kept = upload(client, archive("kept")).json()
        review = client.post("/reviews", json={"name": "r"}).json()["id"]
        files = {"audio": ("a.flac", AUDIO), "segments": ("a.TextGrid", TEXTGRID)}
        assert client.post(f"/reviews/{review}/files", files=files).status_code == 201
        assert client.post(f"/reviews/{review}/files", files=files | {"segments": ("a", b"nothing")}).status_code == 415
        before = measure(workspace(client))
        assert before.balanced, before
        with ThreadPoolExecutor(8) as pool:
            client.app.state.services.cluster.away = None
            answers = list(pool.map(lambda one: client.post(one[0], **one[1]).status_code, bad * 3))
        assert set(answers) <= {400, 404, 415, 422}, answers
        assert measure(workspace(client)) == before
        job = start(client).json()["id"]
        busy = measure(workspace(client))
        assert busy.balanced, busy
        assert busy.disk > before.disk
        end(client)
        assert client.request("DELETE", f"/jobs/{job}").status_code == 204
        cleanup.sweep(workspace(client))  # the model that the job would have used
        assert measure(workspace(client)) == before
        client.request("DELETE", f"/reviews/{review}")
        client.request("DELETE", f"/corpora/{kept['id']}")
        assert measure(workspace(client)).disk == 0
        stray = tmp_path / "blobs" / "ab" / ("ab" * 32)
        stray.parent.mkdir()
        stray.write_bytes(b"1234")
        found = measure(workspace(client))
        assert (found.balanced, found.disk, found.reachable, len(found.stray)) == (False, 4, 0, 1)


def test_a_key_stores_so_much(serve: Callable[..., Any], tmp_path: Path) -> None:
    limit = 400_000  # three archives with what is unpacked from them
    with serve(data=tmp_path, admin_key=ADMIN, scheduler=NOBODY, max_key_bytes=limit) as client:
        mine, other = make_key(client, "mine"), make_key(client, "other")

        def put(n: int, key: dict[str, str]) -> Any:
            return client.post("/corpora", content=archive(n), headers={"content-type": "application/zip"} | key)

        taken: list[str] = []
        while (answer := put(len(taken), mine)).status_code == 201:
            taken.append(answer.json()["id"])
        assert 1 <= len(taken) <= 5
        assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-quota")
        assert answer.json()["limit"] == limit
        assert measure(workspace(client)).balanced
        assert start(client, mine).status_code == 507
        assert put(99, other).status_code == 201
        assert put(98, bearer(ADMIN)).status_code == 201
        assert client.request("DELETE", f"/corpora/{taken[0]}", headers=bearer(ADMIN)).status_code == 204
        assert put(97, mine).status_code == 201
        model = {"content-type": "application/octet-stream"} | mine
        assert client.post("/models", content=pretrained_path().read_bytes(), headers=model).status_code == 507


def test_everything_together_stores_so_much(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve(data=tmp_path, max_stored_bytes="200kB") as client:
        statuses = [upload(client, archive(n)).status_code for n in range(4)]
        assert (statuses[0], statuses[-1]) == (201, 507), statuses
        files = {"audio": ("a.flac", AUDIO), "segments": ("a.TextGrid", TEXTGRID)}
        review = client.post("/reviews", json={"name": "r"}).json()["id"]
        assert client.post(f"/reviews/{review}/files", files=files).status_code == 507
        assert measure(workspace(client)).balanced


def test_a_key_has_so_many_jobs(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve(data=tmp_path, admin_key=ADMIN, scheduler=NOBODY, max_key_jobs=1) as client:
        mine, other = make_key(client, "mine"), make_key(client, "other")
        assert start(client, mine).status_code == 202
        refused = start(client, mine)
        assert (refused.status_code, refused.json()["limit"]) == (503, 1)
        assert start(client, other).status_code == 202
        end(client)
        assert start(client, mine).status_code == 202


def test_rows_have_an_end(serve: Callable[..., Any], tmp_path: Path) -> None:
    settings = Settings(keep_jobs=10, keep_events=5, keep_replays=2)
    with serve(data=tmp_path, scheduler=NOBODY) as client:
        here = workspace(client)

        def count(table: Any) -> int:
            with here.db.read() as session:
                return int(session.scalar(select(func.count()).select_from(table)) or 0)

        first = start(client).json()["id"]
        client.post(f"/jobs/{first}/cancel")
        second = start(client, {"idempotency-key": "k"}).json()["id"]
        cleanup.retire(here, settings)
        assert (count(Job), count(Event), count(Replay)) == (2, 3, 1)
        old = time.time() - 7 * cleanup.DAY
        with here.db.write() as session:
            session.execute(update(Event).values(at=old))
            session.execute(update(Replay).values(at=old))
            session.execute(update(Job).where(Job.id == first).values(ended=old))
        cleanup.retire(here, settings)
        # The last event of the job that has ended stays, so that its readers find the end; the other has not ended.
        assert (count(Job), count(Event), count(Replay)) == (2, 2, 0)
        assert '"state": "cancelled"' in client.get(f"/jobs/{first}/events").text
        with here.db.write() as session:
            session.execute(update(Job).where(Job.id == first).values(ended=old - 7 * cleanup.DAY))
        cleanup.retire(here, settings)
        assert client.get(f"/jobs/{first}").status_code == 404
        assert client.get(f"/jobs/{second}").json()["state"] == "queued"
        cleanup.sweep(here)
        assert measure(here).balanced


def test_keys_see_their_own_reviews(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve(data=tmp_path, admin_key=ADMIN) as client:
        mine, other = make_key(client, "mine", "label"), make_key(client, "other", "label")
        review = client.post("/reviews", json={"name": "r"}, headers=mine).json()["id"]
        for key, there in ((mine, True), (bearer(ADMIN), True), (other, False)):
            assert [r["id"] for r in client.get("/reviews", headers=key).json()["reviews"]] == [review] * there
            for method, address in (("GET", ""), ("GET", "/operations"), ("GET", "/annotations"), ("PATCH", "")):
                body = {"json": {"name": "n"}} if method == "PATCH" else {}
                answer = client.request(method, f"/reviews/{review}{address}", headers=key, **body)
                assert answer.status_code == (200 if there else 404), (address, answer.text)
        assert client.request("DELETE", f"/reviews/{review}", headers=other).status_code == 404
        assert client.request("DELETE", f"/reviews/{review}", headers=mine).status_code == 204


class _Local:
    """Worker processes, as far as their age matters."""

    ended = False

    def close(self, timeout: float) -> None:
        self.ended = True


@pytest.mark.parametrize(
    ("days", "idle", "renewed"), [(29, True, False), (31, True, True), (31, False, False), (301, False, True)]
)
def test_workers_end_before_their_certificates(
    days: int, idle: bool, renewed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data=tmp_path)
    cluster, local = DaskCluster(settings, Workspace.from_settings(settings)), _Local()
    cluster._local, cluster._local_since = local, 0.0  # type: ignore[assignment]
    monkeypatch.setattr(dask_cluster.time, "monotonic", lambda: days * 24 * 3600.0)
    assert (cluster.renew(idle=idle), local.ended) == (renewed, renewed)
