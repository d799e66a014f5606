"""Dask as this package uses it: its configuration, its TLS, and the cluster of worker processes that a service starts.

A Dask scheduler runs whatever code its clients send. The service's own cluster therefore speaks TLS only, with
certificates made at each start and held in memory: another process of the machine can connect to the port, but neither
scheduler nor workers take anything from it. A cluster of several machines does the same with the certificates that
PHONECHAIN_TLS_CA, PHONECHAIN_TLS_CERT and PHONECHAIN_TLS_KEY name.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.jobs import tasks
from phonechain.app.settings import SECRETS, Settings, cores, variable
from phonechain.app.storage.tables import SPLIT, Job
from phonechain.app.storage.workspace import Workspace

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster
    from distributed.security import Security

CONNECT = 10.0
"""Seconds that a scheduler has to answer."""

RENEW_IDLE = 30 * 24 * 3600.0
RENEW = 300 * 24 * 3600.0
"""Age in seconds at which the service's own worker processes are ended, without jobs and with: the next have certificates of
their own. A certificate is good for 365 days, and unfinished jobs go on where they were."""

PRELOAD = "phonechain.app.jobs.preload"
"""The module that workers load when they start."""

CONFIG = {
    "distributed.worker.multiprocessing-method": "spawn",  # a fork of a process with threads may hang
    "distributed.scheduler.allowed-failures": 10,  # times that a task may lose its worker; job_stalls counts after that
    "distributed.worker.daemon": True,
    "logging": {"distributed": "error", "distributed.client": "critical"},
    "distributed.admin.tick.limit": "30s",
    # A worker keeps an hour of call stacks otherwise, one tree a second: 110 MiB in the 25 minutes of a long job.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.log-length": 120,  # samples at half a second
    # Their pages over HTTP, on ports of their own and without a key, name jobs and functions.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "MALLOC_TRIM_THRESHOLD_": 65536,
    },
}
"""Dask's configuration, wherever this package starts a part of it."""


log = logging.getLogger(__name__)


