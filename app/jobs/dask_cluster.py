"""Dask as this package uses it: its configuration, its TLS, and the cluster of worker processes that a service starts.

A Dask scheduler runs whatever code its clients send. The service's own cluster therefore speaks TLS only, with
certificates made at each start and held in memory: another process of the machine can connect to the port, but neither
scheduler nor workers take anything from it. A cluster of several machines does the same with the certificates that
PHONECHAIN_TLS_CA, PHONECHAIN_TLS_CERT and PHONECHAIN_TLS_KEY name.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.settings import SECRETS, Settings, cores, variable

if TYPE_CHECKING:
    from distributed import LocalCluster
    from distributed.security import Security

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
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "MALLOC_TRIM_THRESHOLD_": 65536,
    },
}
"""Dask's configuration, wherever this package starts a part of it."""


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
        env=without_secrets(),
    )


def without_secrets() -> dict[str, Any]:
    """Changes to a worker's environment: what only the service needs is emptied there.

    The database's URL goes to a task with the task; the credentials of a store stay, since workers read and write it.
    """
    names = [variable(field) for field in SECRETS]
    return dict.fromkeys([*names, *(f"{name}_FILE" for name in names)], "")
