"""`POST /reviews/{id}/files`: a recording with its segments comes under review."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import JSONResponse

from phonechain.app.http import uploads
from phonechain.app.http.dependencies import OwnerDep, ServicesDep, check_query, check_quota
from phonechain.app.http.routes.reviews import ReviewsDep
from phonechain.app.labelling import pipeline
from phonechain.app.labelling.lanes import TEXT_PER_SECOND, estimate_seconds
from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import InvalidRequest, UnsupportedMediaType
from phonechain.app.reviews import boundaries, documents, intake, sources
from phonechain.app.reviews.boundaries import Written
from phonechain.app.reviews.sources import Source
from phonechain.app.reviews.tables import ReviewFile
from phonechain.app.schemas.problems import refusals
from phonechain.app.schemas.reviews import FileOptions, FoundSegments, ReviewFileOut, StoredFile
from phonechain.app.services import Services
from phonechain.app.storage import references
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation
from phonechain.features.annotation.base import name_stem
from phonechain.features.corpora.base import rate_of

router = APIRouter(prefix="/reviews", tags=["reviews"], dependencies=[Depends(check_query)])


@router.post(
    "/{id}/files",
    summary="Add a recording with its annotation",
    status_code=201,
    response_model=ReviewFileOut,
    responses=refusals(400, 404, 409, 413, 415, 422, 503, 507),
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
                            "transcript": {
                                **uploads.BINARY,
                                "description": "With alignment: what was aligned. An annotation keeps its format and its tiers.",
                            },
                            **FileOptions.model_json_schema()["properties"],
                        },
                    }
                },
                "application/json": {"schema": {"$ref": "#/components/schemas/StoredFile"}},
            },
        }
    },
)
async def add_file(
    id: str, request: Request, reviews: ReviewsDep, services: ServicesDep, owner: OwnerDep
) -> JSONResponse:
    """A form with the file `audio` and either `segments` (an annotation) or `alignment` (the answer of `POST /align` or
    `POST /recognize`, whose phones become a TextGrid and whose boundaries keep their certainty). If the annotation that was
    aligned or refined is sent too, as `transcript`, that file is kept, with all its tiers. Or JSON that names an utterance of a
    corpus, or a job's result for it. The answer comes when the segments have been labelled."""
    batcher = services.batcher
    batcher.refuse_if_full()
    await check_quota(request, services)
    kind = request.state.media_type
    if kind not in ("multipart/form-data", "application/json"):
        got = kind[:80] or "none"
        raise UnsupportedMediaType(
            f"expected the media type multipart/form-data or application/json, got {got}", value=got
        )
    await asyncio.to_thread(reviews.get, id)  # unknown reviews are refused before anything is read
    async with references.hold_blobs_async(services.workspace) as holds:
        workspace = holds.workspace
        if kind == "application/json":
            asked = problems.validate(StoredFile, uploads.parse_object(await request.body()))
            model = asked.model
            if asked.job is not None:
                source = await services.take_in(sources.from_job, workspace, asked.job, asked.place, owner)
            else:
                assert asked.corpus is not None
                source = await services.take_in(sources.from_corpus, workspace, asked.corpus, asked.place, owner)
        else:
            source, model = await _receive(request, services, workspace)
        row = await _label(source, model, services, workspace)
        added = await asyncio.to_thread(reviews.add_file, id, row, services.settings)
    body = documents.file_to_json(added)
    return JSONResponse(body, 201, {"Location": f"/reviews/{id}/files/{body['number']}"})


async def _receive(request: Request, services: Services, workspace: Workspace) -> tuple[Source, str]:
    """(what came in a form, the name of the model that is to label it)."""
    async with AsyncExitStack() as stack:
        form = await stack.enter_async_context(
            uploads.read_form(request, files=4, fields=16, part=2**16, folder=workspace.store.scratch())
        )
        audio, segments, options = _parts(form)
        alignment, transcript = form.get("alignment"), form.get("transcript")
        sound = await uploads.store_file(audio.file, workspace, services.settings.max_upload_bytes)
        name = _name(audio)
        found = None
        if isinstance(alignment, UploadFile):
            document = await alignment.read()
            given = (await transcript.read(), _name(transcript)) if isinstance(transcript, UploadFile) else None
            size = len(document) + (len(given[0]) if given else 0)
            path = workspace.store.local(sound)
            found, written = await services.batcher.run_in_pool(
                size / TEXT_PER_SECOND, _found, document, name, given, path
            )
            annotation, annotation_name, options.tier = written.data, written.name, written.tier
        else:
            assert segments is not None
            annotation, annotation_name = await segments.read(), _name(segments)
    source = Source(
        sound=sound, name=name, annotation=annotation, annotation_name=annotation_name, found=found,
        speaker=options.speaker, tier=options.tier, channel=options.channel,
    )  # fmt: skip
    return source, options.model


def _found(
    document: bytes, sound: str, transcript: tuple[bytes, str] | None, path: Path
) -> tuple[FoundSegments, Written]:
    """What was found in the recording named `sound`, which lies at `path`. Raises InvalidRequest, AnnotationError."""
    found = boundaries.parse(document)
    return found, boundaries.write(found, sound, transcript, rate_of(path))


def _name(part: UploadFile) -> str:
    return (part.filename or "file").replace("\0", "")


async def _label(source: Source, model: str, services: Services, workspace: Workspace) -> ReviewFile:
    """The row of a file, its segments labelled."""
    batcher, metrics = services.batcher, services.metrics
    entry = await services.models.get(model)
    with batcher.admit() as place:
        place.enlarge(len(source.annotation) / TEXT_PER_SECOND)
        read = await place.run(notation.read, source.annotation, name=source.annotation_name)
        path = await asyncio.to_thread(workspace.store.local, source.sound)
        place.enlarge(await asyncio.to_thread(estimate_seconds, path))
        ready = await place.run(
            pipeline.prepare_utterance,
            path,
            read,
            entry.labeler.features_,
            tier=source.tier,
            channel=source.channel,
            on_bad_segment="skip",
            max_seconds=intake.MAX_SECONDS,
            max_segments=intake.MAX_SEGMENTS,
            recording=name_stem(source.name),
            known=entry.labeler.label_set_,
        )
        ready.notices += entry.notices
        metrics.audio.inc(ready.duration)
        playback = await place.run(intake.keep_playback, workspace, path, source.channel)
        scored = await batcher.label(
            entry,
            ready.inputs,
            ready.segments,
            n_best=intake.N_BEST,
            decode="posterior",
            starts=ready.starts,
            comparison=ready.comparison,
            support=True,
        )
        metrics.segments.inc(len(scored.labelled))

    def make() -> ReviewFile:
        document = intake.answer_to_json(ready, scored.labelled, entry.labeler.labels_)
        if source.found is not None:
            document["boundaries"] = boundaries.columns(source.found, notation.tier_segments(ready.tier))
        return ReviewFile(
            name=source.name,
            annotation_name=source.annotation_name,
            speaker=source.speaker,
            sound=source.sound,
            annotation=workspace.store.put(source.annotation),
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

    return await asyncio.to_thread(make)


def _parts(form: FormData) -> tuple[UploadFile, UploadFile | None, FileOptions]:
    """(audio, segments, options) of a form; without segments it has an alignment. Raises InvalidRequest."""
    files: dict[str, UploadFile] = {}
    fields: dict[str, Any] = {}
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
    if "transcript" in files and "alignment" not in files:
        raise InvalidRequest("expected transcript beside alignment alone, got it with segments", pointer="transcript")
    return files["audio"], files.get("segments"), problems.validate(FileOptions, fields)
