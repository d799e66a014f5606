"""Liveness and readiness, for monitoring the service."""

from __future__ import annotations

from fastapi import APIRouter

from phonechain.app.http.dependencies import ServicesDep
from phonechain.app.ops.readiness import READY
from phonechain.app.problems.errors import NotReady
from phonechain.app.schemas.health import Live, Ready
from phonechain.app.schemas.problems import Problem

router = APIRouter(prefix="/health", tags=["health"])


@router.head("/live", include_in_schema=False)
@router.get("/live", summary="Whether the process is alive")
async def live() -> Live:
    """Answers while the process responds. If this fails, restart the service."""
    return Live()


@router.head("/ready", include_in_schema=False)
@router.get("/ready", summary="Whether the service accepts requests", responses={503: {"model": Problem}})
async def ready(services: ServicesDep) -> Ready:
    """Answers 200 while models are loaded, the database responds and the scheduler can be reached; otherwise 503, with the
    causes in `parts`. If this fails, send requests elsewhere."""
    batcher = services.batcher
    parts = await services.readiness.parts()
    wrong = [f"{part}: {state}" for part, state in parts.items() if state != READY]
    if wrong:
        raise NotReady("; ".join(wrong), retry_after=batcher.settings.retry_after, details={"parts": parts})
    return Ready(
        models=[entry.name for entry in services.models.registry],
        device=services.models.registry.device,
        precision=services.settings.precision,
        requests=sum(batcher.shared.in_progress),
        limit=batcher.settings.queue_size,
        parts=parts,
    )
