"""The real service, as a process on loopback."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from phonechain.app.cli import main
from phonechain.app.cli.serve import _listen
from tests.app.conftest import AUDIO, LAB, TEXTGRID

ROOT = Path(__file__).parents[3]
LIMIT = 3_000_000


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service on a free port, and its address."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PHONECHAIN_MAX_BODY_BYTES": str(LIMIT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "phonechain.app.cli", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = re.match(r"listening on (http://127\.0\.0\.1:\d+),", line)
    assert address, line
    yield process, address[1]
    if process.poll() is None:
        process.kill()
    process.wait(timeout=30)


def test_it_answers_many_at_once(service: tuple[subprocess.Popen[str], str]) -> None:
    _, address = service
    with httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/health/ready").json()["status"] == "ready"

        def ask(number: int) -> httpx.Response:
            segments = ("a.TextGrid", TEXTGRID) if number % 2 else ("a.lab", LAB)
            return client.post("/classify", files={"audio": AUDIO, "segments": segments})

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(24)))
    assert {a.status_code for a in answers} == {200}
    found = [[(s["label"], pytest.approx(s["posterior"], abs=1e-4)) for s in a.json()["segments"]] for a in answers]
    assert all(f == found[0] for f in found)


def test_refusals_arrive_whole(service: tuple[subprocess.Popen[str], str]) -> None:
    _, address = service
    with httpx.Client(base_url=address, timeout=60) as client:
        for size in (LIMIT + 1, 3 * LIMIT):
            response = client.post("/classify", files={"audio": bytes(size), "segments": TEXTGRID})
            assert response.status_code == 413
            assert response.json()["type"] == "/problems/body-too-large"
        assert client.post("/classify", files={"audio": b"x", "segments": TEXTGRID}).status_code == 415


def test_answers_are_not_held_back() -> None:
    """Nagle's algorithm is off on the connections of the socket that the command makes."""

    async def option() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = _listen("127.0.0.1", 0)
        async with await asyncio.start_server(connect, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            found = await asyncio.wait_for(seen, 10)
            writer.close()
            return found

    assert asyncio.run(option()) == 1


def test_a_taken_port_is_one_line(
    service: tuple[subprocess.Popen[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    port = service[1].rsplit(":", 1)[1]
    assert main(["serve", "--demo", "--port", port]) == 2
    out, err = capfd.readouterr()
    assert out == ""  # the sample is not labelled for a service that cannot start
    assert err.startswith(f"phonechain: cannot listen on 127.0.0.1:{port}: ")
    assert err.count("\n") == 1


def test_zz_it_ends_when_told_to(service: tuple[subprocess.Popen[str], str]) -> None:
    process, address = service
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{address}/health/live")
