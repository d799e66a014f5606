"""What is read of jobs: lists by page, age and state, and what belongs to one. Each is one transaction that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import TERMINAL, UNFINISHED, Event, FileError, Job, Shard


def list_page(
    db: Database, *, before: str | None, limit: int, state: Sequence[str] = (), kind: Sequence[str] = (),
    owner: str | None = None,
) -> tuple[list[Job], bool]:  # fmt: skip
    """(jobs, are there more), the newest first, older than `before`; those of the key `owner` if given."""
    query = select(Job).order_by(Job.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(Job.id < before)
    if owner is not None:
        query = query.where(Job.owner == owner)
    if state:
        query = query.where(Job.state.in_(state))
    if kind:
        query = query.where(Job.kind.in_(kind))
    with db.read() as session:
        found = list(session.scalars(query))
    return found[:limit], len(found) > limit


def count_by_state(db: Database) -> dict[str, int]:
    """How many jobs there are in each state that any is in."""
    query = select(Job.state, func.count()).group_by(Job.state)
    with db.read() as session:
        return {row[0]: row[1] for row in session.execute(query)}


def list_ended(db: Database, moment: float, limit: int = 1000) -> list[str]:
    """Jobs that ended before a moment, the oldest first."""
    query = select(Job.id).where(Job.state.in_(TERMINAL), Job.ended < moment).order_by(Job.id).limit(limit)
    with db.read() as session:
        return list(session.scalars(query))


def list_events(db: Database, id: str, after: int, limit: int = 500) -> list[Event]:
    """Events of a job with numbers above `after`, in order."""
    with db.read() as session:
        query = select(Event).where(Event.job == id, Event.number > after).order_by(Event.number).limit(limit)
        return list(session.scalars(query))


def list_file_errors(db: Database, id: str, *, after: int, limit: int) -> tuple[list[FileError], bool]:
    """(files that could not be used, are there more), in the order of the corpus, after index `after`."""
    query = select(FileError).where(FileError.job == id, FileError.index > after).order_by(FileError.index)
    with db.read() as session:
        found = list(session.scalars(query.limit(limit + 1)))
    return found[:limit], len(found) > limit


def list_shards(db: Database, id: str) -> list[Shard]:
    """The finished shards in order."""
    with db.read() as session:
        return list(session.scalars(select(Shard).where(Shard.job == id).order_by(Shard.number)))


def list_unfinished(db: Database) -> list[Job]:
    """Jobs that have not ended, the oldest first."""
    with db.read() as session:
        return list(session.scalars(select(Job).where(Job.state.in_(UNFINISHED)).order_by(Job.id)))
