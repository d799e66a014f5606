"""`/label-studio`: the routes of a machine-learning backend, as Label Studio calls them.

The requests and answers are those of its backend library, label-studio-ml 2: `/health`, `/setup`, `/predict`, `/webhook`.
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from phonechain.app.alignment import python as aligning
from phonechain.app.corpora import intake
from phonechain.app.http.dependencies import DatabaseDep, ServicesDep
from phonechain.app.http.gateway import caller_id, owner_of, require_scope
from phonechain.app.jobs import submission
from phonechain.app.jobs.submission import Submitter
from phonechain.app.labelling import pipeline
from phonechain.app.labelling.batcher import Slot
from phonechain.app.labelling.lanes import estimate_seconds
from phonechain.app.labelstudio import config, tasks
from phonechain.app.labelstudio.client import LabelStudio
from phonechain.app.labelstudio.config import Interface
from phonechain.app.problems.errors import InvalidRequest
from phonechain.app.schemas.jobs import TrainJob
from phonechain.app.schemas.label_studio import Health, Predict, Predictions, SetUp, Setup, Trained, Webhook
from phonechain.app.schemas.problems import refusals
from phonechain.app.services import Services
from phonechain.app.storage import references
from phonechain.app.storage.archives import Caps
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.errors import PhonechainError

router = APIRouter(prefix="/label-studio", tags=["label studio"])

TRAINING = "START_TRAINING"
_REFUSED = refusals(400, 404, 413, 415, 422, 502, 503, 507)


def connect(services: Services) -> LabelStudio:
    """A connection to the Label Studio in the settings."""
    settings = services.settings
    token = settings.label_studio_token
    return LabelStudio(
        settings.label_studio, None if token is None else token.get_secret_value(), settings.max_upload_bytes
    )


@router.get("/health", summary="Whether the backend is running", response_model=Health)
@router.get("/", include_in_schema=False)
async def health() -> dict[str, str]:
    """Label Studio checks this before it connects."""
    return {"status": "UP", "model_class": "Phonechain"}


@router.post("/setup", summary="Connect a project", response_model=SetUp, responses=_REFUSED)
async def setup(asked: Setup, services: ServicesDep) -> dict[str, str]:
    """Checks the project's labelling interface. The address and token in the request are ignored: the service uses its
    settings `PHONECHAIN_LABEL_STUDIO` and `PHONECHAIN_LABEL_STUDIO_TOKEN`."""
    if asked.label_config.strip():
        config.parse(asked.label_config)
    entry = await services.models.get(_model_of(asked.extra_params))
    return {"model_version": f"{entry.name}@{entry.version}"}


@router.post("/predict", summary="Predict tasks", response_model=Predictions, responses=_REFUSED)
async def predict(asked: Predict, services: ServicesDep) -> dict[str, Any]:
    """Labels the existing regions of a task. If it has none, aligns the transcript in its data; without a transcript,
    recognises the phones. The score of a region is the posterior of its label; that of a task is their mean."""
    interface = config.parse(asked.label_config)
    services.batcher.refuse_if_full()
    entry = await services.models.get(_model_of(asked.params))
    version = f"{entry.name}@{entry.version}"
    spelled = tasks.map_spelling(interface, entry.labeler.label_set_)
    results, failed = [], []
    with services.batcher.admit() as slot:
        for task in asked.tasks:
            try:
                found, duration = await _answer(services, slot, entry, interface, task, asked.params.get("context"))
            except PhonechainError as error:
                failed.append(error)
                results.append({"result": [], "score": 0.0, "model_version": version})
            else:
                results.append(tasks.prediction(interface, found, spelled, duration, version))
    if failed and len(failed) == len(asked.tasks):  # nothing to show: the reason is worth more than empty answers
        raise failed[0]
    return {"results": results, "model_version": version}


async def _answer(
    services: Services, slot: Slot, entry: Any, interface: Interface, task: Mapping[str, Any], context: Any
) -> tuple[list[tuple[float, float, str, float]], float]:
    """((start, end, label, posterior) of each region, the recording's length). Raises PhonechainError."""
    data = task.get("data")
    address = data.get(interface.data) if isinstance(data, dict) else None
    sound = await asyncio.to_thread(connect(services).fetch_sound, address)
    slot.enlarge(await asyncio.to_thread(estimate_seconds, sound))
    segments = tasks.read_given(interface, task, context)
    if not segments:
        said = tasks.find_transcript(task)
        if said is not None:
            aligned = await slot.run(aligning.align, sound, said)
            return [(p.start, p.end, p.label, p.posterior) for p in aligned.phones], aligned.duration
        heard = await slot.run(aligning.recognize, sound)
        return [(p.start, p.end, p.label, p.posterior) for p in heard.phones], heard.duration
    settings = services.settings
    ready = await slot.run(
        pipeline.prepare_utterance,
        sound,
        Annotation([Tier("phones", "interval", segments)], "label-studio"),
        entry.labeler.features_,
        on_bad_segment="skip",
        max_seconds=settings.max_audio_seconds,
        max_segments=settings.max_segments,
        known=entry.labeler.label_set_,
    )
    services.metrics.audio.inc(ready.duration)
    scored = await services.batcher.label(
        entry,
        ready.inputs,
        ready.segments,
        n_best=1,
        decode="posterior",
        starts=ready.starts,
        comparison=ready.comparison,
    )
    services.metrics.segments.inc(len(scored.labelled))
    return [(s.start, s.end, s.label, s.posterior) for s in scored.labelled if s.label is not None], ready.duration


@router.post(
    "/webhook",
    summary="Train on finished tasks",
    status_code=201,
    response_model=Trained,
    responses={200: {"model": Trained, "description": "The event was ignored."}, **_REFUSED},
)
async def webhook(request: Request, asked: Webhook, services: ServicesDep, db: DatabaseDep) -> JSONResponse:
    """`START_TRAINING` fetches the project's finished tasks and their sound, and starts a training job from the default model.
    Other events are answered with 200 and ignored."""
    if asked.action != TRAINING:
        return JSONResponse({"status": "ignored", "job": None})
    require_scope(request, "train")
    interface = config.parse(asked.project.label_config)
    studio = connect(services)
    name = f"label-studio-{asked.project.id}"

    def train() -> str:
        with references.hold_blobs(services.workspace) as holds:
            data = _pack(studio, interface, studio.fetch_finished_tasks(asked.project.id))
            digest = holds.workspace.store.put(data)
            caps = Caps(services.settings.max_archive_files, services.settings.max_archive_bytes)
            options = {"tier": interface.control}
            corpus = intake.from_archive(holds.workspace, digest, asked.project.title or name, options, caps)
            about = f"Trained on finished tasks of the Label Studio project {asked.project.id}"
            job = TrainJob.model_validate(
                {
                    "kind": "train",
                    "corpus": corpus.id,
                    "name": name,
                    "base": "default",
                    "fold": True,
                    "description": about,
                }
            )
            who = Submitter(caller_id(request), owner_of(request))
            answer = submission.create(db, services.models, services.settings, job, None, corpus, holds.hold, who)
            return str(answer.body["id"])

    job = await services.take_in(train)
    services.reconciler.wake.set()
    return JSONResponse({"status": "ok", "job": job}, 201, {"Location": f"/jobs/{job}"})


def _pack(studio: LabelStudio, interface: Interface, found: list[Mapping[str, Any]]) -> bytes:
    """An archive of the sound and the regions of each finished task. Raises InvalidRequest where there is none."""
    out = io.BytesIO()
    count = 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for n, task in enumerate(found):
            segments = tasks.read_finished(interface, task)
            data = task.get("data")
            if not segments or not isinstance(data, dict):
                continue
            name = f"task-{task.get('id') if isinstance(task.get('id'), int) else n}"
            archive.writestr(f"{name}.wav", studio.fetch_sound(data.get(interface.data)))
            regions = [
                {
                    "from_name": interface.control,
                    "value": {"start": s.start, "end": s.end, "labels": [s.label]},
                }
                for s in segments
            ]
            kept = [{"data": {"audio": f"{name}.wav"}, "annotations": [{"result": regions}]}]
            archive.writestr(f"{name}.json", json.dumps(kept, ensure_ascii=False))
            count += 1
    if not count:
        raise InvalidRequest(
            f"expected finished tasks with regions of the control {interface.control!r}, got none in {len(found)} tasks",
            pointer="project",
        )
    return out.getvalue()


def _model_of(params: Mapping[str, Any] | None) -> str:
    """The model that the connection's extra parameters name, else the default."""
    name = (params or {}).get("model")
    return name if isinstance(name, str) and name else "default"
