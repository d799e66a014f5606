"""What stands before the routes, as plain ASGI: an id for every request, and a cap on bodies before they are parsed."""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from phonechain.app.http.uploads import UPLOADS
from phonechain.app.ops import logs
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import BodyTooLarge

_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """Gives a request an id, repeated in the answer: the caller's X-Request-ID if short and plain, else a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = Headers(scope=scope).get("x-request-id", "")
        known = asked if _SAFE_ID.fullmatch(asked) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = known

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = known
            await send(message)

        token = logs.request_id.set(known)
        try:
            await self.app(scope, receive, send_with_id)
        finally:
            logs.request_id.reset(token)


class BodyLimit:
    """Refuses a body of more than `limit` bytes: by its Content-Length before a byte is read, else once it passes.

    Where files are taken in, the limit is `uploads`.
    The second check raises `BodyTooLarge` into whoever reads the body, so the route's own error handling answers.
    """

    def __init__(self, app: ASGIApp, limit: int, uploads: int | None = None) -> None:
        self.app = app
        self.limit = limit
        self.uploads = uploads if uploads is not None else limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.uploads if UPLOADS.match(scope["path"]) else self.limit
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            error = _error(int(declared), "announced", limit)
            await problems.respond(scope, problems.document(error))(scope, receive, send)
            return
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > limit:
                    raise _error(received, "received", limit)
            return message

        await self.app(scope, receive_counted, send)


def _error(size: int, how: str, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"expected a body of at most {limit} bytes, got {size} {how}", pointer="", value=size, limit=limit
    )
