"""Clients of a Phonechain service: see phonechain.app.client."""

from phonechain.app.client import AsyncClient, Client, RemoteError, Unreachable, WebhookForged, parse_webhook

__all__ = ["AsyncClient", "Client", "RemoteError", "Unreachable", "WebhookForged", "parse_webhook"]
