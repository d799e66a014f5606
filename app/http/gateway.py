"""The ASGI middleware in front of all routes: request ids, log and metrics, API keys, rate limits, checks of host and
origin, and the limit on request bodies.

A request without a valid key, over its rate limit, or with a declared length above the limit is refused before its body is
read. An unexpected error is logged here with its traceback and answered as a problem document.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from phonechain.app.http.origins import Origins
from phonechain.app.http.rates import RateLimiter
from phonechain.app.http.rules import PUBLIC, RULES, UPLOADS
from phonechain.app.ops import logs
from phonechain.app.ops.metrics import NO_ROUTE, Metrics
from phonechain.app.ops.readiness import Shutdown
from phonechain.app.ops.shared import Shared
from phonechain.app.ops.tracing import Tracing
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import (
    BodyTooLarge,
    BodyTooSlow,
    DatabaseAway,
    KeyForbidden,
    KeyMissing,
    Overloaded,
    ServiceError,
)
from phonechain.app.settings import Settings
from phonechain.app.storage import keys
from phonechain.app.storage.database import Database
from phonechain.features.errors import PhonechainError

CLIENT_GONE = 499
"""The status to log when the client disconnected before the answer, as in nginx."""

BYTES_PER_SECOND = 16 * 1024
"""Bytes of a body for which its sender gets another second."""
SMALL_BODY = 2**20
"""Bytes; longer bodies share three quarters of the budget."""
SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

FRESH = 5.0
"""Seconds until the keys are read again; while the database responds, a revoked key works that long at most."""
LOOKUP_TIMEOUT = 1.0
"""Seconds for which a request waits for the keys to be read, if they are known from an earlier time."""
MAX_KEY_AGE = 3600.0
"""Seconds for which known keys remain valid while the database does not respond."""

log = logging.getLogger("phonechain.access")


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `id` is empty if no keys are in use."""

    id: str
    scopes: tuple[str, ...]

    def has(self, scope: str) -> bool:
        """Whether the caller has the scope, or a wider one."""
        return any(keys.SCOPES.index(given) >= keys.SCOPES.index(scope) for given in self.scopes)


ANYONE = Caller("", ("admin",))


