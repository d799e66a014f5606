"""What executions of jobs share: the loaded models of a worker, threads, and errors as problem documents."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from phonechain.app.problems import documents as problems
from phonechain.app.problems.errors import StorageFull
from phonechain.app.settings import PREFIX
from phonechain.app.storage.tables import FileError
from phonechain.app.storage.workspace import Workspace
from phonechain.features.errors import PhonechainError

if TYPE_CHECKING:
    from phonechain.model.device import Precision
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.segmental.aligner import PhoneAligner

MOST_MODELS = 2
"""Loaded models that a worker keeps from task to task."""


def limit_threads() -> None:
    """A worker is one of several: more threads in each would only wait for one another."""
    from phonechain.app.labelling.batcher import set_threads

    set_threads(1)


@lru_cache(maxsize=MOST_MODELS)
def _load_labeler(blobs: str, folder: str, digest: str, precision: Precision) -> PhoneLabeler:
    from phonechain.model.labeler import PhoneLabeler

    path = Workspace("", blobs, folder).store.local(digest)
    return PhoneLabeler.load(path, device=device(), precision=precision)


def device() -> str:
    """Where this worker's jobs compute: its own setting, which it has from the service or from `phonechain worker`."""
    return os.environ.get(f"{PREFIX}DEVICE") or "auto"


def load_labeler(workspace: Workspace, digest: str, precision: Precision = "float32") -> PhoneLabeler:
    """The model of a blob, loaded once a worker. Raises ModelFileError, FileNotFoundError."""
    return _load_labeler(workspace.blobs, workspace.folder, digest, precision)


@lru_cache(maxsize=MOST_MODELS)
def _load_aligner(blobs: str, folder: str, digest: str) -> PhoneAligner:
    from phonechain.model.segmental.aligner import PhoneAligner

    return PhoneAligner.load(Workspace("", blobs, folder).store.local(digest), device=device())


def load_aligner(workspace: Workspace, digest: str) -> PhoneAligner:
    """The alignment model of a blob, loaded once a worker. Raises ModelFileError, FileNotFoundError."""
    return _load_aligner(workspace.blobs, workspace.folder, digest)


def error_to_json(error: Exception) -> dict[str, Any]:
    """The problem document that says why a job failed."""
    if isinstance(error, OSError) and not isinstance(error, PhonechainError):
        from phonechain.app.storage.database import is_disk_full

        if is_disk_full(error):
            return problems.document(StorageFull("disk full: cannot store the job's files"))
        body = problems.document(error)
        return {**body, "detail": f"a file could not be used: {error.strerror or type(error).__name__}"}
    body = problems.document(error)
    if not isinstance(error, PhonechainError):
        body["detail"] = f"unexpected error: {type(error).__name__}"
    return body


def make_file_error(job: str, index: int, utterance: str, error: Exception) -> FileError:
    """One file's error as a row: the problem's type and sentence."""
    body = error_to_json(error)
    return FileError(job=job, index=index, utterance=utterance, type=body["type"], detail=body["detail"])
