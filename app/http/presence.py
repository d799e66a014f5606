"""Work for a client that is still there: what nobody waits for any more is not done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

R = TypeVar("R")


async def while_connected(request: Request, work: Coroutine[Any, Any, R]) -> R:
    """The result of `work`, which is cancelled when the client leaves; the body must have been read.

    Raises:
        ClientDisconnect.
    """
    task, left = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return await task
    finally:
        task.cancel()
        left.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
