"""The versions of models in the database: kept, looked up by name, version or alias, removed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from phonechain.app.problems.errors import InvalidRequest, ModelExists, ModelInUse, UnknownModel
from phonechain.app.storage import references
from phonechain.app.storage.tables import UNFINISHED, Alias, Job, ModelVersion
from phonechain.app.storage.workspace import Workspace

if TYPE_CHECKING:
    from phonechain.model.labeler import PhoneLabeler

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: str, pointer: str = "name") -> str:
    """Raises InvalidRequest where this cannot name a model."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"{pointer}: expected 1 to 100 letters, digits, dots, hyphens and underscores, got {name[:120]!r}",
            findings=[{"detail": f"expected a plain name, got {name[:120]!r}", "pointer": f"#/{pointer}"}],
        )
    return name


def keep_trained(workspace: Workspace, job: Job, path: Path, start: str = "") -> None:
    """Put the model of a training job on the shelf and end the job, both or neither. Raises Fenced, StorageFull.

    `start` says what the training began with, where that is worth a word.
    """
    from phonechain.app.jobs import repository
    from phonechain.model.labeler import PhoneLabeler

    labeler = PhoneLabeler.load(path)
    digest = workspace.store.put(path)
    row = _row(labeler, job.spec["name"], digest, path.stat().st_size, job.id)
    result = {"name": row.name, "version": row.version, "blob": digest, "metrics": labeler.metrics_}
    if start:
        result["start"] = start
    with workspace.db.write() as session:
        if session.get(ModelVersion, (row.name, row.version)) is None:
            session.add(row)
        repository.succeed(session, job.id, job.attempt, result)


def keep(workspace: Workspace, path: Path, name: str | None) -> ModelVersion:
    """Put an uploaded model file on the shelf, under `name` or the name on its card.

    Raises:
        ModelFileError, InvalidRequest, ModelExists, StorageFull.
    """
    from phonechain.model.labeler import PhoneLabeler

    labeler = PhoneLabeler.load(path, name="the uploaded file")
    known = check_name(name if name else str(labeler.card_.get("name") or ""))
    row = _row(labeler, known, workspace.store.put(path), path.stat().st_size, None)
    with workspace.db.write() as session:
        if session.get(ModelVersion, (row.name, row.version)) is not None:
            raise ModelExists(
                f"expected a version that is not there yet, got {row.name}@{row.version}", value=row.version
            )
        session.add(row)
    return row


def _row(labeler: PhoneLabeler, name: str, digest: str, size: int, job: str | None) -> ModelVersion:
    return ModelVersion(name=name, version=labeler.version_, blob=digest, size=size, card=dict(labeler.card_), job=job)


def find(session: Session, wanted: str) -> ModelVersion | None:
    """The version that `wanted` names: `name@version`, an alias, or the newest version of a name."""
    name, at, version = wanted.partition("@")
    if at:
        return session.get(ModelVersion, (name, version))
    alias = session.get(Alias, name)
    if alias is not None:
        return session.get(ModelVersion, (alias.name, alias.version))
    newest = select(ModelVersion).where(ModelVersion.name == name).order_by(ModelVersion.created.desc())
    return session.scalars(newest.limit(1)).one_or_none()


def list_all(workspace: Workspace) -> tuple[list[ModelVersion], list[Alias]]:
    """Every version, by name and the newest first, and every alias."""
    with workspace.db.read() as session:
        versions = select(ModelVersion).order_by(ModelVersion.name, ModelVersion.created.desc())
        return list(session.scalars(versions)), list(session.scalars(select(Alias).order_by(Alias.alias)))


def point(workspace: Workspace, alias: str, wanted: str) -> Alias:
    """Let `alias` stand for the version that `wanted` names now. Raises UnknownModel, InvalidRequest."""
    check_name(alias, "alias")
    with workspace.db.write() as session:
        row = find(session, wanted)
        if row is None:
            raise unknown(wanted)
        return session.merge(Alias(alias=alias, name=row.name, version=row.version))


def unpoint(workspace: Workspace, alias: str) -> None:
    """Forget an alias. Raises UnknownModel."""
    with workspace.db.write() as session:
        gone = session.execute(delete(Alias).where(Alias.alias == alias))
        if not gone.rowcount:  # type: ignore[attr-defined]
            raise unknown(alias)


def remove(workspace: Workspace, name: str, version: str) -> None:
    """Forget a version, and its file if no other version has the same.

    Raises:
        UnknownModel. ModelInUse: an alias or an unfinished job needs it.
    """
    with workspace.db.write() as session:
        row = session.get(ModelVersion, (name, version))
        if row is None:
            raise unknown(f"{name}@{version}")
        alias = session.scalars(select(Alias.alias).where(Alias.name == name, Alias.version == version)).first()
        if alias is not None:
            raise ModelInUse(f"expected a version that no alias stands for, got {alias!r}", value=alias)
        for id, spec in session.execute(select(Job.id, Job.spec).where(Job.state.in_(UNFINISHED))):
            if row.blob in ((spec.get(used) or {}).get("blob") for used in ("model", "base")):
                raise ModelInUse(f"expected a version that no unfinished job needs, got job {id}", value=id)
        session.delete(row)
    references.drop(workspace, row.blob)


def unknown(wanted: str) -> UnknownModel:
    """The error about a model that is not there."""
    return UnknownModel(
        f"expected a model that GET /models lists, got {wanted[:120]!r}", pointer="model", value=wanted[:120]
    )


def reference(row: ModelVersion) -> dict[str, Any]:
    """What a job keeps of the model that it uses."""
    return {"name": row.name, "version": row.version, "blob": row.blob}
