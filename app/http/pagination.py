"""Pages by cursor: an opaque word that says where the last page ended."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import Query

from phonechain.app.problems.errors import InvalidRequest

Limit = Annotated[int, Query(ge=1, le=200, description="Maximum number of entries on a page.")]
Cursor = Annotated[str | None, Query(description="`next` of the previous page.", max_length=200)]


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
