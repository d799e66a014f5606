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

from starlette.types import Scope

from phonechain.app.problems.errors import RateLimited

WINDOW = 60.0
"""Seconds in which a bucket fills; a caller that has been quiet for so long may ask everything at once."""
MOST = 100_000
"""Buckets kept; the one that was used longest ago goes first."""


class Buckets:
    """`limit` tokens per minute for each name. The clock is in seconds."""

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


class RateLimiter:
    """Answers 429 with Retry-After above the rate.

    Answers carry `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): the quota and its window,
    what is left of it, and in how many seconds it is whole again.
    """

    def __init__(self, limit: int) -> None:
        self.buckets = Buckets(limit)
        self.policy = f'"requests";q={limit};w={int(WINDOW)}'

    def check(self, scope: Scope) -> tuple[RateLimited | None, dict[str, str]]:
        """(the refusal of a request above the rate, header fields of the answer)."""
        allowed, left = self.buckets.take(bucket_of(scope))
        limit = self.buckets.limit
        fields = {
            "RateLimit-Policy": self.policy,
            "RateLimit": f'"requests";r={math.floor(left)};t={self.buckets.seconds(limit - left)}',
        }
        if allowed:
            return None, fields
        wait = self.buckets.seconds(1.0 - left)
        return RateLimited(f"too many requests (limit {limit} per minute)", retry_after=wait, limit=limit), fields


def bucket_of(scope: Scope) -> str:
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
