"""What a job keeps of an evaluation: its figures, and every scored segment, so that each confusion can be heard.

A training has scores of the part that it held out; an evaluation of what it was asked to score. Both are blobs that the
job's result names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from phonechain.app.problems.errors import NoResult
from phonechain.app.storage.tables import Job
from phonechain.app.storage.workspace import Workspace

if TYPE_CHECKING:
    from phonechain.model.scoring.evaluation import ScoredSegments

FIGURES, SEGMENTS = "evaluation", "segments_blob"
"""Members of a job's result that name the blobs."""


def keep(workspace: Workspace, scored: ScoredSegments, about: dict[str, Any]) -> dict[str, str]:
    """Members of the result that name figures and segments. `about` goes before the figures. Raises StorageFull."""
    figures = json.dumps({**about, **scored.summarise().as_dict()}, ensure_ascii=False)
    rows = json.dumps(to_columns(scored), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {FIGURES: workspace.store.put(figures.encode()), SEGMENTS: workspace.store.put(rows.encode())}


def to_columns(scored: ScoredSegments) -> dict[str, Any]:
    """The scored segments in columns: `utterance` and `given` are indices in lists, `true` and `answer` indices in `labels`.

    `true` is -1 where the model does not have the given label; `posterior` is the answer's, `of_true` the true label's.
    """
    rows = np.arange(len(scored.true))
    names, given = np.unique(np.asarray(scored.names, dtype=object).astype(str), return_inverse=True)
    ids = list(dict.fromkeys(scored.utterances))
    place = {id: n for n, id in enumerate(ids)}
    known = np.maximum(scored.true, 0)
    ends = scored.starts + (scored.durations if scored.durations is not None else 0.0)
    return {
        "labels": scored.labels,
        "names": names.tolist(),
        "utterances": ids,
        "utterance": [place[id] for id in scored.utterances],
        "start": np.round(scored.starts, 6).tolist(),
        "end": np.round(ends, 6).tolist(),
        "given": given.tolist(),
        "true": scored.true.tolist(),
        "answer": scored.predicted.tolist(),
        "posterior": np.round(scored.posterior[rows, scored.predicted].astype(np.float64), 5).tolist(),
        "of_true": np.where(
            scored.true >= 0, np.round(scored.posterior[rows, known].astype(np.float64), 5), 0.0
        ).tolist(),
    }


def read_figures(workspace: Workspace, job: Job) -> dict[str, Any]:
    """The figures that a job has kept. Raises NoResult."""
    return _read(workspace, job, FIGURES)


def read_segments(workspace: Workspace, job: Job, true: str | None, answer: str | None, limit: int) -> dict[str, Any]:
    """Segments of one cell of the confusion matrix, of a row or a column: the surest answers first.

    Raises:
        NoResult.
    """
    kept = _read(workspace, job, SEGMENTS)
    labels = kept["labels"]
    rows = [
        n
        for n, (t, a) in enumerate(zip(kept["true"], kept["answer"], strict=True))
        if t >= 0 and (true is None or labels[t] == true) and (answer is None or labels[a] == answer)
    ]
    rows.sort(key=lambda n: -kept["posterior"][n])
    return {
        "count": len(rows),
        "segments": [
            {
                "utterance": kept["utterances"][kept["utterance"][n]],
                "start": kept["start"][n],
                "end": kept["end"][n],
                "given": kept["names"][kept["given"][n]],
                "true": labels[kept["true"][n]],
                "answer": labels[kept["answer"][n]],
                "posterior": kept["posterior"][n],
                "true_posterior": kept["of_true"][n],
            }
            for n in rows[:limit]
        ],
    }


def _read(workspace: Workspace, job: Job, member: str) -> dict[str, Any]:
    digest = (job.result or {}).get(member)
    if digest is None:
        raise NoResult(f"no evaluation: the job is {job.state}", details={"state": job.state})
    return dict(json.loads(workspace.store.local(digest).read_bytes()))
