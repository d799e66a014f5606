"""One line in the log, one count and, where it is on, one span for every request, as plain ASGI.

A fault that no handler knows is logged here, with its traceback and the request's id, and answered as a problem.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from phonechain.app.ops.metrics import NO_ROUTE, Metrics
from phonechain.app.ops.tracing import Tracing
from phonechain.app.problems import documents as problems

GONE = 499
"""What is noted where the client left before the answer, as nginx does."""

log = logging.getLogger("phonechain.access")


class Access:
    """Stands right behind what gives requests their ids."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracing: Tracing) -> None:
        self.app, self.metrics, self.tracing = app, metrics, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        with self.metrics.in_flight.track_inprogress(), self.tracing.request(scope) as span:
            try:
                await self.app(scope, receive, answer.send)
            except asyncio.CancelledError:
                answer.status = answer.status or GONE
                raise
            except Exception as error:
                log.exception("fault in %s %s", scope["method"], route_of(scope))
                begun, answer.status = answer.status, 500
                if begun:
                    raise  # half an answer is out: only breaking the connection says that it is not whole
                await problems.respond(scope, problems.document(error))(scope, receive, answer.send)
            finally:
                self._note(scope, answer, span)

    def _note(self, scope: Scope, answer: _Answer, span: Any) -> None:
        seconds = time.perf_counter() - answer.begun
        method, route, status = scope["method"], route_of(scope), answer.status or GONE
        state = scope.get("state") or {}
        problem = state.get("problem")
        self.metrics.count_request(route, method, status, None if answer.stream else seconds, problem)
        self.tracing.end(span, method, route, status)
        if not log.isEnabledFor(logging.INFO):
            return
        facts: dict[str, Any] = {"method": method, "route": route, "status": status, "ms": round(1e3 * seconds, 1)}
        if problem is not None:
            facts["problem"] = problem
        facts["client"] = (scope.get("client") or ("-",))[0]
        if (caller := getattr(state.get("caller"), "id", "")) != "":
            facts["key"] = caller
        if trace := self.tracing.trace_id(span):
            facts["trace_id"] = trace
        said = f"{method} {route} {status} {facts['ms']} ms"
        log.info(said, extra={"facts": facts, "said": ("method", "route", "status", "ms")})


class _Answer:
    """What is known of the answer while it is sent."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope, self._send = scope, send
        self.begun = time.perf_counter()
        self.status = 0
        self.stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            self.status = message["status"]
            self.stream = headers.get("content-type", "").startswith("text/event-stream")
            if getattr(self.scope["app"].state, "stopping", False):
                headers["Connection"] = "close"  # the client's next request goes to somebody who stays
        await self._send(message)


def route_of(scope: Scope) -> str:
    """The template of the route, such as `/jobs/{id}`; NO_ROUTE where none takes this address."""
    route = scope.get("route")
    if route is None:  # refused before it came to a route
        for one in scope["app"].routes:
            if one.matches(scope)[0] is not Match.NONE:
                route = one
                break
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    return path if path else NO_ROUTE
