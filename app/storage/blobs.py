"""Content-addressed blobs: a file is named by the SHA-256 of its bytes, in a folder or under a URL that fsspec opens.

A blob is written to a temporary file and then moved, so that it is complete or absent; writing it twice has no further
effect. `local` gives a file on this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from phonechain.app.problems.errors import StorageFull
from phonechain.app.storage.database import is_disk_full
from phonechain.features.errors import SettingsError
from phonechain.features.files import sync_folder, write_whole

CHUNK = 1 << 20

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Store:
    """Blobs in a folder or under a URL.

    Args:
        location: a folder, or an fsspec URL such as `s3://bucket/prefix`.
        cache: a folder of this machine for copies of what lies elsewhere, and for files being written.
        claim: called with the digest of a blob before it is kept, or found to be there already.

    Raises:
        SettingsError: a URL whose protocol is not known or not installed.
    """

    def __init__(self, location: str, cache: Path, claim: Callable[[str], None] | None = None) -> None:
        self.cache = cache
        self._claim = claim
        self.folder: Path | None = None
        self._remote: Any = None
        if "://" in location and not location.startswith("file://"):
            self._remote, self._prefix = open_remote(location, "PHONECHAIN_STORE")
        else:
            self.folder = Path(location.removeprefix("file://")).absolute()

    def path(self, digest: str) -> Path:
        """Where a blob of the folder lies."""
        assert self.folder is not None
        return self.folder / _check_digest(digest)[:2] / digest

    def put(self, source: bytes | Path) -> str:
        """Keep these bytes, or a copy of this file; the digest.

        Raises:
            StorageFull.
        """
        known = hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else _digest_of(source)
        if self._claim is not None:
            self._claim(known)
        if self.has(known):  # nothing is written, so that a full disk is no matter
            return known
        with self.writing() as file:
            if isinstance(source, bytes):
                file.write(source)
            else:
                with source.open("rb") as handle:
                    shutil.copyfileobj(handle, file, CHUNK)
        return file.digest

    @contextlib.contextmanager
    def writing(self) -> Iterator[BlobWriter]:
        """A file to write to; at the end of the block it is kept, and its `digest` known.

        Raises:
            StorageFull: nothing of it stays.
        """
        scratch = self.scratch()
        descriptor, name = tempfile.mkstemp(dir=scratch, prefix="blob-")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as raw:
                file = BlobWriter(raw)
                yield file
                raw.flush()
                os.fsync(raw.fileno())
            file.digest = file.hash.hexdigest()
            if self._claim is not None:
                self._claim(file.digest)
            self._keep(temporary, file.digest)
        except OSError as error:
            if is_disk_full(error):
                raise StorageFull("disk full: cannot store the file") from error
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def _keep(self, temporary: Path, digest: str) -> None:
        if self.folder is None:
            target = f"{self._prefix}/{digest[:2]}/{digest}"
            if not self._remote.exists(target):
                self._remote.put_file(str(temporary), target)
            return
        path = self.path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.replace(path)
            sync_folder(path.parent)

    def scratch(self) -> Path:
        """A folder for files being written: on the file system of the blobs where they lie in a folder."""
        folder = (self.folder / "tmp") if self.folder is not None else (self.cache / "tmp")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def has(self, digest: str) -> bool:
        """Whether the blob is there."""
        if self.folder is not None:
            return self.path(digest).exists()
        return bool(self._remote.exists(f"{self._prefix}/{_check_digest(digest)[:2]}/{digest}"))

    def size(self, digest: str) -> int:
        """Bytes of a blob. Raises FileNotFoundError."""
        if self.folder is not None:
            return self.path(digest).stat().st_size
        return int(self._remote.size(f"{self._prefix}/{_check_digest(digest)[:2]}/{digest}"))

    def local(self, digest: str) -> Path:
        """The blob as a file of this machine, for reading only.

        Raises:
            FileNotFoundError, StorageFull.
        """
        if self.folder is not None:
            path = self.path(digest)
            if not path.exists():
                raise FileNotFoundError(f"no blob {digest[:12]}")
            return path
        copy = self.cache / "blobs" / _check_digest(digest)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            source = f"{self._prefix}/{digest[:2]}/{digest}"
            try:
                write_whole(copy, lambda spare: self._remote.get_file(source, str(spare)))
            except OSError as error:
                if is_disk_full(error):
                    raise StorageFull("disk full: cannot copy the file") from error
                raise
        return copy

    def delete(self, digest: str) -> None:
        """Forget the blob, if it is there."""
        if self.folder is not None:
            self.path(digest).unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError):
            self._remote.rm_file(f"{self._prefix}/{_check_digest(digest)[:2]}/{digest}")
        (self.cache / "blobs" / digest).unlink(missing_ok=True)

    def digests(self) -> Iterator[str]:
        """Every blob that is kept."""
        if self.folder is not None:
            names = (path.name for path in self.folder.glob("??/*"))
        else:
            names = (str(path).rpartition("/")[2] for path in self._remote.find(self._prefix))
        return (name for name in names if _DIGEST.fullmatch(name))


class BlobWriter:
    """An open blob. `size` is what was written so far; `digest` is known after the block."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        self.hash = hashlib.sha256()
        self.size = 0
        self.digest = ""

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self.raw.write(data)

    def flush(self) -> None:
        """For those that write through it, such as `zipfile`."""
        self.raw.flush()


def open_remote(url: str, what: str) -> tuple[Any, str]:
    """The file system and the path of an fsspec URL.

    Raises:
        SettingsError: its protocol is not known, or its package is not installed.
    """
    from fsspec.core import url_to_fs

    options = {"get_client": _same_host_client} if url.startswith(("http://", "https://")) else {}
    try:
        system, path = url_to_fs(url, **options)
    except (ValueError, ImportError) as error:
        raise SettingsError(
            f"{what}: expected a URL that can be opened, got {url.split('://')[0]}://: {error}"
        ) from None
    return system, str(path).rstrip("/")


async def _same_host_client(**options: Any) -> Any:
    """An HTTP client that refuses to be sent to another host: an address that is allowed must not lead to one that is not."""
    import aiohttp
    from yarl import URL

    async def check(session: Any, context: Any, seen: aiohttp.TraceRequestRedirectParams) -> None:
        to = seen.url.join(URL(seen.response.headers.get("Location", "")))
        if to.origin() != seen.url.origin():
            raise PermissionError(f"redirected to another host, {to.host}")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(check)
    return aiohttp.ClientSession(trace_configs=[trace], **options)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"expected a SHA-256 digest, got {digest[:80]!r}")
    return digest
