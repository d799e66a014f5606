"""Training as a job: one worker, a checkpoint an epoch, and at the end a version of a model."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.corpora import contents, splits
from phonechain.app.corpora import repository as corpora
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution, repository, scores
from phonechain.app.jobs.outage import retry_database
from phonechain.app.jobs.progress import ProgressReporter
from phonechain.app.models import repository as versions
from phonechain.app.storage import references
from phonechain.app.storage.tables import FileError, Job, ModelVersion
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import CorpusError, PhonechainError, SettingsError

if TYPE_CHECKING:
    from phonechain.features.segments import Segment, Utterance
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.presets import Preset

log = logging.getLogger(__name__)


def settings_of(spec: dict[str, Any]) -> Preset:
    """The preset of a job with its changes. Raises SettingsError."""
    from phonechain.model import presets, settings

    made = presets.preset(spec["preset"])
    if made.name == presets.AUTO:
        if spec.get("model_settings"):
            raise SettingsError(
                "the preset auto chooses the settings of the model: leave them out", pointer="model_settings"
            )
        return presets.auto(spec.get("training") or {})
    if spec.get("model_settings"):
        with _errors_below("model_settings"):
            changed = settings.from_dict(settings.ModelSettings, spec["model_settings"])
        made = dataclasses.replace(made, model=changed.experts[0] if changed.experts else changed)
    if spec.get("training"):
        with _errors_below("training"):
            made = dataclasses.replace(made, training=settings.replace(made.training, spec["training"]))
    return made


@contextlib.contextmanager
def _errors_below(member: str) -> Iterator[None]:
    """Errors about a setting point below this member of the request."""
    try:
        yield
    except SettingsError as error:
        place = f"{member}/{error.pointer}".rstrip("/") if error.pointer else member
        raise SettingsError(f"{member}: {error}", pointer=place, value=error.value, limit=error.limit) from None


def run(workspace: Workspace, job: Job) -> None:
    """Train, from the last whole epoch where there is one.

    Raises:
        Cancelled, Fenced, and whatever makes the job fail.
    """
    execution.limit_threads()
    spec = job.spec
    with workspace.db.read() as session:
        corpus = corpora.get(session, spec["corpus"])
    report = ProgressReporter(workspace, job)
    errors: list[FileError] = []

    def bad(line: Line, error: PhonechainError) -> None:
        errors.append(execution.make_file_error(job.id, line.index, line.id, error))

    read = contents.read_utterances(workspace, corpus, progress=report.counting("corpus"), problem=bad)
    blob = (spec.get("base") or {}).get("blob")
    base = execution.load_labeler(workspace, blob).trainable() if blob else None
    learnt = (spec.get("teacher") or {}).get("blob")
    teacher = execution.load_labeler(workspace, learnt) if learnt else None
    if spec.get("map"):
        read = respell(read, spec["map"])
    if base is not None and spec.get("fold"):
        counts = Counter(s.label for u in read for s in u.segments if s.label is not None)
        read = base.label_set_.compare(counts).respell(read)
    utterances, dev = split_of(read, spec)
    labeler = _labeler(spec, base)
    try:
        _fit(workspace, job, labeler, base, teacher, utterances, dev, report)
    except repository.Cancelled:
        _keep_partial(workspace, job, labeler)
        raise
    indices = {line.id: line.index for line in contents.read_lines(workspace, corpus)} if labeler.problems_ else {}
    errors += [execution.make_file_error(job.id, indices.get(u.id, -1), u.id, e) for u, e in labeler.problems_]
    retry_database(repository.add_file_errors, workspace.db, job.id, job.attempt, errors)
    report.stage("save", 0, 1, "files")
    folder = workspace.run_folder(job.id)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"model.{job.attempt}.safetensors"
    labeler.save(path)
    with references.hold_blobs(workspace) as holds:
        kept = _score(holds.workspace, labeler, spec, report)
        retry_database(_succeed, holds.workspace, job, labeler, path, kept)
    discard(workspace, job.id)


def respell(utterances: list[Utterance], mapping: dict[str, str | None]) -> list[Utterance]:
    """The utterances with labels replaced by those of a map; null takes a label away, and its segment is not learnt from."""

    def rename(s: Segment) -> Segment:
        return dataclasses.replace(s, label=mapping[s.label]) if s.label in mapping else s

    return [dataclasses.replace(u, segments=[rename(s) for s in u.segments]) for u in utterances]


def _score(
    workspace: Workspace, labeler: PhoneLabeler, spec: dict[str, Any], report: ProgressReporter
) -> dict[str, str]:
    """Score what was held out, with every segment, so that its confusions can be heard; members of the job's result."""
    from phonechain.model.scoring.evaluation import score

    try:
        scored = score(labeler, labeler.held_out_, progress=report.event)
    except CorpusError as error:  # no segment held out has a label of the model: nothing to tell
        log.warning("cannot score the held-out part: %s", error)
        return {}
    about = {"corpus": {"id": spec["corpus"], "name": spec["corpus_name"], "split": "held out"}}
    return retry_database(scores.keep, workspace, scored, about)


