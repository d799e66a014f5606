"""The service: `create_app` puts its parts, the gateway and the routes together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from phonechain.app.environment import load
from phonechain.app.http import openapi
from phonechain.app.http.gateway import Gateway
from phonechain.app.http.routes import (
    align,
    classify,
    contents,
    corpora,
    guide,
    health,
    jobs,
    keys,
    label_studio,
    metrics,
    models,
    page,
    review_bundles,
    review_files,
    reviews,
)
from phonechain.app.http.routes import problems as problem_pages
from phonechain.app.models.catalog import Registry
from phonechain.app.ops.shared import Shared
from phonechain.app.ops.tracing import Tracing
from phonechain.app.problems import documents as problems
from phonechain.app.services import Services
from phonechain.app.settings import Settings
from phonechain.app.version import version


def create_app(
    settings: Settings | None = None,
    registry: Registry | None = None,
    tracing: Tracing | None = None,
    shared: Shared | None = None,
) -> FastAPI:
    """The application. Settings and tracing come from the environment and models from the settings, unless given.

    `shared` is what it counts together with other processes behind the same port.

    Raises:
        SettingsError, ModelFileError: the service cannot start; one line says why.
    """
    settings = settings if settings is not None else load()
    services = Services.create(
        settings,
        registry if registry is not None else Registry.load(settings),
        tracing if tracing is not None else Tracing.from_environment(),
        shared or Shared(),
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await services.start()
        yield
        await services.stop()

    # FastAPI's own pages load their scripts from elsewhere.
    app = FastAPI(
        title="Phonechain",
        version=version(),
        summary=openapi.SUMMARY,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    app.add_middleware(
        Gateway,
        settings=settings,
        keyring=services.keyring,
        metrics=services.metrics,
        tracing=services.tracing,
        shutdown=services.shutdown,
        shared=services.shared,
    )
    if settings.cors_origins:  # outermost: refusals of the gateway can be read by those pages too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Request-ID"),
            expose_headers=openapi.RESPONSE_HEADERS,
        )
    problems.install(app)
    routers = [
        classify.router, align.router, models.router, models.aliases, corpora.router, contents.corpora, contents.presets,
        jobs.router, contents.evaluations, reviews.router, review_files.router, review_bundles.router, label_studio.router,
        keys.router, health.router, problem_pages.router, page.router, guide.router,
    ]  # fmt: skip
    if settings.metrics != "off":
        routers.append(metrics.router)
    for router in routers:
        app.include_router(router)
    openapi.serve_page(app)
    openapi.install(app)
    return app
