"""Every change of a job. Each is one transaction; nothing else changes the table of jobs.

    queued -> running -> succeeded | failed
       |         |
       |         +-> cancelling -> cancelled
       +-----------> cancelled

A job ends once: every change names the states from which it is allowed, and an execution of a job also names its attempt, so
that one that was thought dead and returns late changes nothing. Every visible change also writes an event, numbered without
gaps under the lock of the job's row.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from phonechain.app.corpora import repository as corpora
from phonechain.app.problems.errors import NoResult, UnknownJob
from phonechain.app.storage.database import Database
from phonechain.app.storage.ids import timestamp
from phonechain.app.storage.tables import (
    CANCELLED,
    CANCELLING,
    FAILED,
    QUEUED,
    RESULT_BLOBS,
    RUNNING,
    SPEC_BLOBS,
    SPLIT,
    SUCCEEDED,
    TERMINAL,
    Corpus,
    Event,
    FileError,
    Job,
    Replay,
    Shard,
)


class Fenced(Exception):
    """This execution no longer owns the job: a newer one does, or the job has ended."""


class Cancelled(Exception):
    """The job is being cancelled."""


def event_data(job: Job) -> dict[str, Any]:
    """The data of an event about a job."""
    return {"state": job.state, "progress": progress_to_json(job), "failed_files": job.failed_files}


def progress_to_json(job: Job) -> dict[str, Any]:
    """The job's progress as plain values."""
    return {
        "stage": job.stage, "done": job.done, "total": job.total, "unit": job.unit, "message": job.message,
        "metrics": job.metrics,
    }  # fmt: skip


def job_to_json(job: Job) -> dict[str, Any]:
    """A job as JSON for the interface."""
    links = {"self": f"/jobs/{job.id}", "events": f"/jobs/{job.id}/events", "errors": f"/jobs/{job.id}/errors"}
    if job.state in TERMINAL and (job.result is not None or job.kind in SPLIT):
        links["result"] = f"/jobs/{job.id}/result"
    if job.state not in TERMINAL:
        links["cancel"] = f"/jobs/{job.id}/cancel"
    result = None if job.result is None else {k: v for k, v in job.result.items() if k not in RESULT_BLOBS}
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "progress": progress_to_json(job),
        "failed_files": job.failed_files,
        "attempt": job.attempt,
        "request": _request_to_json(job),
        "error": job.error,
        "result": result,
        "created": timestamp(job.created),
        "started": timestamp(job.started),
        "ended": timestamp(job.ended),
        "links": links,
    }


def _request_to_json(job: Job) -> dict[str, Any]:
    """The request of a job, without the digests of blobs."""
    spec: Mapping[str, Any] = job.spec
    hidden = ("part", "parts", "total", "corpus_name")
    out = {k: v for k, v in spec.items() if k not in hidden and v not in (None, {}, [], "")}
    for name in SPEC_BLOBS:
        if isinstance(out.get(name), dict):
            out[name] = {k: v for k, v in out[name].items() if k != "blob"}
    return out


def _change(session: Session, where: Sequence[ColumnElement[bool]], values: Mapping[str, Any], kind: str) -> Job | None:
    """Change the one job that `where` finds, and write the event; None where it finds none."""
    job = session.scalars(
        update(Job).where(*where).values(**values, event=Job.event + 1).returning(Job).execution_options(
            synchronize_session=False, populate_existing=True
        )
    ).one_or_none()  # fmt: skip
    if job is not None:
        data = event_data(job)
        if job.error is not None and job.state == FAILED:
            data["error"] = job.error
        session.add(Event(job=job.id, number=job.event, type=kind, data=data))
    return job


# --------------------------------------------------------------------------------------------------- for the service


def add(session: Session, job: Job) -> Job:
    """A new job, queued."""
    job.state, job.event = QUEUED, 1
    job.stage = job.unit = job.message = ""
    job.done = job.total = job.failed_files = job.attempt = job.submissions = job.stalls = job.bytes = 0
    job.metrics, job.created = {}, time.time()
    session.add(job)
    session.flush()
    session.add(Event(job=job.id, number=1, type="state", data=event_data(job)))
    return job


def get(db: Database, id: str, owner: str | None = None) -> Job:
    """The job of an id, which belongs to the key `owner` if given. Raises UnknownJob."""
    with db.read() as session:
        job = session.get(Job, id)
    if job is None or (owner is not None and job.owner != owner):  # the same answer: who asks learns nothing
        raise UnknownJob(f"unknown job {id[:80]!r}", pointer="job", value=id[:80])
    return job


