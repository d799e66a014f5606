"""`python -m phonechain.app.ops.healthcheck service|scheduler|worker`: a container's health check.

It exits with 0 or 1 and prints a line. It loads nothing beyond the standard library, since it runs every few seconds.

- service: `/health/live` answers 200 on `PHONECHAIN_PORT`, or 8000; it does so once every model is loaded. Not `/health/ready`:
  an orchestrator restarts what is unhealthy, and a database that is away does not come back by that.
- scheduler: something listens on port 8786, or the port that is named.
- worker: a connection to the scheduler's port is open, as `/proc/net/tcp` says; the address is `PHONECHAIN_SCHEDULER`.
"""

from __future__ import annotations

import os
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

ESTABLISHED = "01"
TIMEOUT = 4.0


def service(port: int) -> str | None:
    """What is wrong with the service on this machine's port, or None."""
    try:
        address = f"http://127.0.0.1:{port}/health/live"
        with urllib.request.urlopen(address, timeout=TIMEOUT):  # nosec B310  the scheme is in the line above
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"expected the service to be alive, got {error.code}: {error.read(300).decode('utf-8', 'replace')}"
    except (OSError, ValueError) as error:
        return f"expected a service on port {port}, got: {error}"


def scheduler(port: int) -> str | None:
    """What is wrong with the scheduler on this machine's port, or None."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
        return None
    except OSError as error:
        return f"expected a scheduler on port {port}, got: {error}"


def worker(port: int, tables: tuple[str, ...] = ("/proc/net/tcp", "/proc/net/tcp6")) -> str | None:
    """What is wrong with the worker of this network namespace, or None."""
    for table in tables:
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, _, remote, state = line.split()[:4]  # Linux, Documentation/networking/proc_net_tcp
            if state == ESTABLISHED and int(remote.rsplit(":", 1)[1], 16) == port:
                return None
    return f"expected a connection to a scheduler's port {port}, got none"


def main(arguments: list[str]) -> int:
    """Check what is named; a second argument is the port."""
    part = arguments[0] if arguments else "service"
    if part not in ("service", "scheduler", "worker"):
        print(f"expected service, scheduler or worker, got {part}", file=sys.stderr)
        return 2
    given = os.environ.get("PHONECHAIN_PORT") if part == "service" else None
    if part == "worker":
        given = os.environ.get("PHONECHAIN_SCHEDULER", "").rpartition(":")[2]
    port = int(arguments[1] if len(arguments) > 1 else given or (8000 if part == "service" else 8786))
    wrong = {"service": service, "scheduler": scheduler, "worker": worker}[part](port)
    if wrong is not None:
        print(wrong)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
