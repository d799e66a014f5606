"""The server around the application, and how it ends: nothing that was taken is dropped.

On SIGTERM or SIGINT the service says that it is not ready, and goes on for `stop_delay` seconds. Then it takes no more
connections; those that are open get an answer to what they have sent and to what they send within `LINGER`, each with
`Connection: close`, so that a client does not send its next request to a connection that is about to go. Event streams
end. What is being answered may take `stop_grace` seconds. Jobs go back to the table after that.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from phonechain.app.http.connections import Config
from phonechain.app.services import Services
from phonechain.app.settings import Settings

LINGER = 1.0
"""Seconds that a connection on which nothing is asked stays open: what its client is just sending is still answered."""

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Serves `app` on sockets that are bound already; `started` is called when it listens."""

    def __init__(self, app: FastAPI, settings: Settings, on_start: Callable[[], None]) -> None:
        self.application, self.settings, self._on_start = app, settings, on_start
        self._alone = app.state.services.shared.processes == 1
        super().__init__(
            Config(
                app,
                settings,
                log_config=None,
                access_log=False,  # app/http/gateway.py writes the line
                server_header=False,
                forwarded_allow_ips=settings.proxies,
                timeout_graceful_shutdown=settings.stop_grace,
                timeout_keep_alive=KEEP_ALIVE,
                # asyncio accepts so many connections at a time: a process leaves the next ones to the others
                backlog=BACKLOG if self._alone else 1,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then listen."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)
        if self.started:
            self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal ends the service in order, and the process with code 0; a second Ctrl-C breaks off."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See the module."""
        begun = time.monotonic()
        services: Services = self.application.state.services
        services.shutdown.begun = True
        log.info("stopping: %d requests in progress", len(self.server_state.tasks))
        if self.settings.stop_delay and not self.force_exit:
            await asyncio.sleep(self.settings.stop_delay)
        for _ in range(3 if self._alone else BACKLOG):
            await asyncio.sleep(0)  # connections that the kernel has taken already are ours
        for server in self.servers:
            server.close()
        services.close_door()  # not before: whoever is sent away is to find it closed; streams are not waited for
        limit = time.monotonic() + LINGER
        while self.server_state.connections and time.monotonic() < limit and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
        log.info("stopped after %.1f s", time.monotonic() - begun)


BACKLOG = 2048
"""Connections that may wait to be accepted, as uvicorn has it."""
KEEP_ALIVE = 75
"""Seconds for which an idle connection stays: longer than the 60 of most balancers, so that it is they who close it."""
