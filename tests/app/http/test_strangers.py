"""What strangers do at the door: leave before the answer, set headers, upload much at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from phonechain.app.http.uploads import run_while_connected
from phonechain.app.storage import archives
from tests.app.conftest import Client
from tests.app.storage.test_references import ZIP, archive


def test_redirects_name_no_host(client: Client) -> None:
    for address, to in (("/jobs/?limit=1", "/jobs?limit=1"), ("/models/", "/models")):
        answer = client.get(address, headers={"host": "other.internal"})
        assert (answer.status_code, answer.headers["location"]) == (307, to)


@pytest.mark.parametrize(
    "host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "192.168.1.7:80", "service", "a.b.local", "x.internal.", "LOCALHOST"]
)  # fmt: skip
def test_names_that_nobody_can_register_are_known(client: Client, host: str) -> None:
    assert client.get("/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "local.evil.example", "a b", "1.2.3"])
def test_other_names_are_refused(client: Client, host: str) -> None:
    """A page under a name of its own that leads here cannot read anything."""
    for method, address in (("GET", "/models"), ("POST", "/classify"), ("GET", "/"), ("GET", "/openapi.json")):
        answer = client.request(method, address, headers={"host": host})
        assert (answer.status_code, answer.json()["type"]) == (421, "/problems/host")
    assert client.get("/health/live", headers={"host": host}).status_code == 200


def test_names_as_a_setting(serve: Callable[..., Any], tmp_path: Any) -> None:
    with serve(data=tmp_path, allowed_hosts="speech.example.org, *.example.net") as client:
        for host, status in (
            ("Speech.Example.org:443", 200), ("a.b.example.net", 200), ("example.net", 421), ("localhost", 421),
            ("evil.org", 421), ("xexample.net", 421),
        ):  # fmt: skip
            assert client.get("/models", headers={"host": host}).status_code == status, host
    with serve(data=tmp_path, allowed_hosts="*") as client:
        assert client.get("/models", headers={"host": "anything.example"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, True),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost:9"}, True),
        ({"origin": "http://phonechain"}, False),
        ({"origin": "http://phonechain:81"}, True),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://phonechain.evil.example"}, True),
    ],
)
def test_other_sites_change_nothing(client: Client, headers: dict[str, str], refused: bool) -> None:
    for method, address in (("POST", "/classify"), ("POST", "/jobs"), ("DELETE", "/jobs/x"), ("PUT", "/aliases/a")):
        answer = client.request(method, address, headers=headers)
        assert (answer.json()["type"] == "/problems/cross-site") is refused
        assert (answer.status_code == 403) is refused
    assert client.get("/models", headers=headers).status_code == 200


def test_cors_is_off_by_itself(client: Client) -> None:
    asked = {"origin": "https://lab.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.request("OPTIONS", "/classify", headers=asked).headers
    assert "access-control-allow-origin" not in client.get("/models", headers=asked).headers


def test_cors_as_a_setting(serve: Callable[..., Any], tmp_path: Any) -> None:
    site = {"origin": "https://lab.example", "sec-fetch-site": "cross-site"}
    asked = {**site, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    with serve(data=tmp_path, cors="https://lab.example", admin_key="a-key-of-sixteen-characters") as client:
        before = client.request("OPTIONS", "/classify", headers=asked)
        assert before.status_code == 200
        assert before.headers["access-control-allow-origin"] == "https://lab.example"
        refused = client.post("/classify", headers=site)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://lab.example")
        assert "X-Request-ID" in refused.headers["access-control-expose-headers"]
        key = {"authorization": "Bearer a-key-of-sixteen-characters"}
        assert client.post("/classify", headers=site | key).status_code == 415
        assert client.post("/classify", headers=key | {"origin": "https://evil.example"}).status_code == 403


def test_allow_names_every_method_of_an_address(client: Client) -> None:
    for address, methods in (
        ("/jobs", "GET, POST"), ("/jobs/x", "DELETE, GET"), ("/models/x", "DELETE, GET"), ("/health/live", "GET, HEAD"),
        ("/reviews/x", "DELETE, GET, PATCH"),
    ):  # fmt: skip
        answer = client.request("TRACE", address)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)
        assert methods in answer.json()["detail"]


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
        return await run_while_connected(Request({"type": "http", "headers": []}, receive), work())

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
