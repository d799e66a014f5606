"""A job as it is answered, by routes and in webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phonechain.app.http import pagination
from phonechain.app.jobs import repository
from phonechain.app.storage.tables import TERMINAL, Job


def job_to_json(job: Job) -> dict[str, Any]:
    """A job as it is answered."""
    links = {"self": f"/jobs/{job.id}", "events": f"/jobs/{job.id}/events", "errors": f"/jobs/{job.id}/errors"}
    if job.state in TERMINAL and (job.result is not None or job.kind == "label"):
        links["result"] = f"/jobs/{job.id}/result"
    if job.state not in TERMINAL:
        links["cancel"] = f"/jobs/{job.id}/cancel"
    result = None if job.result is None else {k: v for k, v in job.result.items() if k != "blob"}
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "progress": repository.progress_json(job),
        "failed_files": job.failed_files,
        "attempt": job.attempt,
        "request": _request_to_json(job),
        "error": job.error,
        "result": result,
        "created": pagination.timestamp(job.created),
        "started": pagination.timestamp(job.started),
        "ended": pagination.timestamp(job.ended),
        "links": links,
    }


def _request_to_json(job: Job) -> dict[str, Any]:
    """What was asked for, as it is job_to_json: without where blobs lie."""
    spec: Mapping[str, Any] = job.spec
    hidden = ("part", "parts", "total", "corpus_name")
    out = {k: v for k, v in spec.items() if k not in hidden and v not in (None, {}, [], "")}
    for name in ("model", "base"):
        if isinstance(out.get(name), dict):
            out[name] = {k: v for k, v in out[name].items() if k != "blob"}
    return out
