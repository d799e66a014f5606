"""Evaluation as a job: one worker, a JSON document at the end."""

from __future__ import annotations

import json

from phonechain.app.corpora import contents, splits
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution, repository, scores
from phonechain.app.jobs.outage import retry_database
from phonechain.app.jobs.progress import ProgressReporter
from phonechain.app.storage import references
from phonechain.app.storage.tables import FileError, Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import PhonechainError


def run(workspace: Workspace, job: Job) -> None:
    """Score the model on the corpus, or on one of its splits.

    Raises:
        Cancelled, Fenced, and whatever makes the job fail.
    """
    execution.limit_threads()
    from phonechain.model.scoring.evaluation import score

    spec = job.spec
    with workspace.db.read() as session:
        corpus = corpora.get(session, spec["corpus"])
    model = execution.load_labeler(workspace, spec["model"]["blob"])
    report = ProgressReporter(workspace, job)
    errors: list[FileError] = []

    def bad(line: Line, error: PhonechainError) -> None:
        errors.append(execution.make_file_error(job.id, line.index, line.id, error))

    read = contents.read_utterances(workspace, corpus, progress=report.counting("corpus"), problem=bad)
    name = splits.choose_test({u.split for u in read if u.split}, spec.get("split"))
    utterances = read if name is None else splits.select(read, name)
    options = spec["options"]
    scored = score(
        model,
        utterances,
        drop=spec["drop"],
        decode=options["decode"],
        mapping=options.get("map"),
        progress=report.event,
    )
    found = scored.summarise()
    retry_database(repository.add_file_errors, workspace.db, job.id, job.attempt, errors)
    body = {
        "model": {"name": spec["model"]["name"], "version": spec["model"]["version"]},
        "corpus": {"id": corpus.id, "name": corpus.name, "split": name},
        **found.as_dict(),
    }
    with references.hold_blobs(workspace) as holds:
        digest = retry_database(holds.workspace.store.put, json.dumps(body, ensure_ascii=False).encode())
        kept = retry_database(scores.keep, holds.workspace, scored, {"corpus": body["corpus"]})
        result = {"blob": digest, "per": found.per, "segments": found.segments, "errors": found.errors, **kept}
        retry_database(_succeed, workspace, job, result)


def _succeed(workspace: Workspace, job: Job, result: dict[str, object]) -> None:
    with workspace.db.write() as session:
        size = workspace.store.size(str(result["blob"]))
        repository.succeed(session, job.id, job.attempt, result, size)
