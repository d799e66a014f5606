"""`/reviews`: recordings checked by a person, with the model's answer beside the given labels."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.responses import FileResponse, JSONResponse, Response

from phonechain.app.http import pagination, uploads
from phonechain.app.http.dependencies import DatabaseDep, OwnerDep, ServicesDep, check_quota
from phonechain.app.http.gateway import caller_id
from phonechain.app.http.pagination import Cursor, Limit
from phonechain.app.labelling import conversion, pipeline
from phonechain.app.labelling.lanes import TEXT_PER_SECOND, estimate_seconds
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import InvalidRequest, UnsupportedMediaType
from phonechain.app.reviews import boundaries, documents, export, intake
from phonechain.app.reviews.repository import LogState, Reviews
from phonechain.app.reviews.tables import ReviewFile
from phonechain.app.schemas.problems import refusals
from phonechain.app.schemas.reviews import (
    FileOptions,
    FoundSegments,
    NewReview,
    Operations,
    OperationsOut,
    ReviewFileOut,
    ReviewOut,
    ReviewPage,
    ReviewSummary,
    SegmentsOut,
)
from phonechain.app.storage import references
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation
from phonechain.features.annotation.base import name_stem
from phonechain.features.errors import AnnotationError

router = APIRouter(prefix="/reviews", tags=["reviews"])
_UNKNOWN = refusals(404, 422, 503)
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
"""For what is kept under its content and never changes."""
_BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {"schema": uploads.BINARY}}}}


async def _reviews(request: Request, services: ServicesDep, db: DatabaseDep, owner: OwnerDep) -> Reviews:
    """The reviews; those of other keys are not there. Raises UnknownReview."""
    state = request.app.state
    if getattr(state, "reviews", None) is None:
        state.reviews = Reviews(services.workspace)
    reviews: Reviews = state.reviews
    if owner is not None and (id := request.path_params.get("id")) is not None:
        await asyncio.to_thread(reviews.check_owner, id, owner)
    return reviews


ReviewsDep = Annotated[Reviews, Depends(_reviews)]


@router.post("", summary="Begin a review", status_code=201, response_model=ReviewOut, responses=refusals(400, 422, 503))
def create(asked: NewReview, request: Request, reviews: ReviewsDep) -> JSONResponse:
    """Files are added to it one by one: `POST /reviews/{id}/files`."""
    row = reviews.create(asked.name, caller_id(request))
    return JSONResponse(
        documents.review_document(row, [], LogState(0, False, False)), 201, {"Location": f"/reviews/{row.id}"}
    )


@router.get("", summary="Every review", response_model=ReviewPage, responses=_UNKNOWN)
def index(reviews: ReviewsDep, owner: OwnerDep, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    """The newest first: those of the caller's key, or all with the scope admin."""
    before = pagination.decode_cursor(cursor)
    rows = reviews.page(limit + 1, before, owner)
    return {
        "reviews": [documents.summary(row, files, segments) for row, files, segments in rows[:limit]],
        "next": pagination.encode_cursor(rows[limit - 1][0].id) if len(rows) > limit else None,
    }


@router.get("/{id}", summary="One review", response_model=ReviewOut, responses=_UNKNOWN)
def show(id: str, reviews: ReviewsDep) -> dict[str, Any]:
    """Its files, and where its log stands."""
    return documents.review_document(*reviews.get(id))


@router.patch("/{id}", summary="Rename a review", response_model=ReviewSummary, responses=refusals(400, 404, 422, 503))
def rename(id: str, asked: NewReview, reviews: ReviewsDep) -> dict[str, Any]:
    """Its files and its log stay as they are."""
    row = reviews.rename(id, asked.name)
    files = reviews.get(id)[1]
    return documents.summary(row, len(files), sum(file.segments for file in files))


@router.delete("/{id}", summary="Forget a review", status_code=204, responses=_UNKNOWN)
def delete(id: str, reviews: ReviewsDep) -> Response:
    """With its files and its log. There is no way back."""
    reviews.delete(id)
    return Response(status_code=204)


