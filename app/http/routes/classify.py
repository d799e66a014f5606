"""`POST /classify`: one recording and its segmentation in, a label and a posterior for each segment out.

The path of a request: `uploads.receive` reads its body, `schemas/classify` checks it; `pipeline.prepare_utterance` turns it
into features, in a thread; `Batcher.label` has it labelled, in a batch; `ClassifyResult.render` answers, in a thread again.
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from starlette.datastructures import QueryParams
from starlette.responses import Response

from phonechain.app.http.answers import ClassifyRequest, ClassifyResult
from phonechain.app.http.dependencies import ServicesDep
from phonechain.app.http.routes.classify_speakers import label_speakers
from phonechain.app.http.uploads import Upload, parse_object, parse_options, receive, run_while_connected
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.batcher import Slot
from phonechain.app.labelling.lanes import SEGMENTS_PER_SECOND, TEXT_PER_SECOND, estimate_seconds
from phonechain.app.labelling.pipeline import Prepared
from phonechain.app.models.catalog import Entry
from phonechain.app.problems.errors import InvalidRequest
from phonechain.app.schemas.classify import ClassifyBody, ClassifyOptions, SegmentIn
from phonechain.app.services import Services
from phonechain.app.settings import Settings
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation
from phonechain.features.annotation.base import name_stem

router = APIRouter(tags=["classify"])


@router.post("/classify", summary="Label the segments of one recording")
async def classify(request: Request, services: ServicesDep) -> Response:
    services.batcher.refuse_if_full()
    upload = await receive(request, services.settings.max_body_bytes, ("audio", "segments"), texts=("segments",))
    size = upload.text_size / TEXT_PER_SECOND
    audio = upload.files.get("audio")
    # Known before it is decoded, so that 64 long ones at once leave places to short ones.
    if audio is not None and "raw" not in upload.fields and "raw" not in request.query_params:
        size = max(size, estimate_seconds(audio.data))
    with services.batcher.admit(size) as slot:
        return await run_while_connected(request, label(upload, request.query_params, services, slot))


async def label(upload: Upload, query: QueryParams, services: Services, slot: Slot) -> Response:
    """The answer to a request whose body has been read. Raises PhonechainError."""
    settings, batcher, metrics = services.settings, services.batcher, services.metrics
    begun = time.perf_counter()
    asked = await slot.run(parse_request, upload, query, settings)
    slot.enlarge(asked.seconds)
    entry = await services.models.get(asked.options.model)
    if asked.options.all_speakers:
        return await label_speakers(services, asked, entry, begun, slot)
    ready = await slot.run(prepare, asked, entry, settings)
    spent = time.perf_counter() - begun
    metrics.audio.inc(ready.duration)
    scored = await batcher.label(
        entry,
        ready.inputs,
        ready.segments,
        n_best=asked.options.n_best,
        decode=asked.options.decode,
        starts=ready.starts,
        comparison=ready.comparison,
        mode=ready.normalised,
    )
    metrics.segments.inc(len(scored.labelled))
    more = {}
    if asked.options.asks_more:
        from phonechain.app.labelling.extras import Extras
        from phonechain.app.labelling.sequences import describe

        count = asked.options.sequences or 1
        slot.enlarge(count * len(ready.segments) / SEGMENTS_PER_SECOND)
        extras = Extras(asked.options.sequences, asked.options.words, asked.options.hidden)
        more = await slot.run(describe, entry.labeler, ready, scored.labelled, extras, normalise=ready.normalised)
    return await slot.run(ClassifyResult(asked, entry, ready, scored, begun, spent, more).render)


def prepare(asked: ClassifyRequest, entry: Entry, settings: Settings) -> Prepared:
    """Decode the sound and compute the features that the model takes. Runs in a thread."""
    options, model = asked.options, entry.model
    mode = model.normaliser.check_mode(options.normalise, known_speakers=False)
    ready = labelling.prepare_utterance(
        asked.audio,
        asked.segmentation,
        model.features,
        tier=options.tier,
        channel=options.channel,
        raw=options.raw,
        fix=options.fix,
        on_bad_segment=options.on_bad_segment,
        gaps=options.gap_rule,
        max_seconds=settings.max_audio_seconds,
        max_segments=settings.max_segments,
        known=model.label_set if not options.map else model.label_set.with_map(options.map),
    )
    ready.normalised = mode
    ready.notices += entry.notices
    return ready


def parse_request(upload: Upload, query: QueryParams, settings: Settings) -> ClassifyRequest:
    """Check an upload against the interface. Runs in a thread: a body may be large.

    Raises:
        InvalidRequest, MalformedBody, AnnotationError, TooManySegments.
    """
    context = {"max_n_best": settings.max_n_best}
    if upload.document is not None:
        body = parse_object(upload.document)
        if isinstance(segments := body.get("segments"), list):
            labelling.check_count(len(segments), settings.max_segments)  # before a model is built of each
        checked = parse_options(ClassifyOptions, ClassifyBody, body, query, context)
        listed = notation.shift(_to_annotation(checked.segments), checked.shift)
        return ClassifyRequest(checked, checked.audio, listed, True)
    options = parse_options(ClassifyOptions, ClassifyOptions, upload.fields, query, context)
    audio, given = upload.files.get("audio"), upload.files.get("segments")
    if audio is None:
        raise InvalidRequest("expected a file in the field audio, got none", pointer="audio")
    if given is None:
        raise InvalidRequest(
            "expected the field segments, an annotation file or a JSON list of segments, got none", pointer="segments"
        )
    annotation = notation.read(
        given.data,
        name=given.name,
        utterance=options.utterance,
        audio=name_stem(audio.name) if audio.name else None,
        channel=options.channel if options.channel != "mix" else None,
    )
    if options.shift:
        annotation = notation.shift(annotation, options.shift)
    return ClassifyRequest(options, audio.data, annotation, False)


def _to_annotation(segments: list[SegmentIn]) -> Annotation:
    return labelling.list_to_annotation([segment.to_segment() for segment in segments])
