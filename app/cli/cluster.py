"""`phonechain worker` and `phonechain scheduler`: the processes of a Dask cluster, for PHONECHAIN_SCHEDULER."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.settings import Settings

PAUSE = 1.0
"""Seconds between attempts to reach the scheduler."""


def worker(
    scheduler: Annotated[
        str | None, typer.Argument(help="Address of the scheduler. Default: PHONECHAIN_SCHEDULER.", metavar="ADDRESS")
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Number of worker processes; 0 for one per core.", min=0, max=1024)
    ] = 1,
    gpus: Annotated[int, typer.Option(help="GPUs that each process offers to jobs.", min=0, max=64)] = 0,
    memory: Annotated[
        str, typer.Option(help="Memory at which a process is restarted, such as 3GiB; 0 for no limit.")
    ] = "auto",
    device: Annotated[
        str | None,
        typer.Option(help="Device for its jobs to compute on: auto, cpu, cuda or cuda:N. Default: PHONECHAIN_DEVICE."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address at which the scheduler and other workers reach this one.")
    ] = None,
) -> None:
    """Run jobs for a service, as part of a cluster.

    Connects to the service's scheduler, and reconnects after an outage.
    """
    from phonechain.app import environment
    from phonechain.app.settings import cores

    known = environment.load(scheduler=scheduler, device=device)
    if known.scheduler is None:
        raise SettingsError("no scheduler address: give ADDRESS or set PHONECHAIN_SCHEDULER")
    asyncio.run(_serve(known, processes or cores(), gpus, memory, host))


async def _serve(known: Settings, processes: int, gpus: int, memory: str, host: str | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"joining {known.scheduler} with {processes} worker processes", flush=True)
    async with asyncio.TaskGroup() as group:
        for _ in range(processes):
            group.create_task(_serve_one(known, gpus, memory, host, stop))


async def _serve_one(known: Settings, gpus: int, memory: str, host: str | None, stop: asyncio.Event) -> None:
    from phonechain.app.jobs.dask_cluster import PRELOAD, cluster_security, configure, drop_secrets

    configure()
    drop_secrets()
    from distributed import Nanny

    options: dict[str, Any] = {"host": host} if host is not None else {}
    while not stop.is_set():
        with tempfile.TemporaryDirectory(prefix="phonechain-worker-") as folder:
            nanny = Nanny(
                known.scheduler,
                nthreads=1,
                memory_limit=memory if memory != "0" else 0,
                resources={"GPU": gpus} if gpus else None,
                local_directory=folder,
                preload=[PRELOAD],
                env=_task_environment(known),
                security=cluster_security(known),
                death_timeout=30,
                silence_logs=logging.ERROR,
                **options,
            )
            try:
                await nanny
                waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(nanny.finished())]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in waiting:
                    one.cancel()
            except (Exception, asyncio.CancelledError) as error:  # the next attempt may succeed
                print(
                    f"no connection to the scheduler: {str(error) or type(error).__name__}", file=sys.stderr, flush=True
                )
            finally:
                await _close(nanny)
        if not stop.is_set():
            await asyncio.sleep(PAUSE)


async def _close(nanny: Any) -> None:
    """End a worker process. On a busy machine this may take longer than Dask waits; the next one starts anyway."""
    try:
        await nanny.close(timeout=5)
    except (Exception, asyncio.CancelledError) as error:
        print(
            f"a worker process did not stop in time: {str(error) or type(error).__name__}", file=sys.stderr, flush=True
        )


def _task_environment(known: Settings) -> dict[str, str]:
    """Variables for tasks, which use the database, store and folder of this worker's settings where these are set."""
    from phonechain.app.storage.workspace import OWN

    given = {
        "database": known.database,
        "blobs": known.store,
        "folder": str(known.folder) if known.data is not None else None,
    }
    return {OWN[name]: value for name, value in given.items() if value} | {"PHONECHAIN_DEVICE": known.device}


def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65535)] = 8786,
) -> None:
    """Run the scheduler of a cluster.

    It executes any code that clients send: set PHONECHAIN_TLS_CA, _CERT and _KEY, or keep it on a private network.
    """
    from phonechain.app import environment

    asyncio.run(_schedule(environment.load(), host, port))


async def _schedule(known: Settings, host: str, port: int) -> None:
    from phonechain.app.jobs.dask_cluster import cluster_security, configure

    configure()
    from distributed import Scheduler

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Scheduler(
        host=host, port=port, dashboard=False, dashboard_address="127.0.0.1:0", security=cluster_security(known),
        protocol="tls" if known.tls_ca is not None else None,
    ) as running:  # fmt: skip
        print(f"scheduler at {running.address}", flush=True)
        await stop.wait()
