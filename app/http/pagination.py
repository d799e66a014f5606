"""Pages by cursor: an opaque word that says where the last page ended."""

from __future__ import annotations

import base64
import binascii

from phonechain.app.problems.errors import InvalidRequest


def encode_cursor(key: str) -> str:
    """The cursor of a key."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> str | None:
    """The key of a cursor. Raises InvalidRequest."""
    if cursor is None:
        return None
    try:
        key = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        if key and key.isalnum():
            return key
    except (binascii.Error, ValueError):
        pass
    raise InvalidRequest(
        "cursor: expected the cursor of an earlier page, got another word",
        findings=[{"detail": "cursor: expected the cursor of an earlier page", "parameter": "cursor"}],
    )


def timestamp(seconds: float | None) -> str | None:
    """A time as RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
