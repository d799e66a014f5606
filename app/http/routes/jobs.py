"""`/jobs`: training, labelling, alignment and evaluation that outlive their request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from phonechain.app.corpora import bundle
from phonechain.app.http import pagination, uploads
from phonechain.app.http.dependencies import DatabaseDep, OwnerDep, ServicesDep, check_query, check_quota
from phonechain.app.http.gateway import caller_id, owner_of, require_scope
from phonechain.app.http.pagination import Cursor, Limit
from phonechain.app.jobs import queries, repository, results, submission
from phonechain.app.jobs.submission import Key, Submitter
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import InvalidRequest, NoResult, SchedulerAway, UnsupportedMediaType
from phonechain.app.schemas.jobs import FileErrorOut, FileErrorPage, JobOut, JobPage, JobRequest, Kind, State
from phonechain.app.schemas.problems import refusals
from phonechain.app.services import Services
from phonechain.app.storage import references
from phonechain.app.storage.tables import SPLIT, TERMINAL, Corpus
from phonechain.app.storage.workspace import Workspace

router = APIRouter(prefix="/jobs", tags=["jobs"], dependencies=[Depends(check_query)])

_REQUEST: TypeAdapter[Any] = TypeAdapter(JobRequest)
_UNKNOWN = refusals(404, 422, 503)


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
    request: Request, services: ServicesDep, db: DatabaseDep,
    idempotency_key: Annotated[
        str | None,
        Header(description="Requests with the same key get the answer to the first one.", min_length=1, max_length=255),
    ] = None,
) -> JSONResponse:  # fmt: skip
    """Answers at once; follow `Location` or the events. Files can be sent with the request, as a form."""
    async with references.hold_blobs_async(services.workspace) as holds:
        if request.state.media_type == "multipart/form-data":
            await check_quota(request, services)
        body, corpus, digests = await _receive(request, services, holds.workspace)
        asked = _parse_request(body)
        if asked.kind == "train":
            require_scope(request, "train")
        if (away := services.cluster.away) is not None:  # a job added now would only wait
            raise SchedulerAway(f"the scheduler does not answer: {away}", retry_after=5)
        key = None
        if idempotency_key is not None:
            key = Key(f"{caller_id(request)} POST /jobs", idempotency_key, submission.digest_of(body, digests))
        answer = await asyncio.to_thread(
            submission.create,
            db,
            services.models,
            services.settings,
            asked,
            key,
            corpus,
            holds.hold,
            Submitter(caller_id(request), owner_of(request)),
        )
    services.reconciler.wake.set()
    headers = {"Location": f"/jobs/{answer.body['id']}", "Cache-Control": "no-store"}
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return JSONResponse(answer.body, 202, headers)


async def _receive(
    request: Request, services: Services, workspace: Workspace
) -> tuple[Mapping[str, Any], Corpus | None, list[str]]:
    """(the request, a corpus of its uploaded files, their digests)."""
    kind = request.state.media_type
    if kind == "application/json":
        return uploads.parse_object(await request.body()), None, []
    if kind != "multipart/form-data":
        raise UnsupportedMediaType(
            f"expected application/json or multipart/form-data, got {kind[:80] or 'none'}", value=kind[:80]
        )
    async with uploads.read_form(request, files=10_000, fields=8, part=2**20, folder=workspace.store.scratch()) as form:
        text = form.get("job")
        files = [part for name, part in form.multi_items() if name == "files" and isinstance(part, UploadFile)]
        if not isinstance(text, str) or not files:
            raise InvalidRequest("expected a text field job and at least one file in files", pointer="job")
        body = uploads.parse_object(text.encode())
        if "corpus" in body:
            raise InvalidRequest("expected a corpus or files, got both", pointer="corpus")
        kept: dict[str, Any] = {"on_bad_segment": "skip"} if body.get("on_bad_segment") == "skip" else {}
        if body.get("kind") == "recognize":
            kept["holds"] = "sound"
        elif body.get("kind") == "align" and not body.get("refine"):
            kept["holds"] = "transcripts"
        corpus, digests = await bundle.receive(files, services.settings, workspace, kept, services.take_in)
    return {**body, "corpus": corpus.id}, corpus, digests


def _parse_request(body: Mapping[str, Any]) -> Any:
    try:
        return _REQUEST.validate_python(body)
    except ValidationError as error:
        found = []
        for entry in error.errors(include_url=False)[: problems.MOST_FINDINGS]:
            tagged = problems.finding("body", entry, JobRequest)
            tag, place = entry["loc"][:1], "/".join(str(part) for part in entry["loc"])
            if tag and tag[0] in get_args(Kind):  # of the union; it is no member of the body
                inner = place.partition("/")[2]
                tagged["pointer"] = f"#/{inner}" if inner else "#"
                tagged["detail"] = tagged["detail"].replace(place, inner or "body", 1)
            found.append(tagged)
        raise problems.invalid_request(found) from None


@router.get("", summary="List jobs", response_model=JobPage, responses=refusals(422, 503))
def index(
    db: DatabaseDep, owner: OwnerDep, limit: Limit = 50, cursor: Cursor = None,
    state: Annotated[list[State] | None, Query(description="Only these states.")] = None,
    kind: Annotated[list[Kind] | None, Query(description="Only these kinds.")] = None,
) -> dict[str, Any]:  # fmt: skip
    """Newest first: those of the caller's key, or all with the scope admin."""
    before = pagination.decode_cursor(cursor)
    jobs, more = queries.list_page(db, before=before, limit=limit, state=state or (), kind=kind or (), owner=owner)
    return {
        "jobs": [repository.job_to_json(job) for job in jobs], "next": pagination.encode_cursor(jobs[-1].id) if more else None,
    }  # fmt: skip


