"""`/keys`: API keys, for those who may do everything."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from phonechain.app.http.dependencies import DatabaseDep, ServicesDep, check_query
from phonechain.app.schemas.keys import KeyList, KeyMade, NewKey
from phonechain.app.schemas.problems import refusals
from phonechain.app.storage import keys
from phonechain.app.storage.ids import timestamp
from phonechain.app.storage.tables import ApiKey

router = APIRouter(prefix="/keys", tags=["keys"], dependencies=[Depends(check_query)])
_PROBLEMS = refusals(422, 503)


def key_to_json(key: ApiKey) -> dict[str, Any]:
    """A key as JSON for the interface."""
    return {
        "id": key.id, "name": key.name, "scopes": key.scopes, "created": timestamp(key.created),
        "revoked": timestamp(key.revoked),
    }  # fmt: skip


@router.post("", summary="Create a key", status_code=201, response_model=KeyMade, responses=refusals(400, 422, 503))
def create(asked: NewKey, services: ServicesDep, db: DatabaseDep) -> dict[str, Any]:
    """The first key must have the scope `admin`. Once there is a key, every request needs one."""
    row, key = keys.create(db, asked.name, asked.scopes, admin_key=services.settings.admin_key is not None)
    services.keyring.invalidate()
    return {**key_to_json(row), "key": key}


@router.get("", summary="List keys", response_model=KeyList, responses=_PROBLEMS)
def index(db: DatabaseDep) -> dict[str, Any]:
    """Without the keys themselves, which are not stored."""
    return {"keys": [key_to_json(row) for row in keys.list_all(db)]}


@router.delete("/{id}", summary="Revoke a key", status_code=204, responses=refusals(404, 422, 503))
def delete(id: str, services: ServicesDep, db: DatabaseDep) -> Response:
    """Takes effect at once (in other processes of the service, within a few seconds)."""
    keys.revoke(db, id)
    services.keyring.invalidate()
    return Response(status_code=204)
