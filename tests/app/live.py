"""The service behind its own server, on a port of this machine: for what only shows on a connection."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

from phonechain.app.http.server import Server
from phonechain.app.main import create_app
from phonechain.app.models.catalog import Registry
from phonechain.app.settings import Settings


@contextlib.contextmanager
def listening(registry: Registry, **settings: Any) -> Iterator[int]:
    """The port of a service with these settings."""
    known = Settings(stop_grace=1, **settings)
    ready = threading.Event()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = Server(create_app(known, registry), known, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert ready.wait(60)
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def connect(port: int) -> socket.socket:
    """A connection that waits half a minute for an answer."""
    return socket.create_connection(("127.0.0.1", port), 30)


def read_answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """(status, the JSON body) of an answer after which the connection ends; (0, {}) where it ends without one."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)) if head else (0, {})


def read_once(connection: socket.socket) -> bytes:
    """One answer with its body, of a connection that stays open."""
    data = b""
    while not data.endswith((b"}", b"]")):
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return data
