"""`/models` and `/aliases`: what the service has loaded, and the shelf of versions that were trained or uploaded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, JSONResponse, Response

from phonechain.app.http import pagination, uploads
from phonechain.app.http.dependencies import EngineDep, ModelsDep, RegistryDep, SettingsDep, WorkspaceDep
from phonechain.app.models import repository as versions
from phonechain.app.models.registry import model_files
from phonechain.app.problems.errors import InvalidRequest, UnsupportedMediaType
from phonechain.app.schemas.models import AliasList, AliasOut, ModelDetail, ModelList, ModelSummary, PointAlias
from phonechain.app.schemas.problems import refusals
from phonechain.app.storage import references
from phonechain.app.storage.tables import Alias, ModelVersion

router = APIRouter(prefix="/models", tags=["models"])
aliases = APIRouter(prefix="/aliases", tags=["models"])

_UNKNOWN = refusals(404, 422, 503)
_BINARY = {"schema": uploads.BINARY}


def _summary(row: ModelVersion) -> dict[str, Any]:
    return {
        "name": row.name, "version": row.version, "labels": len(row.card.get("labels") or ()),
        "title": row.card.get("name"), "size": row.size, "job": row.job, "created": pagination.timestamp(row.created),
    }  # fmt: skip


def _alias(row: Alias) -> dict[str, Any]:
    return {"alias": row.alias, "name": row.name, "version": row.version}


@router.get("", summary="Every model", responses=refusals(503))
async def index(registry: RegistryDep, engine: EngineDep, workspace: WorkspaceDep) -> ModelList:
    """The names that `model` in a request takes: a name stands for its newest version, `name@version` for that one."""
    loaded = [ModelSummary(**entry.summary()) for entry in registry]
    if not engine.migrated and not engine.has_database():
        return ModelList(models=loaded)
    await asyncio.to_thread(engine.ready_database)
    rows, known = await asyncio.to_thread(versions.list_all, workspace)
    kept = [ModelSummary(**_summary(row)) for row in rows]
    return ModelList(models=[*loaded, *kept], aliases=[AliasOut(**_alias(row)) for row in known])


@router.get("/{name}", summary="One model, with its card", responses=_UNKNOWN)
async def show(name: str, models: ModelsDep) -> ModelDetail:
    """What the model was trained on, how good it is, and what it is not good for."""
    row = await asyncio.to_thread(models.version_in_thread, name)
    if row is None:
        return ModelDetail(**models.registry.get(name).detail())
    return ModelDetail(**_summary(row), label_set=list(row.card.get("labels") or ()), card=row.card)


@router.get(
    "/{name}/file",
    summary="The model file",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}, **_UNKNOWN},
)
async def download(name: str, models: ModelsDep, settings: SettingsDep, workspace: WorkspaceDep) -> FileResponse:
    """A `.safetensors` that `phonechain` and the Python interface load."""
    row = await asyncio.to_thread(models.version_in_thread, name)
    if row is None:
        entry = models.registry.get(name)
        path, stem = model_files(settings)[entry.name], f"{entry.name}-{entry.version}"
    else:
        path, stem = await asyncio.to_thread(workspace.store.local, row.blob), f"{row.name}-{row.version}"
    return FileResponse(path, media_type="application/octet-stream", filename=f"{stem}.safetensors")


@router.post(
    "",
    summary="Put a model file on the shelf",
    status_code=201,
    response_model=ModelDetail,
    responses=refusals(400, 409, 413, 415, 422, 503, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": _BINARY,
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["model"],
                        "properties": {"model": uploads.BINARY},
                    }
                },
            },
        }
    },
)
async def upload(
    request: Request, settings: SettingsDep, workspace: WorkspaceDep, engine: EngineDep, models: ModelsDep,
    name: Annotated[str | None, Query(description="Its name here; else the one on its card.", max_length=200)] = None,
) -> JSONResponse:  # fmt: skip
    """A `.safetensors` of this program; nothing else is read, and pickles never are."""
    await asyncio.to_thread(engine.ready_database)
    kind = uploads.media_type(request)
    if kind == "application/octet-stream":
        digest = await uploads.keep_body(request, workspace, settings.max_upload_bytes)
    elif kind == "multipart/form-data":
        async with request.form(max_files=1, max_fields=4, max_part_size=2**16) as form:
            part = form.get("model")
            if not isinstance(part, UploadFile):
                raise InvalidRequest("expected a file in the field model, got none", pointer="model")
            digest = await uploads.keep_file(part.file, workspace, settings.max_upload_bytes)
    else:
        raise UnsupportedMediaType(
            f"expected application/octet-stream or multipart/form-data, got {kind[:80] or 'none'}", value=kind[:80]
        )
    row = await asyncio.to_thread(_kept, models, digest, name)
    models.forget()
    body = {**_summary(row), "label_set": list(row.card.get("labels") or ()), "card": row.card}
    return JSONResponse(body, 201, {"Location": f"/models/{row.name}@{row.version}"})


def _kept(models: Any, digest: str, name: str | None) -> ModelVersion:
    workspace = models.place
    path: Path = workspace.store.local(digest)
    try:
        return versions.keep(workspace, path, name)
    except Exception:
        references.drop(workspace, digest)
        raise


@router.delete("/{name}", summary="Forget a version", status_code=204, responses=refusals(404, 409, 422, 503))
async def delete(name: str, workspace: WorkspaceDep, engine: EngineDep, models: ModelsDep) -> Response:
    """`name@version`: a name alone could mean another version tomorrow."""
    known, at, version = name.partition("@")
    if not at:
        raise InvalidRequest(f"expected name@version, got {name[:120]!r}", pointer="name", value=name[:120])
    await asyncio.to_thread(engine.ready_database)
    await asyncio.to_thread(versions.remove, workspace, known, version)
    models.forget()
    return Response(status_code=204)


@aliases.get("", summary="Every alias", responses=refusals(503))
async def alias_index(workspace: WorkspaceDep, engine: EngineDep) -> AliasList:
    """Other names of versions, such as `default`."""
    await asyncio.to_thread(engine.ready_database)
    _, known = await asyncio.to_thread(versions.list_all, workspace)
    return AliasList(aliases=[AliasOut(**_alias(row)) for row in known])


@aliases.put("/{alias}", summary="Let a name stand for a version", responses=refusals(400, 404, 422, 503))
async def point(
    alias: str, asked: PointAlias, workspace: WorkspaceDep, engine: EngineDep, models: ModelsDep
) -> AliasOut:
    """From now on; `default` is what requests mean that name no model."""
    await asyncio.to_thread(engine.ready_database)
    row = await asyncio.to_thread(versions.point, workspace, alias, asked.model)
    models.forget()
    return AliasOut(**_alias(row))


@aliases.delete("/{alias}", summary="Forget an alias", status_code=204, responses=_UNKNOWN)
async def unpoint(alias: str, workspace: WorkspaceDep, engine: EngineDep, models: ModelsDep) -> Response:
    """The version that it stood for stays."""
    await asyncio.to_thread(engine.ready_database)
    await asyncio.to_thread(versions.unpoint, workspace, alias)
    models.forget()
    return Response(status_code=204)
