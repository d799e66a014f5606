"""`/jobs`: training, labelling and evaluation that outlive their request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from phonechain.app.corpora import bundle
from phonechain.app.http import pagination, uploads
from phonechain.app.http.dependencies import EngineDep, FeedDep, ModelsDep, SettingsDep, WorkspaceDep
from phonechain.app.http.middleware.keys import caller, need
from phonechain.app.jobs import repository, results, submission
from phonechain.app.jobs.documents import job_to_json
from phonechain.app.jobs.submission import Key
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import InvalidRequest, MalformedBody, NoResult, UnsupportedMediaType
from phonechain.app.schemas.jobs import FileErrorOut, FileErrorPage, JobOut, JobPage, JobRequest, Kind, State
from phonechain.app.schemas.problems import refusals
from phonechain.app.settings import Settings
from phonechain.app.storage import references
from phonechain.app.storage.tables import TERMINAL, Corpus, Job
from phonechain.app.storage.workspace import Workspace

router = APIRouter(prefix="/jobs", tags=["jobs"])

_REQUEST: TypeAdapter[Any] = TypeAdapter(JobRequest)
_UNKNOWN = refusals(404, 422, 503)
Limit = Annotated[int, Query(ge=1, le=200, description="Most entries of a page.")]
Cursor = Annotated[str | None, Query(description="`next` of the page before.", max_length=200)]


@router.post(
    "",
    summary="Start a job",
    status_code=202,
    response_model=JobOut,
    responses=refusals(400, 404, 413, 415, 422, 503, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/JobRequest"}},
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["job", "files"],
                        "properties": {
                            "job": {"type": "string", "description": "The JSON of the request, without `corpus`."},
                            "files": {
                                "type": "array",
                                "items": uploads.BINARY,
                                "description": "Recordings and annotations, or one archive of them.",
                            },
                        },
                    }
                },
            },
        }
    },
)
async def create(
    request: Request, settings: SettingsDep, workspace: WorkspaceDep, engine: EngineDep, models: ModelsDep,
    idempotency_key: Annotated[
        str | None,
        Header(description="The first answer to a key is the answer to all.", min_length=1, max_length=255),
    ] = None,
) -> JSONResponse:  # fmt: skip
    """The answer comes at once; follow `Location`, or the events. Files may come with the request, as a form."""
    await asyncio.to_thread(engine.ready_database)
    body, corpus, digests = await _received(request, settings, workspace)
    asked = _checked(body)
    if asked.kind == "train":
        need(request, "train")
    engine.refuse_if_away()
    key = None
    if idempotency_key is not None:
        key = Key(f"{caller(request)} POST /jobs", idempotency_key, submission.digest_of(body, digests))
    answer = await asyncio.to_thread(submission.create, workspace, models, settings, asked, key, corpus)
    engine.nudge()
    headers = {"Location": f"/jobs/{answer.body['id']}", "Cache-Control": "no-store"}
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return JSONResponse(answer.body, 202, headers)


async def _received(
    request: Request, settings: Settings, workspace: Workspace
) -> tuple[Mapping[str, Any], Corpus | None, list[str]]:
    """(the request, a corpus of the files that came with it, their digests)."""
    kind = uploads.media_type(request)
    if kind == "application/json":
        return _object(await uploads.small_body(request, settings.max_body_bytes)), None, []
    if kind != "multipart/form-data":
        raise UnsupportedMediaType(
            f"expected application/json or multipart/form-data, got {kind[:80] or 'none'}", value=kind[:80]
        )
    async with request.form(max_files=10_000, max_fields=8, max_part_size=2**20) as form:
        text = form.get("job")
        files = [part for name, part in form.multi_items() if name == "files" and isinstance(part, UploadFile)]
        if not isinstance(text, str) or not files:
            raise InvalidRequest("expected a text field job and at least one file in files", pointer="job")
        body = _object(text.encode())
        if "corpus" in body:
            raise InvalidRequest("expected a corpus or files, got both", pointer="corpus")
        kept = {"on_bad_segment": "skip"} if body.get("on_bad_segment") == "skip" else {}
        corpus, digests = await bundle.receive(files, settings, workspace, kept)
    return {**body, "corpus": corpus.id}, corpus, digests


def _object(document: bytes) -> dict[str, Any]:
    from phonechain.app.http.routes.classify import _json

    body = _json(document)
    if not isinstance(body, dict):
        raise MalformedBody(f"expected a JSON object, got {type(body).__name__}")
    return body


def _checked(body: Mapping[str, Any]) -> Any:
    try:
        return _REQUEST.validate_python(body)
    except ValidationError as error:
        kinds = ("train", "label", "evaluate")
        entries = [
            {**entry, "loc": entry["loc"][1:] if entry["loc"][:1] and entry["loc"][0] in kinds else entry["loc"]}
            for entry in error.errors(include_url=False)[: problems.MOST_FINDINGS]
        ]
        raise problems.invalid_request([problems.finding("body", entry) for entry in entries]) from None


@router.get("", summary="Every job", response_model=JobPage, responses=refusals(422, 503))
async def index(
    workspace: WorkspaceDep, engine: EngineDep, limit: Limit = 50, cursor: Cursor = None,
    state: Annotated[list[State] | None, Query(description="Only these states.")] = None,
    kind: Annotated[list[Kind] | None, Query(description="Only these kinds.")] = None,
) -> dict[str, Any]:  # fmt: skip
    """The newest first."""
    before = pagination.decode_cursor(cursor)
    await asyncio.to_thread(engine.ready_database)
    jobs, more = await asyncio.to_thread(
        repository.page, workspace.db, before=before, limit=limit, state=state or (), kind=kind or ()
    )
    return {"jobs": [job_to_json(job) for job in jobs], "next": pagination.encode_cursor(jobs[-1].id) if more else None}


@router.get("/{id}", summary="One job", response_model=JobOut, responses=_UNKNOWN)
async def show(id: str, workspace: WorkspaceDep, engine: EngineDep) -> dict[str, Any]:
    """Its state and progress."""
    return job_to_json(await _get(id, workspace, engine))


@router.post("/{id}/cancel", summary="End a job early", response_model=JobOut, status_code=202, responses=_UNKNOWN)
async def cancel(id: str, workspace: WorkspaceDep, engine: EngineDep) -> dict[str, Any]:
    """What was finished stays. A job that has ended stays as it is."""
    await asyncio.to_thread(engine.ready_database)
    job = await asyncio.to_thread(repository.cancel, workspace.db, id)
    engine.nudge()
    return job_to_json(job)


@router.delete("/{id}", summary="Forget a job that has ended", status_code=204, responses=refusals(404, 409, 422, 503))
async def delete(id: str, workspace: WorkspaceDep, engine: EngineDep) -> Response:
    """Its row, events, errors and answers. A model that it made stays."""
    await _get(id, workspace, engine)
    await asyncio.to_thread(_forget, workspace, id)
    return Response(status_code=204)


def _forget(workspace: Workspace, id: str) -> None:
    references.drop(workspace, *repository.delete_job(workspace.db, id))


@router.get("/{id}/errors", summary="Files that could not be used", response_model=FileErrorPage, responses=_UNKNOWN)
async def errors(
    id: str, workspace: WorkspaceDep, engine: EngineDep, limit: Limit = 50, cursor: Cursor = None
) -> dict[str, Any]:
    """In the order of the corpus."""
    after = pagination.decode_cursor(cursor)
    if after is not None and not after.isdecimal():
        raise InvalidRequest("cursor: expected the cursor of an earlier page", pointer="cursor")
    await _get(id, workspace, engine)
    rows, more = await asyncio.to_thread(
        repository.file_errors, workspace.db, id, after=int(after[:18]) if after is not None else -2, limit=limit
    )
    found = [FileErrorOut(utterance=row.utterance, type=row.type, detail=row.detail).model_dump() for row in rows]
    return {"errors": found, "next": pagination.encode_cursor(str(rows[-1].index)) if more else None}


@router.get(
    "/{id}/events",
    summary="What happens to a job, as it happens",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **_UNKNOWN},
)
async def events(
    id: str, workspace: WorkspaceDep, engine: EngineDep, feed: FeedDep,
    last_event_id: Annotated[str | None, Header(description="Number of the last event seen.", max_length=18)] = None,
) -> StreamingResponse:  # fmt: skip
    """Server-sent events `state` and `progress`, numbered without gaps; the stream ends when the job has ended."""
    await _get(id, workspace, engine)
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() and last_event_id.isascii() else 0
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(feed.read(id, after), media_type="text/event-stream", headers=headers)


@router.get(
    "/{id}/result",
    summary="What a job has made",
    response_class=Response,
    responses={
        200: {
            "content": {
                kind: {"schema": {"type": "string"}}
                for kind in ("application/zip", "application/jsonl", "text/csv", "application/octet-stream")
            }
            | {"application/json": {"schema": {"type": "object"}}}
        },
        **refusals(404, 409, 422, 503),
    },
)
async def result(
    id: str, workspace: WorkspaceDep, engine: EngineDep,
    format: Annotated[
        results.Format, Query(description="For labels: annotation files, or rows of JSON or CSV.")
    ] = "zip",
    sort: Annotated[
        Literal["corpus", "doubt", "given"],
        Query(description="For rows: by doubt in the answer, or in the label that was given, the most doubtful first."),
    ] = "corpus",
) -> Response:  # fmt: skip
    """The labels (as far as a cancelled or failed job had come), the model file (of a cancelled training that of its best
    epoch, if it had one), or the evaluation.
    """
    job = await _get(id, workspace, engine)
    if job.state not in TERMINAL or (job.kind != "label" and job.result is None):
        raise NoResult(f"expected a job with a result, got one that is {job.state}", details={"state": job.state})
    if job.kind == "label":
        name = f"{job.id}.{format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        pieces = results.stream(workspace, id, format, sort)
        return StreamingResponse(pieces, media_type=results.MEDIA_TYPES[format], headers=headers)
    assert job.result is not None
    path = await asyncio.to_thread(workspace.store.local, job.result["blob"])
    if job.kind == "evaluate":
        return FileResponse(path, media_type="application/json")
    return FileResponse(path, media_type="application/octet-stream", filename=f"{job.result['name']}.safetensors")


async def _get(id: str, workspace: Workspace, engine: Any) -> Job:
    await asyncio.to_thread(engine.ready_database)
    return await asyncio.to_thread(repository.get, workspace.db, id)
