"""Clients of the service, for programs and for the command line: `Client`, and `AsyncClient` with the same methods.

    from phonechain.client import Client

    with Client("http://127.0.0.1:8000", key="pc_...") as client:
        answer = client.classify("speech.wav", "speech.TextGrid", n_best=3)
        corpus = client.upload_corpus("my-corpus.zip")
        job = client.start(kind="label", corpus=corpus["id"])
        for event in client.events(job["id"]):
            print(event["progress"])
        client.result(job["id"], "labels.zip")

A service that is too busy, or away for a moment, is asked again after the seconds that it names. A job is asked for with an
Idempotency-Key, so that asking again starts it once. `parse_webhook` verifies what a webhook receives.

Nothing of this loads torch, numpy or the service's own parts.
"""

from __future__ import annotations

from phonechain.app.client.asynchronous import AsyncClient
from phonechain.app.client.calls import RemoteError, Unreachable
from phonechain.app.client.sync import Client
from phonechain.app.client.webhooks import WebhookForged, parse_webhook

__all__ = ["AsyncClient", "Client", "RemoteError", "Unreachable", "WebhookForged", "parse_webhook"]
