"""What is refused for its size, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phonechain.app.http.gateway import Gateway
from phonechain.app.models.catalog import Registry
from phonechain.app.ops.shared import Shared
from phonechain.app.ops.tracing import Tracing
from phonechain.app.services import Services
from phonechain.app.settings import Settings
from phonechain.features.errors import PhonechainError
from tests.app.conftest import AUDIO, TEXTGRID, lab, wav

Serve = Callable[..., Any]


NO_ROUTES = SimpleNamespace(routes=[])


def gateway(app: Any, limit: int, registry: Registry) -> Gateway:
    """The gateway in front of `app`, with a limit below what a setting may be."""
    settings = Settings().model_copy(update={"max_body_bytes": limit})
    parts = Services.create(settings, registry, Tracing(), Shared())
    return Gateway(app, settings, parts.keyring, parts.metrics, parts.tracing, parts.shutdown, parts.shared)


def test_a_body_announced_too_long_is_not_read(registry: Registry) -> None:
    read: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the application must not see it")

    async def receive() -> dict[str, Any]:
        read.append("read")
        return {"type": "http.request", "body": b"", "more_body": False}

    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/classify",
        "headers": [(b"content-length", b"101")],
        "app": NO_ROUTES,
    }
    asyncio.run(gateway(app, 100, registry)(scope, receive, send))
    assert sent[0]["status"] == 413
    assert json.loads(sent[1]["body"])["limit"] == 100
    assert read == []


@pytest.mark.parametrize(("sizes", "passes"), [([50, 50], True), ([50, 51], False), ([101], False), ([], True)])
def test_a_body_is_counted_while_it_comes(sizes: list[int], passes: bool, registry: Registry) -> None:
    parts = [{"type": "http.request", "body": b"x" * size, "more_body": True} for size in sizes]
    parts.append({"type": "http.request", "body": b"", "more_body": False})
    queue = iter(parts)

    raised: list[PhonechainError] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            while (await receive())["more_body"]:
                pass
        except PhonechainError as error:
            raised.append(error)

    async def receive() -> dict[str, Any]:
        return next(queue)

    async def send(message: MutableMapping[str, Any]) -> None: ...

    scope = {"type": "http", "method": "POST", "path": "/classify", "headers": [], "app": NO_ROUTES}
    asyncio.run(gateway(app, 100, registry)(scope, receive, send))
    assert [str(error) for error in raised] == (
        [] if passes else ["expected a body of at most 100 bytes, got 101 received"]
    )


@pytest.mark.parametrize(("pause", "passes"), [(0.0, True), (0.03, False)])
def test_a_slow_sender_is_not_waited_for(pause: float, passes: bool, registry: Registry) -> None:
    """Ten bytes, one at a time: each pause is short, all together are not."""
    count = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        nonlocal count
        count += 1
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b"x", "more_body": count < 10}

    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    door = gateway(app, 100, registry)
    door.settings = door.settings.model_copy(update={"body_timeout": 0.15})
    scope = {"type": "http", "method": "POST", "path": "/classify", "headers": [], "app": NO_ROUTES}
    asyncio.run(door(scope, receive, send))
    assert sent[0]["status"] == (200 if passes else 408)
    if not passes:
        assert (b"connection", b"close") in sent[0]["headers"]


def test_the_service_refuses_long_bodies(serve: Serve) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
        for _ in range(100):
            yield b"x" * 1000

    with serve(max_body_bytes=20_000) as client:
        announced = client.classify()
        for kind in ("application/json", "multipart/form-data; boundary=x"):
            streamed = client.post("/classify", content=pieces(), headers={"content-type": kind})
            assert streamed.status_code == 413, streamed.text
            assert streamed.json()["type"] == "/problems/body-too-large"
        assert client.get("/health/live").status_code == 200
    assert announced.status_code == 413
    assert announced.json()["limit"] == 20_000
    assert announced.json()["value"] > 20_000


def test_seconds_are_counted_when_decoded(serve: Serve) -> None:
    silence = wav(np.zeros(16000 * 3))
    with serve(max_audio_seconds=2.5) as client:
        problem = client.classify(audio=silence, segments=lab((0.0, 0.1, "a"))).json()
        assert client.classify().status_code == 200
    assert problem["type"] == "/problems/audio-too-long"
    assert problem["status"] == 413
    assert problem["limit"] == 2.5


def test_segments_are_counted(serve: Serve) -> None:
    segments = [{"start": i / 100, "end": (i + 1) / 100} for i in range(4)]
    with serve(max_segments=3) as client:
        by_form = client.classify(segments=json.dumps(segments).encode())
        by_file = client.classify(segments=lab(*((s["start"], s["end"], "a") for s in segments)))
        by_json = client.post("/classify", json={"audio": "", "segments": segments})
        enough = client.classify(segments=json.dumps(segments[:3]).encode())
    for refused in (by_form, by_file, by_json):
        assert refused.status_code == 413
        assert refused.json()["type"] == "/problems/segments-too-many"
        assert (refused.json()["value"], refused.json()["limit"]) == (4, 3)
    assert enough.status_code == 200


def test_alternatives_are_limited(serve: Serve) -> None:
    with serve(max_n_best=3) as client:
        refused = client.post("/classify?n_best=4", files={"audio": AUDIO, "segments": TEXTGRID})
        assert client.classify(n_best="3").status_code == 200
    assert refused.status_code == 422
    assert refused.json()["errors"] == [
        {"detail": "n_best: expected at most 3 labels, got '4'", "parameter": "n_best", "value": "4", "limit": 3}
    ]


def test_a_long_recording_beyond_their_share_takes_no_place(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it waits to be decoded: short ones behind many long ones find a place."""
    with serve(queue_size=4) as client:
        batcher = client.app.state.services.batcher
        batcher.shared.long[0] = 3
        monkeypatch.setattr("phonechain.app.http.routes.classify.parse_request", None)
        long = client.classify(audio=wav(np.zeros(16000 * 61, np.float32)))
        assert (long.status_code, long.json()["type"]) == (503, "/problems/overloaded")
        assert "recordings of more than 60 s in progress (limit 3)" in long.json()["detail"]
        assert sum(batcher.shared.in_progress) == 0
        batcher.shared.long[0] = 0
