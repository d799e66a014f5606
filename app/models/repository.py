"""The versions of models in the database: kept, looked up by name, version or alias, removed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from phonechain.app.problems.errors import InvalidRequest, ModelExists, ModelInUse, UnknownModel
from phonechain.app.settings import Settings
from phonechain.app.storage import quotas
from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import SPEC_BLOBS, UNFINISHED, Alias, Job, ModelVersion
from phonechain.app.storage.workspace import Workspace

if TYPE_CHECKING:
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.segmental.aligner import PhoneAligner

Kind = Literal["labelling", "alignment"]
"""What a model does: label given segments, or find the boundaries of a transcript or of what is heard."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: str, pointer: str = "name") -> str:
    """Raises InvalidRequest where this cannot name a model."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"{pointer}: expected 1 to 100 letters, digits, dots, hyphens and underscores, got {name[:120]!r}",
            findings=[{"detail": f"expected a plain name, got {name[:120]!r}", "pointer": f"#/{pointer}"}],
        )
    return name


def store_upload(
    workspace: Workspace, settings: Settings, path: Path, name: str | None, owner: str = ""
) -> ModelVersion:
    """Store an uploaded model file of the key `owner`, under `name` or the name on its card.

    Raises:
        ModelFileError, InvalidRequest, ModelExists, StorageFull, QuotaExceeded.
    """
    model = _load(path)
    known = check_name(name if name else str(model.card_.get("name") or ""))
    row = make_row(model, known, workspace.store.put(path), path.stat().st_size, owner=owner)
    with workspace.db.write() as session:
        if session.get(ModelVersion, (row.name, row.version)) is not None:
            raise ModelExists(f"model version {row.name}@{row.version} already exists", value=row.version)
        quotas.check_bytes(session, settings, owner, row.size)
        session.add(row)
    return row


def _load(path: Path) -> PhoneLabeler | PhoneAligner:
    """The labelling or the alignment model of an uploaded file. Raises ModelFileError."""
    from phonechain.model.files import modelfile
    from phonechain.model.files.header import ALIGNMENT_KIND

    name = "the uploaded file"
    if modelfile.read_header(path, name=name).model.get("kind") == ALIGNMENT_KIND:
        from phonechain.model.segmental.aligner import PhoneAligner

        return PhoneAligner.load(path, name=name, device="cpu")
    from phonechain.model.labeler import PhoneLabeler

    return PhoneLabeler.load(path, name=name, device="cpu")


def make_row(
    model: PhoneLabeler | PhoneAligner, name: str, digest: str, size: int, job: str | None = None, owner: str = ""
) -> ModelVersion:
    """The row of a model whose file is the blob `digest`."""
    return ModelVersion(
        name=name, version=model.version_, blob=digest, size=size, card=dict(model.card_), job=job, owner=owner
    )


def kind_of(row: ModelVersion) -> Kind:
    """What a stored model does."""
    from phonechain.model.files.header import ALIGNMENT_KIND

    return "alignment" if row.card.get("kind") == ALIGNMENT_KIND else "labelling"


def check_kind(row: ModelVersion, wanted: Kind) -> None:
    """Raises InvalidRequest where a stored model is of the other kind."""
    if kind_of(row) != wanted:
        raise wrong_kind(f"{row.name}@{row.version}", wanted)


def wrong_kind(name: str, wanted: Kind) -> InvalidRequest:
    """The error about a model of the other kind."""
    if wanted == "alignment":
        message = f"expected an alignment model, got {name}, which labels given segments"
    else:
        message = f"expected a model that labels given segments, got {name}, which aligns transcripts"
    return InvalidRequest(f"{message}; GET /models?kind={wanted} lists them", pointer="model", value=name)


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


def list_all(db: Database) -> tuple[list[ModelVersion], list[Alias]]:
    """Every version, by name and the newest first, and every alias."""
    with db.read() as session:
        versions = select(ModelVersion).order_by(ModelVersion.name, ModelVersion.created.desc())
        return list(session.scalars(versions)), list(session.scalars(select(Alias).order_by(Alias.alias)))


def set_alias(db: Database, alias: str, wanted: str) -> Alias:
    """Point `alias` at the version that `wanted` names now. Raises UnknownModel, InvalidRequest."""
    check_name(alias, "alias")
    with db.write() as session:
        row = find(session, wanted)
        if row is None:
            raise unknown_model(wanted)
        if alias == "default":  # of requests that label
            check_kind(row, "labelling")
        return session.merge(Alias(alias=alias, name=row.name, version=row.version))


def delete_alias(db: Database, alias: str) -> None:
    """Delete an alias. Raises UnknownModel."""
    with db.write() as session:
        gone = session.execute(delete(Alias).where(Alias.alias == alias))
        if not gone.rowcount:  # type: ignore[attr-defined]
            raise unknown_model(alias)


def remove(db: Database, name: str, version: str) -> str:
    """Delete a version; returns the blob of its file.

    Raises:
        UnknownModel. ModelInUse: an alias or an unfinished job needs it.
    """
    with db.write() as session:
        row = session.get(ModelVersion, (name, version))
        if row is None:
            raise unknown_model(f"{name}@{version}")
        alias = session.scalars(select(Alias.alias).where(Alias.name == name, Alias.version == version)).first()
        if alias is not None:
            raise ModelInUse(f"the alias {alias!r} stands for this version", value=alias)
        for id, spec in session.execute(select(Job.id, Job.spec).where(Job.state.in_(UNFINISHED))):
            if row.blob in ((spec.get(used) or {}).get("blob") for used in SPEC_BLOBS):
                raise ModelInUse(f"job {id}, which has not ended, needs this version", value=id)
        session.delete(row)
    return row.blob


def unknown_model(wanted: str) -> UnknownModel:
    """The error about a model that is not there."""
    return UnknownModel(f"unknown model {wanted[:120]!r}; GET /models lists them", pointer="model", value=wanted[:120])
