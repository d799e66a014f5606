"""`POST /align` and `POST /recognize`: a recording and a transcript in, or a recording alone; words and phones out.

The body is read here, and checked by `schemas/align.py`; `alignment.pipeline` does the work, in a thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from phonechain.app.alignment import documents, pipeline
from phonechain.app.alignment.labels import N_BEST, Labels, prepare
from phonechain.app.alignment.pipeline import AlignedRecording
from phonechain.app.alignment.transcripts import Pronouncer, pronouncer_of
from phonechain.app.http.answers import file_response, json_response
from phonechain.app.http.dependencies import ServicesDep
from phonechain.app.http.uploads import File, Upload, parse_object, parse_options, receive, run_while_connected
from phonechain.app.labelling.batcher import Slot
from phonechain.app.labelling.lanes import TEXT_PER_SECOND, estimate_seconds
from phonechain.app.models.catalog import ModelCatalog
from phonechain.app.problems.errors import InvalidRequest, UnknownModel
from phonechain.app.schemas import align as schemas
from phonechain.app.schemas.problems import refusals
from phonechain.app.services import Services
from phonechain.features.annotation import Annotation
from phonechain.features.audio.reader import Audio
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError
from phonechain.features.words import dictionary as dictionaries
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import Alignment, Recognition
from phonechain.model.segmental.progress import Progress

router = APIRouter(tags=["align"])

COST = 5.0
"""How much more work it is to align or to recognise sound than to label it, about."""

_loading = threading.Lock()


@router.post(
    "/align",
    summary="Find the words and phones of a transcript in one recording",
    responses=refusals(400, 404, 413, 415, 422, 503),
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
    files = ("audio", "transcript", "dictionary")
    upload = await receive(request, settings.max_body_bytes, files, texts=("dictionary",))

    async def answer(slot: Slot) -> Response:
        slot.enlarge(sum(len(upload.files[name].data) for name in files[1:] if name in upload.files) / TEXT_PER_SECOND)
        options, audio, seconds = await slot.run(_parse_align, upload, request.query_params)
        slot.enlarge(seconds)
        name, aligner = await slot.run(_aligner, services.models, options.model)
        transcript = upload.files.get("transcript")
        sound, done = await slot.run(_align, slot, aligner, options, audio, transcript, settings.max_audio_seconds)
        metrics.audio.inc(sound.duration)
        metrics.segments.inc(len(done.alignment.phones))
        labels = await _label(services, slot, options.label_with, sound, done.alignment)
        return await slot.run(_response, name, aligner, sound, done, labels, options.format)

    with batcher.admit() as slot:
        return await run_while_connected(request, answer(slot))


@router.post(
    "/recognize",
    summary="Find the phones of one recording",
    description="Experimental: the model's card says how many phones are wrong.",
    responses=refusals(400, 404, 413, 415, 422, 503),
    openapi_extra=schemas.describe(
        schemas.RecognizeAnswer, schemas.RecognizeBody, schemas.RecognizeOptions, {"audio": "The sound file."}
    ),
)
async def recognize(request: Request, services: ServicesDep) -> Response:
    settings, batcher, metrics = services.settings, services.batcher, services.metrics
    batcher.refuse_if_full()
    upload = await receive(request, settings.max_body_bytes, ("audio",))

    async def answer(slot: Slot) -> Response:
        options, audio, seconds = await slot.run(_parse_recognize, upload, request.query_params)
        slot.enlarge(seconds)
        name, aligner = await slot.run(_aligner, services.models, options.model)
        sound = await slot.run(_read, audio, aligner, options, settings.max_audio_seconds)
        done = await slot.run(pipeline.recognize, aligner, sound, progress=_while_wanted(slot))
        metrics.audio.inc(sound.duration)
        metrics.segments.inc(len(done.phones))
        labels = await _label(services, slot, options.label_with, sound, done)
        return await slot.run(_response, name, aligner, sound, done, labels, options.format)

    with batcher.admit() as slot:
        return await run_while_connected(request, answer(slot))


def _aligner(models: ModelCatalog, wanted: str) -> tuple[str, PhoneAligner]:
    """Name and alignment model, loaded when it is first asked for. Raises UnknownModel, InvalidRequest."""
    with _loading:
        entry = models.get_aligner(wanted)
        return entry.name, entry.aligner


def _align(
    slot: Slot, aligner: PhoneAligner, options: schemas.AlignOptions, audio: bytes, transcript: File | None,
    max_seconds: float,
) -> tuple[Audio, AlignedRecording]:  # fmt: skip
    """Raises PhonechainError, InvalidRequest, ClientDisconnect."""
    if (transcript is None) == (options.text is None):
        got = "neither" if options.text is None else "both"
        raise InvalidRequest(f"expected a file in the field transcript or the field text, got {got}", pointer="text")
    source: str | Annotation = options.text or ""
    if transcript is not None:
        with _part("transcript"):
            source = pipeline.read_source(transcript.data, transcript.name)
    sound = _read(audio, aligner, options, max_seconds)
    pronouncer = _pronouncer(options)
    done = pipeline.align(
        aligner, sound, source, pronouncer, tier=options.tier, refine=options.refine, spread=options.spread,
        progress=_while_wanted(slot),
    )  # fmt: skip
    return sound, done


async def _label(
    services: Services, slot: Slot, model: str | None, sound: Audio, answer: Alignment | Recognition
) -> Labels | None:
    """The labels of the phones by the model that is asked for. Raises UnknownModel, InvalidRequest."""
    if model is None:
        return None
    try:
        entry = await services.models.get(model)
    except (UnknownModel, InvalidRequest) as error:
        error.pointer = "label_with"
        raise
    ready = await slot.run(prepare, entry.labeler, sound, answer)
    found = await services.batcher.label(
        entry, ready.inputs, ready.segments, n_best=N_BEST, decode="posterior", comparison=ready.comparison
    )
    return Labels(entry.name, entry.version, found.labelled, entry.notices)


def _while_wanted(slot: Slot) -> Progress:
    """Ends the work on a long recording, in its thread, once the client has left. Raises ClientDisconnect."""

    def progress(share: float) -> None:
        if slot.ended:
            raise ClientDisconnect

    return progress


@contextlib.contextmanager
def _part(name: str) -> Iterator[None]:
    """Errors of a file name the part of the request that it was."""
    try:
        yield
    except AnnotationError as error:
        error.part = name
        if not isinstance(error, AnnotationSyntaxError):  # whose pointer begins with the part anyway
            error.pointer = name
        raise


def _read(audio: bytes, aligner: PhoneAligner, options: schemas.RecognizeOptions, max_seconds: float) -> Audio:
    """Raises AudioError."""
    return pipeline.read_audio(audio, aligner, options.channel, max_seconds=max_seconds)


def _pronouncer(options: schemas.AlignOptions) -> Pronouncer:
    """Raises SettingsError, AnnotationSyntaxError."""
    own = None
    if options.dictionary is not None:
        with _part("dictionary"):
            own = dictionaries.read(options.dictionary.encode("utf-8", "surrogatepass"), name="the dictionary")
    return pronouncer_of(own, language=options.language, phones=options.phones, oov=options.oov)


def _parse_align(upload: Upload, query: QueryParams) -> tuple[schemas.AlignOptions, bytes, float]:
    """The options, the sound and its size for others (see `_size`). Raises InvalidRequest, MalformedBody."""
    if upload.document is not None:
        body = parse_options(schemas.AlignOptions, schemas.AlignBody, parse_object(upload.document), query)
        return body, body.audio, _size(body.audio)
    fields = dict(upload.fields)
    if (own := upload.files.get("dictionary")) is not None:
        fields["dictionary"] = own.data.decode("utf-8", "replace")
    audio = _audio(upload)
    return parse_options(schemas.AlignOptions, schemas.AlignOptions, fields, query), audio, _size(audio)


def _parse_recognize(upload: Upload, query: QueryParams) -> tuple[schemas.RecognizeOptions, bytes, float]:
    """The options, the sound and its size for others (see `_size`). Raises InvalidRequest, MalformedBody."""
    if upload.document is not None:
        body = parse_options(schemas.RecognizeOptions, schemas.RecognizeBody, parse_object(upload.document), query)
        return body, body.audio, _size(body.audio)
    audio = _audio(upload)
    return parse_options(schemas.RecognizeOptions, schemas.RecognizeOptions, upload.fields, query), audio, _size(audio)


def _size(audio: bytes) -> float:
    """How much work a recording is, as seconds of sound whose segments are labelled."""
    return COST * estimate_seconds(audio)


def _audio(upload: Upload) -> bytes:
    if (audio := upload.files.get("audio")) is None:
        raise InvalidRequest("expected a file in the field audio, got none", pointer="audio")
    return audio.data


def _response(
    name: str, aligner: PhoneAligner, sound: Audio, done: AlignedRecording | Recognition, labels: Labels | None,
    format: str,
) -> Response:  # fmt: skip
    """The answer in the format that is asked for. Raises AnnotationError."""
    if labels is not None:
        done = replace(done, notices=(*done.notices, *labels.notices))
    if format == "json":
        return json_response(documents.to_json(name, aligner, done, labels))
    rate = sound.source_rate or sound.rate
    data = pipeline.render(done, format, duration=sound.duration, rate=rate, recording=None, labels=labels)
    return file_response(data, format, stem="alignment", model=name, version=aligner.version_, notices=done.notices)
