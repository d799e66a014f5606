"""`/keys`: API keys, for those who may do everything."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from phonechain.app.http import pagination
from phonechain.app.http.dependencies import EngineDep, KeysDep, SettingsDep, WorkspaceDep
from phonechain.app.http.middleware import keys as security
from phonechain.app.schemas.keys import KeyList, KeyMade, NewKey
from phonechain.app.schemas.problems import refusals
from phonechain.app.storage.tables import ApiKey

router = APIRouter(prefix="/keys", tags=["keys"])
_PROBLEMS = refusals(422, 503)


def shown(key: ApiKey) -> dict[str, Any]:
    """A key as it is answered."""
    return {
        "id": key.id, "name": key.name, "scopes": key.scopes, "created": pagination.timestamp(key.created),
        "revoked": pagination.timestamp(key.revoked),
    }  # fmt: skip


@router.post("", summary="Make a key", status_code=201, response_model=KeyMade, responses=refusals(400, 422, 503))
async def create(
    asked: NewKey, settings: SettingsDep, workspace: WorkspaceDep, engine: EngineDep, keys: KeysDep
) -> dict[str, Any]:
    """From the first key on, every request needs one; the first has to have the scope `admin`."""

    def made() -> tuple[ApiKey, str]:
        engine.ready_database()
        return security.make(workspace, asked.name, asked.scopes, admin_key=settings.admin_key is not None)

    row, key = await asyncio.to_thread(made)
    keys.forget()
    return {**shown(row), "key": key}


@router.get("", summary="Every key", response_model=KeyList, responses=_PROBLEMS)
async def index(workspace: WorkspaceDep, engine: EngineDep) -> dict[str, Any]:
    """Without the keys themselves, which are not kept."""

    def found() -> list[ApiKey]:
        engine.ready_database()
        return security.list_all(workspace)

    return {"keys": [shown(row) for row in await asyncio.to_thread(found)]}


@router.delete("/{id}", summary="Revoke a key", status_code=204, responses=refusals(404, 422, 503))
async def delete(id: str, workspace: WorkspaceDep, engine: EngineDep, keys: KeysDep) -> Response:
    """It is refused from now on (other processes of the service take a few seconds)."""

    def gone() -> None:
        engine.ready_database()
        security.revoke(workspace, id)

    await asyncio.to_thread(gone)
    keys.forget()
    return Response(status_code=204)