def _succeed(workspace: Workspace, job: Job, labeler: PhoneLabeler, path: Path, kept: dict[str, str]) -> None:
    """Add the model as a version and end the job, both or neither. Raises Fenced, StorageFull."""
    digest = workspace.store.put(path)
    row = versions.make_row(labeler, job.spec["name"], digest, path.stat().st_size, job.id, job.owner)
    result: dict[str, Any] = {"name": row.name, "version": row.version, "blob": digest, "metrics": labeler.metrics_}
    result |= kept
    if labeler.start_:  # what the training began with, where that is worth a word
        result["start"] = labeler.start_
    if labeler.notices_:
        result["warnings"] = [notice.as_dict() for notice in labeler.notices_]
    with workspace.db.write() as session:
        if session.get(ModelVersion, (row.name, row.version)) is None:
            session.add(row)
        repository.succeed(session, job.id, job.attempt, result)


def _labeler(spec: dict[str, Any], base: PhoneLabeler | None) -> PhoneLabeler:
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.presets import AUTO

    chosen = settings_of(spec)
    return PhoneLabeler(
        spec["preset"],
        model=None if chosen.name == AUTO else chosen.model,
        training=chosen.training,
        features=base.features_ if base is not None else None,
        drop=spec["drop"],
        name=spec["name"],
        description=spec["description"],
        licence=spec["licence"],
        data=spec["data"],
        limits=spec["limits"],
        device=execution.device(),
    )


def _fit(
    workspace: Workspace,
    job: Job,
    labeler: PhoneLabeler,
    base: PhoneLabeler | None,
    teacher: PhoneLabeler | None,
    utterances: list[Utterance],
    dev: list[Utterance] | None,
    report: ProgressReporter,
) -> None:
    folder = workspace.run_folder(job.id)
    folder.mkdir(parents=True, exist_ok=True)
    labeler.fit(
        utterances,
        dev=dev,
        progress=report.event,
        stop=report.stop,
        run_dir=folder,
        base=base,
        teacher=teacher,
        corpus=job.spec["corpus_name"],
        command=f"job {job.id}",
    )


def _keep_partial(workspace: Workspace, job: Job, labeler: PhoneLabeler) -> None:
    """End a cancelled job with the model of its best whole epoch as its result, if there was one.

    It is no version of the model: nobody said that it is good enough, and its posteriors are not calibrated.
    """
    folder = workspace.run_folder(job.id)
    try:
        if not labeler.recover(folder):
            return
        path = folder / f"partial.{job.attempt}.safetensors"
        labeler.save(path)
        with references.hold_blobs(workspace) as holds:
            result = {
                "name": job.spec["name"], "version": labeler.version_, "metrics": labeler.metrics_, "partial": True,
                "blob": holds.workspace.store.put(path),
            }  # fmt: skip
            retry_database(repository.finish_cancelled, workspace.db, job.id, result)
    except (PhonechainError, OSError) as error:  # a full disk, say: the cancel is not held up by it
        log.warning("job %s: could not save the partly trained model: %s", job.id, error)


def split_of(utterances: list[Utterance], spec: dict[str, Any]) -> tuple[list[Utterance], list[Utterance] | None]:
    """(train, dev) by the splits that the spec names, else by those that the corpus has. Raises CorpusError."""
    known = {u.split for u in utterances if u.split}
    name, dev_name = splits.choose_training(known, spec.get("split"), spec.get("dev"))
    dev = splits.select(utterances, dev_name) if dev_name is not None else None
    return splits.select(utterances, name) if name is not None else splits.drop_held_out(utterances), dev


def discard(workspace: Workspace, id: str) -> None:
    """Remove the checkpoint and the features of a job that has ended."""
    shutil.rmtree(workspace.run_folder(id), ignore_errors=True)