class DaskCluster:
    """The service's connection to its scheduler: a cluster's, or that of its own worker processes, which start with the
    first job. Used by one thread, but for `away` and `connected`.
    """

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings, self.workspace = settings, workspace
        self.away: str | None = None
        """Why the scheduler cannot be reached, as far as known."""
        self._client: Client | None = None
        self._local: LocalCluster | None = None
        self._local_since = 0.0

    @property
    def connected(self) -> bool:
        """Whether a scheduler answers now, as far as the connection knows."""
        client = self._client
        return client is not None and client.status == "running"

    def connect(self) -> bool:
        """Connect where there is no connection; False where the scheduler cannot be reached now."""
        if self.connected:
            return True
        self.disconnect()
        configure()
        from distributed import Client

        try:
            if self.settings.scheduler is not None:
                address, security = self.settings.scheduler, cluster_security(self.settings)
            else:
                if self._local is None:
                    self._local = start_local(self.settings, self.workspace.root / "workers")
                    self._local_since = time.monotonic()
                    log.info("%d worker processes started", len(self._local.workers))
                address, security = self._local.scheduler_address, self._local.security
            self._client = Client(address, security=security, timeout=CONNECT, set_as_default=False, name="phonechain")
        except (OSError, TimeoutError, ValueError) as error:
            self.away = " ".join(str(error).split())[:200] or type(error).__name__
            log.warning("the scheduler does not respond: %s", self.away)
            return False
        self.away = None
        return True

    def states(self, ids: Iterable[str]) -> dict[str, str | None]:
        """For each job the state of its task on the scheduler; None where that does not know it."""
        assert self._client is not None
        keys = {task_key(id): id for id in ids}
        scheduler: Any = self._client.scheduler
        known = self._client.sync(scheduler.get_task_status, keys=list(keys))
        return {id: known.get(key) for key, id in keys.items()}

    def submit(self, job: Job) -> None:
        """Hand a job to the scheduler."""
        from distributed import fire_and_forget

        assert self._client is not None
        client = self._client
        given, key = self.workspace.as_dict(), task_key(job.id)
        options: dict[str, Any] = {"pure": False, "retries": 0}
        resources = job.spec.get("resources") or None
        if job.kind in SPLIT:
            measured = None
            if job.spec.get("whole_speakers"):
                measures = self._submit_parts(job, "measure", tasks.measure_part)
                measured = client.submit(tasks.merge_measures, *measures, key=f"{key}-measures", **options)
            parts = self._submit_parts(job, "part", tasks.run_part, measured)
            end = client.submit(tasks.end_parts, given, job.id, *parts, key=key, **options)
        else:
            end = client.submit(tasks.run_job, given, job.id, key=key, resources=resources, **options)
        fire_and_forget(end)

    def _submit_parts(self, job: Job, name: str, task: Callable[..., Any], *more: Any) -> list[Future[Any]]:
        """A task for each part; a later one has a lower priority, so that jobs share the workers by turns."""
        assert self._client is not None
        given, key = self.workspace.as_dict(), f"{task_key(job.id)}-{name}"
        options: dict[str, Any] = {"pure": False, "retries": 0, "resources": job.spec.get("resources") or None}
        return [
            self._client.submit(task, given, job.id, n, *more, key=f"{key}-{n}", priority=-n, **options)
            for n in range(job.spec["parts"])
        ]

    def cancel(self, ids: Iterable[str]) -> None:
        """Take the tasks of these jobs off the scheduler."""
        if self._client is None:
            return
        from distributed import Future

        futures: list[Future[Any]] = [Future(task_key(id), client=self._client) for id in ids]
        if futures:
            self._client.cancel(futures, force=True)

    def renew(self, *, idle: bool) -> bool:
        """End worker processes whose certificates are old; `connect` starts others. Whether that was done."""
        if self._local is None or time.monotonic() - self._local_since < (RENEW_IDLE if idle else RENEW):
            return False
        log.info("restarting worker processes to renew their certificates")
        self.close()
        return True

    def disconnect(self) -> None:
        """Close the connection; worker processes go on."""
        client, self._client = self._client, None
        if client is not None:
            try:
                client.close(timeout=2)
            except Exception as error:  # it is gone either way
                log.debug("closing the client: %s", error)

    def close(self) -> None:
        """Close the connection and end the worker processes; `connect` starts new ones."""
        self.disconnect()
        local, self._local = self._local, None
        if local is not None:
            try:
                local.close(timeout=10)
            except Exception as error:
                log.warning("error while closing the workers: %s", error)


def task_key(id: str) -> str:
    """The key of a job's last task: its state stands for the whole job."""
    return f"job-{id}"


def configure() -> None:
    """Set `CONFIG`; call it before `distributed` is imported, which reads the settings of its logs then."""
    import dask

    dask.config.set(CONFIG)


def cluster_security(settings: Settings) -> Security:
    """The TLS of a cluster with an address: the settings' certificates, else what Dask's own configuration says."""
    from distributed.security import Security

    if settings.tls_ca is None:
        return Security()
    ca, cert, key = str(settings.tls_ca), str(settings.tls_cert), str(settings.tls_key)
    return Security(
        require_encryption=True, tls_ca_file=ca,
        tls_client_cert=cert, tls_client_key=key,
        tls_scheduler_cert=cert, tls_scheduler_key=key,
        tls_worker_cert=cert, tls_worker_key=key,
    )  # fmt: skip


def start_local(settings: Settings, scratch: Path) -> LocalCluster:
    """Worker processes on this machine, one thread each. They end when this process does, however it does.

    `scratch` is a folder for what Dask spills. `cluster.security` is the only way in.
    """
    configure()
    drop_secrets()
    from distributed import LocalCluster
    from distributed.security import Security

    scratch.mkdir(parents=True, exist_ok=True)
    return LocalCluster(
        n_workers=settings.workers or cores(),
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://",
        security=Security.temporary(),
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        memory_limit=settings.worker_memory if settings.worker_memory != "0" else 0,
        local_directory=str(scratch),
        silence_logs=logging.ERROR,
        preload=[PRELOAD],
    )


def drop_secrets() -> None:
    """Remove the settings' secrets, which have been read, from the environment of this process.

    Workers begin with a copy of it, which /proc shows for as long as they live: what Dask changes in a worker's environment, it
    changes after that. The database's URL goes to a task with the task; the credentials of a store stay, since workers
    read and write it.
    """
    for name in map(variable, SECRETS):
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)
