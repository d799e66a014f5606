"""Bodies of requests: JSON objects, and files that become blobs: streamed to the disk, counted and hashed on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import IO, Any

from starlette.requests import Request

from phonechain.app.problems.errors import BodyTooLarge, MalformedBody
from phonechain.app.storage.blobs import CHUNK, Writing
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