@router.get("/{id}", summary="Show a job", response_model=JobOut, responses=_UNKNOWN)
def show(id: str, db: DatabaseDep, owner: OwnerDep) -> dict[str, Any]:
    """Its state and progress."""
    return repository.job_to_json(repository.get(db, id, owner))


@router.post("/{id}/cancel", summary="Cancel a job", response_model=JobOut, status_code=202, responses=_UNKNOWN)
def cancel(id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep) -> dict[str, Any]:
    """Finished parts are kept. A job that has already ended is left alone."""
    job = repository.cancel(db, id, owner)
    services.reconciler.wake.set()
    return repository.job_to_json(job)


@router.delete("/{id}", summary="Delete a finished job", status_code=204, responses=refusals(404, 409, 422, 503))
def delete(id: str, services: ServicesDep, db: DatabaseDep) -> Response:
    """Deletes its row, events, errors, answers and uploaded files. A trained model stays."""
    references.drop(services.workspace, *repository.delete_job(db, id))
    return Response(status_code=204)


@router.get("/{id}/errors", summary="Files that could not be used", response_model=FileErrorPage, responses=_UNKNOWN)
def errors(id: str, db: DatabaseDep, owner: OwnerDep, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    """In the order of the corpus."""
    after = pagination.decode_cursor(cursor)
    if after is not None and not after.isdecimal():
        raise InvalidRequest("cursor: expected the cursor of an earlier page", pointer="cursor")
    repository.get(db, id, owner)
    rows, more = queries.list_file_errors(db, id, after=int(after[:18]) if after is not None else -2, limit=limit)
    found = [FileErrorOut(utterance=row.utterance, type=row.type, detail=row.detail).model_dump() for row in rows]
    return {"errors": found, "next": pagination.encode_cursor(str(rows[-1].index)) if more else None}


@router.get(
    "/{id}/events",
    summary="Stream a job's events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **_UNKNOWN},
)
def events(
    id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep,
    last_event_id: Annotated[str | None, Header(description="Number of the last event seen.", max_length=18)] = None,
) -> StreamingResponse:  # fmt: skip
    """Server-sent events `state` and `progress`, numbered without gaps; the stream ends when the job has ended."""
    repository.get(db, id, owner)
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() and last_event_id.isascii() else 0
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(services.streams.read(id, after), media_type="text/event-stream", headers=headers)


@router.get(
    "/{id}/result",
    summary="Download a job's result",
    response_class=Response,
    responses={
        200: {
            "content": {
                kind: {"schema": uploads.BINARY}
                for kind in ("application/octet-stream", "application/zip", "application/jsonl", "text/csv")
            }
            | {"application/json": {"schema": {"type": "object"}}}
        },
        **refusals(404, 409, 422, 503),
    },
)
def result(
    id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep,
    format: Annotated[
        results.Format, Query(description="For label, align and recognize jobs: annotation files, or JSON or CSV rows.")
    ] = "zip",
    sort: Annotated[
        Literal["corpus", "doubt", "given"],
        Query(
            description="For rows: by doubt in the answer (of alignments: in the boundary), or in the label that was given, "
            "the most doubtful first."
        ),
    ] = "corpus",
) -> Response:  # fmt: skip
    """The labels or alignments (for a cancelled or failed job, those finished), the model file (for a cancelled training, that
    of its best epoch, if any), or the evaluation.
    """
    workspace, job = services.workspace, repository.get(db, id, owner)
    if job.state not in TERMINAL or (job.kind not in SPLIT and job.result is None):
        raise NoResult(f"no result: the job is {job.state}", details={"state": job.state})
    if job.kind in SPLIT:
        name = f"{job.id}.{format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        pieces = results.stream(workspace, job, format, sort)
        return StreamingResponse(pieces, media_type=results.MEDIA_TYPES[format], headers=headers)
    assert job.result is not None
    path = workspace.store.local(job.result["blob"])
    if job.kind == "evaluate":
        return FileResponse(path, media_type="application/json")
    return FileResponse(path, media_type="application/octet-stream", filename=f"{job.result['name']}.safetensors")
