"""How often a caller may ask: a token bucket for each API key, or for each address where no keys are in use.

Off unless PHONECHAIN_RATE_LIMIT says otherwise. The buckets are this process's own: several services behind a balancer
give each caller that many times the rate. Health, metrics and the interface's own pages are not counted.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from phonechain.app.http.middleware.keys import OPEN
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import RateLimited

WINDOW = 60.0
"""Seconds in which a bucket fills; a caller that has been quiet for so long may ask everything at once."""
MOST = 100_000
"""Buckets kept; the one that was used longest ago goes first."""


class Buckets:
    """`limit` tokens a minute for each name. The clock is in seconds."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> tuple[bool, float]:
        """(was a token there and taken, how many are left)."""
        now = self._clock()
        left, then = self._left.pop(name, (float(self.limit), now))
        left = min(float(self.limit), left + (now - then) * self.limit / WINDOW)
        taken = left >= 1.0
        left -= taken
        self._left[name] = (left, now)
        while len(self._left) > MOST:
            self._left.popitem(last=False)
        return taken, left

    def seconds(self, tokens: float) -> int:
        """How long so many take to come, at least 1."""
        return max(1, math.ceil(tokens * WINDOW / self.limit))


class RateLimit:
    """Answers 429 with Retry-After, as plain ASGI; behind the gate that knows the caller.

    Answers carry `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): the quota and its window,
    what is left of it, and in how many seconds it is whole again.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.buckets = Buckets(limit)
        self.policy = f'"requests";q={limit};w={int(WINDOW)}'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or OPEN.match(scope["path"]):
            await self.app(scope, receive, send)
            return
        taken, left = self.buckets.take(whose(scope))
        limit = self.buckets.limit
        fields = {
            "RateLimit-Policy": self.policy,
            "RateLimit": f'"requests";r={math.floor(left)};t={self.buckets.seconds(limit - left)}',
        }
        if not taken:
            wait = self.buckets.seconds(1.0 - left)
            error = RateLimited(f"expected at most {limit} requests a minute, got more", retry_after=wait, limit=limit)
            answer = problems.respond(scope, problems.document(error), {**error.headers, **fields})
            await answer(scope, receive, send)
            return

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(fields)
            await send(message)

        await self.app(scope, receive, send_with_fields)


def whose(scope: Scope) -> str:
    """Whom a request counts for: a key, or an address; of IPv6 the network of 64 bits that one customer has."""
    key = getattr((scope.get("state") or {}).get("caller"), "id", "")
    if key:
        return f"key {key}"
    host = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"address {host}"
    if isinstance(address, ipaddress.IPv6Address):
        return f"address {ipaddress.ip_network((address, 64), strict=False)}"
    return f"address {address}"
