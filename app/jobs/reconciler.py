"""The reconciler, which makes it safe to lose any part of the service while jobs run.

Every second the unfinished rows are compared with what the scheduler knows under the keys `job-<id>`; what it does not
know is submitted. So an accepted job survives the end of a worker (Dask runs its task again), of the scheduler or of the
service (their successors find the row). Services that share a scheduler do no harm: a key that is known is not run twice,
and a task that is run late finds its job ended and does nothing. Of services with schedulers of their own on one
database, one has the lease and the others wait (app/jobs/lease.py).
"""

from __future__ import annotations

import logging
import threading
import time

from phonechain.app.jobs import cleanup, queries, repository
from phonechain.app.jobs.dask_cluster import DaskCluster
from phonechain.app.jobs.lease import JobLease
from phonechain.app.settings import Settings
from phonechain.app.storage.tables import CANCELLED, QUEUED, RUNNING, Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import PhonechainError

TICK = 1.0
"""Seconds between two looks."""
CANCEL_TICK = 0.15
"""The same while a cancel waits for its worker."""
GRACE = 0.6
"""Seconds that a worker has to answer a cancel before the reconciler ends the job; late writes are refused then."""
SWEEP = 600.0
"""Seconds between two looks for what killed processes left behind."""

log = logging.getLogger(__name__)


class Reconciler:
    """A thread of the service. `start` returns at once, whatever the database and the scheduler do."""

    def __init__(self, settings: Settings, workspace: Workspace, cluster: DaskCluster, alone: bool = True) -> None:
        self.settings, self.workspace, self.cluster = settings, workspace, cluster
        self.wake = threading.Event()
        """Set it where something has changed, so that it is looked at now."""
        self._alone = alone
        """Whether nobody beside this process takes jobs: then `wake` is all that there is to wait for."""
        self.lease = JobLease(settings, workspace.db)
        self._waiting = False
        self._submitted: set[str] = set()
        self._next_sweep = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin to reconcile."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the jobs: the rows stay as they are, and the next service goes on with them."""
        self._stopping.set()
        self.wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def _run(self) -> None:
        while not self.workspace.db.exists and not self._stopping.is_set():
            self._wait(
                None if self._alone else TICK
            )  # nothing was ever kept here: do not even make a database before somebody asks for it
        while not self._stopping.is_set():
            try:
                pause = self._tick()
            except PhonechainError as error:
                log.warning("jobs are waiting: %s", error)
                pause = TICK
            except Exception:
                log.exception("error in the reconciler; it continues")
                self._disconnect()
                pause = TICK
            self._wait(pause)
        began = time.monotonic()
        self.cluster.close()
        self._release()
        self.lease.close()
        self.workspace.db.dispose()
        log.info("job control released in %.1f s", time.monotonic() - began)

    def _wait(self, seconds: float | None) -> None:
        self.wake.wait(seconds)
        self.wake.clear()

    def _tick(self) -> float:
        """Compare once; the seconds until the next time."""
        db = self.workspace.db
        db.migrate()
        jobs = queries.list_unfinished(db)
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP
            cleanup.retire(self.workspace, self.settings)
            cleanup.sweep(self.workspace)
        self._cancel_leftovers(self._submitted - {job.id for job in jobs})
        cancelling = any(job.state not in (QUEUED, RUNNING) for job in jobs)
        if cancelling:
            closed = repository.close_cancelled(db, GRACE)
            self._submitted -= set(closed)
            self.cluster.cancel(closed)
        if self.cluster.renew(idle=not jobs):
            self._submitted.clear()
        waiting = [job for job in jobs if job.state in (QUEUED, RUNNING)]
        if waiting or (self.settings.scheduler is not None and not self.cluster.connected):
            if not self.cluster.connected:
                self._submitted.clear()
            # Asked again after the start of worker processes, which may outlast a lease.
            if self._leads() and self.cluster.connect() and self._leads():
                self._reconcile(waiting)
        elif not jobs:
            self._release()
        return CANCEL_TICK if cancelling else TICK

    def _leads(self) -> bool:
        """Whether this service's cluster runs the jobs."""
        led, leads = self.lease.held, self.lease.take()
        if led and not leads:
            log.warning("lost the lease on jobs: stopping this service's workers")
            self._submitted.clear()
            self.cluster.close()
        if leads == self._waiting:
            log.info("running jobs" if leads else "another service with this database runs the jobs")
            self._waiting = not leads
        return leads

    def _release(self) -> None:
        try:
            self.lease.release()
        except PhonechainError as error:
            log.warning("could not release the lease on jobs; it will expire: %s", error)

    def _reconcile(self, jobs: list[Job]) -> None:
        states = self.cluster.states(job.id for job in jobs)
        for job in jobs:
            if states[job.id] in (None, "released", "forgotten", "memory", "erred"):
                if states[job.id] is not None:
                    self.cluster.cancel([job.id])  # ended without ending the job: an outage
                if repository.count_submission(self.workspace.db, job, self.settings.job_stalls):
                    self.cluster.submit(job)
                    self._submitted.add(job.id)
                    log.info("job %s (%s) submitted (attempt %d)", job.id, job.kind, job.submissions + 1)

    def _cancel_leftovers(self, ended: set[str]) -> None:
        """Take what is left of ended jobs off the scheduler: parts of a cancelled one may still wait."""
        if not ended or not self.cluster.connected:
            return
        with self.workspace.db.read() as session:
            states = {id: job.state for id in ended if (job := session.get(Job, id)) is not None}
        self.cluster.cancel(id for id in ended if states.get(id) == CANCELLED)
        self._submitted -= ended

    def _disconnect(self) -> None:
        self.cluster.disconnect()
        self._submitted.clear()
