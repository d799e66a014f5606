"""The service as a process of its own, for tests of what only a process shows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.storm.stage import environment_of, zombie

ROOT = Path(__file__).parents[1]


class Service:
    """A process of the service on a free port; its log is in `log`."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.mark = f"STOPPING_MARK={os.urandom(8).hex()}"
        self.log = folder / f"service-{os.urandom(4).hex()}.log"
        given = {"data": folder / "data", "workers": 1, "log_format": "json", **settings}
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PHONECHAIN_")},
            **{f"PHONECHAIN_{k.upper()}": str(v) for k, v in given.items()},
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **dict([self.mark.split("=")]),
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "phonechain.app.cli", "serve", "--port", "0"],
                stderr=log,
                stdout=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=ROOT,
            )
        limit = time.monotonic() + 400
        while not (found := re.search(r'"address": "(http://[\d.:]+)"', self.text)):
            assert self.process.poll() is None, self.text
            assert time.monotonic() < limit, self.text
            time.sleep(0.05)
        self.address = found[1]
        self.port = int(self.address.rsplit(":", 1)[1])

    @property
    def text(self) -> str:
        return self.log.read_text()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def stop(self, seconds: float = 60) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def family(self) -> list[int]:
        """Living processes that this one has started, and itself."""
        pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal()]
        return [pid for pid in pids if self.mark.encode() in environment_of(pid) and not zombie(pid)]


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Service]:
    """Killed at the end if it still runs."""
    service = Service(folder, **settings)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait(timeout=30)
