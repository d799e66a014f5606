"""Limits on stored bytes and on jobs, in total and per key.

A row counts the bytes that it keeps on the disk: a corpus its archive and the files unpacked from it, a job its answers, a
model its file, a file under review its sound and what belongs to it. Rows that share a file count it each.
"""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from phonechain.app.problems.errors import Overloaded, QuotaExceeded
from phonechain.app.reviews.tables import Review, ReviewFile
from phonechain.app.settings import Settings
from phonechain.app.storage.tables import UNFINISHED, Corpus, Job, ModelVersion


def count_bytes(session: Session, owner: str | None = None) -> int:
    """Bytes that the rows of a key keep, or those of all."""
    files = select(func.sum(ReviewFile.bytes)).join(Review, Review.id == ReviewFile.review)
    total = 0
    for query, column in (
        (select(func.sum(Corpus.bytes)), Corpus.owner), (select(func.sum(Job.bytes)), Job.owner),
        (select(func.sum(ModelVersion.size)), ModelVersion.owner), (files, Review.owner),
    ):  # fmt: skip
        total += int(session.scalar(query if owner is None else query.where(column == owner)) or 0)
    return total


def check_bytes(session: Session, settings: Settings, owner: str, more: int = 0) -> None:
    """Raises QuotaExceeded if the key, or all keys together, would store more than the settings allow."""
    for limit, whose, name in (
        (settings.max_stored_bytes, None, "the service"),
        (settings.max_key_bytes if owner else 0, owner, "this key"),
    ):
        if not limit:
            continue
        held = count_bytes(session, whose) + more
        if held > limit or (not more and held == limit):
            raise QuotaExceeded(
                f"with this, {name} would store {held} bytes (limit {limit})", value=held, limit=int(limit)
            )


def check_jobs(session: Session, settings: Settings, owner: str) -> None:
    """Raises Overloaded if there are already as many unfinished jobs as the settings allow, per key or in total."""
    for limit, whose, name in (
        (settings.max_jobs, None, ""),
        (settings.max_key_jobs if owner else 0, owner, " of this key"),
    ):
        if not limit:
            continue
        query = select(func.count()).select_from(Job).where(Job.state.in_(UNFINISHED))
        waiting = session.scalar(query if whose is None else query.where(Job.owner == whose)) or 0
        if waiting >= limit:
            raise Overloaded(
                f"too many jobs: {waiting}{name} have not ended (limit {limit})",
                retry_after=max(10, settings.retry_after), value=waiting, limit=limit,
            )  # fmt: skip
