"""`POST /classify`: one recording and its segmentation in, a label and a posterior for each segment out.

The way of a request: its body is read here; `schemas/classify.py` checks it; `labelling.prepare_utterance` turns it into
features, in a thread; `scoring.Batcher` has it labelled, in a batch; it is written here.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import QueryParams, UploadFile
from starlette.responses import Response

from phonechain.app.http.dependencies import ServicesDep
from phonechain.app.http.presence import while_connected
from phonechain.app.http.uploads import parse_object
from phonechain.app.labelling import conversion
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.batcher import Scored
from phonechain.app.labelling.pipeline import Prepared
from phonechain.app.models.catalog import Entry
from phonechain.app.problems.documents import MOST_FINDINGS, finding, invalid_request
from phonechain.app.problems.errors import InvalidRequest, UnsupportedMediaType
from phonechain.app.schemas.classify import ClassifyBody, ClassifyOptions, SegmentIn, answer
from phonechain.app.settings import Settings
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation
from phonechain.features.annotation.base import name_stem
from phonechain.features.errors import Notice

router = APIRouter(tags=["classify"])

T = TypeVar("T")

_OPTIONS = TypeAdapter(ClassifyOptions)
_BODY = TypeAdapter(ClassifyBody)


@dataclass(slots=True)
class Upload:
    """A body as it came: either `document`, the bytes of one JSON object, or the parts of a form."""

    document: bytes | None = None
    audio: bytes | None = None
    audio_name: str | None = None
    segments: bytes | None = None
    segments_name: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Asked:
    """A request that follows the interface."""

    options: ClassifyOptions
    audio: bytes
    segmentation: Annotation
    listed: bool


@router.post("/classify", summary="Label the segments of one recording")
async def classify(request: Request, services: ServicesDep) -> Response:
    settings, batcher, metrics = services.settings, services.batcher, services.metrics
    batcher.refuse_if_full()
    upload = await receive(request, settings)
    with batcher.admit():
        begun = time.perf_counter()
        asked = await batcher.in_pool(parse_request, upload, request.query_params, settings)
        entry = await services.models.get(asked.options.model)
        normalised = entry.labeler.normalisation(asked.options.normalise)
        if asked.options.all_speakers:
            from phonechain.app.http.routes.classify_speakers import classify_speakers

            return await classify_speakers(request, services, asked, entry, begun)
        ready = await while_connected(request, batcher.in_pool(prepare, asked, entry, settings))
        ready.normalised = normalised
        spent = time.perf_counter() - begun
        metrics.audio.inc(ready.duration)
        scored = await while_connected(
            request,
            batcher.label(
                entry,
                ready.inputs,
                ready.segments,
                n_best=asked.options.n_best,
                decode=asked.options.decode,
                starts=ready.starts,
                comparison=ready.comparison,
                normalise=normalised,
            ),
        )
        metrics.segments.inc(len(scored.labelled))
        more = {}
        if asked.options.asks_more:
            from phonechain.app.labelling.sequences import describe
            from phonechain.app.labelling.wanted import Wanted

            wanted = Wanted(asked.options.sequences, asked.options.words, asked.options.hidden)
            more = await while_connected(
                request, batcher.in_pool(describe, entry.labeler, ready, scored.labelled, wanted, normalise=normalised)
            )
        return await batcher.in_pool(render, asked, entry, ready, scored, begun, spent, more)


def prepare(asked: Asked, entry: Entry, settings: Settings) -> Prepared:
    """Decode the sound and compute the features that the model takes. Runs in a thread."""
    options = asked.options
    return labelling.prepare_utterance(
        asked.audio,
        asked.segmentation,
        entry.labeler.features_,
        tier=options.tier,
        channel=options.channel,
        raw=options.raw,
        fix=options.fix,
        on_bad_segment=options.on_bad_segment,
        gaps=options.gap_rule,
        max_seconds=settings.max_audio_seconds,
        max_segments=settings.max_segments,
        known=entry.labeler.label_set_.mapped(options.map),
    )


async def receive(request: Request, settings: Settings) -> Upload:
    """The parts of the body, unparsed.

    Raises:
        UnsupportedMediaType, MalformedBody, InvalidRequest, BodyTooLarge: it cannot be taken apart.
    """
    kind = request.state.media_type
    if kind == "application/json":
        return Upload(document=await request.body())
    if kind != "multipart/form-data":
        got = kind or "none"
        raise UnsupportedMediaType(
            f"expected the media type multipart/form-data or application/json, got {got[:80]}", value=got[:80]
        )
    upload = Upload()
    async with request.form(max_files=4, max_fields=32, max_part_size=settings.max_body_bytes) as form:
        for name, part in form.multi_items():
            if name in upload.options or (name in ("audio", "segments") and getattr(upload, name) is not None):
                raise InvalidRequest(f"expected {name[:80]} once, got it again", pointer=name[:80])
            if name == "audio" and isinstance(part, UploadFile):
                upload.audio, upload.audio_name = await part.read(), part.filename
            elif name == "segments":
                upload.segments = await part.read() if isinstance(part, UploadFile) else part.encode("utf-8")
                upload.segments_name = part.filename if isinstance(part, UploadFile) else None
            elif isinstance(part, UploadFile):
                raise InvalidRequest(
                    f"expected the files audio and segments, got a file {name[:80]!r}", pointer=name[:80]
                )
            elif name == "audio":
                raise InvalidRequest(
                    "expected audio as a file (curl: -F audio=@FILE), got a text field", pointer="audio"
                )
            else:
                upload.options[name] = part
    return upload


def parse_request(upload: Upload, query: QueryParams, settings: Settings) -> Asked:
    """Check an upload against the interface. Runs in a thread: a body may be large.

    Raises:
        InvalidRequest, MalformedBody, AnnotationError, TooManySegments.
    """
    in_query = _query(query)
    if upload.document is not None:
        body = parse_object(upload.document)
        checked = _checked(_BODY, _merged(body, in_query), settings, query=in_query)
        listed = notation.shift(_listed(checked.segments), checked.shift)
        return Asked(checked, checked.audio, listed, True)
    options = _checked(_OPTIONS, _merged(upload.options, in_query), settings, query=in_query)
    if upload.audio is None:
        raise InvalidRequest("expected a file in the field audio, got none", pointer="audio")
    if upload.segments is None:
        raise InvalidRequest(
            "expected the field segments, an annotation file or a JSON list of segments, got none", pointer="segments"
        )
    annotation = notation.read(
        upload.segments,
        name=upload.segments_name,
        utterance=options.utterance,
        audio=name_stem(upload.audio_name) if upload.audio_name else None,
        channel=options.channel if options.channel != "mix" else None,
    )
    return Asked(options, upload.audio, notation.shift(annotation, options.shift), False)


def _query(query: QueryParams) -> dict[str, str]:
    """The options in the query. Raises InvalidRequest for unknown and for repeated ones."""
    findings = []
    for name in query:
        count = len(query.getlist(name))
        if name not in ClassifyOptions.model_fields:
            known = ", ".join(ClassifyOptions.model_fields)
            findings.append({"detail": f"{name[:80]}: expected one of {known}", "parameter": name[:80]})
        elif count > 1:
            findings.append({"detail": f"{name}: expected one value, got {count}", "parameter": name})
    if findings:
        raise invalid_request(findings)
    return dict(query)


def _merged(body: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Raises InvalidRequest for an option with one value in the query and another in the body."""
    for name in sorted(set(body) & set(query)):
        if not _equal(name, body[name], query[name]):
            raise InvalidRequest(
                f"expected one value of {name}, got another in the query than in the body", pointer=name
            )
    return {**query, **body}


