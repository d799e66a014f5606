"""Compares the files on disk with those that rows name: if they differ, something leaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from phonechain.app.storage import references
from phonechain.app.storage.tables import UNFINISHED, Job
from phonechain.app.storage.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Account:
    """Bytes on the disk and bytes that rows reach; files that no row names, and digests whose file is not there."""

    disk: int
    reachable: int
    stray: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def balanced(self) -> bool:
        """Whether everything is there, and nothing else."""
        return not self.stray and not self.missing and self.disk == self.reachable


def measure(workspace: Workspace) -> Account:
    """The account of a workspace whose blobs lie in a folder. Files that somebody holds count as reachable; what is being
    written has no digest yet, and is a stray.

    Counted are blobs, unpacked and fetched corpora, files being written, and folders of running jobs; not the database and
    what Dask spills.
    """
    with workspace.db.read() as session:
        named, held = references.list_named(session), references.list_held(session)
        running = set(session.scalars(select(Job.id).where(Job.state.in_(UNFINISHED))))
    disk = reachable = 0
    stray = []
    for path, name in _files(workspace):
        size = path.stat().st_size
        disk += size
        if name in named or name in held or name in running:
            reachable += size
        else:
            stray.append(path.relative_to(workspace.root).as_posix())
    digests = {name for name in named if re.fullmatch("[0-9a-f]{64}", name)}  # others are folders and URLs
    missing = sorted(digest for digest in digests if not _exists(workspace, digest))
    return Account(disk, reachable, tuple(sorted(stray)), tuple(missing))


def _files(workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """Each file, with the digest or the job that it belongs to."""
    assert workspace.store.folder is not None, "blobs in a folder"
    corpora, runs = workspace.corpus_folder("x").parent, workspace.run_folder("x").parent
    for root, depth in ((workspace.store.folder, 1), (corpora, 0), (workspace.root / "cache" / "tmp", 0), (runs, 0)):
        for path in root.rglob("*") if root.is_dir() else ():
            if path.is_file():
                parts = path.relative_to(root).parts
                yield path, parts[min(depth, len(parts) - 1)]


def _exists(workspace: Workspace, digest: str) -> bool:
    return workspace.store.has(digest) or workspace.corpus_folder(digest).is_dir()
