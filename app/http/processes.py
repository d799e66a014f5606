"""Several processes behind one port, and the supervisor that starts them, starts them again, and ends them.

The port is bound before the processes part, so each accepts from the same queue of connections, one at a time: the one
with least to do takes the next. They part before torch is loaded, because its threads do not survive a fork. The first
one is waited for, so that what keeps a service from starting is said once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from phonechain.app.ops.shared import Shared
from phonechain.features.errors import SettingsError

MOST_FAILURES = 5
"""Processes that end, one after the other, before they have served anything; after that the service gives up."""
TICK = 0.1
"""Seconds between two looks at the processes."""

log = logging.getLogger(__name__)


def split(shared: Shared, listening: socket.socket, announce: Callable[[], None], counts: str) -> Callable[[], None]:
    """Part into as many processes as `shared` has rows.

    Returns in each of them, with `shared.number` set: the function to call once it listens. In the supervisor, which
    calls `announce` once the first one listens, it does not return. `counts` is the folder of prometheus_client.

    Raises:
        SettingsError: the system has no fork.
        SystemExit: in the supervisor, at the end, with the code of the service.
    """
    if not hasattr(os, "fork"):
        raise SettingsError(
            "PHONECHAIN_PROCESSES: expected 1 on this system, which cannot fork", value=shared.processes
        )
    supervisor = _Supervisor(shared, listening, announce, Path(counts))
    report = supervisor.run()
    if report is None:
        raise SystemExit(supervisor.code)
    return report


@dataclass(slots=True)
class _Child:
    number: int
    pid: int
    ready: bool = False


class _Supervisor:
    def __init__(self, shared: Shared, listening: socket.socket, announce: Callable[[], None], counts: Path) -> None:
        self.shared, self.listening, self.announce, self.counts = shared, listening, announce, counts
        self.code = 0
        self._children: dict[int, _Child] = {}
        self._alive = os.pipe()
        """Of which nobody reads anything: its end says that the supervisor is gone."""
        self._ready = os.pipe()
        """In which a process writes its number once it listens."""
        self._signals: list[int] = []
        self._stopping = False
        self._failures = 0

    def run(self) -> Callable[[], None] | None:
        """None in the supervisor, when all processes have ended; in a process, how it reports that it listens."""
        before = {number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)}
        if (report := self._start(0, before)) is not None:
            return report
        announced = False
        while self._children:
            self._forward_signals()
            self._read_ready()
            if not announced and any(child.ready for child in self._children.values()):
                announced = True
                self.announce()
                for number in range(1, self.shared.processes):
                    if (report := self._start(number, before)) is not None:
                        return report
            for child in self._reap():
                again = not self._stopping and self._may_start_again(child, announced)
                if again and (report := self._start(child.number, before)) is not None:
                    return report
        return None

    def _start(self, number: int, handlers: dict[signal.Signals, Any]) -> Callable[[], None] | None:
        pid = os.fork()
        if pid:
            self._children[pid] = _Child(number, pid)
            return None
        for name, handler in handlers.items():
            signal.signal(name, handler)
        os.setpgid(0, 0)  # a terminal's Ctrl-C is the supervisor's, which passes it on
        self.shared.number = number
        self.shared.pid[number] = os.getpid()
        os.close(self._alive[1])
        os.close(self._ready[0])
        threading.Thread(target=self._end_with_supervisor, name="supervisor", daemon=True).start()
        return partial(self._report, number)

    def _report(self, number: int) -> None:
        os.write(self._ready[1], bytes([number]))

    def _end_with_supervisor(self) -> None:
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _forward_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if not self._stopping:
                self._stopping = True
                self.listening.close()  # what comes from now on finds the port closed once the processes have left it
            self._signal_all(number)

    def _signal_all(self, number: int) -> None:
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _read_ready(self) -> None:
        if select.select([self._ready[0]], [], [], TICK)[0]:
            for number in os.read(self._ready[0], 1024):
                for child in self._children.values():
                    if child.number == number:
                        child.ready = True
                        self._failures = 0

    def _reap(self) -> list[_Child]:
        ended = []
        for pid in list(self._children):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                child = self._children.pop(pid)
                self.shared.clear(child.number)
                for gauge in self.counts.glob(f"gauge_live*_{pid}.db"):  # what it was doing is not being done any more
                    gauge.unlink()
                code = os.waitstatus_to_exitcode(status)
                if not self._stopping:
                    self.code = abs(code)
                elif child.ready or code != -signal.SIGTERM:  # one that is still starting ends at once
                    self.code = self.code or abs(code)
                ended.append(child)
        return ended

    def _may_start_again(self, child: _Child, announced: bool) -> bool:
        if not announced:  # it has said why it cannot start
            self.code = self.code or 1
            return False
        self._failures += not child.ready
        if self._failures >= MOST_FAILURES:
            log.error("%d processes in a row ended before serving a request: stopping the service", self._failures)
            self.code, self._stopping = 1, True
            self._signal_all(signal.SIGTERM)
            return False
        log.error("process %d of the service ended (code %d); starting another", child.pid, self.code)
        self.code = 0
        time.sleep(TICK)
        return True
