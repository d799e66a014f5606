"""Evaluation as a job: one worker, a JSON document at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from phonechain.app.corpora import contents
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution as shared
from phonechain.app.jobs import repository as table
from phonechain.app.jobs.outage import patiently
from phonechain.app.jobs.train import _Report
from phonechain.app.storage.tables import FileError, Job
from phonechain.app.storage.workspace import Place
from phonechain.features.errors import CorpusError, PhonechainError

if TYPE_CHECKING:
    from phonechain.features.segments import Utterance


def run(place: Place, job: Job) -> None:
    """Score the model on the corpus, or on one of its splits.

    Raises:
        Cancelled, Fenced, and whatever makes the job fail.
    """
    shared.one_thread()
    from phonechain.model.scoring.evaluation import evaluate

    spec = job.spec
    corpus = shared.corpus_of(place, spec["corpus"])
    model = shared.labeler(place, spec["model"]["blob"])
    report = _Report(place, job)
    errors: list[FileError] = []

    def bad(line: Line, error: PhonechainError) -> None:
        errors.append(shared.file_error(job.id, line.place, line.id, error))

    read = contents.utterances(place, corpus, progress=report.counting("corpus"), problem=bad)
    name, utterances = _chosen(read, spec.get("split"))
    found = evaluate(model, utterances, drop=spec["drop"], decode=spec["options"]["decode"], progress=report.event)
    patiently(table.note_errors, place.db, job.id, job.attempt, errors)
    body = {
        "model": {"name": spec["model"]["name"], "version": spec["model"]["version"]},
        "corpus": {"id": corpus.id, "name": corpus.name, "split": name},
        **found.as_dict(),
    }
    digest = place.store.put(json.dumps(body, ensure_ascii=False).encode())
    result = {"blob": digest, "per": found.per, "segments": found.segments, "errors": found.errors}
    patiently(_end, place, job, result)


def _end(place: Place, job: Job, result: dict[str, object]) -> None:
    with place.db.write() as session:
        table.succeed(session, job.id, job.attempt, result)


def _chosen(utterances: list[Utterance], split: str | None) -> tuple[str | None, list[Utterance]]:
    there = {u.split for u in utterances if u.split}
    name = split if split is not None else ("test" if "test" in there else None)
    if name is None:
        return None, utterances
    if name not in there:
        names = ", ".join(sorted(there)) or "none"
        raise CorpusError(f"expected a split named {name[:80]}, got {names}", pointer="split", value=name[:80])
    return name, [u for u in utterances if u.split == name]
