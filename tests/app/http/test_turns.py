"""Long bodies that arrive together: they take turns, and come whole."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from uvicorn.server import ServerState

from phonechain.app.http.connections import Config, Connection
from phonechain.app.http.turns import LONG_BODY
from phonechain.app.settings import Settings

MIB = 2**20


class Counting(Connection):
    """Notes in which round of the event loop it is read, and how far its body has come."""

    rounds = 0
    reads: list[tuple[int, int]]

    def data_received(self, data: bytes) -> None:
        Counting.reads.append((Counting.rounds, self._received))
        super().data_received(data)


async def digest(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the digest of the body; of `/early` before the body has come."""
    found = hashlib.sha256()
    more = scope["path"] != "/early"
    while more:
        message = await receive()
        found.update(message.get("body", b""))
        more = message.get("more_body", False)
    length = str(len(found.hexdigest())).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": found.hexdigest().encode()})


@contextlib.asynccontextmanager
async def connected(config: Config) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The client's end of a connection to `digest`."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(
        lambda: Counting(config, server_state=ServerState(), app_state={}), theirs
    )
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        yield reader, writer
    finally:
        writer.close()


async def post(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], body: bytes, path: str = "/") -> str:
    """The answer to a body."""
    reader, writer = stream
    writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    return (await reader.readexactly(64)).decode()


@pytest.fixture
def config() -> Config:
    config = Config(digest, Settings(), log_config=None, access_log=False)
    config.load()
    return config


async def _count_rounds() -> None:
    for Counting.rounds in itertools.count():
        await asyncio.sleep(0)


async def _send_together(config: Config, bodies: list[bytes]) -> list[str]:
    Counting.reads = []
    counter = asyncio.create_task(_count_rounds())
    try:
        async with contextlib.AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(connected(config)) for _ in bodies]
            return list(await asyncio.gather(*map(post, streams, bodies)))
    finally:
        counter.cancel()


def test_one_long_body_is_read_in_a_round(config: Config) -> None:
    bodies = [bytes([n]) * (3 * MIB + n) for n in range(8)]
    answers = asyncio.run(_send_together(config, bodies))
    assert answers == [hashlib.sha256(body).hexdigest() for body in bodies]
    long = [rounds for rounds, received in Counting.reads if received >= LONG_BODY]
    assert len(long) >= 8 * 3 * MIB // LONG_BODY - 2 * 8
    assert len(set(long)) == len(long), "two long bodies were read in one round"


def test_a_short_body_waits_for_no_turn(config: Config) -> None:
    bodies = [b"x" * (LONG_BODY - 1000) for _ in range(8)]
    asyncio.run(_send_together(config, bodies))
    assert not [received for _, received in Counting.reads if received >= LONG_BODY]


def test_a_connection_goes_on_after_a_long_body(config: Config) -> None:
    """Whether the body was read for its answer, or thrown away after it."""

    async def talk() -> list[str]:
        Counting.reads = []
        async with connected(config) as stream:
            return [await post(stream, body, path) for body, path in asked]

    long, nothing = b"x" * (2 * MIB), hashlib.sha256().hexdigest()
    asked = [(long, "/"), (b"short", "/"), (long, "/early"), (b"short", "/"), (long, "/")]
    said = [nothing if path == "/early" else hashlib.sha256(body).hexdigest() for body, path in asked]
    assert asyncio.run(talk()) == said
