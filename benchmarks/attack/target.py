"""The service under attack: a process of its own, with keys, a worker and short deadlines."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from phonechain.app.storage.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
ADMIN = "attack-admin-key-0123456789"
SECRET = "attack-webhook-secret-0123456789"

Check = tuple[str, bool]
"""What an attack found, and whether that is well."""


@dataclass
class Target:
    """The service under attack: its process, address, folder and keys."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    seconds: float
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "service.log").read_text("utf-8", "replace")

    def bearer(self, who: str = "label") -> dict[str, str]:
        """The header of a key."""
        return {"Authorization": f"Bearer {self.keys[who]}"}

    def client(self, who: str = "label") -> httpx.Client:
        """A client with a key."""
        return httpx.Client(base_url=self.url, headers=self.bearer(who), timeout=120)

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), 30)

    def workspace(self) -> Workspace:
        """What the service keeps."""
        data = self.folder / "data"
        return Workspace(f"sqlite:///{data / 'phonechain.db'}", str(data / "blobs"), str(data))

    def resident(self) -> float:
        """Memory of the service's process, MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return int(found[1]) / 1024 if found else 0.0

    def family(self) -> list[int]:
        """The service's process and everything that it started."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        found = [self.process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found


@contextlib.contextmanager
def service(folder: Path, seconds: float) -> Iterator[Target]:
    """A service with a folder of its own; ended afterwards."""
    (folder / "roots").mkdir()
    given = {
        "DATA": folder / "data", "WORKERS": 1, "ADMIN_KEY": ADMIN, "WEBHOOK_SECRET": SECRET, "HEADER_TIMEOUT": 2,
        "BODY_TIMEOUT": 3, "MAX_ARCHIVE_BYTES": 2**30, "CORPUS_ROOTS": folder / "roots",
    }  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PHONECHAIN_")}
    environment |= {f"PHONECHAIN_{name}": str(value) for name, value in given.items()}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (folder / "service.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "phonechain.app.cli", "serve", "--port", "0"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=ROOT,
        )  # fmt: skip
    target = Target(process, 0, folder, seconds, {"admin": ADMIN})
    try:
        limit = time.monotonic() + 180
        while not (found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", target.log)):
            assert process.poll() is None, target.log
            assert time.monotonic() < limit, target.log
            time.sleep(0.1)
        target.port = int(found[1])
        for name, scope in (("label", "label"), ("other", "label"), ("train", "train")):
            made = httpx.post(
                f"{target.url}/keys", json={"name": name, "scopes": [scope]}, headers=target.bearer("admin"), timeout=60
            )
            target.keys[name] = made.json()["key"]
        yield target
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
