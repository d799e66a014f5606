"""Checks of the Host and Origin headers.

A page of another site can make a browser send requests to a service on the same machine or network. With a host
name of its own that resolves to the service (DNS rebinding) it could even read the answers, so unknown host names are
refused. Requests that change something are refused if the browser says that another site made them (Sec-Fetch-Site of
the W3C's Fetch Metadata, or else Origin, RFC 6454), unless PHONECHAIN_CORS names that site. Programs send neither header.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from phonechain.app.problems.errors import CrossSite, HostNotAllowed, ServiceError
from phonechain.app.settings import Settings

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PRIVATE = (".localhost", ".local", ".internal", ".home.arpa")
"""Suffixes of names that cannot be registered (RFC 6761, 6762, 8375; ICANN 2024)."""
PORTS = {"http": 80, "https": 443}

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")


class Origins:
    """The hosts and sites allowed by the settings."""

    def __init__(self, settings: Settings) -> None:
        self.hosts, self.sites = settings.hosts, settings.cors_origins

    def check(self, method: str, headers: Headers) -> ServiceError | None:
        """The refusal of a request, if its host or its origin is not allowed."""
        host = headers.get("host", "")
        if host and not self._is_allowed(host):
            return HostNotAllowed(
                f"the service is not known under the host name {host[:80]!r}; PHONECHAIN_ALLOWED_HOSTS lists its names",
                value=host[:80],
            )
        if method in SAFE:
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and (origin in self.sites or "*" in self.sites):
            return None
        if site in ("same-origin", "none") or (site is None and (origin is None or _is_same_origin(origin, host))):
            return None
        return CrossSite(
            f"this request came from a page of another site: {(origin or 'unknown')[:80]!r}; PHONECHAIN_CORS lists allowed sites",
            value=(origin or "")[:80],
        )

    def _is_allowed(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return "*" in self.hosts
        name = found[1].lower().rstrip(".")
        if not self.hosts:
            return _is_address(name) or "." not in name or name.endswith(PRIVATE)
        return any(
            known in ("*", name) or (known.startswith("*.") and name.endswith(known[1:])) for known in self.hosts
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_same_origin(origin: str, host: str) -> bool:
    """Whether an origin is the requested host; the scheme may differ, because a proxy may terminate TLS."""
    try:
        parts = urlsplit(origin)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return False
    found = _HOST.fullmatch(host)
    if found is None or not parts.hostname:
        return False
    return parts.hostname == found[1].lower().strip("[]") and port == int(found[2] or PORTS.get(parts.scheme, 0))
