"""What a killed process leaves behind: half-written files, run folders of jobs that have ended, blobs without rows."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from phonechain.app.storage import references
from phonechain.app.storage.tables import TERMINAL, Job
from phonechain.app.storage.workspace import Workspace

OLD = 24 * 3600.0
"""Seconds after which a half-written file is nobody's any more."""


def sweep(workspace: Workspace) -> None:
    """Remove all of it: nothing and nobody needs it."""
    runs = workspace.root / "runs"
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        with workspace.db.read() as session:
            job = session.get(Job, folder.name)
        if job is None or job.state in TERMINAL:
            shutil.rmtree(folder, ignore_errors=True)
    for leftover in _leftovers(workspace):
        try:
            if time.time() - leftover.stat().st_mtime > OLD:
                shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
    references.collect(workspace)


def _leftovers(workspace: Workspace) -> list[Path]:
    cache = workspace.root / "cache"
    found = [
        *workspace.store.scratch().iterdir(),
        *cache.glob("corpora/.unpacking-*"),
        *cache.glob("corpora/.fetching-*"),
        *cache.glob("corpora/.removing-*"),
    ]
    return sorted(found)