class Keyring:
    """The API keys in use, read from the database every few seconds.

    Keys are asked for where PHONECHAIN_ADMIN_KEY is set or a key was made; the key of that setting is kept nowhere. While
    the database does not answer, the keys that were read last hold for `MAX_KEY_AGE` seconds.
    """

    def __init__(self, settings: Settings, db: Database, shared: Shared) -> None:
        self.db, self._shared, self._changes = db, shared, 0
        admin = settings.admin_key
        self._admin = None if admin is None else keys.hash_key(admin.get_secret_value())
        self._callers: dict[str, Caller] = {}
        self._read_at: float | None = None
        self._look_at = 0.0
        self._reading: asyncio.Future[None] | None = None
        self._slow = False
        """Whether a request has already waited in vain for the current reading."""

    async def identify(self, authorization: str) -> Caller:
        """The caller by the header `Authorization`. Raises KeyMissing, DatabaseAway."""
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "basic":  # Label Studio sends its backends a name and a password, which is the key
            scheme, given = "bearer", _password_of(given)
        digest = keys.hash_key(given.strip()) if scheme.lower() == "bearer" and given.strip() else ""
        if self._admin is not None and hmac.compare_digest(digest, self._admin):
            return Caller("admin", ("admin",))
        if (changes := sum(self._shared.keys)) != self._changes:  # by another process too
            self._changes, self._look_at, self._read_at = changes, 0.0, None
        if time.monotonic() >= self._look_at and (self.db.migrated or self.db.exists):
            await self._refresh()
        if self._admin is None and not self._callers:
            return ANYONE
        if not digest:
            raise KeyMissing("no API key: expected the header Authorization: Bearer KEY")
        if (known := self._callers.get(digest)) is None:
            raise KeyMissing("unknown API key")
        return known

    async def _refresh(self) -> None:
        """Read the keys again. Raises DatabaseAway if no keys are known."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(lambda reading: reading.cancelled() or reading.exception())
            self._slow = False
        if self._read_at is None or time.monotonic() - self._read_at > MAX_KEY_AGE:
            await asyncio.shield(self._reading)
        elif not self._slow:
            done, _ = await asyncio.wait((self._reading,), timeout=LOOKUP_TIMEOUT)
            self._slow = not done
            if done and not isinstance(self._reading.exception(), DatabaseAway):
                self._reading.result()

    async def _read(self) -> None:
        def active() -> dict[str, Caller]:
            self.db.migrate()
            return {row.digest: Caller(row.id, tuple(row.scopes)) for row in keys.list_active(self.db)}

        try:
            self._callers = await asyncio.to_thread(active)
            self._read_at = time.monotonic()
        finally:
            self._look_at = time.monotonic() + (FRESH if self._read_at is not None else 0.0)

    def invalidate(self) -> None:
        """Read the keys again at the next request, because one was created or revoked."""
        self._shared.keys[self._shared.number] += 1


class Gateway:
    """The middleware. It is the outermost, so that every answer has an id and is counted."""

    def __init__(
        self, app: ASGIApp, settings: Settings, keyring: Keyring, metrics: Metrics, tracing: Tracing, shutdown: Shutdown,
        shared: Shared,
    ) -> None:  # fmt: skip
        self.app, self.settings, self.keyring = app, settings, keyring
        self.metrics, self.tracing, self.shutdown = metrics, tracing, shutdown
        self.limiter = RateLimiter(settings.rate_limit, shared.buckets) if settings.rate_limit else None
        self.budget, self.origins = ByteBudget(settings, shared), Origins(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self)
        token = logs.request_id.set(exchange.id)
        tracing = self.tracing.request(scope) if self.tracing.enabled else nullcontext()
        with self.metrics.in_flight.track_inprogress(), tracing as span:
            try:
                if (refusal := await self._refuse(exchange)) is not None:
                    await exchange.respond(refusal)
                else:
                    await self.app(scope, exchange.receive, exchange.send)
            except asyncio.CancelledError:
                exchange.status = exchange.status or CLIENT_GONE
                raise
            except ClientDisconnect:  # nobody is there to be answered
                exchange.status = exchange.status or CLIENT_GONE
            except Exception as error:
                log.exception("unexpected error in %s %s", scope["method"], route_of(scope))
                begun, exchange.status = exchange.status, 500
                if begun:
                    raise  # half an answer is out: only breaking the connection says that it is not whole
                await exchange.respond(error)
            finally:
                self.budget.release(exchange)
                self._record(exchange, span)
                logs.request_id.reset(token)

    async def _refuse(self, exchange: Exchange) -> PhonechainError | None:
        """The error of a refused request; otherwise stores what the route and the answer need in the scope."""
        scope, settings = exchange.scope, self.settings
        path, method = scope["path"], scope["method"]
        if not path.startswith("/health/") and (stranger := self.origins.check(method, exchange.headers)) is not None:
            return stranger
        public = PUBLIC.match(path) is not None
        if not public or (settings.metrics == "key" and path == "/metrics"):
            try:
                caller = await self.keyring.identify(exchange.headers.get("authorization", ""))
                _require(caller, scope_for(method, path))
            except PhonechainError as error:
                return error
            scope["state"]["caller"] = caller
        if self.limiter is not None and not public:
            refusal, exchange.extra = self.limiter.check(scope)
            if refusal is not None:
                return refusal
        kind = scope["state"]["media_type"] = exchange.headers.get("content-type", "").split(";")[0].strip().lower()
        uploads = UPLOADS.match(path) is not None and kind != "application/json"
        exchange.limit = settings.max_upload_bytes if uploads else settings.max_body_bytes
        exchange.in_memory = not uploads
        declared = exchange.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > exchange.limit:
            return _body_too_large(int(declared), "announced", exchange.limit)
        return None

    def _record(self, exchange: Exchange, span: Any) -> None:
        """Log and count the request, and end its span."""
        seconds = time.perf_counter() - exchange.begun
        scope = exchange.scope
        method, route, status = scope["method"], route_of(scope), exchange.status or CLIENT_GONE
        problem = scope["state"].get("problem")
        self.metrics.count_request(route, method, status, None if exchange.stream else seconds, problem)
        if span is not None:
            self.tracing.end(span, method, route, status)
        if not log.isEnabledFor(logging.INFO):
            return
        facts: dict[str, Any] = {"method": method, "route": route, "status": status, "ms": round(1e3 * seconds, 1)}
        if problem is not None:
            facts["problem"] = problem
        facts["client"] = (scope.get("client") or ("-",))[0]
        if (caller := getattr(scope["state"].get("caller"), "id", "")) != "":
            facts["key"] = caller
        if span is not None and (trace := self.tracing.trace_id(span)):
            facts["trace_id"] = trace
        said = f"{method} {route} {status} {facts['ms']} ms"
        log.info(said, extra={"facts": facts, "said": ("method", "route", "status", "ms")})


class ByteBudget:
    """What the bodies of all requests in progress hold in memory. Long ones leave a quarter to the others."""

    def __init__(self, settings: Settings, shared: Shared) -> None:
        self.total, self.retry_after = settings.max_bytes_in_flight, settings.retry_after
        self._shared, self._me = shared, shared.number

    def count(self, exchange: Exchange) -> None:
        """What an exchange has received by now. Raises Overloaded, and then none of it counts any more."""
        self.release(exchange)
        size, long = exchange.received, exchange.received > SMALL_BODY
        held = sum(self._shared.bytes)
        if held + size > self.total or (long and sum(self._shared.long_bytes) + size > self.total * 3 // 4):
            raise Overloaded(
                f"server busy: bodies of other requests take {held} bytes (limit {self.total})",
                retry_after=self.retry_after, value=held + size, limit=self.total,
            )  # fmt: skip
        exchange.counted = size
        self._shared.bytes[self._me] += size
        self._shared.long_bytes[self._me] += size if long else 0

    def release(self, exchange: Exchange) -> None:
        """Stop counting an exchange."""
        self._shared.bytes[self._me] -= exchange.counted
        if exchange.counted > SMALL_BODY:
            self._shared.long_bytes[self._me] -= exchange.counted
        exchange.counted = 0


class Exchange:
    """One request and its answer.

    A body longer than `limit` bytes raises BodyTooLarge into whoever reads it, so that the route's own error handling
    answers. `extra` are header fields of the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, gateway: Gateway) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._shutdown, self._budget = gateway.shutdown, gateway.budget
        self.headers = Headers(scope=scope)
        asked = self.headers.get("x-request-id", "")
        self.id = asked if SAFE_ID.fullmatch(asked) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = self.id
        self.begun = time.perf_counter()
        self.extra: Mapping[str, str] = {}
        self.limit = 0
        self.received = 0
        self.counted = 0
        self.in_memory = True
        """Whether the body is held in memory, and so counts against the budget."""
        self.wait = self.max_wait = gateway.settings.body_timeout
        """Seconds for which more of the body may be waited for, and the most that they may become."""
        self.whole = False
        self.status = 0
        self.stream = False

    async def receive(self) -> Message:
        """The next part of the request. Raises BodyTooLarge, BodyTooSlow, Overloaded."""
        if self.whole:
            return await self._receive()
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self.wait):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow(f"the body came too slowly: {self.received} bytes so far", value=self.received) from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            # No more than `max_wait` is saved up: who sends a part at once and then stops holds it for so long only.
            self.wait = min(self.max_wait, self.wait - (time.monotonic() - begun) + size / BYTES_PER_SECOND)
            self.whole = not message.get("more_body", False)
            self.received += size
            if self.received > self.limit:
                raise _body_too_large(self.received, "received", self.limit)
            if self.in_memory:
                self._budget.count(self)
        return message

    async def send(self, message: Message) -> None:
        """The next part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            if self.status in (307, 308):  # Starlette builds the address from the Host header, which anybody may set
                url = urlsplit(headers.get("location", ""))
                headers["location"] = f"/{url.path.lstrip('/')}" + (f"?{url.query}" if url.query else "")
            self.stream = headers.get("content-type", "").startswith("text/event-stream")
            headers.update(self.extra)
            headers["X-Request-ID"] = self.id
            if self._shutdown.closed:
                headers["Connection"] = "close"  # the client's next request goes to somebody who stays
        await self._send(message)

    async def respond(self, error: Exception) -> None:
        """Answer with the problem document of an error."""
        headers = error.headers if isinstance(error, ServiceError) else None
        await problems.respond(self.scope, problems.document(error), headers)(self.scope, self._receive, self.send)


def _password_of(given: str) -> str:
    """The password of basic credentials (RFC 7617); empty where they are malformed."""
    try:
        return base64.b64decode(given, validate=True).decode("utf-8").partition(":")[2]
    except ValueError:
        return ""


def route_of(scope: Scope) -> str:
    """The template of the route, such as `/jobs/{id}`; NO_ROUTE if there is none for this address."""
    route = scope.get("route")
    if route is None:  # refused before it came to a route
        for one in scope["app"].routes:
            if one.matches(scope)[0] is not Match.NONE:
                route = one
                break
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    return path if path else NO_ROUTE


def scope_for(method: str, path: str) -> str:
    """The scope that a request needs."""
    for methods, pattern, scope in RULES:
        if (methods == "*" or method in methods.split("|")) and re.fullmatch(pattern, path):
            return scope
    return "admin"


def require_scope(request: Request, scope: str) -> None:
    """Raises KeyForbidden if the caller's key lacks the scope."""
    _require(getattr(request.state, "caller", ANYONE), scope)


def caller_id(request: Request) -> str:
    """The id of the caller's key; empty if no keys are in use."""
    caller: Caller = getattr(request.state, "caller", ANYONE)
    return caller.id


def owner_of(request: Request) -> str | None:
    """The owner whose jobs and corpora the caller may see: itself, or None for all, with the scope admin."""
    caller: Caller = getattr(request.state, "caller", ANYONE)
    return None if caller.has("admin") else caller.id


def _require(caller: Caller, scope: str) -> None:
    if not caller.has(scope):
        given = ", ".join(caller.scopes) or "none"
        raise KeyForbidden(
            f"this request needs a key with the scope {scope}; the key has {given}", details={"needed": scope}
        )


def _body_too_large(size: int, how: str, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"expected a body of at most {limit} bytes, got {size} {how}", pointer="", value=size, limit=limit
    )
