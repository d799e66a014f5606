"""Contents of corpora and scores, for display and playback: `/corpora/{id}/summary`, `/jobs/{id}/evaluation`, ..."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from phonechain.app.corpora import contents, repository, summary
from phonechain.app.http.dependencies import DatabaseDep, OwnerDep, ServicesDep, check_query
from phonechain.app.jobs import repository as jobs
from phonechain.app.jobs import scores
from phonechain.app.problems.errors import InvalidRequest
from phonechain.app.schemas.problems import refusals
from phonechain.app.schemas.scores import CorpusSummary, PresetList, ScoredSegments

_CHECKED = [Depends(check_query)]
corpora = APIRouter(prefix="/corpora", tags=["corpora"], dependencies=_CHECKED)
evaluations = APIRouter(prefix="/jobs", tags=["jobs"], dependencies=_CHECKED)
presets = APIRouter(prefix="/presets", tags=["models"], dependencies=_CHECKED)

_UNKNOWN = refusals(404, 422, 503)
_SOUND: dict[int | str, dict[str, Any]] = {200: {"content": {"audio/wav": {}}}}
Name = Annotated[str, Query(max_length=4096, pattern="^[^\x00]*$")]
Label = Annotated[str | None, Query(max_length=400, description="Only segments with this label.")]


@corpora.get("/{id}/summary", summary="Contents of a corpus", response_model=CorpusSummary, responses=_UNKNOWN)
async def show(id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep) -> dict[str, Any]:
    """Labels with counts and durations, speakers, and labels that look like spellings of the same label. Reads every
    annotation."""

    def read() -> dict[str, Any]:
        with db.read() as session:
            corpus = repository.get(session, id, owner)
        return summary.summarise(contents.read_utterances(services.workspace, corpus))

    return dict(await services.take_in(read))


@corpora.get(
    "/{id}/sound",
    summary="Sound from a corpus",
    response_class=Response,
    responses=refusals(404, 413, 415, 422, 503) | _SOUND,
)
async def sound(
    id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep, utterance: Name,
    start: Annotated[float, Query(ge=0, allow_inf_nan=False, description="Seconds.")] = 0.0,
    end: Annotated[float | None, Query(ge=0, allow_inf_nan=False, description="Seconds; at most 60 after `start`.")] = None,
) -> Response:  # fmt: skip
    """Part of the recording of an utterance, or of a file listed among the corpus's problems: 16-bit WAV, one channel at
    16 kHz."""
    if end is not None and end <= start:
        raise InvalidRequest(f"end: expected a time after {start}, got {end}", pointer="end", value=end, limit=start)

    def cut() -> bytes:
        with db.read() as session:
            corpus = repository.get(session, id, owner)
        path, channel = summary.find_recording(services.workspace, corpus, utterance)
        return summary.cut_sound(path, start, end, channel)

    data = await services.batcher.run_in_pool(summary.MAX_SECONDS, cut)
    return Response(data, headers={"Cache-Control": "private, max-age=3600"}, media_type="audio/wav")


@evaluations.get(
    "/{id}/evaluation", summary="Evaluation of a job's model", responses=refusals(404, 409, 422, 503)
)  # fmt: skip
def evaluation(id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep) -> dict[str, Any]:
    """The figures of an evaluation, or of a training on its held-out part: error with its interval, confusion matrix,
    reliability, and a row per label."""
    return scores.read_figures(services.workspace, jobs.get(db, id, owner))


@evaluations.get(
    "/{id}/segments", summary="Segments behind a confusion", response_model=ScoredSegments,
    responses=refusals(404, 409, 422, 503),
)  # fmt: skip
def segments(
    id: str, services: ServicesDep, db: DatabaseDep, owner: OwnerDep, true: Label = None, answer: Label = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number.")] = 100,
) -> dict[str, Any]:  # fmt: skip
    """Segments with this true label and this answer, most certain first; `/corpora/{id}/sound` has their sound."""
    return scores.read_segments(services.workspace, jobs.get(db, id, owner), true, answer, limit)


@presets.get("", summary="The systems that can be trained", response_model=PresetList)
def list_presets() -> dict[str, Any]:
    """The values of `preset` in a training job."""
    from phonechain.model.presets import preset, preset_names

    return {"presets": [{"name": n, "title": preset(n).title} for n in preset_names()]}
