"""Bodies of requests: JSON objects, and files that become blobs: streamed to the disk, counted and hashed on the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from phonechain.app.problems.errors import BodyTooLarge, MalformedBody, StorageFull
from phonechain.app.storage.blobs import CHUNK, Writing
from phonechain.app.storage.database import full
from phonechain.app.storage.workspace import Workspace

BINARY = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
"""The schema of a file. `contentMediaType` is OpenAPI 3.1's word for it; generators of clients look for `format`."""


def parse_object(document: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Raises MalformedBody."""
    try:
        body = json.loads(document)
    except RecursionError:
        raise MalformedBody("expected JSON of a few levels, got one nested too deeply") from None
    except ValueError as error:  # of JSON and of UTF-8
        raise MalformedBody(f"expected JSON, got something else: {error}") from None
    if not isinstance(body, dict):
        raise MalformedBody(f"expected a JSON object, got {type(body).__name__}")
    return body


async def keep_body(request: Request, workspace: Workspace, limit: int) -> str:
    """The digest of the body as a blob. Raises BodyTooLarge, StorageFull."""
    return await _keep(request.stream(), workspace, limit)


async def keep_file(file: IO[bytes], workspace: Workspace, limit: int) -> str:
    """The digest of an uploaded file as a blob. Raises BodyTooLarge, StorageFull."""

    def copied() -> str:
        with workspace.store.writing() as out:
            while data := file.read(CHUNK):
                _write(out, data, limit)
        return out.digest

    return await asyncio.to_thread(copied)


async def _keep(stream: AsyncIterator[bytes], workspace: Workspace, limit: int) -> str:
    context = workspace.store.writing()
    out = await asyncio.to_thread(context.__enter__)
    waiting = bytearray()
    try:
        async for chunk in stream:
            waiting += chunk
            if len(waiting) >= CHUNK:
                await asyncio.to_thread(_write, out, bytes(waiting), limit)
                waiting.clear()
        await asyncio.to_thread(_write, out, bytes(waiting), limit)
    except BaseException as error:
        trace = error.__traceback__
        if not await asyncio.to_thread(context.__exit__, type(error), error, trace):
            raise
    else:
        await asyncio.to_thread(context.__exit__, None, None, None)
    return out.digest


def _write(out: Writing, data: bytes, limit: int) -> None:
    if out.size + len(data) > limit:
        size = out.size + len(data)
        raise BodyTooLarge(f"expected an upload of at most {limit} bytes, got {size} or more", value=size, limit=limit)
    out.write(data)


class Section:
    """A part of a file that several parts of a form share, one after the other: written at the end, then read."""

    def __init__(self, shared: IO[bytes]) -> None:
        self._shared, self._start, self._size, self._at = shared, shared.seek(0, 2), 0, 0

    def write(self, data: bytes) -> int:
        """Add to the end."""
        self._size += len(data)
        return self._shared.write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Where the next `read` begins."""
        self._at = {0: 0, 1: self._at, 2: self._size}[whence] + offset
        self._shared.flush()  # a full disk shows here
        return self._at

    def tell(self) -> int:
        """Where the next `read` begins."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, or the rest."""
        left = max(0, self._size - self._at)
        self._shared.seek(self._start + self._at)
        data = self._shared.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def close(self) -> None:
        """The shared file is closed by whoever opened it."""


class _FormParser(MultiPartParser):
    """Files of a form go into one file of `folder`, where it is given, else they stay in memory.

    Starlette's own parser puts each file above 1 MiB into a file of /tmp, which may be small, or memory itself, and keeps
    a megabyte of each of many files.
    """

    spool_max_size = 2**62
    shared: IO[bytes] | None = None

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        part = self._current_part
        if self.shared is not None and part.file is not None:
            self._files_to_close_on_error.pop().close()
            known = part.file
            part.file = UploadFile(Section(self.shared), size=0, filename=known.filename, headers=known.headers)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def read_form(
    request: Request, *, files: int, fields: int, part: int, folder: Path | None = None
) -> AsyncIterator[FormData]:
    """The parts of a form: at most `files` files and `fields` texts of `part` bytes.

    Files are written to `folder`; without one they stay in memory, and their size is that of the body. Nothing of them
    is left after the block.

    Raises:
        MalformedBody, BodyTooLarge, BodyTooSlow, StorageFull.
    """
    opened: Any = tempfile.TemporaryFile(dir=folder) if folder is not None else contextlib.nullcontext()  # noqa: SIM115
    parser = _FormParser(request.headers, request.stream(), max_files=files, max_fields=fields, max_part_size=part)  # type: ignore[arg-type]
    try:
        with opened as parser.shared:
            yield await parser.parse()
    except MultiPartException as error:
        raise MalformedBody(f"expected a form, multipart/form-data: {error.message}") from None
    except OSError as error:
        if full(error):
            raise StorageFull("disk full: cannot store the upload") from error
        raise
