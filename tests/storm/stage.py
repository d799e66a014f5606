"""The processes of a service, as a supervisor would run them: what dies is started again, until the stage is cleared."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
MARK = "STORM_MARK"


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True


class Stage:
    """A service with its own workers (`clustered=False`), or with a scheduler and worker processes beside it."""

    def __init__(self, folder: Path, model: Path, *, clustered: bool, services: int = 1, **settings: Any) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = folder
        self.ports = [free_port() for _ in range(services)]
        self.scheduler_port = free_port()
        self._stopping = False
        self._lock = threading.Lock()
        self.restarts = 0
        self.held: set[str] = set()
        given = {"data": folder / "data", "workers": 2, "job_stalls": 100_000, "shard_files": 4, **settings}
        if clustered:
            given["scheduler"] = f"tcp://127.0.0.1:{self.scheduler_port}"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PHONECHAIN_")},
            **{f"PHONECHAIN_{k.upper()}": str(v) for k, v in given.items()},
            MARK: self.mark,
            "OMP_NUM_THREADS": "1",
        }
        program = [sys.executable, "-m", "phonechain.app.cli"]
        self.commands: dict[str, list[str]] = {
            f"service-{n}": [*program, "serve", "--port", str(port), "--model", str(model)]
            for n, port in enumerate(self.ports)
        }
        if clustered:
            self.commands["scheduler"] = [*program, "scheduler", "--port", str(self.scheduler_port)]
            self.commands |= {f"worker-{n}": [*program, "worker"] for n in range(2)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    def __enter__(self) -> Stage:
        for name in self.commands:
            self._start(name)
        self._thread.start()
        return self

    def _start(self, name: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        self.running[name] = subprocess.Popen(
            self.commands[name], cwd=ROOT, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        log.close()

    def _supervise(self) -> None:
        while not self._stopping:
            with self._lock:
                for name, process in list(self.running.items()):
                    if process.poll() is not None and not self._stopping and name not in self.held:
                        self.restarts += 1
                        self._start(name)
            time.sleep(0.1)

    def __exit__(self, *_: Any) -> None:
        """End everything as a supervisor does, by SIGTERM; what does not end is killed, and shows as an orphan later."""
        with self._lock:
            self._stopping = True
        self._thread.join()
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def hold(self, name: str) -> None:
        """Kill a process, and let it stay away."""
        with self._lock:
            self.held.add(name)
            self.running[name].kill()
            self.running[name].wait()

    def release(self, name: str) -> None:
        """Let a process that is away come back."""
        self.held.discard(name)

    def kill_everything(self) -> None:
        """The end of the machine, nearly: every process of the supervisor at once, by SIGKILL; their children are left."""
        with self._lock:
            self._stopping = True
            for process in self.running.values():
                process.kill()
                process.wait()

    # ------------------------------------------------------------------------------------------------------ victims

    def family(self) -> list[int]:
        """Every living process that was started by this stage, directly or not."""
        mark = f"{MARK}={self.mark}".encode()
        pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal()]
        return [pid for pid in pids if mark in environment_of(pid) and not zombie(pid)]

    def workers(self) -> list[int]:
        """The processes that run tasks."""
        return [pid for pid in self.family() if "spawn_main" in command_of(pid)]

    def main(self, name: str) -> int:
        """The process of a command."""
        return self.running[name].pid

    def kill(self, kind: str, choose: Callable[[list[int]], int]) -> bool:
        """SIGKILL one process of a kind: `worker`, `nanny`, `scheduler`, `service`. False where there is none now."""
        names = {"nanny": "worker-", "scheduler": "scheduler", "service": "service-"}
        with self._lock:
            found = (
                self.workers()
                if kind == "worker"
                else [p.pid for n, p in self.running.items() if n.startswith(names[kind]) and p.poll() is None]
            )
            if not found:
                return False
            try:
                os.kill(choose(sorted(found)), signal.SIGKILL)
            except ProcessLookupError:
                return False
        return True


class Patient:
    """An HTTP client that asks again until somebody answers, as a sensible client of a service does."""

    def __init__(self, stage: Stage, seconds: float = 300.0) -> None:
        self.stage, self.seconds = stage, seconds
        self.http = httpx.Client(timeout=60)

    def request(self, method: str, path: str, *, service: int = 0, **more: Any) -> httpx.Response:
        limit = time.monotonic() + self.seconds
        url = f"http://127.0.0.1:{self.stage.ports[service]}{path}"
        while True:
            try:
                answer = self.http.request(method, url, **more)
                if answer.status_code != 503:
                    return answer
                reason = answer.text
            except httpx.TransportError as error:
                reason = repr(error)
            assert time.monotonic() < limit, f"{method} {path}: {reason}"
            time.sleep(0.2)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def wait_for_end(self, id: str, seconds: float) -> dict[str, Any]:
        """The job when it has ended."""
        limit = time.monotonic() + seconds
        while True:
            job: dict[str, Any] = self.get(f"/jobs/{id}").json()
            if job["state"] in ("succeeded", "failed", "cancelled"):
                return job
            assert time.monotonic() < limit, job
            time.sleep(0.25)
