"""Server-sent events of jobs: one look at the table serves every reader of this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable

from sqlalchemy import select

from phonechain.app.jobs import queries
from phonechain.app.problems.errors import DatabaseAway
from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import TERMINAL, Job

EVERY = 0.25
"""Seconds between two looks, while anybody reads."""
ALIVE = 15.0
"""Seconds of silence after which a comment is sent, so that nobody between takes the connection for dead."""


class EventStreams:
    """Readers wait on one condition; one task looks for them all."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.closing = False
        self._readers: Counter[str] = Counter()
        self._newest: dict[str, tuple[int, bool]] = {}
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End every stream: the service stops. Clients come back with the last number they saw."""
        self.closing = True

    async def read(self, id: str, after: int) -> AsyncIterator[bytes]:
        """The events of a job from the one after `after` on; it ends when the job has ended, or the service stops."""
        self._readers[id] += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll(), name="feed")
        try:
            yield b"retry: 1000\n\n"
            quiet = time.monotonic()
            while not self.closing:
                try:
                    events = await asyncio.to_thread(queries.list_events, self.db, id, after)
                except DatabaseAway:
                    events = []
                    await asyncio.sleep(1.0)
                for event in events:
                    after, quiet = event.number, time.monotonic()
                    yield format_event(event.number, event.type, {**event.data, "job": id, "at": event.at})
                if events and events[-1].data.get("state") in TERMINAL:
                    return
                if time.monotonic() - quiet > ALIVE:
                    quiet = time.monotonic()
                    yield b": still here\n\n"
                if not events and not await self._wait_for_event(id, after):
                    return
        finally:
            self._readers[id] -= 1
            if not self._readers[id]:
                del self._readers[id]
                self._newest.pop(id, None)

    async def _wait_for_event(self, id: str, after: int) -> bool:
        """Wait for an event after `after`, for a while; False where none will come: the job has ended, or is gone."""
        limit = time.monotonic() + ALIVE
        number, over = self._newest.get(id, (after, False))
        async with self._changed:
            while number <= after and not over and time.monotonic() < limit and not self.closing:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 1.0)
                number, over = self._newest.get(id, (after, False))
        return number > after or not over

    async def _poll(self) -> None:
        while self._readers:
            try:
                found = await asyncio.to_thread(self._newest_events, list(self._readers))
            except DatabaseAway:
                found = {}
            if found:
                async with self._changed:
                    if any(self._newest.get(id) != number for id, number in found.items()):
                        self._newest.update(found)
                        self._changed.notify_all()
            await asyncio.sleep(EVERY)

    def _newest_events(self, ids: Iterable[str]) -> dict[str, tuple[int, bool]]:
        """For each job the number of its newest event, and whether that is its last; -1 where the job is gone."""
        ids = list(ids)
        with self.db.read() as session:
            rows = session.execute(select(Job.id, Job.event, Job.state).where(Job.id.in_(ids))).all()
        found = {row.id: (row.event, row.state in TERMINAL) for row in rows}
        return {**dict.fromkeys(ids, (-1, True)), **found}


def format_event(number: int, kind: str, data: dict[str, object]) -> bytes:
    """One event in the format of the HTML standard, section 9.2."""
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
