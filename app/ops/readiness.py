"""Whether requests can be taken: the models are loaded, the database answers, the scheduler can be reached.

Each part is asked within a bounded time. A question that nobody has answered yet is not put a second time, so a database
that hangs costs one thread, however often somebody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import select, text

from phonechain.app.jobs.dask_cluster import DaskCluster
from phonechain.app.labelling.batcher import Batcher
from phonechain.app.settings import Settings
from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import Lease
from phonechain.features.errors import PhonechainError

READY = "ready"


@dataclass(slots=True)
class Shutdown:
    """How far the end of the service has come."""

    begun: bool = False
    """The service was told to end: it is not ready any more."""
    closed: bool = False
    """It takes no new connections: an answer tells its client to close the one that it has."""


class Readiness:
    """Asks the parts of the service how they are."""

    def __init__(
        self, settings: Settings, batcher: Batcher, db: Database, cluster: DaskCluster, shutdown: Shutdown
    ) -> None:
        self.timeout = settings.ready_timeout
        self.scheduler = settings.scheduler
        self.batcher, self.db, self.cluster, self.shutdown = batcher, db, cluster, shutdown
        self._pool = ThreadPoolExecutor(1, "ready")
        self._asked: dict[str, asyncio.Future[Any]] = {}

    async def parts(self) -> dict[str, str]:
        """For each part `ready`, or what is wrong with it."""
        database, scheduler = await asyncio.gather(
            self._within("database", self._ask_database), self._within("scheduler", self._ask_scheduler)
        )
        return {"models": self._models(), "database": database, "scheduler": scheduler}

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _models(self) -> str:
        if self.shutdown.begun:
            return "the service is stopping"
        return READY if self.batcher.ready else "the service is starting or stopping"

    async def _within(self, part: str, ask: Callable[[], Awaitable[str]]) -> str:
        asked = self._asked.get(part)
        if asked is None or asked.done():
            asked = self._asked[part] = asyncio.ensure_future(ask())
        try:
            return await asyncio.wait_for(asyncio.shield(asked), self.timeout)
        except TimeoutError:
            return f"no answer within {self.timeout:g} s"
        except (PhonechainError, OSError) as error:
            return " ".join(str(error).split())[:200] or type(error).__name__

    async def _ask_database(self) -> str:
        if not self.db.exists:
            return READY  # an SQLite file, made when it is first needed
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._select)

    def _select(self) -> str:
        if not self.db.migrated:
            self.db.check()
        with self.db.read() as session:  # a table: a file that is damaged answers SELECT 1
            session.execute(select(Lease.name).limit(1) if self.db.migrated else text("SELECT 1"))
        return READY

    async def _ask_scheduler(self) -> str:
        if self.scheduler is None:  # the service's own, started with the first job
            return READY if self.cluster.away is None else self.cluster.away
        if self.cluster.connected:
            return READY
        address = urlsplit(self.scheduler)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.close()
        return READY
