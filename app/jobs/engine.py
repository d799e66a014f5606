"""The hand-over of jobs to Dask, and the reconciler that makes it safe to lose any part of it.

Every second the unfinished rows are compared with what the scheduler knows under the keys `job-<id>`; what it does not
know is handed over. So a job that was taken survives the end of a worker (Dask runs its task again), of the scheduler
or of the service (their successors find the row). Two services that do the same do no harm: a key that is known is not
run twice, and a task that is run late finds its job ended and does nothing.

With an address, the scheduler is a cluster's. Without one, a cluster of local processes starts with the first job.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url

from phonechain.app.jobs import cleanup, dask_cluster, label, repository, tasks, webhooks
from phonechain.app.jobs.documents import job_to_json
from phonechain.app.problems.errors import DatabaseAway, SchedulerAway
from phonechain.app.settings import Settings
from phonechain.app.storage.migrations import migrate
from phonechain.app.storage.tables import CANCELLED, QUEUED, RUNNING, Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import PhonechainError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

TICK = 1.0
GRACE = 0.6
"""Seconds that a worker has to answer a cancel before the reconciler ends the job; late writes are refused then."""
CONNECT = 10.0
SWEEP = 600.0

log = logging.getLogger(__name__)


class Engine:
    """A thread of the service. `start` returns at once, whatever the database and the scheduler do."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings = settings
        self.place = workspace
        self.migrated = not settings.migrate
        self.away: str | None = None
        """Why the scheduler cannot be reached, as far as known."""
        self._client: Client | None = None
        self._cluster: LocalCluster | None = None
        self._submitted: set[str] = set()
        self._next_sweep = 0.0
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._caller = threading.Thread(target=self._call, name="webhooks", daemon=True)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to reconcile, and to call those who want to know."""
        self._thread.start()
        self._caller.start()

    def stop(self) -> None:
        """Hand the jobs back: the rows stay as they are, and the next service goes on with them."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def nudge(self) -> None:
        """Something has changed: look now."""
        self._wake.set()

    def ready_database(self) -> None:
        """Bring the database up to date, once a process. Raises DatabaseAway, StorageFull."""
        if self.migrated:
            return
        with self._lock:
            if not self.migrated:
                if self.place.db.sqlite:
                    self.place.root.mkdir(parents=True, exist_ok=True)
                migrate.upgrade(self.place.db)
                self.migrated = True

    @property
    def connected(self) -> bool:
        """Whether a scheduler answers now, as far as the connection knows."""
        client = self._client
        return client is not None and client.status == "running"

    def refuse_if_away(self) -> None:
        """Raises SchedulerAway: a job taken now would only wait."""
        if self.away is not None:
            raise SchedulerAway(f"expected the scheduler to answer, got: {self.away}", retry_after=5)

    def _call(self) -> None:
        """Webhooks have a thread of their own: those who are called may take their time."""
        secret = self.settings.webhook_secret.get_secret_value() if self.settings.webhook_secret is not None else None
        while not self._stopping.wait(TICK):
            try:
                for job in webhooks.due(self.place.db) if self.migrated else ():
                    webhooks.deliver(self.place.db, job, job_to_json(job), secret, self.settings.webhook_private)
            except PhonechainError as error:
                log.warning("webhooks wait: %s", error)
            except Exception:
                log.exception("a webhook failed; the others go on")

    def has_database(self) -> bool:
        """False where the database is a file that nobody has made yet: nothing was ever kept here."""
        return not self.place.db.sqlite or Path(make_url(self.place.database).database or "").exists()

    # --------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        if not self.has_database():
            self._wait(None)  # nothing was ever kept here: do not even make a database before somebody asks for it
        while not self._stopping.is_set():
            try:
                pause = self._tick()
            except (DatabaseAway, PhonechainError) as error:
                log.warning("jobs wait: %s", error)
                pause = TICK
            except Exception:
                log.exception("the reconciler failed; it goes on")
                self._drop_client()
                pause = TICK
            self._wait(pause)
        self._close()

    def _wait(self, seconds: float | None) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _tick(self) -> float:
        """Compare once; the seconds until the next time."""
        self.ready_database()
        jobs = repository.unfinished(self.place.db)
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP
            cleanup.sweep(self.place)
        ended = self._submitted - {job.id for job in jobs}
        if self._client is not None and ended:
            self._forget(ended)
        cancelling = any(job.state not in (QUEUED, RUNNING) for job in jobs)
        if cancelling:
            self._submitted -= set(closed := repository.close_cancelled(self.place.db, GRACE))
            self._cancel_tasks(closed)
        waiting = [job for job in jobs if job.state in (QUEUED, RUNNING)]
        if waiting or (self.settings.scheduler is not None and self._client is None):
            client = self._connected()
            if client is not None:
                self._reconcile(client, waiting)
        return 0.15 if cancelling else TICK

    def _reconcile(self, client: Client, jobs: list[Job]) -> None:
        keys = {key_of(job.id): job for job in jobs}
        scheduler: Any = client.scheduler
        known = client.sync(scheduler.get_task_status, keys=list(keys))
        for key, job in keys.items():
            if known.get(key) in (None, "released", "forgotten", "memory", "erred"):
                if known.get(key) is not None:
                    self._cancel_tasks([job.id])  # ended without ending the job: an outage
                if repository.submitting(self.place.db, job, self.settings.job_stalls):
                    self._submit(client, job)

    def _submit(self, client: Client, job: Job) -> None:
        from distributed import fire_and_forget

        given, key = self.place.as_dict(), key_of(job.id)
        options: dict[str, Any] = {"pure": False, "retries": 0}
        resources = job.spec.get("resources") or None
        if job.kind == "label":
            # A later part has a lower priority, so that jobs share the workers by turns.
            parts = [
                client.submit(
                    tasks.run_part, given, job.id, n, key=f"{key}-part-{n}", priority=-n, resources=resources, **options
                )
                for n in range(label.count(job.spec["total"], job.spec["part"]))
            ]
            end = client.submit(tasks.end_label, given, job.id, *parts, key=key, **options)
        else:
            end = client.submit(tasks.run_job, given, job.id, key=key, resources=resources, **options)
        fire_and_forget(end)
        self._submitted.add(job.id)
        log.info("job %s (%s) handed over, for the %d. time", job.id, job.kind, job.submissions + 1)

    def _forget(self, ended: set[str]) -> None:
        """Take what is left of ended jobs off the scheduler: parts of a cancelled one may still wait."""
        with self.place.db.read() as session:
            states = {id: job.state for id in ended if (job := session.get(Job, id)) is not None}
        self._cancel_tasks([id for id in ended if states.get(id) == CANCELLED])
        self._submitted -= ended

    def _cancel_tasks(self, ids: list[str]) -> None:
        if self._client is None or not ids:
            return
        from distributed import Future

        futures: list[Future[Any]] = [Future(key_of(id), client=self._client) for id in ids]
        self._client.cancel(futures, force=True)

    # ------------------------------------------------------------------------------------------------ the connection

    def _connected(self) -> Client | None:
        """A client of the scheduler; None where it cannot be reached now."""
        if self._client is not None and self._client.status == "running":
            return self._client
        self._drop_client()
        dask_cluster.configure()
        from distributed import Client

        try:
            if self.settings.scheduler is not None:
                address, security = self.settings.scheduler, dask_cluster.cluster_security(self.settings)
            else:
                cluster = self._local()
                address, security = cluster.scheduler_address, cluster.security
            self._client = Client(address, security=security, timeout=CONNECT, set_as_default=False, name="phonechain")
        except (OSError, TimeoutError, ValueError) as error:
            self.away = " ".join(str(error).split())[:200] or type(error).__name__
            log.warning("the scheduler does not answer: %s", self.away)
            return None
        self.away = None
        return self._client

    def _local(self) -> LocalCluster:
        """The cluster of local processes, started now if it is not there."""
        if self._cluster is None:
            self._cluster = dask_cluster.start_local(self.settings, self.place.root / "workers")
            log.info("%d worker processes started", len(self._cluster.workers))
        return self._cluster

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        self._submitted.clear()
        if client is not None:
            try:
                client.close(timeout=2)
            except Exception as error:  # it is gone either way
                log.debug("closing the client: %s", error)

    def _close(self) -> None:
        began = time.monotonic()
        self._drop_client()
        if self._cluster is not None:
            try:
                self._cluster.close(timeout=10)
            except Exception as error:
                log.warning("closing the workers: %s", error)
        self.place.db.dispose()
        log.info("jobs handed back in %.1f s", time.monotonic() - began)


def key_of(id: str) -> str:
    """The key of a job's last task: its state stands for the whole job."""
    return f"job-{id}"
