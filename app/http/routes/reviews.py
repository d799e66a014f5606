"""`/reviews`: recordings checked by a person, with the model's answer beside the given labels."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import FileResponse, JSONResponse, Response

from phonechain.app.http import pagination, uploads
from phonechain.app.http.dependencies import DatabaseDep, OwnerDep, ServicesDep, check_query
from phonechain.app.http.gateway import caller_id
from phonechain.app.http.pagination import Cursor, Limit
from phonechain.app.labelling import conversion
from phonechain.app.reviews import documents, export
from phonechain.app.reviews.repository import LogState, Reviews
from phonechain.app.schemas.problems import refusals
from phonechain.app.schemas.reviews import (
    NewReview,
    Operations,
    OperationsOut,
    ReviewFileOut,
    ReviewOut,
    ReviewPage,
    ReviewSummary,
    SegmentsOut,
)
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation
from phonechain.features.annotation.base import name_stem
from phonechain.features.errors import AnnotationError

router = APIRouter(prefix="/reviews", tags=["reviews"], dependencies=[Depends(check_query)])
_UNKNOWN = refusals(404, 422, 503)
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
"""For what is kept under its content and never changes."""
_BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {"schema": uploads.BINARY}}}}


async def _get_reviews(request: Request, services: ServicesDep, db: DatabaseDep, owner: OwnerDep) -> Reviews:
    """The reviews; those of other keys are not there. Raises UnknownReview."""
    state = request.app.state
    if getattr(state, "reviews", None) is None:
        state.reviews = Reviews(services.workspace)
    reviews: Reviews = state.reviews
    if owner is not None and (id := request.path_params.get("id")) is not None:
        await asyncio.to_thread(reviews.check_owner, id, owner)
    return reviews


ReviewsDep = Annotated[Reviews, Depends(_get_reviews)]


@router.post(
    "", summary="Create a review", status_code=201, response_model=ReviewOut, responses=refusals(400, 422, 503)
)
def create(asked: NewReview, request: Request, reviews: ReviewsDep) -> JSONResponse:
    """Add files one by one with `POST /reviews/{id}/files`."""
    row = reviews.create(asked.name, caller_id(request))
    return JSONResponse(
        documents.review_to_json(row, [], LogState(0, False, False)), 201, {"Location": f"/reviews/{row.id}"}
    )


@router.get("", summary="List reviews", response_model=ReviewPage, responses=_UNKNOWN)
def index(reviews: ReviewsDep, owner: OwnerDep, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    """Newest first: those of the caller's key, or all with the scope admin."""
    before = pagination.decode_cursor(cursor)
    rows = reviews.page(limit + 1, before, owner)
    return {
        "reviews": [documents.summary_to_json(row, files, segments) for row, files, segments in rows[:limit]],
        "next": pagination.encode_cursor(rows[limit - 1][0].id) if len(rows) > limit else None,
    }


@router.get("/{id}", summary="Show a review", response_model=ReviewOut, responses=_UNKNOWN)
def show(id: str, reviews: ReviewsDep) -> dict[str, Any]:
    """Its files and the state of its log."""
    return documents.review_to_json(*reviews.get(id))


@router.patch("/{id}", summary="Rename a review", response_model=ReviewSummary, responses=refusals(400, 404, 422, 503))
def rename(id: str, asked: NewReview, reviews: ReviewsDep) -> dict[str, Any]:
    """Its files and log are unchanged."""
    row = reviews.rename(id, asked.name)
    files = reviews.get(id)[1]
    return documents.summary_to_json(row, len(files), sum(file.segments for file in files))


@router.delete("/{id}", summary="Delete a review", status_code=204, responses=_UNKNOWN)
def delete(id: str, reviews: ReviewsDep) -> Response:
    """Deletes its files and log too. This cannot be undone."""
    reviews.delete(id)
    return Response(status_code=204)


@router.get("/{id}/files/{number}", summary="Show a file of a review", response_model=ReviewFileOut, responses=_UNKNOWN)
def file(id: str, number: int, reviews: ReviewsDep) -> dict[str, Any]:
    """What was uploaded, and the model that labelled it."""
    return documents.file_to_json(reviews.file(id, number))


