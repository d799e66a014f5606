"""Whether requests can be taken: the models are loaded, the database answers, the scheduler can be reached.

Each part is asked within a bounded time. A question that nobody has answered yet is not put a second time, so a database
that hangs costs one thread, however often somebody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import text

from phonechain.app.jobs.engine import Engine
from phonechain.app.labelling.batcher import Batcher
from phonechain.app.settings import Settings
from phonechain.features.errors import PhonechainError

READY = "ready"


class Readiness:
    """Asks the parts of the service how they are. `stopping` is set as soon as the service is told to end."""

    def __init__(self, settings: Settings, batcher: Batcher, engine: Engine) -> None:
        self.timeout = settings.ready_timeout
        self.scheduler = settings.scheduler
        self.batcher, self.engine = batcher, engine
        self.stopping = False
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
        if self.stopping:
            return "the service is stopping"
        return READY if self.batcher.ready else "the service is starting or stopping"

    async def _within(self, part: str, ask: Callable[[], Awaitable[str]]) -> str:
        asked = self._asked.get(part)
        if asked is None or asked.done():
            asked = self._asked[part] = asyncio.ensure_future(ask())
        try:
            return await asyncio.wait_for(asyncio.shield(asked), self.timeout)
        except TimeoutError:
            return f"expected an answer within {self.timeout:g} s, got none"
        except (PhonechainError, OSError) as error:
            return " ".join(str(error).split())[:200] or type(error).__name__

    async def _ask_database(self) -> str:
        if not self.engine.has_database():
            return READY  # an SQLite file, made when it is first needed
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._select)

    def _select(self) -> str:
        with self.engine.place.db.read() as session:
            session.execute(text("SELECT 1"))
        return READY

    async def _ask_scheduler(self) -> str:
        if self.scheduler is None:  # the service's own, started with the first job
            return READY if self.engine.away is None else self.engine.away
        if self.engine.connected:
            return READY
        address = urlsplit(self.scheduler)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.close()
        return READY
