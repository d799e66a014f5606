"""Cleaning up: expired rows, and the remains of killed processes: half-written files, run folders of finished jobs, blobs
without rows."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from phonechain.app.jobs import queries, repository
from phonechain.app.problems.errors import NoResult, UnknownJob
from phonechain.app.settings import Settings
from phonechain.app.storage import references
from phonechain.app.storage.tables import TERMINAL, Job
from phonechain.app.storage.workspace import Workspace

DAY = 24 * 3600.0
OLD = 24 * 3600.0
"""Age in seconds at which a half-written file is taken to be abandoned."""


def retire(workspace: Workspace, settings: Settings) -> None:
    """Delete expired jobs, events and Idempotency-Keys, as the settings say."""
    now, db = time.time(), workspace.db
    if settings.keep_jobs:
        for id in queries.list_ended(db, now - settings.keep_jobs * DAY):
            with contextlib.suppress(UnknownJob, NoResult):  # another service was faster
                references.drop(workspace, *repository.delete_job(db, id))
    if settings.keep_events:
        repository.delete_events(db, now - settings.keep_events * DAY)
    if settings.keep_replays:
        repository.delete_replays(db, now - settings.keep_replays * DAY)


def sweep(workspace: Workspace) -> None:
    """Remove what killed processes left behind."""
    runs = workspace.root / "runs"
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        with workspace.db.read() as session:
            job = session.get(Job, folder.name)
        if job is None or job.state in TERMINAL:
            shutil.rmtree(folder, ignore_errors=True)
    for leftover in list_leftovers(workspace):
        try:
            if time.time() - leftover.stat().st_mtime > OLD:
                shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
    references.collect(workspace)


def list_leftovers(workspace: Workspace) -> list[Path]:
    """What is being written now, or was when a process was killed."""
    cache = workspace.root / "cache"
    found = [
        *workspace.store.scratch().iterdir(),
        *cache.glob("corpora/.unpacking-*"),
        *cache.glob("corpora/.fetching-*"),
        *cache.glob("corpora/.removing-*"),
        *cache.glob("corpora/.*.lock"),  # as versions up to 2026 left them
    ]
    return sorted(found)
