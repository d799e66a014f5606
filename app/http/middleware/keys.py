"""API keys: hashed at rest, with scopes, asked for as soon as there is one.

A key is `pc_ID_SECRET`, 256 random bits; what is kept is its SHA-256. The key of PHONECHAIN_ADMIN_KEY may do everything
and is kept nowhere. Keys are checked before anything of a request's body is read.

Scopes, each with those before it: `read` (GET), `label` (classify, labelling and evaluation jobs, corpora), `train`
(training jobs, model files), `admin` (keys, aliases, deleting).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from phonechain.app.jobs.engine import Engine
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import InvalidRequest, KeyForbidden, KeyMissing, UnknownKey
from phonechain.app.settings import Settings
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import ApiKey
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import PhonechainError

SCOPES = ("read", "label", "train", "admin")
OPEN = re.compile(r"/(page/.*|health(/.*)?|docs(/.*)?|openapi\.json|problems(/.*)?|metrics)?\Z")
"""Addresses that need no key, but for what `Keys.asked_at` says of metrics."""

RULES: tuple[tuple[str, str, str], ...] = (
    ("*", r"/keys(/.*)?", "admin"),
    ("PUT|DELETE", r"/aliases/.*", "admin"),
    ("DELETE", r"/reviews/.*", "label"),
    ("DELETE", r"/.*", "admin"),
    ("GET|HEAD|OPTIONS", r"/.*", "read"),
    ("POST", r"/models/?", "train"),
    ("*", r"/.*", "label"),
)
"""The first rule that fits says which scope is needed. A training job needs `train` besides: see `need`."""

FRESH = 5.0
"""Seconds for which what is known of keys is good; a revoked key works that long at most."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `id` is empty where no keys are in use."""

    id: str
    scopes: tuple[str, ...]

    def may(self, scope: str) -> bool:
        """Whether the scope, or a wider one, was given."""
        return any(SCOPES.index(given) >= SCOPES.index(scope) for given in self.scopes)


EVERYBODY = Caller("", ("admin",))


class Keys:
    """What is known of keys. On where PHONECHAIN_ADMIN_KEY is set or a key was made."""

    def __init__(self, settings: Settings, workspace: Workspace, engine: Engine) -> None:
        self.place, self.engine = workspace, engine
        admin = settings.admin_key
        self._metrics_need_one = settings.metrics == "key"
        self._admin = None if admin is None else digest_of(admin.get_secret_value())
        self._keys: dict[str, Caller] = {}
        self._read = 0.0
        self._lock = asyncio.Lock()

    def asked_at(self, path: str) -> bool:
        """Whether a key is asked for at this address, once there is one."""
        return not OPEN.match(path) or (self._metrics_need_one and path == "/metrics")

    async def caller(self, authorization: str) -> Caller:
        """Who asks, by the header `Authorization`. Raises KeyMissing, DatabaseAway."""
        await self._refresh()
        if self._admin is None and not self._keys:
            return EVERYBODY
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "bearer" and given.strip():
            digest = digest_of(given.strip())
            if self._admin is not None and hmac.compare_digest(digest, self._admin):
                return Caller("admin", ("admin",))
            if (known := self._keys.get(digest)) is not None:
                return known
            raise KeyMissing("expected a key of this service, got another one")
        raise KeyMissing("expected the header Authorization: Bearer KEY, got none")

    async def _refresh(self) -> None:
        if time.monotonic() - self._read < FRESH and self._read:
            return
        if not self.engine.migrated and not self.engine.has_database():
            return
        async with self._lock:
            if time.monotonic() - self._read < FRESH and self._read:
                return
            self._keys = await asyncio.to_thread(self._all)
            self._read = time.monotonic()

    def _all(self) -> dict[str, Caller]:
        self.engine.ready_database()
        with self.place.db.read() as session:
            rows = session.scalars(select(ApiKey).where(ApiKey.revoked.is_(None)))
            return {row.digest: Caller(row.id, tuple(row.scopes)) for row in rows}

    def forget(self) -> None:
        """A key was made or revoked."""
        self._read = 0.0


class KeyGate:
    """Refuses requests without a key that allows them, as plain ASGI, before their bodies."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.keys.asked_at(scope["path"]):
            try:
                known = await self.keys.caller(Headers(scope=scope).get("authorization", ""))
                _need(known, needed(scope["method"], scope["path"]))
            except PhonechainError as error:
                headers = getattr(error, "headers", None)
                await problems.respond(scope, problems.document(error), headers)(scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = known
        await self.app(scope, receive, send)


def needed(method: str, path: str) -> str:
    """The scope that a request needs."""
    for methods, pattern, scope in RULES:
        if (methods == "*" or method in methods.split("|")) and re.fullmatch(pattern, path):
            return scope
    return "admin"


def need(request: Request, scope: str) -> None:
    """Raises KeyForbidden where the caller's key does not have the scope."""
    _need(getattr(request.state, "caller", EVERYBODY), scope)


def _need(known: Caller, scope: str) -> None:
    if not known.may(scope):
        got = ", ".join(known.scopes) or "none"
        raise KeyForbidden(f"expected a key with the scope {scope}, got {got}", details={"needed": scope})


def caller(request: Request) -> str:
    """An id of who asks, the same for the same key."""
    known: Caller = getattr(request.state, "caller", EVERYBODY)
    return known.id


def digest_of(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def make(workspace: Workspace, name: str, scopes: Sequence[str], *, admin_key: bool) -> tuple[ApiKey, str]:
    """(the row, the key): the key is told this once. `admin_key` says whether PHONECHAIN_ADMIN_KEY is set.

    Raises:
        InvalidRequest: no key has the scope admin yet, and this one would not: it would lock everybody out of /keys.
    """
    row = ApiKey(id=new_id(), name=name, scopes=list(scopes), created=time.time(), digest="", revoked=None)
    key = f"pc_{row.id}_{secrets.token_urlsafe(32)}"
    row.digest = digest_of(key)
    with workspace.db.write() as session:
        if not admin_key and "admin" not in scopes:
            in_use = session.scalars(select(ApiKey.scopes).where(ApiKey.revoked.is_(None)))
            if not any("admin" in given for given in in_use):
                detail = "the first key needs the scope admin: with another one, nobody could make or revoke keys"
                raise InvalidRequest(detail, pointer="scopes")
        session.add(row)
    return row, key


def list_all(workspace: Workspace) -> list[ApiKey]:
    """Every key that was made."""
    with workspace.db.read() as session:
        return list(session.scalars(select(ApiKey).order_by(ApiKey.id)))


def revoke(workspace: Workspace, id: str) -> None:
    """From now on the key is good for nothing. Raises UnknownKey."""
    with workspace.db.write() as session:
        found = session.execute(
            update(ApiKey).where(ApiKey.id == id, ApiKey.revoked.is_(None)).values(revoked=time.time())
        )
        if not found.rowcount:  # type: ignore[attr-defined]
            raise UnknownKey(f"expected the id of a key in use, got {id[:80]!r}", value=id[:80])
