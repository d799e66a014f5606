"""Connections that keep the service waiting, bodies that fill its memory, uploads where /tmp takes nothing."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.models.catalog import Registry
from tests.app.conftest import AUDIO, TEXTGRID, Client
from tests.app.live import connect, listening, read_answer, read_once
from tests.app.storage.test_references import archive

HEAD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def port(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    data = tmp_path_factory.mktemp("live")
    with listening(registry, data=data, header_timeout=0.5, max_connections=20, body_timeout=5.0) as found:
        yield found


@contextlib.contextmanager
def dripping(connection: socket.socket, what: bytes = b"X-A: b\r\n") -> Iterator[None]:
    """Header fields that come one after the other, for as long as somebody takes them."""
    over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.05):
                connection.sendall(what)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_head_that_drips_is_not_waited_for(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD)
        with dripping(connection):
            status, problem = read_answer(connection)
    assert (status, problem["type"]) == (408, "/problems/head-slow")


def test_an_answer_is_not_lost_where_more_is_on_its_way(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD)
        threading.Event().wait(0.8)  # the answer is out, and nothing was read of it yet
        connection.sendall(b"X-A: b\r\n")
        threading.Event().wait(0.2)
        assert read_answer(connection)[0] == 408


def test_the_second_head_of_a_connection_has_the_same_deadline(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert b'"alive"' in read_once(connection)
        connection.sendall(HEAD)
        with dripping(connection):
            assert read_answer(connection)[0] == 408


def test_a_connection_without_a_request_ends(port: int) -> None:
    with connect(port) as connection:
        assert read_answer(connection)[0] == 408


def test_a_body_after_its_answer_is_not_read_for_ever(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"POST /keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        with dripping(connection, b"x"):
            assert read_answer(connection)[0] == 413


def test_an_idle_connection_stays(port: int) -> None:
    with connect(port) as connection:
        for _ in range(2):
            connection.sendall(HEAD + b"\r\n")
            assert b'"alive"' in read_once(connection)
            threading.Event().wait(1.0)  # twice the deadline of a head


def test_what_is_not_http_is_a_problem(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
        status, problem = read_answer(connection)
    assert (status, problem["type"]) == (400, "/problems/head-malformed")


def test_connections_without_requests_make_room(port: int) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(30)]
        with connect(port) as connection:
            connection.sendall(HEAD + b"Connection: close\r\n\r\n")
            assert read_answer(connection)[0] == 200
        assert read_answer(silent[0])[0] == 503


def test_bodies_in_flight_have_a_budget(registry: Registry, tmp_path: Path) -> None:
    """Long bodies that stop before their end leave room for short ones, and give it back when they go."""
    size = 2**20 + 2**19
    head = b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with listening(registry, data=tmp_path, max_bytes_in_flight=4 * 2**20, retry_after=7) as port:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(connect(port)) for _ in range(2)]
            for connection in held:
                connection.sendall(head % (size + 1) + b" " * size)
            held[1].settimeout(1.0)
            with pytest.raises(TimeoutError):  # both are waited for
                held[1].recv(1)
            with connect(port) as connection:
                connection.sendall(head % (size + 1) + b" " * size)
                answer = read_once(connection)
            assert b" 503 " in answer.split(b"\r\n")[0]
            assert b"retry-after: 7" in answer.lower()
            assert b"/problems/overloaded" in answer
            short = json.dumps({"audio": "", "segments": []}).encode()
            with connect(port) as connection:
                connection.sendall(head % len(short) + short)
                assert b" 422 " in read_once(connection).split(b"\r\n")[0]
        for n in itertools.count():
            with connect(port) as connection:
                connection.sendall(head % size + b" " * size)
                if b" 400 " in read_once(connection).split(b"\r\n")[0]:
                    break
            assert n < 50, "the room of those who have gone comes back"


def test_uploads_need_no_tmp(serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = archive("x" * 3_000_000)
    with serve(data=tmp_path) as client:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        assert client.post("/corpora", files={"archive": ("a.zip", big)}).status_code == 201
        assert client.classify(audio=AUDIO + bytes(3_000_000)).status_code in (200, 422)
        assert _job(client, [("files", ("a.flac", AUDIO)), ("files", ("a.TextGrid", TEXTGRID))]) == 202
        assert not list((tmp_path / "blobs" / "tmp").iterdir())


def test_files_of_a_form_share_one_open_file(serve: Callable[..., Any], tmp_path: Path) -> None:
    """A hundred files, each to its own name and content, though only one is open."""
    resource = pytest.importorskip("resource")
    files = [
        ("files", (f"u{n}{suffix}", data)) for n in range(60) for suffix, data in ((".flac", AUDIO), (".lab", b""))
    ]
    files = [(field, (name, data or f"0 {1_000_000 + int(name[1:-4])} IH\n".encode())) for field, (name, data) in files]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serve(data=tmp_path) as client:
        open_now = len(list(Path("/proc/self/fd").iterdir()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 30, hard))
        try:
            assert _job(client, files) == 202
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        folder = next((tmp_path / "cache" / "corpora").iterdir())
        labels = {path.name: path.read_bytes() for path in folder.glob("*.lab")}
    assert labels == {name: data for _, (name, data) in files if name.endswith(".lab")}


@pytest.mark.parametrize("files", [1, 2])
def test_a_full_disk_is_said(
    files: int, serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full takes nothing, as a full disk does."""
    with serve(data=tmp_path) as client:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb+", buffering=0))  # noqa: SIM115
        names = ("a.flac", "a.TextGrid")[:files]
        answer = client.post(
            "/jobs", data={"job": '{"kind": "label"}'}, files=[("files", (name, AUDIO)) for name in names]
        )
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-full")


def _job(client: Client, files: list[Any]) -> int:
    answer = client.post("/jobs", data={"job": '{"kind": "label"}'}, files=files)
    assert answer.status_code < 500, answer.text
    return answer.status_code
