"""From what was asked for to a row: names made definite, settings checked, the first answer kept for its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from phonechain.app.alignment.transcripts import pronouncer_of
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora import splits
from phonechain.app.jobs import repository, train, webhooks
from phonechain.app.models.catalog import ModelCatalog
from phonechain.app.problems.errors import InvalidRequest, JobGone, KeyReused
from phonechain.app.schemas.jobs import AlignJob, EvaluateJob, LabelJob, RecognizeJob, TrainJob
from phonechain.app.settings import Settings
from phonechain.app.storage import quotas
from phonechain.app.storage.database import Database
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import Corpus, Job, Replay
from phonechain.features.errors import SettingsError
from phonechain.features.words import dictionary as dictionaries

AnyJob = TrainJob | LabelJob | EvaluateJob | RecognizeJob


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered: status 202, and whether it was answered before."""

    body: dict[str, Any]
    replayed: bool


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits: the id of an API key, empty where none are in use, and whose corpora it sees (None: everybody's)."""

    id: str
    sees: str | None


@dataclass(frozen=True, slots=True)
class Key:
    """An Idempotency-Key, within what may use it, with the digest of its request."""

    scope: str
    key: str
    body: str


def digest_of(*parts: Any) -> str:
    """The same for the same request, whatever the order of its members."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def spec_of(
    asked: AnyJob, corpus: Corpus, models: ModelCatalog, settings: Settings,
    hold: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """Everything that the workers need to know, fixed at this moment: a retry must not meet another model.

    Raises:
        UnknownModel, SettingsError, InvalidRequest.
    """
    common = {"corpus": corpus.id, "corpus_name": corpus.name, "resources": asked.resources}
    if isinstance(asked, RecognizeJob):  # or AlignJob, which is one
        return {**common, **_align_spec(asked, corpus, models, settings, hold)}
    _check_segments(corpus, asked.kind)
    if isinstance(asked, TrainJob):
        splits.check(corpus.splits, split=asked.split, dev=asked.dev)
        return {**common, **_train_spec(asked, models, hold)}
    common["model"] = models.resolve(asked.model, hold).reference()
    if isinstance(asked, EvaluateJob):
        splits.check(corpus.splits, split=asked.split)
        options = {"decode": asked.decode, "map": asked.map}
        return {**common, "split": asked.split, "drop": asked.drop, "options": options}
    if isinstance(asked, LabelJob):
        options, parts = _label_options(asked, corpus, settings), _count_parts(corpus, settings)
        return {**common, "options": options, **parts, "whole_speakers": not asked.all_speakers}
    assert_never(asked)


def _label_options(asked: LabelJob, corpus: Corpus, settings: Settings) -> dict[str, Any]:
    """Raises InvalidRequest."""
    _check_numbers(asked, settings.max_n_best)
    return {
        "tier": asked.tier if asked.tier is not None else corpus.options.get("tier"),
        "fix": asked.fix or bool(corpus.options.get("fix")),
        "on_bad_segment": asked.on_bad_segment or corpus.options.get("on_bad_segment") or "refuse",
        "entropy": asked.entropy or asked.sequences > 0,
        **asked.model_dump(
            include={
                "channel", "n_best", "decode", "normalise", "gaps", "max_gap", "formats", "map", "all_speakers", "sequences",
                "words", "hidden",
            }
        ),
        "precision": asked.precision or settings.precision,
        "max_seconds": settings.max_audio_seconds,
        "max_segments": settings.max_segments,
    }  # fmt: skip


def _check_numbers(asked: LabelJob, limit: int) -> None:
    """Raises InvalidRequest for more labels or sequences than may be asked for, and for two ways to choose a tier."""
    for name, what in (("n_best", "labels"), ("sequences", "sequences")):
        if (value := getattr(asked, name)) > limit:
            raise InvalidRequest(
                f"{name}: expected at most {limit} {what}, got {value}", pointer=name, value=value, limit=limit
            )
    if asked.all_speakers:
        asked.refuse_tier(asked.tier)


def _count_parts(corpus: Corpus, settings: Settings) -> dict[str, int]:
    part = settings.shard_files
    return {"total": corpus.utterances, "part": part, "parts": -(-corpus.utterances // part)}


def _check_segments(corpus: Corpus, kind: str) -> None:
    """Raises InvalidRequest for a corpus whose recordings have no segments."""
    if (holds := corpus.options.get("holds") or "segments") != "segments":
        raise InvalidRequest(
            f"a job of kind {kind} needs a corpus of segments; this one was added with holds={holds}: align or recognise it "
            "first",
            pointer="corpus", value=holds,
        )  # fmt: skip


def _align_spec(
    asked: RecognizeJob, corpus: Corpus, models: ModelCatalog, settings: Settings, hold: Callable[[str], None]
) -> dict[str, Any]:
    """Raises InvalidRequest, SettingsError, AnnotationSyntaxError."""
    options: dict[str, Any] = {
        "formats": asked.formats, "channel": asked.channel, "max_seconds": settings.max_audio_seconds,
    }  # fmt: skip
    spec: dict[str, Any] = {"options": options, **_count_parts(corpus, settings)}
    holds = corpus.options.get("holds") or "segments"
    if isinstance(asked, AlignJob):
        if holds == "sound" or (asked.refine and holds != "segments"):
            wanted = "segments" if asked.refine else "transcripts or segments"
            raise InvalidRequest(
                f"expected a corpus of {wanted} to align, got one that was added with holds={holds}",
                pointer="corpus", value=holds,
            )  # fmt: skip
        options |= asked.model_dump(include={"refine", "spread", "phones", "language", "oov"})
        options["tier"] = asked.tier if asked.tier is not None else corpus.options.get("tier")
        own = None
        if asked.dictionary is not None:
            data = asked.dictionary.encode("utf-8", "surrogatepass")
            own = dictionaries.read(data, name="the dictionary")
            with models.workspace.with_claim(hold).store.writing() as file:
                file.write(data)
            spec["dictionary"] = {"blob": file.digest, "words": len(own)}
        pronouncer_of(own, language=asked.language, phones=asked.phones, oov=asked.oov)
    if asked.label_with is not None:
        spec["labelling"] = models.resolve(asked.label_with, hold).reference()
    return {**spec, "model": models.resolve(asked.model, hold, "alignment").reference()}


def _train_spec(asked: TrainJob, models: ModelCatalog, hold: Callable[[str], None]) -> dict[str, Any]:
    spec = asked.model_dump(exclude={"corpus", "kind", "resources", "webhook", "base", "teacher"})
    from phonechain.model import presets, settings

    if asked.fold and asked.base is None:
        raise InvalidRequest(
            "fold: expected base, the model whose spelling to use, got none", pointer="fold", value=True
        )
    if asked.base is not None:
        base = models.resolve(asked.base, hold)
        stored = base.header().model
        spec["base"] = base.reference()
        spec["drop"] = asked.drop or list(stored.get("drop") or ())
    if asked.base is not None and asked.preset != presets.AUTO:
        spec["preset"] = stored["preset"] if stored["preset"] in presets.preset_names() else asked.preset
        spec["model_settings"] = asked.model_settings or settings.to_dict(settings.stored_model(stored["model"]))
        spec["training"] = {**stored["training"], **(asked.training or {})}
    if asked.teacher is not None:
        if asked.base is not None or asked.preset == presets.AUTO:
            raise InvalidRequest(
                "expected a teacher without a base, and a preset other than auto",
                pointer="teacher",
                value=asked.teacher,
            )
        spec["teacher"] = models.resolve(asked.teacher, hold).reference()
    try:
        train.settings_of(spec)
    except SettingsError as error:
        raise InvalidRequest(str(error), pointer=error.pointer, value=error.value, limit=error.limit) from None
    return spec


def create(
    db: Database, models: ModelCatalog, settings: Settings, asked: AnyJob, key: Key | None,
    corpus: Corpus | None, hold: Callable[[str], None], submitter: Submitter,
) -> Answer:  # fmt: skip
    """Add a job, or answer what was answered to its key before. `corpus` came with the request and is new; `hold` keeps
    the model's file until the job's row names it.

    Raises:
        UnknownCorpus, UnknownModel, KeyReused, JobGone, InvalidRequest, WebhookRefused, Overloaded, QuotaExceeded.
    """
    with db.read() as session:
        if key is not None and (known := _find_replay(session, key)) is not None:
            return known
        used = corpus if corpus is not None else corpora.get(session, asked.corpus, submitter.sees)
    if asked.webhook is not None:
        webhooks.check(asked.webhook, settings.webhook_private)
    spec = spec_of(asked, used, models, settings, hold)
    job = Job(id=new_id(), kind=asked.kind, spec=spec, webhook=asked.webhook, owner=submitter.id)
    try:
        with db.write() as session:
            quotas.check_jobs(session, settings, submitter.id)
            quotas.check_bytes(session, settings, submitter.id, corpus.bytes if corpus is not None else 0)
            if corpus is not None:
                corpus.owner = submitter.id
                session.add(corpus)
            else:
                corpora.get(session, used.id)  # nobody has deleted it meanwhile
            body = repository.job_to_json(repository.add(session, job))
            if key is not None:
                session.add(Replay(scope=key.scope, key=key.key, body=key.body, status=202, location="", answer=body))
    except IntegrityError:  # the same key, at the same time
        with db.read() as session:
            if key is not None and (known := _find_replay(session, key)) is not None:
                return known
        raise
    return Answer(body, False)


def _find_replay(session: Session, key: Key) -> Answer | None:
    row = session.get(Replay, (key.scope, key.key))
    if row is None:
        return None
    if row.body != key.body:
        raise KeyReused("this Idempotency-Key was already used for a different request")
    id = row.answer["id"]
    if session.get(Job, id) is None:
        raise JobGone(
            f"this Idempotency-Key started job {id}, which has since been deleted; use a new key to start another",
            value=id,
        )
    return Answer(row.answer, True)