@router.post(
    "/{id}/files",
    summary="Add a recording with its annotation",
    status_code=201,
    response_model=ReviewFileOut,
    responses=refusals(400, 404, 413, 415, 422, 503, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["audio"],
                        "properties": {
                            "audio": uploads.BINARY,
                            "segments": {**uploads.BINARY, "description": "An annotation file."},
                            "alignment": {
                                **uploads.BINARY,
                                "description": "Instead of segments: the JSON answer of POST /align or POST /recognize.",
                            },
                            **FileOptions.model_json_schema()["properties"],
                        },
                    }
                }
            },
        }
    },
)
async def add_file(
    id: str,
    request: Request,
    reviews: ReviewsDep,
    services: ServicesDep,
) -> JSONResponse:
    """A form with the file `audio` and either `segments`, an annotation, or `alignment`, what `POST /align` or
    `POST /recognize` answered: its phones become a TextGrid, and its boundaries keep their certainty. The answer comes when
    the segments have been labelled."""
    workspace, settings, models = services.workspace, services.settings, services.models
    batcher, metrics = services.batcher, services.metrics
    batcher.refuse_if_full()
    await check_quota(request, services)
    if (kind := request.state.media_type) != "multipart/form-data":
        got = kind[:80] or "none"
        raise UnsupportedMediaType(f"expected the media type multipart/form-data, got {got}", value=got)
    await asyncio.to_thread(reviews.get, id)  # unknown reviews are refused before anything is read
    async with references.keeping_async(workspace) as keeping:
        workspace = keeping.workspace
        async with uploads.read_form(request, files=4, fields=16, part=2**16, folder=workspace.store.scratch()) as form:
            audio, segments, alignment, options = _parts(form)
            sound = await uploads.keep_file(audio.file, workspace, settings.max_upload_bytes)
            names = [(part.filename or "file").replace("\0", "") for part in (audio, segments or alignment) if part]
            found: FoundSegments | None = None
            if alignment is not None:
                document = await alignment.read()
                found = await batcher.in_pool(len(document) / TEXT_PER_SECOND, boundaries.parse, document)
                annotation, options.tier = boundaries.render(found), boundaries.PHONES
                names[1] = f"{name_stem(names[0])}.TextGrid"
            elif segments is not None:
                annotation = await segments.read()
        entry = await models.get(options.model)
        with batcher.admit() as place:
            place.enlarge(len(annotation) / TEXT_PER_SECOND)
            read = await place.run(notation.read, annotation, name=names[1])
            path = await asyncio.to_thread(workspace.store.local, sound)
            place.enlarge(await asyncio.to_thread(estimate_seconds, path))
            ready = await place.run(
                pipeline.prepare_utterance,
                path,
                read,
                entry.labeler.features_,
                tier=options.tier,
                channel=options.channel,
                on_bad_segment="skip",
                max_seconds=intake.MAX_SECONDS,
                max_segments=intake.MAX_SEGMENTS,
                recording=name_stem(names[0]),
                known=entry.labeler.label_set_,
            )
            metrics.audio.inc(ready.duration)
            playback = await place.run(intake.keep_playback, workspace, path, options.channel)
            scored = await batcher.label(
                entry,
                ready.inputs,
                ready.segments,
                n_best=intake.N_BEST,
                decode="posterior",
                starts=ready.starts,
                comparison=ready.comparison,
            )
            metrics.segments.inc(len(scored.labelled))

        def added() -> dict[str, Any]:
            document = intake.answer_document(ready, scored.labelled, entry.labeler.labels_)
            if found is not None:
                document["boundaries"] = boundaries.columns(found, notation.tier_segments(ready.tier))
            row = ReviewFile(
                name=names[0],
                annotation_name=names[1],
                speaker=options.speaker,
                sound=sound,
                annotation=workspace.store.put(annotation),
                playback=playback.sound,
                peaks=playback.peaks,
                answer=intake.keep_answer(workspace, document),
                format=read.format,
                tier=ready.tier.name,
                tier_index=next(i for i, tier in enumerate(ready.annotation.tiers) if tier is ready.tier),
                duration=ready.duration,
                original_rate=ready.rate,
                segments=len(document["start"]),
                model={"name": entry.name, "version": entry.version},
                warnings=[notice.as_dict() for notice in ready.notices],
            )
            return documents.file_document(reviews.add_file(id, row, settings))

        body = await asyncio.to_thread(added)
    return JSONResponse(body, 201, {"Location": f"/reviews/{id}/files/{body['number']}"})


def _parts(form: FormData) -> tuple[UploadFile, UploadFile | None, UploadFile | None, FileOptions]:
    """(audio, segments, alignment, options) of a form, one of the two in the middle None. Raises InvalidRequest."""
    files: dict[str, UploadFile] = {}
    fields: dict[str, str] = {}
    for name, part in form.multi_items():
        if name in files or name in fields:
            raise InvalidRequest(f"expected {name[:80]} once, got it again", pointer=name[:80])
        if isinstance(part, UploadFile):
            files[name] = part
        else:
            fields[name] = part
    if "audio" not in files:
        raise InvalidRequest("expected a file in the field audio, got none", pointer="audio")
    given = [name for name in ("segments", "alignment") if name in files]
    if len(given) != 1:
        got = "both" if given else "none"
        raise InvalidRequest(f"expected a file in the field segments or alignment, got {got}", pointer="segments")
    try:
        options = FileOptions.model_validate(fields)
    except ValidationError as error:
        entries = error.errors(include_url=False)[: problems.MOST_FINDINGS]
        raise problems.invalid_request([problems.finding("body", entry, FileOptions) for entry in entries]) from None
    return files["audio"], files.get("segments"), files.get("alignment"), options


