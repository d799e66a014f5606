"""Request bodies: forms and JSON objects; uploads that are streamed to disk as blobs, counted and hashed on the way; and
disconnecting clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Collection, Container, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from phonechain.app.problems.documents import MOST_FINDINGS, finding, invalid_request
from phonechain.app.problems.errors import (
    BodyTooLarge,
    InvalidRequest,
    MalformedBody,
    StorageFull,
    UnsupportedMediaType,
)
from phonechain.app.problems.options import wrong_option
from phonechain.app.storage.blobs import CHUNK, BlobWriter
from phonechain.app.storage.database import is_disk_full
from phonechain.app.storage.workspace import Workspace

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

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


@dataclass(frozen=True, slots=True)
class File:
    """A file of a form: its bytes, and its name where the client gave one."""

    data: bytes
    name: str | None = None


@dataclass(slots=True)
class Upload:
    """A request body: either `document`, the bytes of a JSON object, or the files and fields of a form."""

    document: bytes | None = None
    files: dict[str, File] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def text_size(self) -> int:
        """Number of bytes to parse: everything but the sound."""
        if self.document is not None:
            return len(self.document) // 10  # most of it is sound in base64, which is quickly read
        return sum(len(file.data) for name, file in self.files.items() if name != "audio")


async def receive(request: Request, largest: int, files: Collection[str], texts: Container[str] = ()) -> Upload:
    """The parts of the body, unparsed.

    Args:
        largest: bytes of the largest field.
        files: names of the files that a form may have.
        texts: those of them that may be text fields instead.

    Raises:
        UnsupportedMediaType, InvalidRequest, BodyTooLarge: it cannot be taken apart.
    """
    kind = request.state.media_type
    if kind == "application/json":
        return Upload(document=await request.body())
    if kind != "multipart/form-data":
        got = kind[:80] or "none"
        raise UnsupportedMediaType(
            f"expected the media type multipart/form-data or application/json, got {got}", value=got
        )
    upload = Upload()
    async with read_form(request, files=4, fields=32, part=largest) as form:
        for name, part in form.multi_items():
            short = name[:80]
            if name in upload.fields or name in upload.files:
                raise InvalidRequest(f"expected {short} once, got it again", pointer=short)
            if isinstance(part, UploadFile):
                if name not in files:
                    known = " and ".join(files)
                    raise InvalidRequest(f"expected the files {known}, got a file {short!r}", pointer=short)
                upload.files[name] = File(await part.read(), part.filename)
            elif name not in files:
                upload.fields[name] = part
            elif name in texts:
                upload.files[name] = File(part.encode("utf-8"))
            else:
                raise InvalidRequest(
                    f"expected {name} as a file (curl: -F {name}=@FILE), got a text field", pointer=name
                )
    return upload


def parse_options(
    options: type[BaseModel],
    schema: type[M],
    body: Mapping[str, Any],
    query: QueryParams,
    context: Mapping[str, Any] | None = None,
) -> M:
    """What a request says in its body and in its query, by `schema`; an option may stand in both if it means the same.

    Args:
        options: those that the query may have; each has a default.
        context: for the schema's validators.

    Raises:
        InvalidRequest: with every finding, each at its place in query or body.
    """
    findings = []
    for name in query:
        count = len(query.getlist(name))
        if name not in options.model_fields:
            said = wrong_option(name, list(options.model_fields))
            findings.append({"detail": f"{name[:80]}: {said}", "parameter": name[:80]})
        elif count > 1:
            findings.append({"detail": f"{name}: expected one value, got {count}", "parameter": name})
    if findings:
        raise invalid_request(findings)
    for name in sorted(set(body) & set(query)):
        if not _is_same_option(options, name, body[name], query[name]):
            raise InvalidRequest(
                f"expected one value of {name}, got another in the query than in the body", pointer=name
            )
    try:
        return schema.model_validate({**query, **body}, context=dict(context or {}))
    except ValidationError as error:
        entries = error.errors(include_url=False)[:MOST_FINDINGS]
        places = ["query" if entry["loc"] and entry["loc"][0] in query else "body" for entry in entries]
        found = [finding(place, entry, schema) for place, entry in zip(places, entries, strict=True)]
        raise invalid_request(found) from None


def _is_same_option(options: type[BaseModel], name: str, one: Any, other: Any) -> bool:
    """Whether two values of an option mean the same, such as 3 and "3"."""
    try:
        first, second = (options.model_validate({name: value}) for value in (one, other))
    except ValidationError:
        return False
    return bool(getattr(first, name) == getattr(second, name))


async def run_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, and cancel it if the client disconnects; the body must have been read.

    Raises:
        ClientDisconnect.
    """
    task, left = asyncio.create_task(work), asyncio.create_task(_client_left(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return await task
    finally:
        task.cancel()
        left.cancel()


async def _client_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def store_body(request: Request, workspace: Workspace, limit: int) -> str:
    """The digest of the body as a blob. Raises BodyTooLarge, StorageFull."""
    return await _store_stream(request.stream(), workspace, limit)


async def store_file(file: IO[bytes], workspace: Workspace, limit: int) -> str:
    """The digest of an uploaded file as a blob. Raises BodyTooLarge, StorageFull."""

    def copy() -> str:
        with workspace.store.writing() as out:
            while data := file.read(CHUNK):
                _write_within(out, data, limit)
        return out.digest

    return await asyncio.to_thread(copy)


async def _store_stream(stream: AsyncIterator[bytes], workspace: Workspace, limit: int) -> str:
    context = workspace.store.writing()
    out = await asyncio.to_thread(context.__enter__)
    waiting = bytearray()
    try:
        async for chunk in stream:
            waiting += chunk
            if len(waiting) >= CHUNK:
                await asyncio.to_thread(_write_within, out, bytes(waiting), limit)
                waiting.clear()
        await asyncio.to_thread(_write_within, out, bytes(waiting), limit)
    except BaseException as error:
        trace = error.__traceback__
        if not await asyncio.to_thread(context.__exit__, type(error), error, trace):
            raise
    else:
        await asyncio.to_thread(context.__exit__, None, None, None)
    return out.digest


def _write_within(out: BlobWriter, data: bytes, limit: int) -> None:
    if out.size + len(data) > limit:
        size = out.size + len(data)
        raise BodyTooLarge(f"expected an upload of at most {limit} bytes, got {size} or more", value=size, limit=limit)
    out.write(data)


class Section:
    """A section of a file shared by several parts of a form: appended to, then read."""

    def __init__(self, shared: IO[bytes]) -> None:
        self._shared, self._start, self._size, self._at = shared, 0, 0, 0

    def write(self, data: bytes) -> int:
        """Add to the end."""
        end = self._shared.seek(0, 2)
        if (
            self._size == 0
        ):  # not earlier: the heads of all parts that come in one chunk are parsed before any is written
            self._start = end
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
        """Nothing to do: the shared file is closed by its owner."""


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
    parser = _FormParser(request.headers, request.stream(), max_files=files, max_fields=fields, max_part_size=part)
    try:
        with opened as parser.shared:
            yield await parser.parse()
    except MultiPartException as error:
        raise MalformedBody(f"expected a form, multipart/form-data: {error.message}") from None
    except OSError as error:
        if is_disk_full(error):
            raise StorageFull("disk full: cannot store the upload") from error
        raise
