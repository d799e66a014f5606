"""Which blobs are still needed, and the removal of the others. Several rows may share a blob.

Two rules keep files and rows together while requests, jobs and services run side by side:

- The writer of a blob holds it (a row in `holds`, written before the blob is kept) until the row that names it is
  committed: `hold_blobs`. At the end of the block, blobs that no row names are removed, so that a refused request leaves nothing.
- The removal of a blob checks rows and holds and deletes the file in one transaction, under a lock that holds also take.

What a killed process held expires after `HELD` seconds; `collect` removes what is left over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Iterator

from sqlalchemy import delete, or_, select, text
from sqlalchemy.orm import Session

from phonechain.app.problems.errors import DatabaseAway, StorageFull
from phonechain.app.reviews.tables import ReviewFile
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import RESULT_BLOBS, SPEC_BLOBS, UNFINISHED, Corpus, Hold, Job, ModelVersion, Shard
from phonechain.app.storage.workspace import Workspace

HELD = 6 * 3600.0
"""Seconds after which a hold expires, if its process was killed."""

log = logging.getLogger(__name__)

REVIEW_BLOBS = (ReviewFile.sound, ReviewFile.annotation, ReviewFile.playback, ReviewFile.peaks, ReviewFile.answer)


class BlobHolds:
    """The blobs that one request or one part of a job is about to name in rows."""

    def __init__(self, workspace: Workspace) -> None:
        self._plain, self._id = workspace, new_id()
        self._digests: dict[str, None] = {}
        self.workspace = workspace.with_claim(self.hold)
        """The workspace to write with."""

    def hold(self, digest: str) -> None:
        """Keep the blob from being removed. Raises DatabaseAway."""
        if digest in self._digests:
            return
        with self._plain.db.write() as session:
            _lock(session, self._plain, digest)
            session.add(Hold(digest=digest, holder=self._id, expires=time.time() + HELD))
        self._digests[digest] = None

    def release(self) -> None:
        """Remove the blobs that no row names by now. If the database is away, the holds expire later."""
        try:
            for digest in self._digests:
                _remove(self._plain, digest, self._id)
        except (DatabaseAway, StorageFull) as error:
            log.warning("unused files will be collected later: %s", error)
        self._digests.clear()


@contextlib.contextmanager
def hold_blobs(workspace: Workspace) -> Iterator[BlobHolds]:
    """A block that writes blobs through `holds.workspace` and commits the rows that name them."""
    kept = BlobHolds(workspace)
    try:
        yield kept
    finally:
        kept.release()


@contextlib.asynccontextmanager
async def hold_blobs_async(workspace: Workspace) -> AsyncIterator[BlobHolds]:
    """The same for a route: the release runs in a thread, even if the client has disconnected."""
    kept = BlobHolds(workspace)
    try:
        yield kept
    finally:
        await asyncio.shield(asyncio.to_thread(kept.release))


def is_needed(session: Session, digest: str) -> bool:
    """Whether a row names the blob, or somebody who is about to write one holds it."""
    for query in (
        select(Hold.digest).where(Hold.digest == digest, Hold.expires > time.time()),
        select(Corpus.id).where(or_(Corpus.location == digest, Corpus.manifest == digest)),
        select(Corpus.id).where(Corpus.options["fingerprint"].as_string() == digest),
        select(ModelVersion.name).where(ModelVersion.blob == digest),
        select(Shard.job).where(Shard.blob == digest),
        select(ReviewFile.review).where(or_(*(column == digest for column in REVIEW_BLOBS))),
        select(Job.id).where(or_(*(Job.result[name].as_string() == digest for name in RESULT_BLOBS))),
    ):
        if session.scalars(query.limit(1)).first() is not None:
            return True
    return digest in _list_unfinished(session)


def drop(workspace: Workspace, *digests: str) -> None:
    """Remove the blobs, and the corpora unpacked from them, that nothing needs."""
    for digest in digests:
        _remove(workspace, digest, None)


def collect(workspace: Workspace) -> int:
    """Remove every blob and unpacked corpus that is not needed; returns how many."""
    with workspace.db.write() as session:
        session.execute(delete(Hold).where(Hold.expires <= time.time()))
    folders = (path.name for path in workspace.corpus_folder("x").parent.glob("[0-9a-f]*") if path.is_dir())
    found = {*workspace.store.digests(), *folders}
    with workspace.db.read() as session:
        spare = found - list_named(session) - list_held(session)
    return sum(_remove(workspace, digest, None) for digest in sorted(spare))


def list_held(session: Session) -> set[str]:
    """Blobs that somebody is about to name in a row; they may not be there yet."""
    return set(session.scalars(select(Hold.digest)))


def list_named(session: Session) -> set[str]:
    """Every blob that a row names."""
    columns = (
        Corpus.location, Corpus.manifest, Corpus.options["fingerprint"].as_string(), ModelVersion.blob,
        Shard.blob, *(Job.result[name].as_string() for name in RESULT_BLOBS),
        *REVIEW_BLOBS,
    )  # fmt: skip
    found = {digest for column in columns for digest in session.scalars(select(column)) if digest}
    return found | _list_unfinished(session)


def _list_unfinished(session: Session) -> set[str]:
    """The models and dictionaries that jobs still need."""
    specs = session.scalars(select(Job.spec).where(Job.state.in_(UNFINISHED)))
    return {(spec.get(use) or {}).get("blob", "") for spec in specs for use in SPEC_BLOBS}


def _remove(workspace: Workspace, digest: str, holder: str | None) -> bool:
    """Release the hold of `holder` and remove the blob if nothing else needs it; returns whether it was removed."""
    folder = workspace.corpus_folder(digest)
    trash = folder.with_name(f".removing-{new_id()}")
    with workspace.db.write() as session:
        _lock(session, workspace, digest)
        if holder is not None:
            session.execute(delete(Hold).where(Hold.digest == digest, Hold.holder == holder))
        spare = not is_needed(session, digest)
        if spare:  # inside of the transaction: whoever wants to hold the blob waits, and then finds that it is gone
            workspace.store.delete(digest)
            with contextlib.suppress(FileNotFoundError):
                folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)
    return spare


def _lock(session: Session, workspace: Workspace, digest: str) -> None:
    """One transaction at a time for a digest. On SQLite every transaction that writes is alone."""
    if not workspace.db.sqlite:
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": int(digest[:15], 16)})
