"""What Dask runs: each function takes plain values, and leaves everything that matters in the database and the store.

A fault that is the job's ends the job, with its reason. What is not the job's (a database that stays away, a worker
that dies) leaves the row as it is, and the reconciler submits the job again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from phonechain.app.jobs import execution, queries, repository
from phonechain.app.jobs.outage import retry_database
from phonechain.app.problems.errors import DatabaseAway, UnknownJob
from phonechain.app.storage.tables import RUNNING
from phonechain.app.storage.workspace import Workspace

T = TypeVar("T")

log = logging.getLogger(__name__)


def run_job(given: Mapping[str, Any], id: str) -> str:
    """Run a training or evaluation job to its end; the word says how it went, for the log of the scheduler."""
    workspace = Workspace.for_task(given)
    job = retry_database(repository.claim, workspace.db, id)
    if job is None:
        retry_database(repository.finish_cancelled, workspace.db, id)
        return "not wanted"
    try:
        if job.kind == "train":
            from phonechain.app.jobs import train

            train.run(workspace, job)
        elif job.kind == "evaluate":
            from phonechain.app.jobs import evaluate

            evaluate.run(workspace, job)
        else:
            raise ValueError(f"unknown kind of job: {job.kind!r}")
    except repository.Cancelled:
        retry_database(repository.finish_cancelled, workspace.db, id)
        return "cancelled"
    except repository.Fenced:
        return "fenced"
    except DatabaseAway:
        raise
    except Exception as error:
        log.exception("job %s failed", id)
        retry_database(repository.fail, workspace.db, id, job.attempt, execution.error_to_json(error))
        return "failed"
    return "done"


def measure_part(given: Mapping[str, Any], id: str, number: int) -> dict[str, Any]:
    """Statistics of the speakers whose recordings are spread over the parts of a labelling job, from one part."""
    from phonechain.app.jobs import sharding

    workspace = Workspace.for_task(given)
    measured = _run_of_part(workspace, id, number, lambda: sharding.measure_part(workspace, id, number))
    return measured if isinstance(measured, dict) else {}  # a job that ended has no use for them


def merge_measures(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of each of these speakers over the whole job."""
    from phonechain.app.jobs import sharding

    return sharding.merge_measures(parts)


def run_part(given: Mapping[str, Any], id: str, number: int, measured: Mapping[str, Any] | None = None) -> str:
    """Run one part of a job that is split over a corpus; `measured` are the statistics of speakers from `merge_measures`."""
    from phonechain.app.jobs import sharding

    workspace = Workspace.for_task(given)
    ended = _run_of_part(workspace, id, number, lambda: sharding.run_part(workspace, id, number, measured or {}))
    return ended or "done"


def _run_of_part(workspace: Workspace, id: str, number: int, action: Callable[[], T]) -> T | str:
    """What `action` gives, or a word that says why the job has no use for it."""
    try:
        return action()
    except repository.Cancelled:
        retry_database(repository.finish_cancelled, workspace.db, id)
        return "cancelled"
    except (repository.Fenced, UnknownJob):
        return "fenced"
    except DatabaseAway:
        raise
    except Exception as error:
        log.exception("job %s failed in part %d", id, number)
        retry_database(repository.fail, workspace.db, id, None, execution.error_to_json(error))
        return "failed"


def end_parts(given: Mapping[str, Any], id: str, *parts: Any) -> str:
    """After all parts of a job: it has succeeded if every part is there."""
    workspace = Workspace.for_task(given)
    try:
        job = retry_database(repository.get, workspace.db, id)
    except UnknownJob:
        return "not wanted"
    if job.state != RUNNING:
        return "not wanted"
    done = retry_database(queries.list_shards, workspace.db, id)
    if len(done) != job.spec["parts"]:
        return "incomplete"  # parts were lost with their answers: the reconciler submits the job again
    result = {
        "utterances": sum(s.utterances for s in done),
        "segments": sum(s.segments for s in done),
        "failed": sum(s.failed for s in done),
    }
    try:
        retry_database(_succeed, workspace, id, result)
    except repository.Fenced:
        return "not wanted"
    return "done"


def _succeed(workspace: Workspace, id: str, result: dict[str, Any]) -> None:
    with workspace.db.write() as session:
        repository.succeed(session, id, None, result)