def _equal(name: str, one: Any, other: Any) -> bool:
    """Whether two spellings of an option mean the same, such as 3 and "3"."""
    try:
        return bool(
            getattr(_OPTIONS.validate_python({name: one}), name)
            == getattr(_OPTIONS.validate_python({name: other}), name)
        )
    except ValidationError:
        return False


def _checked(adapter: TypeAdapter[T], value: dict[str, Any], settings: Settings, *, query: Container[str] = ()) -> T:
    """`value` after its schema. Raises InvalidRequest with every finding, each at its place in body or query."""
    segments = value.get("segments")
    if isinstance(segments, list):
        labelling.check_count(len(segments), settings.max_segments)  # before a model is built of each
    try:
        return adapter.validate_python(value, context={"max_n_best": settings.max_n_best})
    except ValidationError as error:
        entries = error.errors(include_url=False)[:MOST_FINDINGS]
        raise invalid_request([finding("query" if e["loc"][0] in query else "body", e) for e in entries]) from None


def _listed(segments: list[SegmentIn]) -> Annotation:
    return labelling.list_to_annotation([segment.as_segment() for segment in segments])


def render(
    asked: Asked, entry: Entry, ready: Prepared, scored: Scored, begun: float, spent: float, more: dict[str, Any]
) -> Response:
    """The answer in the asked format, with `more` members. Runs in a thread."""
    wanted = asked.options.format
    if wanted != "json":
        return file_response(labelling.render_annotation(ready, scored.labelled, wanted), wanted, entry, ready.notices)
    return json_response(to_json(asked, entry, ready, scored, begun, spent, more))


def file_response(data: bytes, format: str, entry: Entry, notices: Iterable[Notice]) -> Response:
    """An annotation file. It cannot hold model and warnings, so they go where programs can still see them."""
    counts = Counter(notice.code for notice in notices)
    headers = {
        "Cache-Control": "no-store",
        "X-Phonechain-Model": f"{entry.name}; version={entry.version}",
        "X-Phonechain-Warnings": ", ".join(f"{code}; count={count}" for code, count in counts.items()),
        "Content-Disposition": f'attachment; filename="labels{conversion.suffix(format)}"',
    }
    return Response(data, headers=headers, media_type=labelling.media_type(format))


def json_response(body: dict[str, Any]) -> Response:
    """A JSON document that no cache keeps."""
    data = json.dumps(body, ensure_ascii=False, allow_nan=False)
    return Response(data, headers={"Cache-Control": "no-store"}, media_type="application/json")


def to_json(
    asked: Asked, entry: Entry, ready: Prepared, scored: Scored, begun: float, spent: float, more: dict[str, Any]
) -> dict[str, Any]:
    """A `ClassifyAnswer` as plain data."""
    return answer(
        name=entry.name,
        version=entry.version,
        duration=ready.duration,
        tier=None if asked.listed else ready.tier.name,
        labelled=labelling.with_skipped(ready, scored.labelled),
        notices=ready.notices,
        gaps=ready.gaps,
        sequences=len(ready.starts) + 1,
        comparison=ready.comparison,
        entropy=asked.options.entropy or asked.options.sequences > 0,
        pronunciation=asked.options.pronunciation,
        more=more,
        normalised=ready.normalised,
        timing={
            "features": spent,
            "queue": scored.queue,
            "model": scored.model,
            "total": time.perf_counter() - begun,
        },
    )
