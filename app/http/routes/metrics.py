"""`GET /metrics`, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from phonechain.app.http.dependencies import ServicesDep

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            }
        }
    },
)
async def metrics(request: Request, services: ServicesDep) -> Response:
    """In Prometheus's text format, or as OpenMetrics if `Accept` prefers it."""
    await services.gauges.refresh()
    body, media_type = services.metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": media_type, "Cache-Control": "no-store"})
