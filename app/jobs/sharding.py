"""Jobs that are split over the utterances of a corpus: each part a range of them, done by the job's kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phonechain.app.corpora import contents, manifest
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution, queries, repository
from phonechain.app.jobs.outage import Throttle, retry_database
from phonechain.app.jobs.parts import Part, store
from phonechain.app.storage import references
from phonechain.app.storage.tables import Corpus, Job, Shard
from phonechain.app.storage.workspace import Workspace
from phonechain.features.statistics import SpeakerStatistics


def measure_part(workspace: Workspace, id: str, number: int) -> dict[str, Any]:
    """What part `number` of a labelling job knows of speakers whose recordings are spread over parts: their statistics.

    Raises:
        Cancelled, Fenced, DatabaseAway, and whatever makes the whole job fail.
    """
    job = retry_database(repository.get, workspace.db, id)
    spec = job.spec
    with workspace.db.read() as session:
        corpus = corpora.get(session, spec["corpus"])
    spread = manifest.find_spread_speakers(workspace.store.local(corpus.manifest), spec["part"])
    if not spread or len(retry_database(queries.list_shards, workspace.db, id)) == spec["parts"]:
        return {}
    retry_database(repository.begin, workspace.db, id, spec["total"], "utterances")
    retry_database(repository.check_wanted, workspace.db, id)
    execution.limit_threads()
    lines = read_part(workspace, corpus, number, spec["part"], whole_speakers=True)
    own = [line for line in lines if line.speaker in spread]
    from phonechain.app.jobs import label

    still_wanted = Throttle(lambda: repository.check_wanted(workspace.db, id))
    measured = label.measure(workspace, job, own, contents.open_files(workspace, corpus), still_wanted)
    return {speaker: statistics.to_dict() for speaker, statistics in measured.items()}


def merge_measures(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The statistics of each speaker from those of all parts."""
    of: dict[str, list[SpeakerStatistics]] = {}
    for part in parts:
        for speaker, stored in part.items():
            of.setdefault(speaker, []).append(SpeakerStatistics.from_dict(stored))
    return {speaker: SpeakerStatistics.merge(several).to_dict() for speaker, several in of.items()}


def run_part(workspace: Workspace, id: str, number: int, measured: Mapping[str, Any]) -> None:
    """Do part `number` of a job, unless it is done or not wanted any more; `measured` are statistics of speakers.

    Raises:
        Cancelled, Fenced, StorageFull, DatabaseAway, and whatever makes the whole job fail.
    """
    job = retry_database(repository.get, workspace.db, id)
    spec = job.spec
    retry_database(repository.begin, workspace.db, id, spec["total"], "utterances")
    retry_database(repository.check_wanted, workspace.db, id)
    if retry_database(repository.is_shard_done, workspace.db, id, number):
        return
    execution.limit_threads()
    with workspace.db.read() as session:
        corpus = corpora.get(session, spec["corpus"])
    # a job that was taken by an earlier version does not say whether speakers stay whole
    lines = read_part(workspace, corpus, number, spec["part"], whole_speakers=spec.get("whole_speakers", False))
    still_wanted = Throttle(lambda: repository.check_wanted(workspace.db, id))
    part = _work(workspace, job, lines, contents.open_files(workspace, corpus), still_wanted, measured)
    with references.hold_blobs(workspace) as holds:
        digest = retry_database(store, holds.workspace, part)
        made = Shard(
            job=id, number=number, blob=digest, utterances=len(lines), segments=part.segments, failed=len(part.errors)
        )
        stored = workspace.store.size(digest)
        retry_database(repository.finish_shard, workspace.db, made, part.errors, spec["total"], stored)


def read_part(workspace: Workspace, corpus: Corpus, number: int, size: int, *, whole_speakers: bool) -> list[Line]:
    """The lines of a part, `size` of them.

    With `whole_speakers`, a part neither begins nor ends within the lines of a speaker, if these are at most `size`: it has up
    to twice as many then, or none. Lines go to this part or, those at its beginning, to the one before.
    """
    first = number * size
    before = max(0, first - 1) if whole_speakers else first
    lines = list(
        contents.read_lines(workspace, corpus, before, first - before + (2 * size if whole_speakers else size))
    )
    if not whole_speakers:
        return lines
    speakers = [line.speaker for line in lines]
    begin = _next_speaker(speakers, first - before, size)
    return lines[begin : _next_speaker(speakers, first - before + size, size)]


def _next_speaker(speakers: Sequence[str | None], at: int, most: int) -> int:
    """The first place from `at` on where another speaker begins, or the end; `at` where there is none within `most`."""
    for place in range(at, at + most):
        if place <= 0 or place >= len(speakers) or speakers[place] is None or speakers[place] != speakers[place - 1]:
            return place
    return at


def _work(
    workspace: Workspace,
    job: Job,
    lines: Sequence[Line],
    files: Files,
    still_wanted: Throttle,
    measured: Mapping[str, Any],
) -> Part:
    """The answers to the lines, by the job's kind."""
    if job.kind == "label":
        from phonechain.app.jobs import label

        known = {speaker: SpeakerStatistics.from_dict(stored) for speaker, stored in measured.items()}
        return label.run(workspace, job, lines, files, still_wanted, known)
    if job.kind in ("align", "recognize"):
        from phonechain.app.jobs import align

        return align.run(workspace, job, lines, files, still_wanted)
    raise ValueError(f"unknown kind of job: {job.kind!r}")
