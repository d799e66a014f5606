"""Connections of HTTP/1.1, with deadlines that uvicorn does not have, and errors as problem documents.

The head of a request has to come within `header_timeout` seconds of its first byte (of the connection, if nothing comes
at all), however it is dripped; the same holds for the rest of a body after the answer was sent. Above `max_connections`
the connection that has kept the service waiting longest for a head makes room for the new one. Long bodies take turns (turns.py).
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from phonechain.app.http.turns import LONG_BODY, Flow, Turns
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import HeadTooSlow, MalformedHead, Overloaded
from phonechain.app.settings import Settings

LINGER = 1.0
"""Seconds for which a refused connection is still read, and what comes thrown away. Closed at once, the answer would be lost
where more is on its way: the kernel answers that by a reset (RFC 9112, section 9.6)."""


class Config(uvicorn.Config):
    """uvicorn's, with the service's settings for `Connection`."""

    def __init__(self, app: Any, settings: Settings, **more: Any) -> None:
        super().__init__(app, http=Connection, **more)
        self.settings = settings
        self.turns = Turns()


class Connection(H11Protocol):
    """One connection."""

    def __init__(self, config: Config, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self.settings = config.settings
        self.flow: Flow
        self._turns = config.turns
        self._received = 0
        """Bytes of the body that is being read, its head included."""
        self.waits_since: float | None = None
        """When it began to keep the service waiting for a head, or for a body that nobody reads any more."""
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request, if there is room."""
        super().connection_made(transport)
        self.flow = Flow(transport, self._turns)
        self._watch()
        if len(self.connections) > self.settings.max_connections:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one.waits_since is not None]
            slowest = min(waiting, key=lambda one: one.waits_since or 0.0)
            limit = self.settings.max_connections
            slowest.refuse(
                Overloaded(f"too many connections (limit {limit})", retry_after=self.settings.retry_after, limit=limit)
            )
            self.connections.discard(slowest)  # its end comes with the next turn of the loop

    def data_received(self, data: bytes) -> None:
        """More of a head or a body."""
        if self._refused:
            return
        super().data_received(data)
        self._received = self._received + len(data) if self.conn.their_state is h11.SEND_BODY else 0
        if self._received >= LONG_BODY:
            self.flow.wait_for_turn()
        self._watch()

    def on_response_complete(self) -> None:
        """An answer is out."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._disarm()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start or stop the clock. Between two requests uvicorn's own clock for idle connections runs."""
        ours, theirs = self.conn.our_state, self.conn.their_state
        idle = self.timeout_keep_alive_task is not None
        head = theirs is h11.IDLE and ours is h11.IDLE and not idle
        rest = theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
        if not (head or rest) or self._refused or self.transport.is_closing():
            self._disarm()
        elif self._deadline is None:
            self.waits_since = time.monotonic()
            self._deadline = self.loop.call_later(self.settings.header_timeout, self._expire)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.waits_since = None

    def _expire(self) -> None:
        seconds = self.settings.header_timeout
        self.refuse(HeadTooSlow(f"the head of the request did not come within {seconds:g} s", limit=seconds))

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP/1.1."""
        self.refuse(
            MalformedHead("expected a request after HTTP/1.1 with a head of at most 64 KiB, got something else")
        )

    def refuse(self, error: HeadTooSlow | MalformedHead | Overloaded) -> None:
        """Say why, where an answer can still be sent, and close the connection."""
        self._disarm()
        if self.transport.is_closing() or self._refused:
            return
        self._refused = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = problems.document(error)
            headers = {
                **error.headers, "Content-Type": problems.MEDIA_TYPE, "Cache-Control": "no-store", "Connection": "close",
            }  # fmt: skip
            data = json.dumps(body, ensure_ascii=False).encode()
            head = h11.Response(
                status_code=body["status"],
                headers=[*headers.items(), ("Content-Length", str(len(data)))],
                reason=b"",
            )
            for event in (head, h11.Data(data=data), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            if self.transport.can_write_eof():
                self.transport.write_eof()
                self.loop.call_later(LINGER, self.transport.close)
                return
        self.transport.close()
