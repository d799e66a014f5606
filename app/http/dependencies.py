"""What routes ask for, as annotated dependencies. It all hangs on `app.state`: two apps in a process do not meet."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from phonechain.app.http.middleware.keys import Keys
from phonechain.app.jobs.engine import Engine
from phonechain.app.jobs.events import EventStreams
from phonechain.app.labelling.batcher import Batcher
from phonechain.app.models.catalog import Models
from phonechain.app.models.registry import Registry
from phonechain.app.ops.metrics import Metrics
from phonechain.app.ops.readiness import Readiness
from phonechain.app.settings import Settings
from phonechain.app.storage.workspace import Workspace


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.registry
    return registry


def _scorer(request: Request) -> Batcher:
    batcher: Batcher = request.app.state.batcher
    return batcher


def _place(request: Request) -> Workspace:
    workspace: Workspace = request.app.state.workspace
    return workspace


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


def _feed(request: Request) -> EventStreams:
    feed: EventStreams = request.app.state.feed
    return feed


def _keys(request: Request) -> Keys:
    keys: Keys = request.app.state.keys
    return keys


def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


def _readiness(request: Request) -> Readiness:
    readiness: Readiness = request.app.state.readiness
    return readiness


SettingsDep = Annotated[Settings, Depends(_settings)]
RegistryDep = Annotated[Registry, Depends(_registry)]
BatcherDep = Annotated[Batcher, Depends(_scorer)]
WorkspaceDep = Annotated[Workspace, Depends(_place)]
EngineDep = Annotated[Engine, Depends(_engine)]
ModelsDep = Annotated[Models, Depends(_models)]
FeedDep = Annotated[EventStreams, Depends(_feed)]
KeysDep = Annotated[Keys, Depends(_keys)]
MetricsDep = Annotated[Metrics, Depends(_metrics)]
ReadinessDep = Annotated[Readiness, Depends(_readiness)]
