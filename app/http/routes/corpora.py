"""`/corpora`: adding, listing and deleting corpora."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Depends, Request
from sqlalchemy import select
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, Response

from phonechain.app.corpora import bundle, intake, repository
from phonechain.app.http import pagination, uploads
from phonechain.app.http.dependencies import DatabaseDep, OwnerDep, ServicesDep, check_query, check_quota
from phonechain.app.http.gateway import caller_id
from phonechain.app.http.pagination import Cursor, Limit
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import CorpusInUse, InvalidRequest, UnsupportedMediaType
from phonechain.app.schemas.corpora import CorpusOptions, CorpusOut, CorpusPage, RegisterCorpus
from phonechain.app.schemas.problems import refusals
from phonechain.app.services import Services
from phonechain.app.settings import Settings
from phonechain.app.storage import quotas, references
from phonechain.app.storage.archives import Caps
from phonechain.app.storage.ids import timestamp
from phonechain.app.storage.references import BlobHolds
from phonechain.app.storage.tables import UNFINISHED, Corpus, Job
from phonechain.app.storage.workspace import Workspace

router = APIRouter(prefix="/corpora", tags=["corpora"], dependencies=[Depends(check_query)])

ARCHIVES = (
    "application/zip", "application/x-zip-compressed", "application/x-tar", "application/gzip", "application/x-gzip",
    "application/octet-stream",
)  # fmt: skip
LISTS = ("application/jsonl", "application/x-ndjson")
_BINARY = {"schema": uploads.BINARY}
_UNKNOWN = refusals(404, 422, 503)


def corpus_to_json(corpus: Corpus) -> dict[str, Any]:
    """A corpus as JSON for the interface."""
    return {
        "id": corpus.id,
        "name": corpus.name,
        "source": corpus.source,
        "utterances": corpus.utterances,
        "segments": corpus.segments,
        "labels": corpus.labels,
        "speakers": corpus.speakers,
        "splits": corpus.splits,
        "problems": corpus.problems,
        "problem_count": corpus.problem_count,
        "warnings": corpus.notices,
        "options": {
            k: v
            for k, v in corpus.options.items()
            if v not in (None, [], False, "refuse", "segments") and k != "fingerprint"
        },
        "created": timestamp(corpus.created),
    }


@router.post(
    "",
    summary="Add a corpus",
    status_code=201,
    response_model=CorpusOut,
    responses=refusals(400, 403, 413, 415, 422, 503, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": _BINARY,
                "application/zip": _BINARY,
                "application/x-tar": _BINARY,
                "application/gzip": _BINARY,
                "application/json": {"schema": {"$ref": "#/components/schemas/RegisterCorpus"}},
                "application/jsonl": {"schema": {"type": "string"}},
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "archive": uploads.BINARY,
                            "files": {
                                "type": "array",
                                "items": uploads.BINARY,
                                "description": "Instead of an archive: recordings and annotations, their folders in the names.",
                            },
                            "name": {"type": "string"},
                            "tier": {"type": "string"},
                        },
                    }
                },
            },
        },
        "parameters": [
            {
                "name": name,
                "in": "query",
                "description": schema.pop("description", ""),
                "required": False,
                "schema": schema,
            }
            for name, schema in CorpusOptions.model_json_schema()["properties"].items()
        ],
    },
)
async def create(request: Request, services: ServicesDep, db: DatabaseDep) -> JSONResponse:
    """Send a zip or tar of recordings and annotations (as the body or in a form), the files themselves in a form, a folder or
    URL of the server as JSON, or a list of references: one object per line with `audio` and `annotation` (and `id`,
    `speaker`, `split`).
    """
    async with references.hold_blobs_async(services.workspace) as holds:
        await check_quota(request, services)
        corpus = await _receive(request, services, holds)
        corpus.owner = caller_id(request)
        body = await services.take_in(_add, holds.workspace, services.settings, corpus)
    return JSONResponse(body, 201, {"Location": f"/corpora/{corpus.id}"})


async def _receive(request: Request, services: Services, holds: BlobHolds) -> Corpus:
    workspace, settings = holds.workspace, services.settings
    kind = request.state.media_type
    query = _query(request)
    if kind == "application/json":
        asked = problems.validate(RegisterCorpus, {**query, **uploads.parse_object(await request.body())})
        return await services.take_in(_register, holds, settings, asked)
    if kind in LISTS:
        options = problems.validate(CorpusOptions, query)
        digest = await uploads.store_body(request, workspace, settings.max_upload_bytes)
        return await services.take_in(_read_list, workspace, settings, digest, options)
    if kind in ARCHIVES:
        options = problems.validate(CorpusOptions, query)
        digest = await uploads.store_body(request, workspace, settings.max_upload_bytes)
        return await services.take_in(_unpack, workspace, settings, digest, options)
    if kind == "multipart/form-data":
        return await _receive_form(request, services, workspace, query)
    raise UnsupportedMediaType(
        f"expected a zip or tar file, application/json, application/jsonl or multipart/form-data, "
        f"got {kind[:80] or 'none'}",
        value=kind[:80],
    )


async def _receive_form(request: Request, services: Services, workspace: Workspace, query: Mapping[str, Any]) -> Corpus:
    settings = services.settings
    async with uploads.read_form(
        request, files=10_000, fields=32, part=2**16, folder=workspace.store.scratch()
    ) as form:
        archive = form.get("archive")
        files = [part for part in form.getlist("files") if isinstance(part, UploadFile)]
        if isinstance(archive, UploadFile) == bool(files):
            got = "both" if files else "none"
            raise InvalidRequest(f"expected one file in the field archive, or files, got {got}", pointer="archive")
        fields: dict[str, Any] = {}
        for name, value in form.multi_items():
            if name == "drop":
                fields.setdefault("drop", []).append(value)
            elif name not in ("archive", "files"):
                fields[name] = value
        options = problems.validate(CorpusOptions, {**query, **fields})
        if isinstance(archive, UploadFile):
            digest = await uploads.store_file(archive.file, workspace, settings.max_upload_bytes)
        else:
            digest, _ = await services.take_in(bundle.pack, files, workspace, folders=True)
    return await services.take_in(_unpack, workspace, settings, digest, options)


def _query(request: Request) -> dict[str, Any]:
    values: dict[str, Any] = dict(request.query_params)
    if "drop" in values:
        values["drop"] = request.query_params.getlist("drop")
    return values


def _options(asked: CorpusOptions) -> dict[str, Any]:
    return asked.model_dump(include=set(CorpusOptions.model_fields) - {"name"})


def _register(holds: BlobHolds, settings: Settings, asked: RegisterCorpus) -> Corpus:
    workspace = holds.workspace
    if asked.folder is not None:
        return intake.from_folder(workspace, asked.folder, asked.name, _options(asked), settings.roots)
    assert asked.url is not None
    return intake.from_url(workspace, asked.url, asked.name, _options(asked), settings.roots, holds.hold)


def _read_list(workspace: Workspace, settings: Settings, digest: str, asked: CorpusOptions) -> Corpus:
    with workspace.store.local(digest).open("rb") as lines:
        return intake.from_list(workspace, lines, asked.name, _options(asked), settings.roots)


def _unpack(workspace: Workspace, settings: Settings, digest: str, asked: CorpusOptions) -> Corpus:
    caps = Caps(settings.max_archive_files, settings.max_archive_bytes)
    return intake.from_archive(workspace, digest, asked.name, _options(asked), caps)


def _add(workspace: Workspace, settings: Settings, corpus: Corpus) -> dict[str, Any]:
    corpus.bytes = repository.bytes_of(workspace, corpus)
    with workspace.db.write() as session:
        quotas.check_bytes(session, settings, corpus.owner, corpus.bytes)
        session.add(corpus)
        session.flush()
        return corpus_to_json(corpus)


@router.get("", summary="List corpora", response_model=CorpusPage, responses=_UNKNOWN)
def index(db: DatabaseDep, owner: OwnerDep, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    """Newest first: those of the caller's key, or all with the scope admin."""
    before = pagination.decode_cursor(cursor)
    query = select(Corpus).where(Corpus.hidden.is_(False)).order_by(Corpus.id.desc()).limit(limit + 1)
    if owner is not None:
        query = query.where(Corpus.owner == owner)
    with db.read() as session:
        rows = list(session.scalars(query if before is None else query.where(Corpus.id < before)))
    more = len(rows) > limit
    return {
        "corpora": [corpus_to_json(row) for row in rows[:limit]],
        "next": pagination.encode_cursor(rows[limit - 1].id) if more else None,
    }


@router.get("/{id}", summary="Show a corpus", response_model=CorpusOut, responses=_UNKNOWN)
def show(id: str, db: DatabaseDep, owner: OwnerDep) -> dict[str, Any]:
    """Its contents, and the problems of single files."""
    with db.read() as session:
        return corpus_to_json(repository.get(session, id, owner))


@router.delete("/{id}", summary="Delete a corpus", status_code=204, responses=refusals(404, 409, 422, 503))
def delete(id: str, services: ServicesDep, db: DatabaseDep) -> Response:
    """Uploaded files are deleted too; a folder or URL of the server is left alone."""
    with db.write() as session:
        row = repository.get(session, id)
        for job, spec in session.execute(select(Job.id, Job.spec).where(Job.state.in_(UNFINISHED))):
            if spec.get("corpus") == id:
                raise CorpusInUse(f"job {job}, which has not ended, reads this corpus", value=job)
        session.delete(row)
    references.drop(services.workspace, *repository.blobs_of(row))
    return Response(status_code=204)
