"""The locations that a service process or a worker uses: the database, the blobs and a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

from phonechain.app.settings import PREFIX, Settings
from phonechain.app.storage.blobs import Store
from phonechain.app.storage.database import Database, open_shared


@dataclass(frozen=True)
class Workspace:
    """Database URL, location of the blobs, and a folder for runs, unpacked corpora and copies.

    It goes to the workers as plain text. A worker with a workspace of its own (`phonechain worker` with settings) keeps
    to that.
    """

    database: str
    blobs: str
    folder: str
    stalls: int = 8

    @classmethod
    def from_settings(cls, settings: Settings) -> Workspace:
        """The workspace that the settings describe."""
        return cls(settings.database_url, settings.store_url, str(settings.folder), settings.job_stalls)

    @classmethod
    def for_task(cls, given: Mapping[str, Any]) -> Workspace:
        """The workspace of a task, or this worker's own if it has one."""
        own = {name: os.environ[variable] for name, variable in OWN.items() if os.environ.get(variable)}
        return cls(**{**given, **own})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the way to a worker."""
        return asdict(self)

    @cached_property
    def db(self) -> Database:
        return open_shared(self.database)

    @cached_property
    def store(self) -> Store:
        return Store(self.blobs, self.root / "cache")

    def with_claim(self, claim: Callable[[str], None]) -> Workspace:
        """The same workspace, whose store calls `claim` with each digest before it keeps the blob."""
        copy = replace(self)
        vars(copy)["store"] = Store(self.blobs, self.root / "cache", claim)
        return copy

    @property
    def root(self) -> Path:
        return Path(self.folder)

    def corpus_folder(self, digest: str) -> Path:
        """Where the files of an archive or a URL lie, unpacked or fetched."""
        return self.root / "cache" / "corpora" / digest

    def lock(self, digest: str) -> FileLock:
        """One process at a time for a digest. There are 256 locks, so that no file is left for each digest."""
        folder = self.root / "cache" / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / digest[:2])

    def run_folder(self, job: str) -> Path:
        """Where a training job keeps its checkpoint."""
        return self.root / "runs" / job


OWN = {"database": f"{PREFIX}WORKER_DATABASE", "blobs": f"{PREFIX}WORKER_STORE", "folder": f"{PREFIX}WORKER_DATA"}
"""Variables by which `phonechain worker` tells its tasks of a workspace that differs from the service's."""
