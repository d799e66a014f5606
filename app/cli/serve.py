"""`phonechain serve`: the HTTP service in the foreground."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.settings import Settings

MOST_PROCESSES = 4
"""That are started without being asked for, whatever cores there are: each holds the models in memory."""

log = logging.getLogger("phonechain.app.serve")


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free one.", show_default=False)] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model file to serve as default.")] = None,
    models: Annotated[Path | None, typer.Option(help="Folder of additional model files.")] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Processes that answer requests; 0 for one per core, at most 4.", show_default=False),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Device for models to compute on: auto, cpu, cuda or cuda:N.", show_default=False),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Label a sample sentence first, like phonechain demo.")] = False,
) -> None:
    """Run the HTTP service. All other settings are PHONECHAIN_ environment variables."""
    from phonechain.app import environment
    from phonechain.app.settings import cores

    known = environment.load(host=host, port=port, model=model, models=models, processes=processes, device=device)
    os.environ["PHONECHAIN_DEVICE"] = known.device  # for the workers of its own
    environment.check_locations(known)
    # Before numpy and torch are loaded: their thread pools read it once. scoring.set_threads gives torch its own.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from phonechain.app.ops import logs

    logs.configure(known.log_format, known.log_level)
    for line in environment.unknown_variables():
        log.warning(line)
    _raise_file_limit()
    listening = _listen(known.host, known.port)
    with listening, contextlib.ExitStack() as stack:
        from phonechain.app.cli.demo import curl, label_sample
        from phonechain.app.ops.shared import Shared

        address = _format_address(listening)

        def announce() -> None:
            if known.log_format == "json":
                log.info("listening", extra={"facts": {"address": address}})
                return
            print(f"listening on {address}, with a page for reviewing labels; the API is documented at {address}/docs")
            print(f"try:\n  {curl(address)}", flush=True)

        shared = Shared(known.processes or min(MOST_PROCESSES, cores()))
        if shared.processes > 1:
            from phonechain.app.http.processes import split

            # Read when prometheus_client is loaded, which no process has done yet.
            counts = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp("-phonechain")
            stack.callback(shutil.rmtree, counts, ignore_errors=True)
            announce = split(shared, listening, announce, counts)
            stack.pop_all()  # the folder is the supervisor's
            connections = math.ceil(known.max_connections / shared.processes)
            known = known.model_copy(update={"max_connections": connections})
        from phonechain.app.http.server import Server
        from phonechain.app.main import create_app

        _check_database(known)
        if demo and shared.number == 0:  # after the port is known to be free
            label_sample()
        Server(create_app(known, shared=shared), known, announce).run(sockets=[listening])


def _check_database(known: Settings) -> None:
    """Raises DatabaseUnusable. A database that is away may come back: the service starts, and is not ready."""
    from phonechain.app.problems.errors import DatabaseAway, DatabaseUnusable
    from phonechain.app.storage.workspace import Workspace

    db = Workspace.from_settings(known).db
    db.migrated = not known.migrate
    try:
        db.check()
    except DatabaseUnusable:
        raise
    except DatabaseAway as error:
        log.warning("starting without the database: %s", error)


def _raise_file_limit() -> None:
    """Raise the limit on open files as far as the system allows: each connection needs one."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises SettingsError where the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With protocol 0 asyncio does not know that it is TCP and leaves Nagle's algorithm on: 40 ms for each answer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(
            f"cannot listen on {host}:{port}: {reason}; choose another address with --host and --port "
            "(PHONECHAIN_HOST, PHONECHAIN_PORT)",
            value=f"{host}:{port}",
        ) from None
    return listening


def _format_address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # nosec B104  looked up, not bound
    return f"http://{host}:{port}"
