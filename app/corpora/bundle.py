"""Files that come with a job, as a corpus of their own that is not listed."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from starlette.datastructures import UploadFile

from phonechain.app.corpora import intake, repository
from phonechain.app.http import uploads
from phonechain.app.problems.errors import InvalidRequest
from phonechain.app.settings import Settings
from phonechain.app.storage.archives import Caps
from phonechain.app.storage.blobs import CHUNK
from phonechain.app.storage.tables import Corpus
from phonechain.app.storage.workspace import Workspace

_PLAIN = re.compile(r"[^\w.-]+")


async def receive(
    files: Sequence[UploadFile],
    settings: Settings,
    workspace: Workspace,
    options: dict[str, Any],
    in_thread: Callable[..., Awaitable[Any]],
) -> tuple[Corpus, list[str]]:
    """(the corpus, what is the same for the same files). One file is an archive; several are audio and annotations.

    `options` are a corpus's, as `CorpusOptions` has them; `in_thread` runs what takes long.

    Raises:
        InvalidRequest, ArchiveError, CorpusError, BodyTooLarge, StorageFull.
    """
    caps = Caps(settings.max_archive_files, settings.max_archive_bytes)
    if len(files) == 1:
        digest = await uploads.store_file(files[0].file, workspace, settings.max_upload_bytes)
        digests = [digest]
    else:
        digest, digests = await in_thread(pack, files, workspace)
    corpus = await in_thread(intake.from_archive, workspace, digest, "files of a job", options, caps, hidden=True)
    corpus.bytes = await in_thread(repository.bytes_of, workspace, corpus)
    return corpus, digests


def pack(files: Sequence[UploadFile], workspace: Workspace, *, folders: bool = False) -> tuple[str, list[str]]:
    """(an archive of the files, the name and digest of each).

    Only the last part of a client's name is used; with `folders` all parts, each reduced to letters, digits and `.-_`.

    Raises:
        InvalidRequest: no name, or one that another file has. StorageFull.
    """
    seen: set[str] = set()
    digests: list[str] = []
    with workspace.store.writing() as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for file in files:
            name = _member(file.filename or "", folders)
            if not name or name.casefold() in seen:
                raise InvalidRequest(
                    f"expected files with different names, got {(file.filename or '')[:80]!r}", pointer="files"
                )
            seen.add(name.casefold())
            known = hashlib.sha256()
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                while data := file.file.read(CHUNK):
                    known.update(data)
                    member.write(data)
            digests.append(f"{name} {known.hexdigest()}")
    return out.digest, sorted(digests)


def _member(name: str, folders: bool) -> str:
    """The name of a file inside the archive; empty where nothing of it can be used."""
    parts = PurePosixPath(name.replace("\\", "/")).parts[-8 if folders else -1 :]
    plain = [_PLAIN.sub("_", part).lstrip(".") for part in parts]
    return "/".join(part for part in plain if part and part != "_")
