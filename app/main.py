"""The service: `create_app` puts routes, limits, errors and the batcher together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from phonechain.app import samples
from phonechain.app.http import openapi
from phonechain.app.http.middleware.access import Access
from phonechain.app.http.middleware.keys import KeyGate, Keys
from phonechain.app.http.middleware.limits import BodyLimit, RequestId
from phonechain.app.http.middleware.rates import RateLimit
from phonechain.app.http.routes import classify, corpora, health, jobs, models, page, reviews
from phonechain.app.http.routes import keys as keys_of
from phonechain.app.http.routes import metrics as metrics_page
from phonechain.app.http.routes import problems as problem_pages
from phonechain.app.jobs.engine import Engine
from phonechain.app.jobs.events import EventStreams
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.batcher import Batcher
from phonechain.app.models.catalog import Models
from phonechain.app.models.registry import Registry
from phonechain.app.ops.metrics import Metrics, Now
from phonechain.app.ops.readiness import Readiness
from phonechain.app.ops.tracing import Tracing
from phonechain.app.problems import documents as problems
from phonechain.app.settings import Settings, load
from phonechain.app.storage.workspace import Workspace
from phonechain.app.version import version
from phonechain.features import annotation as notation


def create_app(
    settings: Settings | None = None, registry: Registry | None = None, tracing: Tracing | None = None
) -> FastAPI:
    """The application. Settings and tracing come from the environment and models from the settings, unless given.

    Raises:
        SettingsError, ModelFileError: the service cannot start; one line says why.
    """
    settings = settings if settings is not None else load()
    registry = registry if registry is not None else Registry.load(settings)
    tracing = tracing if tracing is not None else Tracing.from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await app.state.batcher.start()
        engine.start()
        await warm(app.state.batcher, registry)
        yield
        readiness.stopping = True
        app.state.feed.close()
        await app.state.batcher.stop()
        await asyncio.to_thread(engine.stop)
        await asyncio.to_thread(tracing.close)
        now.close()
        readiness.close()

    # FastAPI's own pages load their scripts from elsewhere.
    app = FastAPI(
        title="Phonechain",
        version=version(),
        summary=openapi.SUMMARY,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.registry = registry
    app.state.stopping = False
    metrics = app.state.metrics = Metrics()
    app.state.batcher = Batcher(settings, metrics.count_batch)
    workspace = app.state.workspace = Workspace.of(settings)
    _ = workspace.db, workspace.store  # addresses that cannot be are refused now, not by the first request
    engine = app.state.engine = Engine(settings, workspace)
    app.state.models = Models(settings, registry, workspace, engine)
    app.state.feed = EventStreams(workspace.db)
    keys = app.state.keys = Keys(settings, workspace, engine)
    readiness = app.state.readiness = Readiness(settings, app.state.batcher, engine)
    now = app.state.now = Now(app.state.batcher, app.state.models, engine)
    metrics.registry.register(now)
    # The last one added is the outermost: every answer has an id, also that of a refused body.
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes, uploads=settings.max_upload_bytes)
    if settings.rate_limit:
        app.add_middleware(RateLimit, limit=settings.rate_limit)
    app.add_middleware(KeyGate, keys=keys)
    app.add_middleware(Access, metrics=metrics, tracing=tracing)
    app.add_middleware(RequestId)
    problems.install(app)
    for router in (
        classify.router, models.router, models.aliases, corpora.router, jobs.router, reviews.router, keys_of.router, health.router,
        problem_pages.router, page.router, *([metrics_page.router] if settings.metrics != "off" else []),
    ):  # fmt: skip
        app.include_router(router)
    openapi.serve_page(app)
    openapi.install(app)
    return app


async def warm(batcher: Batcher, registry: Registry) -> None:
    """Label the sample with every model: what libraries load or compile on first use is done before requests come."""
    segmentation = notation.read(samples.SEGMENTS.read_bytes(), name=samples.SEGMENTS.name)
    for entry in registry:
        ready = await batcher.in_pool(labelling.prepare_utterance, samples.AUDIO, segmentation, entry.labeler.features_)
        await batcher.label(entry, ready.features, ready.segments, n_best=1, decode="posterior")
