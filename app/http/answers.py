"""Answers of the routes that label: JSON, or a file, whose model and warnings go to headers, where programs see them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from phonechain.app.labelling import conversion
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.batcher import LabelledUtterance
from phonechain.app.labelling.lanes import SEGMENTS_PER_SECOND, estimate_seconds
from phonechain.app.labelling.pipeline import Prepared
from phonechain.app.models.catalog import Entry
from phonechain.app.schemas.classify import ClassifyOptions, answer_to_json
from phonechain.features.annotation import FORMATS, Annotation
from phonechain.features.errors import Notice


@dataclass(slots=True)
class ClassifyRequest:
    """A request that follows the interface."""

    options: ClassifyOptions
    audio: bytes
    segmentation: Annotation
    listed: bool

    seconds: float = field(init=False)
    """About how much work it is, as seconds of sound."""

    def __post_init__(self) -> None:
        self.seconds = max((len(tier.entries) for tier in self.segmentation.tiers), default=0) / SEGMENTS_PER_SECOND
        if self.listed or self.options.raw is not None:  # the sound of a form is known since its request was admitted
            self.seconds = max(self.seconds, estimate_seconds(self.audio, self.options.raw))


def json_response(body: dict[str, Any]) -> Response:
    """A JSON document that no cache keeps."""
    data = json.dumps(body, ensure_ascii=False, allow_nan=False)
    return Response(data, headers={"Cache-Control": "no-store"}, media_type="application/json")


def file_response(
    data: bytes, format: str, *, stem: str, model: str, version: str, notices: Iterable[Notice]
) -> Response:
    """An annotation file in `format`, called `stem` with the format's suffix.

    Args:
        notices: told in the header X-Phonechain-Warnings by code and count.
    """
    counts = Counter(notice.code for notice in notices)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{stem}{conversion.suffix_of(format)}"',
        "X-Phonechain-Model": f"{model}; version={version}",
        "X-Phonechain-Warnings": ", ".join(f"{code}; count={count}" for code, count in counts.items()),
    }
    return Response(data, headers=headers, media_type=FORMATS[format].media_type)


@dataclass(frozen=True, slots=True)
class ClassifyResult:
    """A tier that was labelled, and the request that asked for it.

    Attributes:
        ready, scored: the recording, and its labels with the time that they took.
        begun: when the request came, by `time.perf_counter`.
        spent: seconds of decoding and features.
        more: members of the answer about sequences, words and hidden variables.
    """

    request: ClassifyRequest
    entry: Entry
    ready: Prepared
    scored: LabelledUtterance
    begun: float
    spent: float
    more: dict[str, Any] = field(default_factory=dict)

    def render(self) -> Response:
        """The answer in the asked format. Runs in a thread."""
        wanted, entry, ready = self.request.options.format, self.entry, self.ready
        if wanted == "json":
            return json_response(self.to_json())
        data = labelling.render_annotation(ready, self.scored.labelled, wanted)
        return file_response(
            data, wanted, stem="labels", model=entry.name, version=entry.version, notices=ready.notices
        )

    def to_json(self) -> dict[str, Any]:
        """A `ClassifyAnswer` as plain data."""
        options, ready, scored = self.request.options, self.ready, self.scored
        return answer_to_json(
            name=self.entry.name,
            version=self.entry.version,
            duration=ready.duration,
            tier=None if self.request.listed else ready.tier.name,
            labelled=labelling.insert_skipped(ready, scored.labelled),
            notices=ready.notices,
            gaps=ready.gaps,
            sequences=len(ready.starts) + 1,
            comparison=ready.comparison,
            entropy=options.entropy or options.sequences > 0,
            pronunciation=options.pronunciation,
            more=self.more,
            normalised=ready.normalised,
            timing={
                "features": self.spent,
                "queue": scored.queue,
                "model": scored.model,
                "total": time.perf_counter() - self.begun,
            },
        )
