"""What Dask runs: each function takes plain values, and leaves everything that matters in the database and the store.

A fault that is the job's ends the job, with its reason. What is not the job's (a database that stays away, a worker
that dies) leaves the row as it is, and the reconciler hands the job over again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from phonechain.app.jobs import execution as shared
from phonechain.app.jobs import repository as table
from phonechain.app.jobs.outage import patiently
from phonechain.app.problems.errors import DatabaseAway, UnknownJob
from phonechain.app.storage.tables import RUNNING
from phonechain.app.storage.workspace import Place

log = logging.getLogger(__name__)


def run_job(given: Mapping[str, Any], id: str) -> str:
    """Run a training or evaluation job to its end; the word says how it went, for the log of the scheduler."""
    place = Place.here(given)
    job = patiently(table.claim, place.db, id)
    if job is None:
        patiently(table.cancelled, place.db, id)
        return "not wanted"
    try:
        if job.kind == "train":
            from phonechain.app.jobs import train

            train.run(place, job)
        else:
            from phonechain.app.jobs import evaluate

            evaluate.run(place, job)
    except table.Cancelled:
        patiently(table.cancelled, place.db, id)
        return "cancelled"
    except table.Fenced:
        return "fenced"
    except DatabaseAway:
        raise
    except Exception as error:
        log.exception("job %s failed", id)
        patiently(table.fail, place.db, id, job.attempt, shared.reason(error))
        return "failed"
    return "done"


def run_part(given: Mapping[str, Any], id: str, number: int) -> str:
    """Run one part of a labelling job."""
    place = Place.here(given)
    try:
        from phonechain.app.jobs import label

        label.run_part(place, id, number)
    except table.Cancelled:
        patiently(table.cancelled, place.db, id)
        return "cancelled"
    except (table.Fenced, UnknownJob):
        return "fenced"
    except DatabaseAway:
        raise
    except Exception as error:
        log.exception("job %s failed in part %d", id, number)
        patiently(table.fail, place.db, id, None, shared.reason(error))
        return "failed"
    return "done"


def end_label(given: Mapping[str, Any], id: str, *parts: Any) -> str:
    """After all parts of a labelling job: it has succeeded if every part is there."""
    place = Place.here(given)
    try:
        job = patiently(table.get, place.db, id)
    except UnknownJob:
        return "not wanted"
    if job.state != RUNNING:
        return "not wanted"
    done = patiently(table.shards, place.db, id)
    if len(done) != job.spec["parts"]:
        return "incomplete"  # parts were lost with their answers: the reconciler hands the job over again
    result = {
        "utterances": sum(s.utterances for s in done),
        "segments": sum(s.segments for s in done),
        "failed": sum(s.failed for s in done),
    }
    try:
        patiently(_end, place, id, result)
    except table.Fenced:
        return "not wanted"
    return "done"


def _end(place: Place, id: str, result: dict[str, Any]) -> None:
    with place.db.write() as session:
        table.succeed(session, id, None, result)
