"""Everything that a running service consists of, made once and handed to whoever needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from phonechain.app import samples
from phonechain.app.http.gateway import Keyring
from phonechain.app.jobs.dask_cluster import DaskCluster
from phonechain.app.jobs.events import EventStreams
from phonechain.app.jobs.reconciler import Reconciler
from phonechain.app.jobs.webhooks import WebhookSender
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.batcher import Batcher
from phonechain.app.models.catalog import ModelCatalog, Registry
from phonechain.app.ops.metrics import Gauges, Metrics
from phonechain.app.ops.readiness import Readiness, Shutdown
from phonechain.app.ops.shared import Shared
from phonechain.app.ops.tracing import Tracing
from phonechain.app.settings import Settings
from phonechain.app.storage.workspace import Workspace
from phonechain.features import annotation as notation

P = ParamSpec("P")
R = TypeVar("R")

INTAKE_THREADS = 2
"""Archives that are unpacked at a time; further ones wait."""


@dataclass(frozen=True)
class Services:
    """The parts of a service. They hang on the application's state: two applications in a process do not meet."""

    settings: Settings
    workspace: Workspace
    models: ModelCatalog
    batcher: Batcher
    cluster: DaskCluster
    reconciler: Reconciler
    webhooks: WebhookSender
    streams: EventStreams
    keyring: Keyring
    metrics: Metrics
    gauges: Gauges
    readiness: Readiness
    tracing: Tracing
    shutdown: Shutdown
    shared: Shared
    intake: ThreadPoolExecutor
    """Unpacks and reads what is uploaded: no other request waits for it."""

    @classmethod
    def create(cls, settings: Settings, registry: Registry, tracing: Tracing, shared: Shared) -> Services:
        """The parts, none of them started. Raises SettingsError for addresses that cannot be."""
        workspace = Workspace.from_settings(settings)
        db, _ = workspace.db, workspace.store
        db.migrated = not settings.migrate
        metrics, shutdown = Metrics(shared), Shutdown()
        batcher = Batcher(settings, metrics.count_batch, shared)
        models = ModelCatalog(settings, registry, workspace, shared)
        cluster = DaskCluster(settings, workspace)
        secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret is not None else None
        gauges = Gauges(batcher, models, db)
        metrics.everyone.register(gauges)
        return cls(
            settings=settings,
            workspace=workspace,
            models=models,
            batcher=batcher,
            cluster=cluster,
            reconciler=Reconciler(settings, workspace, cluster, alone=shared.processes == 1),
            webhooks=WebhookSender(db, secret, settings.webhook_private),
            streams=EventStreams(db),
            keyring=Keyring(settings, db, shared),
            metrics=metrics,
            gauges=gauges,
            readiness=Readiness(settings, batcher, db, cluster, shutdown),
            tracing=tracing,
            shutdown=shutdown,
            shared=shared,
            intake=ThreadPoolExecutor(INTAKE_THREADS, "intake"),
        )

    async def take_in(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `work` in the threads for uploads."""
        return await asyncio.get_running_loop().run_in_executor(self.intake, lambda: work(*args, **kwargs))

    async def start(self) -> None:
        """Start the threads, and label the sample with every model: what libraries load or compile on first use is
        done before requests come."""
        await self.batcher.start()
        if self.shared.number == 0:  # of the processes behind one port, one runs the jobs
            self.reconciler.start()
        self.webhooks.start()
        segmentation = notation.read(samples.SEGMENTS.read_bytes(), name=samples.SEGMENTS.name)
        for entry in self.models.registry:
            ready = await self.batcher.run_in_pool(
                0.0, labelling.prepare_utterance, samples.AUDIO, segmentation, entry.labeler.features_
            )
            await self.batcher.label(entry, ready.inputs, ready.segments, n_best=1, decode="posterior")

    def close_door(self) -> None:
        """No new connections are taken from now on: answers tell clients to leave, and event streams end."""
        self.shutdown.begun = self.shutdown.closed = True
        self.streams.close()

    async def stop(self) -> None:
        """Answer what was accepted, leave the jobs to the next service, end the threads."""
        self.close_door()
        await self.batcher.stop()
        self.webhooks.stop()
        await asyncio.to_thread(self.reconciler.stop)
        await asyncio.to_thread(self.tracing.close)
        self.intake.shutdown(wait=False, cancel_futures=True)
        self.gauges.close()
        self.readiness.close()
