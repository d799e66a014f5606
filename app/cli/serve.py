"""`phonechain serve`: the HTTP service in the foreground."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from features.errors import SettingsError


def serve(
    host: Annotated[str | None, typer.Option(help="Interface to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model file to serve as the default.")] = None,
    models: Annotated[Path | None, typer.Option(help="Folder of further model files.")] = None,
) -> None:
    """Serve the HTTP interface. Further settings come from PHONECHAIN_ variables."""
    from app import settings

    known = settings.load(host=host, port=port, model=model, models=models)
    for line in settings.unknown_variables():
        print(f"warning: {line}", file=sys.stderr)
    # Before numpy and torch are loaded: their thread pools read it once. scoring.set_threads gives torch its own.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    listening = _listen(known.host, known.port)
    with listening:
        import uvicorn

        from app.cli.demo import curl
        from app.main import create_app

        app = create_app(known)
        address = _address(listening)

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if self.started:
                    print(f"listening on {address}, the interface is described at {address}/docs")
                    print(f"try:\n  {curl(address)}", flush=True)

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                app.state.feed.close()  # streams end now, so that they are not waited for
                await super().shutdown(sockets)

        server = Server(uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=30))
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            return  # the ordinary end of a service in the foreground; open requests have been answered


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises SettingsError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"expected to listen on {host}:{port}, got: {reason}", value=f"{host}:{port}") from None
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"
