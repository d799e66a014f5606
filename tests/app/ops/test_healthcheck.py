"""What the health checks of containers say."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phonechain.app.ops import healthcheck

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = "   {n}: 0100007F:C350 0200A8C0:{port:04X} {state} 00000000:00000000 00:00000000 00000000  10001        0 1 1\n"


class _Answer(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health/live" else 404)
        self.end_headers()
        self.wfile.write(b'{"detail": "starting"}')

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def service() -> Iterator[tuple[int, type[_Answer]]]:
    class Answer(_Answer):
        pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.server_address[1], Answer
        server.shutdown()
        thread.join()


@pytest.fixture
def closed() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_a_service_is_healthy_while_it_is_alive(
    service: tuple[int, type[_Answer]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port, answer = service
    monkeypatch.setenv("PHONECHAIN_PORT", str(port))
    assert healthcheck.main(["service"]) == 0
    answer.status = 503
    assert healthcheck.main(["service"]) == 1
    assert "503" in (said := capsys.readouterr().out)
    assert "starting" in said


def test_nobody_there(closed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert healthcheck.main(["service", str(closed)]) == 1
    assert healthcheck.main(["scheduler", str(closed)]) == 1
    assert str(closed) in capsys.readouterr().out


def test_a_scheduler_is_healthy_while_it_listens(service: tuple[int, type[_Answer]]) -> None:
    assert healthcheck.main(["scheduler", str(service[0])]) == 0


@pytest.mark.parametrize(
    ("port", "state", "healthy"),
    [(8786, "01", True), (8786, "06", False), (8787, "01", False)],
    ids=["open", "closing", "elsewhere"],
)
def test_a_worker_is_healthy_while_it_is_connected(tmp_path: Path, port: int, state: str, healthy: bool) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEAD + LINE.format(n=0, port=443, state="01") + LINE.format(n=1, port=port, state=state))
    assert (healthcheck.worker(8786, (str(tmp_path / "none"), str(table))) is None) is healthy


def test_a_part_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert healthcheck.main(["database"]) == 2
    assert "got database" in capsys.readouterr().err
