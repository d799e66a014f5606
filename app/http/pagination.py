"""Pages by cursor: an opaque word that says where the last page ended."""

from __future__ import annotations

import base64
import binascii

from phonechain.app.problems.errors import InvalidRequest


def encoded(place: str) -> str:
    """The cursor of a place."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def decoded(cursor: str | None) -> str | None:
    """The place of a cursor. Raises InvalidRequest."""
    if cursor is None:
        return None
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        if place and place.isalnum():
            return place
    except (binascii.Error, ValueError):
        pass
    raise InvalidRequest(
        "cursor: expected the cursor of an earlier page, got another word",
        findings=[{"detail": "cursor: expected the cursor of an earlier page", "parameter": "cursor"}],
    )


def moment(seconds: float | None) -> str | None:
    """A time as RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