@router.get(
    "/{id}/files/{number}/segments",
    summary="Current segments of a file",
    response_model=SegmentsOut,
    responses=_UNKNOWN,
)
def segments(id: str, number: int, reviews: ReviewsDep) -> JSONResponse:
    """After all operations in the log."""
    revision, rows = reviews.segments(id, number)
    return JSONResponse({"revision": revision, "segments": [row.to_json() for row in rows]})


@router.get("/{id}/files/{number}/answer", summary="The model's answer for a file", responses=_UNKNOWN)
def answer(id: str, number: int, reviews: ReviewsDep, services: ServicesDep) -> Response:
    """The segments as they were given, in columns, with posterior, support and rank of the given label, the most probable
    labels (alternately an index into `labels` and a posterior), and the tiers of the file. Support is the probability of the
    given label in view of all other given ones; null where the model has none."""
    row = reviews.file(id, number)
    return _blob(services.workspace, row.answer, "application/json")


@router.get(
    "/{id}/files/{number}/sound", summary="Sound of a file", response_class=FileResponse, responses=_UNKNOWN | _BINARY
)
def sound(id: str, number: int, reviews: ReviewsDep, services: ServicesDep) -> Response:
    """16-bit WAV, one channel at 16 kHz; supports the Range header."""
    row = reviews.file(id, number)
    return _blob(services.workspace, row.playback, "audio/wav")


@router.get(
    "/{id}/files/{number}/peaks", summary="Waveform peaks of a file", response_class=FileResponse,
    responses=_UNKNOWN | _BINARY,
)  # fmt: skip
def peaks(id: str, number: int, reviews: ReviewsDep, services: ServicesDep) -> Response:
    """For drawing: minimum and maximum of every hundredth of a second, as two signed bytes."""
    row = reviews.file(id, number)
    return _blob(services.workspace, row.peaks, "application/octet-stream")


@router.get(
    "/{id}/files/{number}/annotation", summary="Download a corrected annotation", response_class=Response,
    responses=_UNKNOWN | _BINARY,
)  # fmt: skip
def annotation(
    id: str,
    number: int,
    reviews: ReviewsDep,
    services: ServicesDep,
    format: Annotated[
        str | None, Query(max_length=40, description="An annotation format. Default: the file's own.")
    ] = None,
) -> Response:
    """In its original format, with everything else in the file unchanged. What a format cannot keep is named in
    X-Phonechain-Warnings."""
    if format is not None and format not in notation.FORMATS:
        raise AnnotationError(
            f"expected one of the formats {', '.join(notation.FORMATS)}; got {format!r}", pointer="format", value=format
        )
    row = reviews.file(id, number)
    source = services.workspace.store.local(row.annotation).read_bytes()
    out = export.export(row, source, reviews.segments(id, number)[1], format)
    name = row.annotation_name if format is None else name_stem(row.annotation_name) + conversion.suffix_of(format)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(_base_name(name))}",
    }
    if out.notices:
        headers["X-Phonechain-Warnings"] = ", ".join(sorted({notice.code for notice in out.notices}))
    return Response(out.data, headers=headers, media_type=out.media_type)


@router.get("/{id}/operations", summary="List a review's operations", response_model=OperationsOut, responses=_UNKNOWN)
def history(
    id: str,
    reviews: ReviewsDep,
    after: Annotated[int, Query(ge=0, description="Operations after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number.")] = 10_000,
) -> dict[str, Any]:
    """The operations in order, so that other windows can catch up."""
    state, rows = reviews.operations(id, after, limit)
    return documents.log_to_json(state, rows, reviews.key_names(rows))


@router.post(
    "/{id}/operations",
    summary="Change segments",
    response_model=OperationsOut,
    responses=refusals(400, 404, 409, 422, 503),
)
def operate(id: str, asked: Operations, request: Request, reviews: ReviewsDep) -> dict[str, Any]:
    """All operations are carried out, or none. 409 if the review is not at the revision in the request."""
    state, rows = reviews.append(id, asked.revision, asked.operations, caller_id(request))
    return documents.log_to_json(state, rows, reviews.key_names(rows))


def _blob(workspace: Workspace, digest: str, media_type: str) -> Response:
    path = workspace.store.local(digest)
    return FileResponse(path, headers={**_FOREVER, "ETag": f'"{digest[:32]}"'}, media_type=media_type)


def _base_name(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]
