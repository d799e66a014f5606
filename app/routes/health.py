"""Liveness and readiness, for whoever supervises the service."""

from __future__ import annotations

from fastapi import APIRouter

from app.dependencies import RegistryDep, ScorerDep
from app.errors import NotReady
from app.schemas.health import Live, Ready
from app.schemas.problems import Problem

router = APIRouter(prefix="/health", tags=["health"])


@router.get("/live", summary="Is the process alive")
async def live() -> Live:
    """Answers while the event loop turns. If this fails, restart the service."""
    return Live()


@router.get("/ready", summary="Does it take requests", responses={503: {"model": Problem}})
async def ready(registry: RegistryDep, scorer: ScorerDep) -> Ready:
    """Answers 200 while requests are taken, 503 while it starts or stops. If it fails, send requests elsewhere."""
    if not scorer.ready:
        raise NotReady("the service is starting or stopping", retry_after=scorer.settings.retry_after)
    return Ready(models=[entry.name for entry in registry], requests=scorer.taken, limit=scorer.settings.queue_size)
