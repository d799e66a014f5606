"""What strangers do at the door: leave before the answer, set headers, upload much at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from phonechain.app.http.uploads import while_connected
from phonechain.app.storage import archives
from tests.app.conftest import Client
from tests.app.storage.test_references import ZIP, archive


def test_redirects_stay_on_the_host_that_was_asked(client: Client) -> None:
    for address, to in (("/jobs/?limit=1", "/jobs?limit=1"), ("/models/", "/models")):
        answer = client.get(address, headers={"host": "evil.example"})
        assert (answer.status_code, answer.headers["location"]) == (307, to)


def test_health_answers_head(client: Client) -> None:
    for address in ("/health/live", "/health/ready"):
        answer = client.request("HEAD", address)
        assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("leaves", [True, False])
def test_work_ends_when_its_client_leaves(leaves: bool) -> None:
    ended = []

    async def receive() -> dict[str, Any]:
        if not leaves:
            await asyncio.sleep(30)
        return {"type": "http.disconnect"}

    async def work() -> int:
        try:
            await asyncio.sleep(20 if leaves else 0.01)
            return 7
        except asyncio.CancelledError:
            ended.append(True)
            raise

    async def run() -> int:
        return await while_connected(Request({"type": "http", "headers": []}, receive), work())

    if leaves:
        with pytest.raises(ClientDisconnect):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == 7
    assert ended == [True] * leaves


def test_nobody_waits_for_archives_that_are_unpacked(
    serve: Callable[..., Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More uploads than threads of any pool stand still in unpacking; other requests are answered all the same."""
    gate, real = threading.Event(), archives.unpack

    def slow(*args: Any) -> int:
        assert gate.wait(60)
        return real(*args)

    monkeypatch.setattr(archives, "unpack", slow)
    with serve(data=tmp_path) as client:
        uploads = [
            threading.Thread(target=client.post, args=("/corpora",), kwargs={"content": archive(n), "headers": ZIP})
            for n in range(40)
        ]
        for one in uploads:
            one.start()
        try:
            for _ in range(3):
                assert client.classify().status_code == 200
                assert client.get("/corpora").json()["corpora"] == []
        finally:
            gate.set()
            for one in uploads:
                one.join()
        assert len(client.get("/corpora").json()["corpora"]) == 40
