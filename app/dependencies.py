"""What routes ask for, as annotated dependencies. It all hangs on `app.state`: two apps in a process do not meet."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from app.registry import Registry
from app.scoring import Scorer
from app.settings import Settings


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.registry
    return registry


def _scorer(request: Request) -> Scorer:
    scorer: Scorer = request.app.state.scorer
    return scorer


SettingsDep = Annotated[Settings, Depends(_settings)]
RegistryDep = Annotated[Registry, Depends(_registry)]
ScorerDep = Annotated[Scorer, Depends(_scorer)]
