"""Identifiers and times.

Identifiers sort by time: 48 bits of milliseconds and 80 random bits in Crockford's base 32, as ULID has it.
"""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """26 characters; later ones of this process are greater."""
    global _last
    with _lock:
        value = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
        if value <= _last:
            value = _last + 1 + secrets.randbits(32)
        _last = value
    return "".join(_DIGITS[value >> shift & 31] for shift in range(125, -1, -5))


def is_id(text: str) -> bool:
    """Whether this can be an identifier at all."""
    return len(text) == LENGTH and all(c in _DIGITS for c in text)


def timestamp(seconds: float | None) -> str | None:
    """A time as RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