def cancel(db: Database, id: str, owner: str | None = None) -> Job:
    """Cancel a job, of the key `owner` if given; one that has ended stays as it is.

    Raises:
        UnknownJob.
    """
    get(db, id, owner)
    now = time.time()
    with db.write() as session:
        job = _change(
            session,
            [Job.id == id, Job.state == QUEUED],
            {"state": CANCELLED, "cancelled": now, **_end_columns(now)},
            "state",
        ) or _change(session, [Job.id == id, Job.state == RUNNING], {"state": CANCELLING, "cancelled": now}, "state")
    return job or get(db, id)


def delete_job(db: Database, id: str) -> list[str]:
    """Delete a finished job and its uploaded files; returns the blobs that it had.

    Raises:
        UnknownJob. NoResult: it has not ended.
    """
    spec = get(db, id).spec
    with db.write() as session:
        blobs = list(session.scalars(select(Shard.blob).where(Shard.job == id)))
        made = session.scalar(select(Job.result).where(Job.id == id)) or {}
        blobs += [made[name] for name in RESULT_BLOBS if made.get(name)]
        found = session.execute(delete(Job).where(Job.id == id, Job.state.in_(TERMINAL)))
        if not found.rowcount:  # type: ignore[attr-defined]
            raise NoResult("the job has not ended", details={"state": "unfinished"})
        corpus = session.get(Corpus, spec["corpus"])
        if corpus is not None and corpus.hidden and not _is_used(session, corpus.id):
            session.delete(corpus)
            blobs += corpora.blobs_of(corpus)
    return blobs


def delete_events(db: Database, moment: float) -> int:
    """Delete the events before a moment of finished jobs, except the last of each; returns how many."""
    last = select(Job.id).where(Job.id == Event.job, Job.state.in_(TERMINAL), Job.event > Event.number).exists()
    with db.write() as session:
        gone = session.execute(
            delete(Event).where(Event.at < moment, last).execution_options(synchronize_session=False)
        )
    return int(gone.rowcount)  # type: ignore[attr-defined]


def delete_replays(db: Database, moment: float) -> int:
    """Delete Idempotency-Keys older than a moment; returns how many."""
    with db.write() as session:
        gone = session.execute(delete(Replay).where(Replay.at < moment))
    return int(gone.rowcount)  # type: ignore[attr-defined]


def _is_used(session: Session, corpus: str) -> bool:
    """Whether a job names the corpus."""
    return session.scalars(select(Job.id).where(Job.spec["corpus"].as_string() == corpus).limit(1)).first() is not None


# ------------------------------------------------------------------------------------------------- for the reconciler


def count_submission(db: Database, job: Job, limit: int) -> bool:
    """Count a submission to Dask; False where another process was faster, or the job is not to be run any more.

    A job that was submitted `limit` times without finishing anything fails.
    """
    with db.write() as session:
        if job.stalls >= limit:
            error = describe_stall(job.stalls)
            where = [Job.id == job.id, Job.state.in_((QUEUED, RUNNING)), Job.stalls >= limit]
            _change(session, where, {"state": FAILED, "error": error, **_end_columns()}, "state")
            return False
        changed = session.execute(
            update(Job)
            .where(Job.id == job.id, Job.state.in_((QUEUED, RUNNING)), Job.submissions == job.submissions)
            .values(submissions=Job.submissions + 1, stalls=Job.stalls + 1)
        )
        return bool(changed.rowcount)  # type: ignore[attr-defined]


def describe_stall(times: int) -> dict[str, Any]:
    """The problem document of a job that makes no progress."""
    from phonechain.app.problems import documents as problems
    from phonechain.app.problems.errors import JobStalled

    return problems.document(
        JobStalled(
            f"gave up after {times} lost workers or schedulers without progress",
            value=times,
        )
    )


def close_cancelled(db: Database, grace: float) -> list[str]:
    """End the jobs whose workers did not answer a cancel within `grace` seconds; the ids."""
    limit = time.time() - grace
    with db.read() as session:
        late = list(session.scalars(select(Job.id).where(Job.state == CANCELLING, Job.cancelled <= limit)))
    for id in late:
        finish_cancelled(db, id)
    return late


# ----------------------------------------------------------------------------------------------------- for executions


def claim(db: Database, id: str) -> Job | None:
    """Start a new attempt at a job, the only one that may write; None if the job is not to be run."""
    with db.write() as session:
        return _change(
            session,
            [Job.id == id, Job.state.in_((QUEUED, RUNNING))],
            {
                "state": RUNNING,
                "attempt": Job.attempt + 1,
                "started": func.coalesce(Job.started, time.time()),
            },
            "state",
        )


