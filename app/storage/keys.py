"""API keys: hashed at rest, with scopes.

A key is `pc_ID_SECRET`, 256 random bits; what is kept is its SHA-256.

Scopes, each with those before it: `read` (GET), `label` (classify, labelling and evaluation jobs, corpora), `train`
(training jobs, model files), `admin` (keys, aliases, deleting).
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence

from sqlalchemy import select, update

from phonechain.app.problems.errors import InvalidRequest, UnknownKey
from phonechain.app.storage.database import Database
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import ApiKey

SCOPES = ("read", "label", "train", "admin")


def hash_key(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def create(db: Database, name: str, scopes: Sequence[str], *, admin_key: bool) -> tuple[ApiKey, str]:
    """(the row, the key): the key is told this once. `admin_key` says whether PHONECHAIN_ADMIN_KEY is set.

    Raises:
        InvalidRequest: no key has the scope admin yet, and this one would not: it would lock everybody out of /keys.
    """
    row = ApiKey(id=new_id(), name=name, scopes=list(scopes), created=time.time(), digest="", revoked=None)
    key = f"pc_{row.id}_{secrets.token_urlsafe(32)}"
    row.digest = hash_key(key)
    with db.write() as session:
        if not admin_key and "admin" not in scopes:
            in_use = session.scalars(select(ApiKey.scopes).where(ApiKey.revoked.is_(None)))
            if not any("admin" in given for given in in_use):
                detail = "the first key needs the scope admin; otherwise nobody could create or revoke keys"
                raise InvalidRequest(detail, pointer="scopes")
        session.add(row)
    return row, key


def list_all(db: Database) -> list[ApiKey]:
    """Every key that was made."""
    with db.read() as session:
        return list(session.scalars(select(ApiKey).order_by(ApiKey.id)))


def list_active(db: Database) -> list[ApiKey]:
    """The keys that were not revoked."""
    with db.read() as session:
        return list(session.scalars(select(ApiKey).where(ApiKey.revoked.is_(None))))


def revoke(db: Database, id: str) -> None:
    """Make a key invalid from now on. Raises UnknownKey."""
    with db.write() as session:
        found = session.execute(
            update(ApiKey).where(ApiKey.id == id, ApiKey.revoked.is_(None)).values(revoked=time.time())
        )
        if not found.rowcount:  # type: ignore[attr-defined]
            raise UnknownKey(f"no active key has the id {id[:80]!r}", value=id[:80])
