"""What a receiver of webhooks does with a call (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from phonechain.features.errors import PhonechainError


class WebhookForged(PhonechainError):
    """The call is not signed with the secret, or was signed more than five minutes ago."""

    slug = "webhook-forged"


def secret_bytes(secret: str) -> bytes:
    """The key of a secret: base64 behind `whsec_`, else its text."""
    if secret.startswith("whsec_"):
        with contextlib.suppress(binascii.Error, ValueError):
            if key := base64.b64decode(secret.removeprefix("whsec_"), validate=True):
                return key
    return secret.encode()


def parse_webhook(body: bytes, headers: Mapping[str, str], secret: str) -> dict[str, Any]:
    """The event of a webhook: `type` (`job.succeeded`, `job.failed`, `job.cancelled`), `timestamp`, `data` (the job).

    Args:
        body: as it came; parsed and written again it would have another signature.
        headers: of the request, in any case.
        secret: the service's PHONECHAIN_WEBHOOK_SECRET.

    Calls are repeated until one is answered with 2xx: the header `webhook-id` is the same each time.

    Raises:
        WebhookForged.
    """
    from standardwebhooks import Webhook, WebhookVerificationError

    given = {name.lower(): value for name, value in headers.items()}
    try:
        Webhook(secret_bytes(secret)).verify(body.decode(), given)
        event: dict[str, Any] = json.loads(body)
    except (WebhookVerificationError, ValueError) as error:
        raise WebhookForged(f"expected a webhook signed with the secret: {error}") from None
    return event
