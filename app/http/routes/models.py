"""`/models` and `/aliases`: what the service has loaded, and the versions that were trained or uploaded."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, JSONResponse, Response

from phonechain.app.http import uploads
from phonechain.app.http.dependencies import DatabaseDep, ServicesDep, check_query, check_quota
from phonechain.app.http.gateway import caller_id
from phonechain.app.models import repository
from phonechain.app.models.catalog import AlignerEntry, Entry
from phonechain.app.models.repository import Kind
from phonechain.app.problems.errors import InvalidRequest, UnsupportedMediaType
from phonechain.app.schemas.models import AliasList, AliasOut, ModelDetail, ModelList, ModelSummary, PointAlias
from phonechain.app.schemas.problems import refusals
from phonechain.app.storage import references
from phonechain.app.storage.ids import timestamp
from phonechain.app.storage.tables import Alias, ModelVersion
from phonechain.app.storage.workspace import Workspace

router = APIRouter(prefix="/models", tags=["models"], dependencies=[Depends(check_query)])
aliases = APIRouter(prefix="/aliases", tags=["models"], dependencies=[Depends(check_query)])

_UNKNOWN = refusals(404, 422, 503)
_BINARY = {"schema": uploads.BINARY}


def _summary(row: ModelVersion) -> dict[str, Any]:
    return {
        "name": row.name, "kind": repository.kind_of(row), "version": row.version, "labels": len(row.card.get("labels") or ()),
        "title": row.card.get("name"), "size": row.size, "job": row.job, "created": timestamp(row.created),
    }  # fmt: skip


def _detail(row: ModelVersion) -> dict[str, Any]:
    return {**_summary(row), "label_set": list(row.card.get("labels") or ()), "card": row.card}


def _alias(row: Alias) -> dict[str, Any]:
    return {"alias": row.alias, "name": row.name, "version": row.version}


@router.get("", summary="List models", responses=refusals(503))
def index(
    services: ServicesDep,
    kind: Annotated[
        Kind | None, Query(description="Only models that label segments, or only alignment models.")
    ] = None,
) -> ModelList:
    """The names for `model` in a request: a name stands for its newest version, `name@version` for one version."""
    registry = services.models.registry
    known: list[Entry | AlignerEntry] = [*registry, *registry.aligners.values()]
    loaded = [one for entry in known if (one := ModelSummary(**entry.summary())).kind == (kind or one.kind)]
    db = services.workspace.db
    if not db.migrated and not db.exists:
        return ModelList(models=loaded)
    db.migrate()
    rows, aliases = repository.list_all(db)
    names = {row.name for row in rows}
    loaded = [one for one in loaded if one.name not in names]  # the name stands for the stored model
    stored = [ModelSummary(**_summary(row)) for row in rows if kind in (None, repository.kind_of(row))]
    return ModelList(models=[*loaded, *stored], aliases=[AliasOut(**_alias(row)) for row in aliases])


@router.get("/{name}", summary="Show a model and its card", responses=_UNKNOWN)
def show(name: str, services: ServicesDep) -> ModelDetail:
    """The card has the training data, figures and limitations of the model."""
    row = services.models.find(name)
    return ModelDetail(**(_detail(row) if row is not None else services.models.registry.find(name).detail()))


@router.get(
    "/{name}/file",
    summary="Download a model file",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {"schema": uploads.BINARY}}}, **_UNKNOWN},
)
def download(name: str, services: ServicesDep) -> FileResponse:
    """A `.safetensors` file that `phonechain` and the Python interface can load."""
    row = services.models.find(name)
    if row is None:
        entry = services.models.registry.find(name)
        path, stem = services.models.file_of(entry), f"{entry.name}-{entry.summary()['version']}"
    else:
        path, stem = services.workspace.store.local(row.blob), f"{row.name}-{row.version}"
    return FileResponse(path, media_type="application/octet-stream", filename=f"{stem}.safetensors")


@router.post(
    "",
    summary="Store a model file",
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
    request: Request, services: ServicesDep, db: DatabaseDep,
    name: Annotated[str | None, Query(description="Name. Default: the one on its card.", max_length=200)] = None,
) -> JSONResponse:  # fmt: skip
    """A `.safetensors` file written by Phonechain; nothing else is accepted, and pickles are never read."""
    limit = services.settings.max_upload_bytes
    await check_quota(request, services)
    async with references.hold_blobs_async(services.workspace) as holds:
        digest = await _receive(request, holds.workspace, limit)
        path = await asyncio.to_thread(holds.workspace.store.local, digest)
        row = await services.take_in(
            repository.store_upload, holds.workspace, services.settings, path, name, caller_id(request)
        )
    services.models.invalidate()
    return JSONResponse(_detail(row), 201, {"Location": f"/models/{row.name}@{row.version}"})


async def _receive(request: Request, workspace: Workspace, limit: int) -> str:
    """The digest of the uploaded model file."""
    kind = request.state.media_type
    if kind == "application/octet-stream":
        return await uploads.store_body(request, workspace, limit)
    if kind == "multipart/form-data":
        async with uploads.read_form(request, files=1, fields=4, part=2**16, folder=workspace.store.scratch()) as form:
            part = form.get("model")
            if not isinstance(part, UploadFile):
                raise InvalidRequest("expected a file in the field model, got none", pointer="model")
            return await uploads.store_file(part.file, workspace, limit)
    raise UnsupportedMediaType(
        f"expected application/octet-stream or multipart/form-data, got {kind[:80] or 'none'}", value=kind[:80]
    )


@router.delete("/{name}", summary="Delete a model version", status_code=204, responses=refusals(404, 409, 422, 503))
def delete(name: str, services: ServicesDep, db: DatabaseDep) -> Response:
    """`name@version`: a name alone could mean another version tomorrow."""
    known, at, version = name.partition("@")
    if not at:
        raise InvalidRequest(f"expected name@version, got {name[:120]!r}", pointer="name", value=name[:120])
    blob = repository.remove(db, known, version)
    references.drop(services.workspace, blob)
    services.models.invalidate()
    return Response(status_code=204)


@aliases.get("", summary="List aliases", responses=refusals(503))
def list_aliases(db: DatabaseDep) -> AliasList:
    """Other names for versions, such as `default`."""
    _, known = repository.list_all(db)
    return AliasList(aliases=[AliasOut(**_alias(row)) for row in known])


@aliases.put("/{alias}", summary="Set an alias", responses=refusals(400, 404, 422, 503))
def set_alias(alias: str, asked: PointAlias, services: ServicesDep, db: DatabaseDep) -> AliasOut:
    """Takes effect at once. `default` is used by requests that name no model."""
    row = repository.set_alias(db, alias, asked.model)
    services.models.invalidate()
    return AliasOut(**_alias(row))


@aliases.delete("/{alias}", summary="Delete an alias", status_code=204, responses=_UNKNOWN)
def delete_alias(alias: str, services: ServicesDep, db: DatabaseDep) -> Response:
    """The version itself is kept."""
    repository.delete_alias(db, alias)
    services.models.invalidate()
    return Response(status_code=204)