def begin(db: Database, id: str, total: int, unit: str) -> None:
    """The first part of a sharded job runs: no attempt is counted, parts are done once by their number."""
    with db.write() as session:
        values = {"state": RUNNING, "started": time.time(), "stage": Job.kind, "total": total, "unit": unit}
        _change(session, [Job.id == id, Job.state == QUEUED], values, "state")


def check_wanted(db: Database, id: str, attempt: int | None = None) -> None:
    """Raises Cancelled or Fenced if the execution is to stop."""
    with db.read() as session:
        row = session.execute(select(Job.state, Job.attempt).where(Job.id == id)).one_or_none()
    if row is not None and row.state in (CANCELLING, CANCELLED):
        raise Cancelled
    if row is None or row.state != RUNNING or (attempt is not None and row.attempt != attempt):
        raise Fenced


def update_progress(db: Database, id: str, attempt: int, *, finished: bool = False, **values: Any) -> None:
    """Write the progress of a job; `finished` says that some work is done for good.

    Raises:
        Cancelled, Fenced.
    """
    more = {"stalls": 0} if finished else {}
    with db.write() as session:
        where = [Job.id == id, Job.state == RUNNING, Job.attempt == attempt]
        job = _change(session, where, {**values, **more}, "progress")
    if job is None:
        check_wanted(db, id, attempt)


def add_file_errors(db: Database, id: str, attempt: int, rows: Sequence[FileError]) -> None:
    """Add errors of single files, once per file. Raises Fenced, Cancelled."""
    with db.write() as session:
        there = set(session.scalars(select(FileError.index).where(FileError.job == id)))
        new = [row for row in rows if row.index not in there]
        where = [Job.id == id, Job.state == RUNNING, Job.attempt == attempt]
        job = _change(session, where, {"failed_files": Job.failed_files + len(new)}, "progress") if new else None
        if job is not None:
            session.add_all(new)
    if new and job is None:
        check_wanted(db, id, attempt)


def finish_shard(db: Database, shard: Shard, errors: Sequence[FileError], total: int, size: int) -> bool:
    """Keep a part's answers of `size` bytes, its errors and the progress they make, once; False where that was done before.

    Raises:
        Cancelled, Fenced.
    """
    with db.write() as session:
        # The job's row first: its lock makes parts of one job wait for one another, on PostgreSQL too.
        where = [Job.id == shard.job, Job.state == RUNNING]
        done = {
            "done": Job.done + shard.utterances,
            "failed_files": Job.failed_files + shard.failed, "bytes": Job.bytes + size,
            "total": total, "unit": "utterances", "stage": Job.kind, "stalls": 0,
        }  # fmt: skip
        job = _change(session, where, done, "progress")
        if job is not None and session.get(Shard, (shard.job, shard.number)) is not None:
            session.rollback()
            return False
        if job is not None:
            session.add(shard)
            session.add_all(errors)
    if job is None:
        check_wanted(db, shard.job)
    return True


def is_shard_done(db: Database, id: str, number: int) -> bool:
    """Whether a part was finished before."""
    with db.read() as session:
        return session.get(Shard, (id, number)) is not None


def succeed(session: Session, id: str, attempt: int | None, result: dict[str, Any], size: int = 0) -> None:
    """End a job with its result, a blob of `size` bytes that no other row names, in the caller's transaction. Raises Fenced."""
    where = [Job.id == id, Job.state.in_((RUNNING, QUEUED) if attempt is None else (RUNNING,))]
    if attempt is not None:
        where.append(Job.attempt == attempt)
    if (
        _change(
            session,
            where,
            {"state": SUCCEEDED, "result": result, "message": "", "bytes": Job.bytes + size, **_end_columns()},
            "state",
        )
        is None
    ):
        raise Fenced


def fail(db: Database, id: str, attempt: int | None, error: dict[str, Any]) -> None:
    """End a job with the reason, unless it has ended or another execution has it."""
    where = [Job.id == id, Job.state.in_((QUEUED, RUNNING))]
    if attempt is not None:
        where.append(Job.attempt == attempt)
    with db.write() as session:
        _change(session, where, {"state": FAILED, "error": error, **_end_columns()}, "state")


def finish_cancelled(db: Database, id: str, result: dict[str, Any] | None = None) -> bool:
    """End a job that is being cancelled. Finished work stays; False if the job had already ended."""
    more = {} if result is None else {"result": result}
    with db.write() as session:
        where = [Job.id == id, Job.state == CANCELLING]
        return _change(session, where, {"state": CANCELLED, **more, **_end_columns()}, "state") is not None


def _end_columns(now: float | None = None) -> dict[str, Any]:
    moment = time.time() if now is None else now
    return {"ended": moment, "webhook_next": moment}
