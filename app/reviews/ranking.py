"""Which recordings of a review to label next, and what its trainings have brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from phonechain.app.jobs import scores
from phonechain.app.reviews import intake
from phonechain.app.reviews.edits import ReviewSegment
from phonechain.app.reviews.repository import Reviews
from phonechain.app.reviews.tables import ReviewFile
from phonechain.app.storage.ids import timestamp
from phonechain.app.storage.tables import Corpus, Job
from phonechain.app.storage.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recording with something left to check. `doubt` is the mean of 1 - p(answer) over what nobody has checked."""

    file: ReviewFile
    doubt: float
    unchecked: int


def measure_doubt(answer: dict[str, Any], segments: Sequence[ReviewSegment]) -> tuple[float, int]:
    """(mean of 1 - p(answer), number) of the segments that nobody has checked and the model was asked about."""
    best = answer["n_best"]
    open_ = [1.0 - best[s.id][1] for s in segments if not s.reviewed and s.id < len(best) and best[s.id]]
    return (sum(open_) / len(open_) if open_ else 0.0), len(open_)


def spread_speakers(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The most doubtful first, a speaker at a time: each one's most doubtful recording, then each one's second, ...

    A recording of unknown speaker counts as one of a speaker of its own.
    """
    groups: dict[object, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda c: (-c.doubt, c.file.number)):
        groups.setdefault(one.file.speaker or one.file.number, []).append(one)
    ranked = [(turn, -one.doubt, one.file.number, one) for group in groups.values() for turn, one in enumerate(group)]
    return [one for *_, one in sorted(ranked, key=lambda item: item[:3])]


def choose_next(reviews: Reviews, id: str, count: int) -> list[dict[str, Any]]:
    """The recordings to label next: `NextFile`s. Raises UnknownReview."""
    _, files, _ = reviews.get(id)
    found = []
    for file in files:
        answer = intake.read_answer(reviews.workspace, file.answer)
        own, unchecked = measure_doubt(answer, reviews.segments(id, file.number)[1])
        if unchecked:
            found.append(Candidate(file, own, unchecked))
    return [
        {
            "number": c.file.number,
            "name": c.file.name,
            "speaker": c.file.speaker,
            "doubt": round(c.doubt, 4),
            "unchecked": c.unchecked,
            "duration": c.file.duration,
        }
        for c in spread_speakers(found)[:count]
    ]


def find_corpus(reviews: Reviews, id: str, owner: str | None) -> dict[str, Any] | None:
    """The corpus that the model of a review was trained on by a job, if it is still there. Raises UnknownReview."""
    _, files, _ = reviews.get(id)
    if not files:
        return None
    model = files[0].model
    query = (
        select(Corpus)
        .join(Job, Corpus.id == Job.spec["corpus"].as_string())
        .where(
            Job.kind == "train",
            Job.state == "succeeded",
            Job.result["name"].as_string() == model["name"],
            Job.result["version"].as_string() == model["version"],
        )
        .order_by(Job.id.desc())
    )
    if owner is not None:
        query = query.where(Corpus.owner == owner)
    with reviews.workspace.db.read() as session:
        found = session.scalars(query.limit(1)).first()
        return None if found is None else {"id": found.id, "name": found.name, "utterances": found.utterances}


def list_trainings(reviews: Reviews, id: str, limit: int) -> list[dict[str, Any]]:
    """The trainings on corpora of a review, the newest first: `ReviewTraining`s. Raises UnknownReview."""
    reviews.get(id)
    workspace = reviews.workspace
    query = (
        select(Job, Corpus)
        .join(Corpus, Corpus.id == Job.spec["corpus"].as_string())
        .where(Job.kind == "train", Corpus.options["review"].as_string() == id)
        .order_by(Job.id.desc())
        .limit(limit)
    )
    with workspace.db.read() as session:
        found = [(job, float(corpus.options["checked_seconds"])) for job, corpus in session.execute(query)]
    return [_training_to_json(workspace, job, seconds) for job, seconds in found]


def _training_to_json(workspace: Workspace, job: Job, seconds: float) -> dict[str, Any]:
    result = job.result or {}
    made: dict[str, Any] = {
        "job": job.id, "model": job.spec["name"], "state": job.state, "created": timestamp(job.created),
        "checked_seconds": round(seconds, 3), "error": (result.get("metrics") or {}).get("dev_error"), "low": None,
        "high": None, "segments": None,
    }  # fmt: skip
    if scores.FIGURES in result:
        figures = scores.read_figures(workspace, job)
        between = figures["interval"]
        made |= {
            "error": figures["per"],
            "low": between["low"],
            "high": between["high"],
            "segments": figures["segments"],
        }
    return made


def count_checked_seconds(reviews: Reviews, id: str) -> float:
    """Seconds of the segments that a person has checked. Raises UnknownReview."""
    _, files, _ = reviews.get(id)
    return sum(s.end - s.start for f in files for s in reviews.segments(id, f.number)[1] if s.reviewed)