@router.get("/{id}/files/{number}", summary="One file", response_model=ReviewFileOut, responses=_UNKNOWN)
def file(id: str, number: int, reviews: ReviewsDep) -> dict[str, Any]:
    """What came, and which model labelled it."""
    return documents.file_document(reviews.file(id, number))


@router.get("/{id}/files/{number}/segments", summary="Its segments", response_model=SegmentsOut, responses=_UNKNOWN)
def segments(id: str, number: int, reviews: ReviewsDep) -> JSONResponse:
    """As the operations of the log left them."""
    revision, rows = reviews.segments(id, number)
    return JSONResponse({"revision": revision, "segments": [row.to_json() for row in rows]})


@router.get("/{id}/files/{number}/answer", summary="What the model answered", responses=_UNKNOWN)
def answer(id: str, number: int, reviews: ReviewsDep, services: ServicesDep) -> Response:
    """The segments as they were given, in columns, with posterior and rank of the given label, the likeliest labels as
    index in `labels` and posterior in turn, and the tiers of the file."""
    row = reviews.file(id, number)
    return _blob(services.workspace, row.answer, "application/json")


@router.get(
    "/{id}/files/{number}/sound", summary="Its sound", response_class=FileResponse, responses=_UNKNOWN | _BINARY
)
def sound(id: str, number: int, reviews: ReviewsDep, services: ServicesDep) -> Response:
    """16-bit WAV, one channel at 16 kHz; parts of it by the header Range."""
    row = reviews.file(id, number)
    return _blob(services.workspace, row.playback, "audio/wav")


@router.get("/{id}/files/{number}/peaks", summary="Extremes of its sound", responses=_UNKNOWN | _BINARY)
def peaks(id: str, number: int, reviews: ReviewsDep, services: ServicesDep) -> Response:
    """For drawing: least and greatest value, two signed bytes, of every hundredth of a second."""
    row = reviews.file(id, number)
    return _blob(services.workspace, row.peaks, "application/octet-stream")


@router.get(
    "/{id}/files/{number}/annotation", summary="The annotation with the corrections", responses=_UNKNOWN | _BINARY
)
def annotation(
    id: str,
    number: int,
    reviews: ReviewsDep,
    services: ServicesDep,
    format: Annotated[str | None, Query(max_length=40, description="An annotation format; left out, its own.")] = None,
) -> Response:
    """In the format in which it came, everything else of the file as it was. What a format cannot keep is named in
    X-Phonechain-Warnings."""
    if format is not None and format not in notation.FORMATS:
        raise AnnotationError(
            f"expected a format out of {', '.join(notation.FORMATS)}; got {format!r}", pointer="format", value=format
        )
    row = reviews.file(id, number)
    source = services.workspace.store.local(row.annotation).read_bytes()
    out = export.export(row, source, reviews.segments(id, number)[1], format)
    name = row.annotation_name if format is None else name_stem(row.annotation_name) + conversion.suffix(format)
    headers = {"Cache-Control": "no-store", "Content-Disposition": f"attachment; filename*=UTF-8''{quote(_base(name))}"}
    if out.notices:
        headers["X-Phonechain-Warnings"] = ", ".join(sorted({notice.code for notice in out.notices}))
    return Response(out.data, headers=headers, media_type=out.media_type)


@router.get("/{id}/operations", summary="Its log", response_model=OperationsOut, responses=_UNKNOWN)
def history(
    id: str,
    reviews: ReviewsDep,
    after: Annotated[int, Query(ge=0, description="Operations after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many.")] = 10_000,
) -> dict[str, Any]:
    """What was done, in order: what a window that was open meanwhile has to catch up with."""
    return documents.log_document(*reviews.operations(id, after, limit))


@router.post(
    "/{id}/operations",
    summary="Change segments",
    response_model=OperationsOut,
    responses=refusals(400, 404, 409, 422, 503),
)
def operate(id: str, asked: Operations, request: Request, reviews: ReviewsDep) -> dict[str, Any]:
    """All operations are carried out, or none. 409 where the review is not at the revision that the request names."""
    return documents.log_document(*reviews.append(id, asked.revision, asked.operations, caller_id(request)))


def _blob(workspace: Workspace, digest: str, media_type: str) -> Response:
    path = workspace.store.local(digest)
    return FileResponse(path, headers={**_FOREVER, "ETag": f'"{digest[:32]}"'}, media_type=media_type)


def _base(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]
