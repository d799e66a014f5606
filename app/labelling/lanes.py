"""A fair thread pool: short work does not wait for long work, and long work does not wait forever.

The size of work is measured in seconds of sound, whatever the work does: decoding, features, scores and answers all grow
with them. Everything here belongs to the event loop; only the work itself runs in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from phonechain.features.audio.raw import RawFormat
from phonechain.features.audio.reader import announced_seconds

P = ParamSpec("P")
R = TypeVar("R")

LONG = 60.0
"""Seconds of sound above which work is long."""

DELAY = 0.05
"""Seconds by which each second of sound lets others go before it: a short recording does not wait for all long ones that
came a little earlier, and a long one waits for those only that come within its own delay.
"""

SEGMENTS_PER_SECOND = 10
"""Phones in a second of speech, about: how many segments are as much work as a second of sound."""

TEXT_PER_SECOND = 100_000
"""Bytes of an annotation that take as long to read as a second of sound takes to decode, about."""

LATELY = 1.0
"""Seconds for which long work leaves a core free after short work has come."""

_MOST_BYTES_PER_SECOND = 200_000
"""Of two channels at 48 kHz and 16 bits: what is larger than that is work in itself, whatever its header claims."""

_FEW_BYTES_PER_SECOND = 4000
"""Of speech in a narrow codec, for files whose header claims no length."""


def estimate_seconds(source: bytes | Path, raw: RawFormat | None = None) -> float:
    """About how many seconds of sound a file holds; nothing of it is decoded, and a file that is no sound has some too."""
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if raw is not None:
        return raw.duration(size)
    announced = announced_seconds(source)
    return size / _FEW_BYTES_PER_SECOND if announced is None else max(announced, size / _MOST_BYTES_PER_SECOND)


@dataclass(order=True, slots=True)
class _Task:
    due: float
    number: int
    size: float = field(compare=False)
    work: Callable[[], object] = field(compare=False)
    answer: asyncio.Future[object] = field(compare=False)


class FairThreads:
    """Threads that take what is due first, where large work is due later.

    Long work never has the last thread. While short work comes, what the model does with long recordings in a thread of its own
    counts as well, so that one core is free: one short answer in twenty took three times as long beside two long tasks.
    """

    def __init__(self, threads: int, name: str) -> None:
        """With one thread, long work would stop all other: there are two at least."""
        self._threads = max(2, threads)
        self._pool = ThreadPoolExecutor(self._threads, name)
        self._waiting: tuple[list[_Task], list[_Task]] = ([], [])
        """Short tasks and long ones."""
        self._running = [0, 0]
        self._outside: deque[asyncio.Future[None]] = deque()
        """Long work of other threads that waits until it may begin."""
        self._running_outside = 0
        self._count = 0
        self._short_until = 0.0
        """Until when short work has come lately, on the clock of the loop."""
        self._look_again: asyncio.TimerHandle | None = None
        """Set while long work waits, which may start when no short work has come for a while."""

    def run(self, size: float, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """What `work` returns. Of work whose future is cancelled while it waits, nothing is done.

        Args:
            size: seconds of sound.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._count += 1
        task = _Task(loop.time() + DELAY * size, self._count, size, partial(work, *args, **kwargs), answer)  # type: ignore[arg-type]
        if size <= LONG:
            self._short_until = loop.time() + LATELY
        heapq.heappush(self._waiting[size > LONG], task)
        self._start()
        return answer

    @contextlib.asynccontextmanager
    async def count_long(self) -> AsyncIterator[None]:
        """Around long work in a thread of its own: begins when that may run, before any that waits for these threads."""
        turn = asyncio.get_running_loop().create_future()
        self._outside.append(turn)
        self._start()
        await turn
        try:
            yield
        finally:
            self._running_outside -= 1
            self._start()

    def shutdown(self) -> None:
        """Wait for what runs; nothing may wait any more."""
        self._pool.shutdown()

    def _start(self) -> None:
        while self._outside and self._may_start_long():
            if not (turn := self._outside.popleft()).done():
                self._running_outside += 1
                turn.set_result(None)
        while sum(self._running) < self._threads and (task := self._next()) is not None:
            kind = task.size > LONG
            self._running[kind] += 1
            done = asyncio.get_running_loop().run_in_executor(self._pool, task.work)
            done.add_done_callback(partial(self._finish, task, kind))
        if (self._outside or self._waiting[True]) and self._look_again is None:
            loop = asyncio.get_running_loop()
            self._look_again = loop.call_later(LATELY, self._start_again)

    def _start_again(self) -> None:
        self._look_again = None
        self._start()

    def _may_start_long(self) -> bool:
        """Whether one more long task, here or outside, leaves a core free where short work has come lately."""
        busy = asyncio.get_running_loop().time() < self._short_until
        return self._running[True] + self._running_outside < self._threads - busy

    def _next(self) -> _Task | None:
        """The task that is due first of those that may start now; those that were cancelled are forgotten."""
        short, long = self._waiting
        for tasks in self._waiting:
            while tasks and tasks[0].answer.done():
                heapq.heappop(tasks)
        may_start_long = bool(long) and self._running[True] < self._threads - 1 and self._may_start_long()
        if may_start_long and (not short or long[0] < short[0]):
            return heapq.heappop(long)
        return heapq.heappop(short) if short else None

    def _finish(self, task: _Task, kind: bool, done: asyncio.Future[object]) -> None:
        self._running[kind] -= 1
        if not task.answer.done():
            if done.cancelled():
                task.answer.cancel()
            elif (error := done.exception()) is not None:
                task.answer.set_exception(error)
            else:
                task.answer.set_result(done.result())
        elif not done.cancelled():
            done.exception()  # nobody asks any more
        with contextlib.suppress(RuntimeError):  # the pool has ended
            self._start()
