"""`POST /classify` with `all_speakers`: the tiers of every speaker of one recording, in one batch."""

from __future__ import annotations

import asyncio
import time

from starlette.responses import Response

from phonechain.app.http.answers import ClassifyRequest, ClassifyResult, file_response, json_response
from phonechain.app.labelling import speakers
from phonechain.app.labelling.batcher import LabelledUtterance, Slot
from phonechain.app.labelling.extras import Extras
from phonechain.app.labelling.pipeline import Prepared, check_count
from phonechain.app.labelling.sequences import describe
from phonechain.app.models.catalog import Entry
from phonechain.app.services import Services
from phonechain.app.settings import Settings


async def label_speakers(
    services: Services, asked: ClassifyRequest, entry: Entry, begun: float, slot: Slot
) -> Response:
    """The answer for a request that has been read and admitted.

    Raises:
        PhonechainError: what came cannot be used.
    """
    batcher, options = services.batcher, asked.options
    mode = entry.model.normaliser.check_mode(options.normalise, known_speakers=False)
    ready = await slot.run(_prepare, asked, entry, services.settings)
    spent = time.perf_counter() - begun
    services.metrics.audio.inc(ready[0].duration)
    for one in ready:
        one.normalised = mode
    scored = await asyncio.gather(
        *(
            batcher.label(
                entry, one.inputs, one.segments, n_best=options.n_best, decode=options.decode, starts=one.starts,
                comparison=one.comparison, mode=mode,
            )
            for one in ready
        )
    )  # fmt: skip
    services.metrics.segments.inc(sum(len(one.labelled) for one in scored))
    return await slot.run(_render, asked, entry, ready, scored, begun, spent)


def _prepare(asked: ClassifyRequest, entry: Entry, settings: Settings) -> list[Prepared]:
    """Decode the sound and compute the features of every tier. Runs in a thread."""
    options = asked.options
    options.refuse_tier(options.tier)
    ready = speakers.prepare_speakers(
        entry.labeler,
        asked.audio,
        asked.segmentation,
        known=entry.labeler.label_set_.with_map(options.map),
        channel=options.channel,
        max_seconds=settings.max_audio_seconds,
        raw=options.raw,
        fix=options.fix,
        on_bad_segment=options.on_bad_segment,
        gaps=options.gap_rule,
        max_segments=settings.max_segments,
    )
    check_count(sum(len(one.segments) for one in ready), settings.max_segments)
    for one in ready:
        one.notices += entry.notices
    return ready


def _render(
    asked: ClassifyRequest,
    entry: Entry,
    ready: list[Prepared],
    scored: list[LabelledUtterance],
    begun: float,
    spent: float,
) -> Response:
    """The answer in the asked format. Runs in a thread."""
    options = asked.options
    if options.format != "json":
        labelled = [(one, each.labelled) for one, each in zip(ready, scored, strict=True)]
        notices = dict.fromkeys(notice for one in ready for notice in one.notices)
        data = speakers.render(labelled, options.format)
        return file_response(
            data, options.format, stem="labels", model=entry.name, version=entry.version, notices=notices
        )
    extras = Extras(options.sequences, options.words, options.hidden)
    bodies = []
    for one, each in zip(ready, scored, strict=True):
        more = describe(entry.labeler, one, each.labelled, extras, normalise=one.normalised) if extras else {}
        bodies.append(ClassifyResult(asked, entry, one, each, begun, spent, more).to_json())
    return json_response({"tiers": bodies})
