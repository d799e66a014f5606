"""Both clients against a live service, and against one that is busy, away for a moment, or breaks off."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.app.client import calls
from phonechain.app.jobs import webhooks
from phonechain.app.models.catalog import Registry
from phonechain.client import AsyncClient, Client, RemoteError, Unreachable, WebhookForged, parse_webhook
from tests.app.live import listening
from tests.app.storage.test_references import archive
from tests.storm.stage import free_port


@pytest.fixture(scope="module")
def url(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(registry, data=tmp_path_factory.mktemp("clients"), workers=1) as port:
        yield f"http://127.0.0.1:{port}"


SEGMENTS: list[dict[str, Any]] = [{"start": 0.0, "end": 0.08, "label": "IH"}, {"start": 0.08, "end": 0.14}]


def labels_and_posteriors(segments: list[dict[str, Any]]) -> tuple[list[str], list[float]]:
    """Apart, because what shares a batch may differ in the last digit of six."""
    ranked = [other for segment in segments for other in segment["n_best"]]
    return [other["label"] for other in ranked], [other["posterior"] for other in ranked]


def test_one_recording_and_a_job(url: str, tmp_path: Path) -> None:
    """The same by both, and of what is awaited two at a time."""
    (tmp_path / "a.zip").write_bytes(archive("client"))

    def waits() -> list[Any]:
        with Client(url) as client:
            listed = client.classify(samples.AUDIO, SEGMENTS, n_best=2)
            grid = client.annotate(samples.AUDIO, samples.SEGMENTS, format="textgrid")
            corpus = client.upload_corpus(tmp_path / "a.zip", name="a")
            assert corpus["id"] in [one["id"] for one in client.list_corpora()]
            job = client.start(kind="label", corpus=corpus["id"])
            client.cancel(job["id"])
            events = list(client.events(job["id"]))
            assert client.wait(job["id"])["state"] == events[-1]["state"]
            assert list(client.events(job["id"], after=events[-1]["number"])) == []
            rows = client.result(job["id"], tmp_path / "a.jsonl", format="jsonl").read_text()
            assert list(client.errors(job["id"])) == []
            client.delete_job(job["id"])
            client.delete_corpus(corpus["id"])
            with pytest.raises(RemoteError, match="unknown job") as caught:
                client.job(job["id"])
            assert caught.value.status == 404
            return [listed["segments"], grid[:8], rows == "" or len(rows.splitlines()) == 1]

    async def awaits() -> list[Any]:
        async with AsyncClient(url) as client:
            listed, grid = await asyncio.gather(
                client.classify(samples.AUDIO.read_bytes(), SEGMENTS, n_best=2),
                client.annotate(samples.AUDIO, samples.SEGMENTS, format="textgrid"),
            )
            corpus = await client.upload_corpus(tmp_path / "a.zip", name="a")
            assert corpus["id"] in [one["id"] async for one in client.list_corpora()]
            job = await client.start(kind="label", corpus=corpus["id"])
            await client.cancel(job["id"])
            events = [event async for event in client.events(job["id"])]
            assert (await client.wait(job["id"]))["state"] == events[-1]["state"]
            rows = (await client.result(job["id"], tmp_path / "b.jsonl", format="jsonl")).read_text()
            await client.delete_job(job["id"])
            await client.delete_corpus(corpus["id"])
            with pytest.raises(RemoteError, match="unknown job"):
                await client.job(job["id"])
            return [listed["segments"], grid[:8], rows == "" or len(rows.splitlines()) == 1]

    (segments, *others), (awaited, *awaited_others) = waits(), asyncio.run(awaits())
    (labels, posteriors), (awaited_labels, awaited_posteriors) = map(labels_and_posteriors, (segments, awaited))
    assert labels == awaited_labels
    assert posteriors == pytest.approx(awaited_posteriors, abs=2e-6)
    assert others == awaited_others


Script = list[tuple[int, dict[str, str], bytes]]


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], tuple[str, list[dict[str, str]]]]]:
    """A service that answers as the script says, and whose connection breaks for status 0; what it was sent."""
    servers = []

    def start(script: Script) -> tuple[str, list[dict[str, str]]]:
        seen: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                seen.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
                status, headers, body = script.pop(0)
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


NOW = {"Retry-After": "0"}


@pytest.mark.parametrize("awaited", [False, True])
def test_a_busy_service_is_asked_again_for_the_same_job(scripted: Any, awaited: bool) -> None:
    job = json.dumps({"id": "1", "state": "queued"}).encode()
    url, seen = scripted([(503, NOW, b"{}"), (429, NOW, b"{}"), (0, {}, b""), (202, {}, job)])

    async def ask() -> dict[str, Any]:
        async with AsyncClient(url) as client:
            return await client.start(kind="label", corpus="c")

    if awaited:
        started = asyncio.run(ask())
    else:
        with Client(url, key="k") as client:
            started = client.start(kind="label", corpus="c")
        assert {one["authorization"] for one in seen} == {"Bearer k"}
    assert started["id"] == "1"
    assert len(seen) == 4
    assert len({one["idempotency-key"] for one in seen}) == 1


@pytest.mark.parametrize("awaited", [False, True])
def test_events_go_on_where_the_stream_broke(scripted: Any, awaited: bool) -> None:
    def event(number: int, state: str) -> bytes:
        return f'id: {number}\nevent: state\ndata: {{"state": "{state}"}}\n\n'.encode()

    first, rest = event(1, "queued") + event(2, "running"), event(3, "succeeded")
    broken = {"Content-Length": "9999"}
    url, seen = scripted([(200, broken, first), (503, NOW, b"{}"), (200, {}, rest)])

    async def follow() -> list[int]:
        async with AsyncClient(url) as client:
            return [event["number"] async for event in client.events("1")]

    if awaited:
        numbers = asyncio.run(follow())
    else:
        with Client(url) as client:
            numbers = [event["number"] for event in client.events("1")]
    assert numbers == [1, 2, 3]
    assert [one["last-event-id"] for one in seen] == ["0", "2", "2"]


def test_what_is_refused_is_not_asked_again(scripted: Any) -> None:
    url, seen = scripted([(422, {}, b'{"type": "/problems/request-invalid", "detail": "no"}')])
    with Client(url) as client, pytest.raises(RemoteError, match="no"):
        client.classify(b"sound", b"segments")
    assert len(seen) == 1


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "REFUSED", 1)
    with (
        Client(f"http://127.0.0.1:{free_port()}") as client,
        pytest.raises(Unreachable, match="no service responds at"),
    ):
        client.list_models()


def test_webhooks_are_verified() -> None:
    import time

    body = b'{"type": "job.succeeded", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": "1"}}'
    now = int(time.time())
    for secret in ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "any text"):
        headers = webhooks.sign(secret, "msg_1", now, body)
        assert (
            parse_webhook(body, {name.upper(): value for name, value in headers.items()}, secret)["data"]["id"] == "1"
        )
        for wrong, given, key in (
            (body.replace(b"1", b"2"), headers, secret), (body, headers, "another"),
            (body, webhooks.sign(secret, "msg_1", now - 3600, body), secret), (body, {}, secret),
        ):  # fmt: skip
            with pytest.raises(WebhookForged):
                parse_webhook(wrong, given, key)


def test_the_client_is_light() -> None:
    heavy = ("torch", "numpy", "fastapi", "starlette", "sqlalchemy", "pydantic", "distributed")
    code = f"import sys, phonechain.client; print([name for name in {heavy!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert out.stdout.strip() == "[]", out.stderr
