"""Webhooks: the signature of the specification, and addresses that are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.jobs import repository, webhooks
from phonechain.app.problems.errors import WebhookRefused
from phonechain.app.storage.database import Database
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import SUCCEEDED, Job


def test_the_signature_is_that_of_the_specification() -> None:
    # The example of the Standard Webhooks specification's reference implementations.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = webhooks.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert headers["webhook-timestamp"] == "1614265330"


def test_any_text_can_be_a_secret() -> None:
    expected = base64.b64encode(hmac.new(b"a secret", b"m.1.body", hashlib.sha256).digest()).decode()
    assert webhooks.sign("a secret", "m", 1, b"body")["webhook-signature"] == f"v1,{expected}"
    assert "webhook-signature" not in webhooks.sign(None, "m", 1, b"body")


def test_a_public_address_behind_a_translator_is_public() -> None:
    assert webhooks.check("http://[64:ff9b::808:808]/", private=False) == ["64:ff9b::808:808"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8000/x",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://172.16.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://[fe80::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[64:ff9b:1::808:808]/",
        "http://[2002:7f00:1::]/",  # 6to4
        "http://[::7f00:1]/",  # IPv4-compatible
        "http://[::ffff:0:7f00:1]/",  # translated (SIIT)
        "http://[2606:4700::5efe:a00:1]/",  # ISATAP
        "http://[2606:4700::200:5efe:a00:1]/",
        "http://[2001:0:7f00:1::]/",  # Teredo
        "http://[fc00::1]/",
        "http://[ff02::1]/",
        "http://[4000::1]/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://user:password@93.184.216.34/",
        "http://",
        "nonsense",
        "http://[",
        "http://name-that-is-not-there.invalid/",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(WebhookRefused, match="expected"):
        webhooks.check(url, private=False)


def test_public_addresses_are_called() -> None:
    assert webhooks.check("https://93.184.216.34/hook", private=False) == ["93.184.216.34"]
    assert webhooks.check("http://127.0.0.1:8000/hook", private=True) == ["127.0.0.1"]


class Receiver:
    """An HTTP server that keeps what it is sent, and answers the given statuses in turn."""

    def __init__(self, *statuses: int) -> None:
        self.calls: list[tuple[dict[str, str], bytes]] = []
        left = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.calls.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(left.pop(0) if left else 204)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def test_a_redirect_is_not_followed() -> None:
    receiver = Receiver(302)
    assert webhooks.call(receiver.url, b"{}", webhooks.sign("s", "m", 1, b"{}"), private=True) == 302
    headers, body = receiver.calls[0]
    assert body == b"{}"
    assert headers["host"] == receiver.url.split("/")[2]
    assert json.loads(body) == {}
    receiver.server.shutdown()


def test_a_slow_receiver_delays_nobody_else(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path / 'a.db'}")
    db.migrate()
    fast, open_ = Receiver(), []
    slow = socket.create_server(("127.0.0.1", 0))  # takes connections and never answers
    stuck = f"http://127.0.0.1:{slow.getsockname()[1]}/hook"
    with db.write() as session:
        for url in (*[stuck] * 30, fast.url):
            job = repository.add(session, Job(id=new_id(), kind="label", spec={}, webhook=url))
            job.state, job.webhook_next = SUCCEEDED, time.time()
    sender = webhooks.WebhookSender(db, None, private=True)
    sender.start()
    try:
        limit = time.monotonic() + 120
        while not fast.calls and time.monotonic() < limit:
            time.sleep(0.05)
        assert len(fast.calls) == 1
        slow.settimeout(1)
        open_.append(slow.accept())
        with pytest.raises(TimeoutError):  # the slow one is called once at a time
            slow.accept()
    finally:
        sender.stop()
        slow.close()
        for connection, _ in open_:
            connection.close()
        fast.server.shutdown()
