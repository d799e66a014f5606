"""One cluster at a time runs the jobs of a database: its services hold a lease, a row that they renew.

Without it, two services with worker processes of their own would each submit what the other's scheduler runs, and every
new attempt would fence the one before until the job fails. The service that has no lease waits: it takes requests, and
the holder runs its jobs. Services that share a scheduler share the lease.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path

from sqlalchemy import delete, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from phonechain.app.settings import Settings
from phonechain.app.storage.database import Database
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import Lease

NAME = "jobs"
SECONDS = 30.0
"""How long a lease holds without being renewed: longer than worker processes take to start."""
RENEW = 5.0
"""Seconds after which the holder renews it."""

_living: set[str] = set()
"""Tokens of the services of this process."""


class JobLease:
    """The lease, as one service sees it. Used by one thread.

    The holder is the address of a scheduler, or this service: its machine, process and a token.
    """

    def __init__(self, settings: Settings, db: Database) -> None:
        self.db, self._token = db, new_id()
        self._shared = settings.scheduler is not None
        self.holder = settings.scheduler or f"{_machine()} {os.getpid()} {self._token}"
        self.held = False
        self._renew = 0.0
        _living.add(self._token)

    def take(self) -> bool:
        """Take or renew it; False where another cluster has it. Raises DatabaseAway."""
        if self.held and time.monotonic() < self._renew:
            return True
        begun = time.monotonic()
        with contextlib.suppress(IntegrityError):  # another service was the first, in this moment
            self.held = False
            with self.db.write() as session:
                held = self._write(session)
            self.held = held
        self._renew = begun + RENEW
        return self.held

    def _write(self, session: Session) -> bool:
        now = _now(session, self.db)
        row = session.get(Lease, NAME, with_for_update=True)
        if row is None:
            session.add(Lease(name=NAME, holder=self.holder, expires=now + SECONDS))
            return True
        if row.holder != self.holder and row.expires > now and not _has_ended(row.holder):
            return False
        row.holder, row.expires = self.holder, now + SECONDS
        return True

    def release(self) -> None:
        """Let others have it at once; a lease that services share stays, for the others of the cluster."""
        if self.held and not self._shared:
            with self.db.write() as session:
                session.execute(delete(Lease).where(Lease.name == NAME, Lease.holder == self.holder))
        self.held = False

    def close(self) -> None:
        """This service ends."""
        _living.discard(self._token)


def _now(session: Session, db: Database) -> float:
    """The database's clock: those of machines may differ."""
    if db.sqlite:
        return time.time()
    return float(session.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0.0)


def _machine() -> str:
    """This start of this machine, and the process ids that are valid in it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node().replace(" ", "-")


def _has_ended(holder: str) -> bool:
    """Whether the holder is a process of this machine that no longer exists, so that nobody has to wait for it."""
    machine, _, rest = holder.partition(" ")
    pid, _, token = rest.partition(" ")
    if machine != _machine() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():
        return token not in _living
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
