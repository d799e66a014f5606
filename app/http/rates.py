"""How often a caller may ask: a token bucket for each API key, or for each address where no keys are in use.

Off unless PHONECHAIN_RATE_LIMIT says otherwise. The processes behind one port share the buckets; several services behind a
balancer do not, and give each caller that many times the rate. Health, metrics and the interface's own pages are not counted.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections.abc import Callable

from starlette.types import Scope

from phonechain.app.problems.errors import RateLimited

WINDOW = 60.0
"""Seconds in which a bucket fills; a caller that has been quiet for so long may ask everything at once."""
WAYS = 4
"""Buckets among which a name has its place; where all are others', the one that fills first is given up."""


class Buckets:
    """`limit` tokens per minute for each name. The clock is in seconds and the same in all processes.

    A bucket is kept as the time at which it is full again (the generic cell rate algorithm of ITU-T I.371), in `memory`
    that processes share: pairs of a hash and a time, 16 bytes each.
    """

    def __init__(self, limit: int, memory: memoryview, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._names: memoryview[int] = memory[: len(memory) // 2].cast("Q")
        self._full: memoryview[float] = memory[len(memory) // 2 :].cast("d")

    def take(self, name: str) -> tuple[bool, float]:
        """(whether there was a token, how many are left)."""
        hashed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) or 1
        first = hashed % (len(self._names) // WAYS) * WAYS
        places = range(first, first + WAYS)
        now, full = self._clock(), self._full
        place = next((n for n in places if self._names[n] == hashed), None)
        if place is None:
            place = min(places, key=lambda n: full[n] if self._names[n] else -math.inf)
            self._names[place], full[place] = hashed, now
        until = max(full[place], now)
        left = self.limit - (until - now) * self.limit / WINDOW
        allowed = left >= 1.0 - 1e-9
        if allowed:
            full[place] = until + WINDOW / self.limit
        return allowed, max(0.0, left - allowed)

    def seconds(self, tokens: float) -> int:
        """How long so many take to come, at least 1."""
        return max(1, math.ceil(tokens * WINDOW / self.limit))


class RateLimiter:
    """Answers 429 with Retry-After above the rate.

    Answers carry `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): the quota and its window,
    what is left of it, and in how many seconds it is whole again.
    """

    def __init__(self, limit: int, memory: memoryview) -> None:
        self.buckets = Buckets(limit, memory)
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
