"""Several processes behind one port: one set of limits, counts and keys, and nothing that one of them takes with it."""

from __future__ import annotations

import asyncio
import copy
import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import ByteSize

from phonechain.app.http.gateway import ByteBudget
from phonechain.app.http.rates import Buckets
from phonechain.app.labelling.batcher import Batcher
from phonechain.app.ops.shared import Shared
from phonechain.app.problems.errors import Overloaded
from phonechain.app.settings import Settings
from tests.app.conftest import AUDIO, LAB
from tests.app.jobs import speech
from tests.processes import Service, running


def pair() -> tuple[Shared, Shared]:
    """One memory, as its two processes see it."""
    first = Shared(2)
    second = copy.copy(first)
    second.number = 1
    return first, second


def within(seconds: float, true: Callable[[], bool]) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------------------- limits


def test_the_queue_has_one_bound() -> None:
    async def run() -> None:
        shared = pair()
        batchers = [Batcher(Settings(queue_size=3), shared=one) for one in shared]
        for batcher in batchers:
            await batcher.start()
        with batchers[0].admit(), batchers[1].admit(), batchers[1].admit():
            for batcher in batchers:
                with pytest.raises(Overloaded, match="3 requests in progress \\(limit 3\\)"):
                    batcher.refuse_if_full()
            shared[0].clear(1)  # the second is killed: what it was doing is not being done any more
            with batchers[0].admit():
                pass
            shared[1].in_progress[1] = 2
        assert list(shared[0].in_progress) == [0, 0]
        for batcher in batchers:
            await batcher.stop()

    asyncio.run(run())


def test_bodies_have_one_budget() -> None:
    budgets = [ByteBudget(Settings(max_bytes_in_flight=ByteSize(4096)), shared) for shared in pair()]

    class Body:
        received, counted = 3000, 0

    first, second = Body(), Body()
    budgets[0].count(first)  # type: ignore[arg-type]
    with pytest.raises(Overloaded, match="bodies of other requests take 3000 bytes"):
        budgets[1].count(second)  # type: ignore[arg-type]
    budgets[0].release(first)  # type: ignore[arg-type]
    budgets[1].count(second)  # type: ignore[arg-type]
    assert second.counted == 3000


def test_a_caller_has_one_rate() -> None:
    buckets = [Buckets(7, shared.buckets, clock=lambda: 100.0) for shared in pair()]
    answers = [buckets[n % 2].take("a") for n in range(8)]
    assert [allowed for allowed, _ in answers] == [True] * 7 + [False]
    assert [round(left, 6) for _, left in answers] == [6, 5, 4, 3, 2, 1, 0, 0]


def test_buckets_make_room() -> None:
    """More callers than there are places: those asked for last are still known."""
    buckets = Buckets(2, memoryview(bytearray(16 * 8)), clock=lambda: 0.0)
    for n in range(1000):
        assert buckets.take(f"caller {n}") == (True, 1.0)
    assert buckets.take("caller 999") == (True, 0.0)


# ------------------------------------------------------------------------------------------------------- processes


def classify(service: Service) -> int:
    """With a connection of its own."""
    return httpx.post(
        f"{service.address}/classify", files={"audio": AUDIO, "segments": ("a.lab", LAB)}, timeout=60
    ).status_code


def serving(service: Service) -> list[int]:
    """Processes that answer: those that hold the port and are not the supervisor."""
    return [pid for pid in service.family() if _parent(pid) == service.process.pid]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def metric(service: Service, pattern: str) -> float:
    text = httpx.get(f"{service.address}/metrics", timeout=60).text
    return sum(float(value) for value in re.findall(rf"^{pattern} ([\d.e+-]+)$", text, re.MULTILINE))


CLASSIFIED = r'phonechain_http_requests_total\{method="POST",route="/classify",status="200"\}'


def test_what_one_process_counts_all_show(tmp_path: Path) -> None:
    """Requests that go to either of them are counted once; one that is killed is replaced and keeps its counts."""
    with running(tmp_path, processes=2) as service:
        within(60, lambda: len(serving(service)) == 2)
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: classify(service), range(24))) == {200}
        for _ in range(8):
            assert metric(service, CLASSIFIED) == 24
            assert metric(service, "phonechain_queue_taken") == 0
        killed = serving(service)[-1]
        os.kill(killed, signal.SIGKILL)
        within(60, lambda: "starting another" in service.text and len(serving(service)) == 2)
        assert killed not in serving(service)
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: classify(service), range(8))) == {200}
        assert metric(service, CLASSIFIED) == 32
        assert service.stop() == 0
        assert service.family() == []
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.address}/health/live")


def test_keys_and_jobs_are_everybodys(tmp_path: Path) -> None:
    """A key made through one process is known to the other at once, and so is that it was revoked; a job runs."""
    admin = {"Authorization": "Bearer " + "a" * 20}
    with running(tmp_path, processes=2, admin_key="a" * 20) as service:
        within(60, lambda: len(serving(service)) == 2)

        def ask(headers: dict[str, str]) -> set[int]:
            return {httpx.get(f"{service.address}/models", headers=headers).status_code for _ in range(12)}

        made = httpx.post(f"{service.address}/keys", headers=admin, json={"name": "a", "scopes": ["read"]}).json()
        key = {"Authorization": f"Bearer {made['key']}"}
        assert ask(key) == {200}
        assert httpx.delete(f"{service.address}/keys/{made['id']}", headers=admin).status_code == 204
        assert ask(key) == {401}
        with httpx.Client(base_url=service.address, headers=admin, timeout=60) as client:
            corpus = speech.zip_folder(speech.folder(tmp_path / "corpus", 3))
            taken = client.post("/corpora?name=a", content=corpus, headers={"content-type": "application/zip"}).json()
            job = client.post("/jobs", json={"kind": "label", "corpus": taken["id"]}).json()["id"]
            within(120, lambda: client.get(f"/jobs/{job}").json()["state"] not in ("queued", "running"))
            assert client.get(f"/jobs/{job}").json()["state"] == "succeeded"
        assert service.stop() == 0


def test_the_end_of_the_supervisor_is_everybodys(tmp_path: Path) -> None:
    with running(tmp_path, processes=2) as service:
        within(60, lambda: len(serving(service)) == 2)
        service.process.kill()
        within(60, lambda: service.family() == [])


def test_what_keeps_it_from_starting_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "phonechain.db").write_bytes(b"no database" * 1000)
    with pytest.raises(AssertionError) as failed, running(tmp_path, processes=2):
        pass
    assert str(failed.value).count("phonechain: ") == 1, failed.value
