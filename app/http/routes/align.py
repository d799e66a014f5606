"""`POST /align` and `POST /recognize`: a recording and a transcript in, or a recording alone; words and phones out.

The body is read here, and checked by `schemas/align.py`; `alignment.pipeline` does the work, in a thread.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.responses import Response

from phonechain.app.alignment import documents, pipeline
from phonechain.app.alignment.pipeline import Aligned
from phonechain.app.alignment.transcripts import Pronouncer
from phonechain.app.http.dependencies import ServicesDep
from phonechain.app.http.uploads import parse_object, read_form
from phonechain.app.labelling import conversion
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.problems.documents import MOST_FINDINGS, finding, invalid_request
from phonechain.app.problems.errors import InvalidRequest, UnsupportedMediaType
from phonechain.app.schemas import align as schemas
from phonechain.app.schemas.problems import refusals
from phonechain.app.settings import Settings
from phonechain.features.annotation import Annotation
from phonechain.features.audio.reader import Audio
from phonechain.features.words import dictionary as dictionaries
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import Recognition

router = APIRouter(tags=["align"])

_M = TypeVar("_M", bound=BaseModel)

_loading = threading.Lock()
_loaded: list[PhoneAligner] = []


@dataclass(slots=True)
class Upload:
    """The parts of a body."""

    values: dict[str, Any] = field(default_factory=dict)
    audio: bytes | None = None
    transcript: bytes | None = None
    name: str | None = None


@router.post(
    "/align",
    summary="Find the words and phones of a transcript in one recording",
    responses=refusals(400, 413, 415, 422, 503),
    openapi_extra=schemas.describe(
        schemas.AlignAnswer,
        schemas.AlignBody,
        schemas.AlignOptions,
        {"audio": "The sound file.", "transcript": "A text file, or an annotation with words or phones."},
    ),
)
async def align(request: Request, services: ServicesDep) -> Response:
    settings, batcher, metrics = services.settings, services.batcher, services.metrics
    batcher.refuse_if_full()
    upload = await _receive(request, settings, ("audio", "transcript", "dictionary"))
    with batcher.admit():
        options = _checked(schemas.AlignOptions, schemas.AlignBody, upload, request)
        aligner = await batcher.in_pool(_aligner)
        sound, done = await batcher.in_pool(_align, aligner, upload, options)
        metrics.audio.inc(sound.duration)
        metrics.segments.inc(len(done.alignment.phones))
        return await batcher.in_pool(_response, aligner, sound, done, options.format)


@router.post(
    "/recognize",
    summary="Find the phones of one recording",
    description="Experimental: see the model's card for how many phones are wrong.",
    responses=refusals(400, 413, 415, 422, 503),
    openapi_extra=schemas.describe(
        schemas.RecognizeAnswer, schemas.RecognizeBody, schemas.RecognizeOptions, {"audio": "The sound file."}
    ),
)
async def recognize(request: Request, services: ServicesDep) -> Response:
    settings, batcher, metrics = services.settings, services.batcher, services.metrics
    batcher.refuse_if_full()
    upload = await _receive(request, settings, ("audio",))
    with batcher.admit():
        options = _checked(schemas.RecognizeOptions, schemas.RecognizeBody, upload, request)
        aligner = await batcher.in_pool(_aligner)
        sound = await batcher.in_pool(pipeline.read_audio, _audio(upload), aligner, options.channel)
        done = await batcher.in_pool(pipeline.recognize, aligner, sound)
        metrics.audio.inc(sound.duration)
        metrics.segments.inc(len(done.phones))
        return await batcher.in_pool(_response, aligner, sound, done, options.format)


def _aligner() -> PhoneAligner:
    """The shipped model, loaded when it is first asked for."""
    with _loading:
        if not _loaded:
            _loaded.append(PhoneAligner.load(pretrained_path(ALIGNMENT)))
        return _loaded[0]


def _align(aligner: PhoneAligner, upload: Upload, options: schemas.AlignOptions) -> tuple[Audio, Aligned]:
    """Raises PhonechainError, InvalidRequest."""
    if (upload.transcript is None) == (options.text is None):
        got = "neither" if options.text is None else "both"
        raise InvalidRequest(f"expected a file in the field transcript or the field text, got {got}", pointer="text")
    source: str | Annotation = options.text or ""
    if upload.transcript is not None:
        source = pipeline.read_source(upload.transcript, upload.name)
    sound = pipeline.read_audio(_audio(upload), aligner, options.channel)
    pronouncer = _pronouncer(options)
    done = pipeline.align(
        aligner, sound, source, pronouncer, tier=options.tier, refine=options.refine, spread=options.spread
    )
    return sound, done


def _pronouncer(options: schemas.AlignOptions) -> Pronouncer:
    """Raises SettingsError, AnnotationSyntaxError, InvalidRequest."""
    if options.phones:
        return Pronouncer(dictionaries.Dictionary({}), options.language, as_phones=True)
    if options.dictionary is not None:
        own = dictionaries.read(options.dictionary.encode("utf-8", "surrogatepass"), name="the dictionary")
        return Pronouncer(own, options.language)
    if options.language.split("-")[0] != "en":
        raise InvalidRequest(
            f"expected a dictionary or phones with the language {options.language!r}, for only English has one",
            pointer="language",
        )
    return Pronouncer(dictionaries.english(), options.language)


async def _receive(request: Request, settings: Settings, files: tuple[str, ...]) -> Upload:
    """Raises UnsupportedMediaType, MalformedBody, InvalidRequest, BodyTooLarge."""
    kind = request.state.media_type
    if kind == "application/json":
        return Upload(values=parse_object(await request.body()))
    if kind != "multipart/form-data":
        got = kind or "none"
        raise UnsupportedMediaType(
            f"expected the media type multipart/form-data or application/json, got {got[:80]}", value=got[:80]
        )
    upload = Upload()
    async with read_form(request, files=4, fields=32, part=settings.max_body_bytes) as form:
        for name, part in form.multi_items():
            if name in upload.values or (name in ("audio", "transcript") and getattr(upload, name) is not None):
                raise InvalidRequest(f"expected {name[:80]} once, got it again", pointer=name[:80])
            if isinstance(part, UploadFile):
                if name not in files:
                    raise InvalidRequest(
                        f"expected the files {', '.join(files)}, got a file {name[:80]!r}", pointer=name[:80]
                    )
                data = await part.read()
                if name == "audio":
                    upload.audio = data
                elif name == "transcript":
                    upload.transcript, upload.name = data, part.filename
                else:
                    upload.values[name] = data.decode("utf-8", "replace")
            elif name in ("audio", "transcript"):
                raise InvalidRequest(
                    f"expected {name} as a file (curl: -F {name}=@FILE), got a text field", pointer=name
                )
            else:
                upload.values[name] = part
    return upload


def _checked(options: type[_M], body: type[BaseModel], upload: Upload, request: Request) -> _M:
    """The options from query and body. Raises InvalidRequest with every finding."""
    query = dict(request.query_params)
    for name, value in query.items():
        if len(request.query_params.getlist(name)) > 1 or str(upload.values.get(name, value)) != value:
            raise InvalidRequest(f"expected {name[:80]} once, got it again", pointer=name[:80])
    in_json = upload.audio is None and "audio" in upload.values
    try:
        checked = (body if in_json else options).model_validate({**query, **upload.values})
    except ValidationError as error:
        entries = error.errors(include_url=False)[:MOST_FINDINGS]
        places = ["query" if e["loc"] and e["loc"][0] in query else "body" for e in entries]
        raise invalid_request(
            [finding(place, e, body if in_json else options) for place, e in zip(places, entries, strict=True)]
        ) from None
    if in_json:
        upload.audio = checked.audio  # type: ignore[attr-defined]
    return checked  # type: ignore[return-value]  # the body's schema is the options' with the audio


def _audio(upload: Upload) -> bytes:
    if upload.audio is None:
        raise InvalidRequest("expected a file in the field audio, got none", pointer="audio")
    return upload.audio


def _response(aligner: PhoneAligner, sound: Audio, done: Aligned | Recognition, format: str) -> Response:
    """The answer in the format that is asked for. Raises AnnotationError."""
    headers = {"Cache-Control": "no-store"}
    if format == "json":
        document = documents.to_json(ALIGNMENT, aligner, done)
        data = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return Response(data, headers=headers, media_type="application/json")
    rate = sound.source_rate or sound.rate
    data = pipeline.render(done, format, duration=sound.duration, rate=rate, recording=None)
    headers["X-Phonechain-Model"] = f"{ALIGNMENT}; version={aligner.version_}"
    codes = [notice.code for notice in done.notices]
    headers["X-Phonechain-Warnings"] = ", ".join(f"{c}; count={codes.count(c)}" for c in dict.fromkeys(codes))
    headers["Content-Disposition"] = f'attachment; filename="alignment{conversion.suffix(format)}"'
    return Response(data, headers=headers, media_type=labelling.media_type(format))
