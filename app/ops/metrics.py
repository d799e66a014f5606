"""What Prometheus reads at /metrics: counts and sizes of this process, and the jobs of the database.

Labels have few values: routes as templates, methods and problem types from fixed lists, loaded models. Each application
has a registry of its own, so that two in one process do not meet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from phonechain.app.jobs import queries
from phonechain.app.ops.shared import Shared
from phonechain.app.problems.types import TYPES
from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import STATES
from phonechain.app.version import version
from phonechain.features.errors import PhonechainError

if TYPE_CHECKING:
    from phonechain.app.labelling.batcher import Batcher
    from phonechain.app.models.catalog import ModelCatalog

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"
"""The route of requests that no route takes: one value, whatever addresses are tried."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FRESH = 5.0
"""Seconds for which a count of the jobs is good."""
TIMEOUT = 2.0
"""Seconds that a reader of the metrics waits for the database."""


disable_created_metrics()  # a second series for each counter, of which nobody makes use


class Metrics:
    """The counters of one application. Safe to use from every thread.

    Where several processes `shared` a port they are those of all of them, kept in the folder that the environment variable
    PROMETHEUS_MULTIPROC_DIR named when prometheus_client was loaded.
    """

    def __init__(self, shared: Shared | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "phonechain_http_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self.seconds = Histogram(
            "phonechain_http_request_duration_seconds",
            "From the head of a request to the end of its answer, without event streams.",
            ["route", "method"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "phonechain_http_requests_in_flight",
            "Requests being answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.problems = Counter(
            "phonechain_problems", "Problem documents answered, by type.", ["type"], registry=registry
        )
        self.batches = Histogram(
            "phonechain_batch_utterances",
            "Utterances labelled as one batch.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=registry,
        )
        self.batch_segments = Histogram(
            "phonechain_batch_segments",
            "Segments labelled as one batch.",
            buckets=(16, 64, 256, 1024, 4096, 16384),
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "phonechain_batch_duration_seconds", "Time in the model per batch.", buckets=SECONDS, registry=registry
        )
        self.segments = Counter("phonechain_segments_labelled", "Segments labelled for requests.", registry=registry)
        self.audio = Counter(
            "phonechain_audio_decoded_seconds", "Seconds of sound decoded for requests.", registry=registry
        )
        for slug in TYPES:
            self.problems.labels(slug)  # a series that is there from the start shows its first increase
        self.everyone = registry
        """What is shown."""
        if shared is None or shared.processes == 1:
            ProcessCollector(registry=registry)
        else:
            self.everyone = CollectorRegistry()
            MultiProcessCollector(self.everyone)
            self.everyone.register(_Processes(shared))

    def count_batch(self, utterances: int, segments: int, seconds: float) -> None:
        """A batch has been labelled."""
        self.batches.observe(utterances)
        self.batch_segments.observe(segments)
        self.batch_seconds.observe(seconds)

    def count_request(self, route: str, method: str, status: int, seconds: float | None, problem: str | None) -> None:
        """A request has been answered; `seconds` None where its length says nothing."""
        method = method if method in METHODS else "other"
        self.requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self.seconds.labels(route, method).observe(seconds)
        if problem in TYPES:
            self.problems.labels(problem).inc()

    def render(self, accept: str) -> tuple[bytes, str]:
        """(every metric, its media type), in the format that the header `Accept` prefers."""
        encode, media_type = choose_encoder(accept)
        return encode(self.everyone), media_type


class _Processes:
    """What the kernel knows of all processes behind a port: sums, but for the oldest start and the least limit of files."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def collect(self) -> Iterator[Metric]:
        """For the registry of prometheus_client."""
        values: dict[str, list[float]] = {}
        families: dict[str, Metric] = {}
        for pid in (pid for pid in self.shared.pid if pid):
            for family in ProcessCollector(registry=None, pid=partial(int, pid)).collect():
                families[family.name] = family
                values.setdefault(family.name, []).append(family.samples[0].value)
        for name, family in families.items():
            combine = min if name in ("process_start_time_seconds", "process_max_fds") else sum
            family.samples = [family.samples[0]._replace(value=combine(values[name]))]
            yield family

    def describe(self) -> Iterator[Metric]:
        """Nothing is to be collected when this is registered."""
        return iter(())


class Gauges:
    """What is read when asked for: the queue, loaded models, jobs by state."""

    def __init__(self, batcher: Batcher, models: ModelCatalog, db: Database) -> None:
        self.batcher, self.models, self.db = batcher, models, db
        self.jobs: dict[str, int] = {}
        self._read = float("-inf")
        self._reading: asyncio.Future[dict[str, int]] | None = None
        self._pool = ThreadPoolExecutor(1, "metrics")

    async def refresh(self) -> None:
        """Count the jobs again, if that is due. A database that does not answer leaves no counts rather than old ones."""
        if time.monotonic() - self._read < FRESH:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().run_in_executor(self._pool, self._count)
        try:
            self.jobs = await asyncio.wait_for(asyncio.shield(self._reading), TIMEOUT)
            self._read = time.monotonic()
        except (PhonechainError, TimeoutError):
            self.jobs = {}

    def _count(self) -> dict[str, int]:
        counted = dict.fromkeys(STATES, 0)
        if self.db.migrated and self.db.exists:
            counted |= queries.count_by_state(self.db)
        return counted

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def collect(self) -> Iterator[Metric]:
        """For the registry of prometheus_client."""
        yield InfoMetricFamily("phonechain", "The package.", {"version": version()})
        yield InfoMetricFamily(
            "phonechain_device", "Where the models compute.", {"device": self.models.registry.device}
        )
        batcher = self.batcher
        for name, text, value in (
            (
                "queue_limit",
                "Limit on requests in progress.",
                batcher.settings.queue_size,
            ),
            (
                "queue_taken",
                "Requests in progress: being decoded, waiting or being labelled.",
                sum(batcher.shared.in_progress),
            ),
            ("queue_depth", "Utterances that are decoded and wait for a batch.", sum(batcher.shared.waiting)),
        ):
            yield GaugeMetricFamily(f"phonechain_{name}", text, value)
        loaded = GaugeMetricFamily("phonechain_model_loaded", "Models in memory.", labels=["name", "version"])
        for model in sorted({(entry.name, entry.version) for entry in self.models.list_loaded()}):
            loaded.add_metric(model, 1)
        yield loaded
        jobs = GaugeMetricFamily("phonechain_jobs", "Jobs in the database, by state.", labels=["state"])
        for state, count in self.jobs.items():
            jobs.add_metric([state], count)
        yield jobs

    def describe(self) -> Iterator[Metric]:
        """Nothing is to be collected when this is registered."""
        return iter(())
