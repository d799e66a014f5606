"""The service as a process: what it says at the start, and that nothing is lost when it is told to stop."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.conftest import AUDIO, LAB
from tests.app.jobs import speech
from tests.processes import ROOT, running

# -------------------------------------------------------------------------------------------------- at the start


@pytest.fixture
def log_as_it_was() -> Iterator[None]:
    """What `serve` does to the log of this process is undone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


@pytest.mark.usefixtures("log_as_it_was")
@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"PORT": "abc"}, "PHONECHAIN_PORT: expected a valid integer, got 'abc'"),
        ({"QUEUE_SIZE": "0"}, "PHONECHAIN_QUEUE_SIZE: expected at least 1, got '0'"),
        ({"LOG_FORMAT": "xml"}, "PHONECHAIN_LOG_FORMAT: expected 'text' or 'json', got 'xml'"),
        ({"MIGRATE": "perhaps"}, "PHONECHAIN_MIGRATE: expected a valid boolean, got 'perhaps'"),
        ({"SCHEDULER": "dask"}, "PHONECHAIN_SCHEDULER: expected an address such as tcp://HOST:8786, got 'dask'"),
        ({"WORKER_MEMORY": "lots"}, "PHONECHAIN_WORKER_MEMORY: expected auto, 0, or bytes such as 2GiB, got 'lots'"),
        ({"PROXIES": "balancer"}, "PHONECHAIN_PROXIES: expected addresses or networks, or [*], got 'balancer'"),
        ({"CORPUS_ROOTS": "here"}, "PHONECHAIN_CORPUS_ROOTS: expected absolute folders or URLs, .*, got 'here'"),
        ({"DATABASE": "mysql://a/b"}, "PHONECHAIN_DATABASE: expected sqlite or postgresql, got 'mysql'"),
        ({"STORE": "zzz://a"}, "PHONECHAIN_STORE: expected .*, got .*zzz.*"),
        ({"MODEL": "/none"}, "PHONECHAIN_MODEL: expected a file, got /none"),
        (
            {"MODEL": str(ROOT / "README.md")},
            "PHONECHAIN_MODEL: expected a Phonechain model file .*, got .*README.md, .*",
        ),
        ({"MODELS": "/none"}, "PHONECHAIN_MODELS: expected a folder, got /none"),
        ({"DATA": "/dev/null/x"}, "PHONECHAIN_DATA: expected a folder, got /dev/null/x"),
        ({"ADMIN_KEY": "short"}, "PHONECHAIN_ADMIN_KEY: expected a key of at least 16 characters"),
        ({"ADMIN_KEY_FILE": "/none"}, "PHONECHAIN_ADMIN_KEY_FILE: expected a file that can be read, got /none: .*"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_one_line(
    given: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from phonechain.app.cli import main

    for name, value in given.items():
        monkeypatch.setenv(f"PHONECHAIN_{name}", value)
    assert main(["serve", *([] if "PORT" in given else ["--port", "0"])]) == 2
    out, err = capfd.readouterr()
    assert re.fullmatch(f"phonechain: {line}\n", err), err
    assert out == ""


# ---------------------------------------------------------------------------------------------------- at the stop


@pytest.mark.parametrize("processes", [1, 2])
def test_what_was_taken_is_answered(processes: int, tmp_path: Path) -> None:
    """Twenty requests in every state: being sent, waiting, in the model. Each of them gets its whole answer."""
    with running(tmp_path, processes=processes) as service, httpx.Client(base_url=service.address, timeout=60) as warm:
        files: dict[str, Any] = {"audio": AUDIO, "segments": ("a.lab", LAB)}
        whole = warm.post("/classify", files=files).json()["segments"]
        body = httpx.Request("POST", "http://x/classify", files=files)
        head = (
            f"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: {body.headers['content-type']}\r\n"
            f"Content-Length: {body.headers['content-length']}\r\n\r\n"
        ).encode()
        content = body.read()
        told = threading.Event()
        begun = threading.Barrier(21)

        def ask(number: int) -> tuple[int, bytes, bytes]:
            with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
                sent = len(content) * (number % 4) // 3  # a quarter send the body after the signal, a quarter before
                connection.sendall(head + content[:sent])
                begun.wait(60)
                told.wait(60)
                time.sleep(0.02 * number)
                connection.sendall(content[sent:])
                answer = b""
                while data := connection.recv(65536):
                    answer += data
            top, _, rest = answer.partition(b"\r\n\r\n")
            return int(top.split()[1]), top, rest

        with ThreadPoolExecutor(20) as pool:
            asked = [pool.submit(ask, number) for number in range(20)]
            begun.wait(60)
            time.sleep(0.05)
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.15)
            told.set()
            answers = [one.result() for one in asked]
        assert service.process.wait(timeout=60) == 0
    assert [status for status, _, _ in answers] == [200] * 20
    for _, top, rest in answers:
        assert b"x-request-id" in top.lower()
        assert [s["label"] for s in json.loads(rest)["segments"]] == [s["label"] for s in whole]
    told_of = [line for line in service.lines() if line.get("route") == "/classify"]
    assert len(told_of) == 21
    assert {line["status"] for line in told_of} == {200}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.address}/health/live")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_connection_that_is_kept_gets_one_more_answer(processes: int, tmp_path: Path) -> None:
    """Clients that keep a connection learn by the answer that it ends, never by a reset."""
    with (
        running(tmp_path, stop_delay=2, processes=processes) as service,
        httpx.Client(base_url=service.address, timeout=60) as client,
    ):
        assert client.get("/models").headers.get("connection") != "close"
        service.process.send_signal(signal.SIGTERM)
        while (ready := client.get("/health/ready")).status_code == 200:
            time.sleep(0.02)
        assert ready.json()["parts"]["models"] == "the service is stopping"
        answers = 0
        while client.get("/models").headers.get("connection") != "close":  # raises where the connection is reset
            answers += 1
            time.sleep(0.02)
        assert answers > 1, "it goes on for whoever looks away only now"
        assert service.process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_grace_that_is_over(tmp_path: Path) -> None:
    """A client that never sends the rest of its body keeps nobody up longer than the grace."""
    with (
        running(tmp_path, stop_grace=1, body_timeout=3600) as service,
        socket.create_connection(("127.0.0.1", service.port)) as connection,
    ):
        connection.sendall(b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Content-Length: 1000\r\n\r\n{")
        time.sleep(0.3)
        assert service.stop() == 0


@pytest.mark.slow
def test_jobs_go_back_and_go_on(tmp_path: Path) -> None:
    """A running training is handed back, its stream ends, no worker stays; the next start ends the job."""
    corpus = speech.zip_folder(speech.folder(tmp_path / "corpus", 12))
    with running(tmp_path) as service, httpx.Client(base_url=service.address, timeout=60) as client:
        kind = {"content-type": "application/zip"}
        made = client.post("/corpora?name=a", content=corpus, headers=kind).json()
        body = {
            "kind": "train", "corpus": made["id"], "name": "mine", "training": {"epochs": 400, "patience": 0},
        }  # fmt: skip
        job = client.post("/jobs", json=body).json()["id"]
        limit = time.monotonic() + 120
        while client.get(f"/jobs/{job}").json()["progress"]["done"] < 2:
            assert time.monotonic() < limit
            time.sleep(0.2)
        assert len(service.family()) > 1
        with client.stream("GET", f"/jobs/{job}/events") as stream:
            pieces = stream.iter_text()
            assert next(pieces)
            service.process.send_signal(signal.SIGTERM)
            rest = "".join(pieces)  # raises where the stream is cut off in the middle
        assert rest.endswith("\n\n") or rest == ""
        assert service.process.wait(timeout=60) == 0
        limit = time.monotonic() + 120
        while service.family() and time.monotonic() < limit:
            time.sleep(0.1)
        assert service.family() == []
    lines = service.lines()  # every line of every process of the service is JSON
    assert not [line for line in lines if line["level"] in ("error", "critical")], lines
    with running(tmp_path) as service, httpx.Client(base_url=service.address, timeout=60) as client:
        known = client.get(f"/jobs/{job}").json()
        assert known["state"] in ("queued", "running"), known
        assert known["progress"]["done"] >= 2
        limit = time.monotonic() + 120
        before = known["progress"]["done"]
        while client.get(f"/jobs/{job}").json()["progress"]["done"] <= before + 1:
            assert time.monotonic() < limit
            time.sleep(0.2)
        assert client.post(f"/jobs/{job}/cancel").status_code == 202
        assert service.stop() == 0
