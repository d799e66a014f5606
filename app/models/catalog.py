"""Which model a request means: a version on the shelf, by name, version or alias, or one that the service came with.

The shelf is asked at most once a second for a name, and loaded models are kept; a database that is away leaves what was
known last.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict

from phonechain.app.jobs.engine import Engine
from phonechain.app.models import repository as versions
from phonechain.app.models.registry import Entry, Registry, model_files
from phonechain.app.problems.errors import DatabaseAway
from phonechain.app.settings import Settings
from phonechain.app.storage.tables import ModelVersion
from phonechain.app.storage.workspace import Workspace

FRESH = 1.0
"""Seconds for which an answer of the database is good."""
MOST = 16
"""Loaded versions that are kept."""


class Models:
    """What `model` in a request can be. Its methods with `in_thread` in the name go to the database."""

    def __init__(self, settings: Settings, registry: Registry, workspace: Workspace, engine: Engine) -> None:
        self.settings, self.registry, self.place, self.engine = settings, registry, workspace, engine
        self._known: dict[str, tuple[float, ModelVersion | None]] = {}
        self._loaded: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.Lock()

    async def get(self, name: str) -> Entry:
        """The loaded model that `name` stands for. Raises UnknownModel, ModelFileError."""
        known = self._known.get(name)
        if known is not None and time.monotonic() - known[0] < FRESH:
            row = known[1]
            if row is None:
                return self.registry.get(name)
            if (entry := self._loaded.get(row.blob)) is not None:
                return entry
        elif not self.engine.migrated and not self.engine.has_database():
            return self.registry.get(name)  # nothing was ever put on the shelf
        return await asyncio.to_thread(self.get_in_thread, name)

    def get_in_thread(self, name: str) -> Entry:
        """As `get`, asking the database."""
        row = self.version_in_thread(name)
        if row is None:
            return self.registry.get(name)
        with self._lock:
            entry = self._loaded.get(row.blob)
            if entry is None:
                from phonechain.model.labeler import PhoneLabeler

                entry = Entry(row.name, PhoneLabeler.load(self.place.store.local(row.blob)))
                self._loaded[row.blob] = entry
                while len(self._loaded) > MOST:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(row.blob)
        return entry

    def version_in_thread(self, name: str) -> ModelVersion | None:
        """The version on the shelf that `name` stands for; None where the shelf does not have it."""
        try:
            self.engine.ready_database()
            with self.place.db.read() as session:
                row = versions.find(session, name[:200])
        except DatabaseAway:
            if name in self._known:
                return self._known[name][1]
            return None
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[name] = (time.monotonic(), row)
        return row

    def loaded(self) -> list[Entry]:
        """Every model in memory."""
        with self._lock:
            return [*self.registry, *self._loaded.values()]

    def forget(self) -> None:
        """Something on the shelf has changed."""
        self._known.clear()

    def reference_in_thread(self, name: str) -> dict[str, str]:
        """Name, version and blob of a model, for a job. Raises UnknownModel, StorageFull."""
        self.engine.ready_database()
        with self.place.db.read() as session:
            row = versions.find(session, name[:200])
        if row is not None:
            return versions.reference(row)
        entry = self.registry.get(name)
        path = model_files(self.settings)[entry.name]
        return {"name": entry.name, "version": entry.version, "blob": self.place.store.put(path)}
