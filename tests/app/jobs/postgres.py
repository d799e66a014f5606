"""PostgreSQL for tests: Debian's programs, a folder of its own, the loopback only; skipped where they are not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.storm.stage import free_port


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    initdb, server = shutil.which("initdb"), shutil.which("postgres")
    return Path(initdb).parent if initdb and server else None


class Postgres:
    """A server that can be stopped and started."""

    def __init__(self, bin: Path, folder: Path) -> None:
        self.bin, self.folder, self.port = bin, folder, free_port()
        # PostgreSQL refuses to run as root; Debian's package brings a user for it.
        self.user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if self.user:
            shutil.chown(folder, "postgres", "postgres")
        options = ["--auth=trust", "--username=phonechain", "--encoding=UTF8", "--no-sync"]
        subprocess.run(
            [bin / "initdb", "-D", folder / "data", *options], check=True, capture_output=True, cwd=folder, **self.user
        )  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = ["fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}"]
        self.process = subprocess.Popen(
            [self.bin / "postgres", "-D", self.folder / "data", "-p", str(self.port), *(f"--{s}" for s in settings)],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.user,
        )  # fmt: skip
        limit = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < limit, "PostgreSQL did not start"
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop it at once; connections break."""
        assert self.process is not None
        self.process.send_signal(3)  # SIGQUIT: immediate shutdown
        self.process.wait(timeout=60)

    def url(self, name: str) -> str:
        return f"postgresql://phonechain@127.0.0.1:{self.port}/{name}"

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server."""
    bin = programs()
    if bin is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="phonechain-pg-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = Postgres(bin, folder)
        yield server
        server.stop()
