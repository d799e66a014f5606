"""Threads that are shared fairly: order, not time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from phonechain.app import samples
from phonechain.app.labelling import lanes
from phonechain.app.labelling.lanes import DELAY, LONG, FairThreads, estimate_seconds
from phonechain.features.audio.raw import RawFormat


def running(work: Callable[[FairThreads], Awaitable[None]], threads: int = 2) -> None:
    async def run() -> None:
        fair = FairThreads(threads, "fair")
        try:
            await work(fair)
        finally:
            fair.shutdown()

    asyncio.run(run())


async def until(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.001)


async def hold_both(fair: FairThreads, gate: threading.Event) -> list[Any]:
    """Both of two threads busy until the gate opens; what they answer then."""
    entered = threading.Event()

    def hold() -> None:
        entered.set()
        gate.wait(120)

    held: list[Any] = [fair.run(0.0, gate.wait, 120), fair.run(0.0, hold)]
    await until(entered)
    return held


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_short_work_runs_beside_any_number_of_long_tasks(threads: int) -> None:
    gate = threading.Event()

    async def work(fair: FairThreads) -> None:
        long = [fair.run(300.0, gate.wait, 120) for _ in range(64)]
        for n in range(20):
            assert await fair.run(2.0, abs, -n) == n
        assert not any(one.done() for one in long)
        gate.set()
        assert all(await asyncio.gather(*long))

    running(work, threads)


def test_what_is_due_first_goes_first() -> None:
    order: list[float] = []
    gate = threading.Event()

    async def work(fair: FairThreads) -> None:
        held = await hold_both(fair, gate)
        sizes = (50.0, 3.0, 40.0, 1.0, 1.0)
        waiting = [fair.run(size, order.append, size) for size in sizes]
        gate.set()
        await asyncio.gather(*held, *waiting)

    running(work)
    # Two threads take them in this order; of two that run at once, either may append first.
    assert sorted(order[:2]) == [1.0, 1.0]
    assert set(order[3:]) <= {3.0, 40.0, 50.0}
    assert order.index(3.0) < order.index(50.0)


def test_long_work_comes_to_its_turn_beside_endless_short_work() -> None:
    async def work(fair: FairThreads) -> None:
        over = False

        async def keep_busy() -> None:
            while not over:
                await fair.run(0.0, sum, range(1000))

        busy = [asyncio.create_task(keep_busy()) for _ in range(8)]
        assert await fair.run(LONG + 1, abs, -5) == 5
        over = True
        await asyncio.gather(*busy)

    assert DELAY * (LONG + 1) < 5
    running(work)


class Overlap:
    """How many tasks ran at once at most; each waits until `wanted` do, or until it has been alone for a while."""

    def __init__(self, wanted: int) -> None:
        self.most, self._now, self._lock = 0, 0, threading.Lock()
        self._all = threading.Barrier(wanted)

    def work(self, seconds: float) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        with contextlib.suppress(threading.BrokenBarrierError):
            self._all.wait(seconds)
        with self._lock:
            self._now -= 1


@pytest.mark.parametrize("beside", [True, False])
def test_one_core_is_left_to_short_work_while_it_comes(beside: bool) -> None:
    """Two threads, long work in one of them and in a thread outside: both at once where no short work comes, and only there."""
    overlap = Overlap(2)

    async def work(fair: FairThreads) -> None:
        over = False

        async def keep_busy() -> None:
            while not over:
                await fair.run(0.0, sum, range(1000))
                await asyncio.sleep(0.001)

        async def outside() -> None:
            async with fair.count_long():
                await asyncio.to_thread(overlap.work, 0.02 if beside else 60)

        busy = asyncio.create_task(keep_busy()) if beside else None
        await asyncio.sleep(0)
        for outside_first in (True, False):
            begun = asyncio.create_task(outside())
            if outside_first:
                await asyncio.sleep(0)
            await asyncio.gather(begun, fair.run(LONG + 1, overlap.work, 0.02 if beside else 60))
        over = True
        if busy is not None:
            await busy

    running(work)
    assert overlap.most == (1 if beside else 2)


def test_long_work_starts_when_no_short_work_comes_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing ends meanwhile that would look for what may start."""
    monkeypatch.setattr(lanes, "LATELY", 0.05)
    gate = threading.Event()

    async def work(fair: FairThreads) -> None:
        held = fair.run(LONG + 1, gate.wait, 120)
        assert await fair.run(0.0, abs, -1) == 1
        async with fair.count_long():
            gate.set()
        assert await held

    running(work)


def test_long_work_outside_that_is_given_up_takes_no_turn() -> None:
    gate = threading.Event()

    async def work(fair: FairThreads) -> None:
        async def outside() -> None:
            async with fair.count_long():
                pass

        held = fair.run(LONG + 1, gate.wait, 120)
        assert await fair.run(0.0, abs, -1) == 1
        given_up = asyncio.create_task(outside())
        await asyncio.sleep(0)
        given_up.cancel()
        gate.set()
        assert await held
        await outside()
        assert await fair.run(LONG + 1, abs, -2) == 2

    running(work)


def test_work_that_was_given_up_is_not_done() -> None:
    done: list[int] = []
    gate = threading.Event()

    async def work(fair: FairThreads) -> None:
        held = await hold_both(fair, gate)
        waiting = [fair.run(0.0, done.append, n) for n in range(4)]
        waiting[1].cancel()
        waiting[2].cancel()
        gate.set()
        await asyncio.gather(*held, waiting[0], waiting[3])

    running(work)
    assert sorted(done) == [0, 3]


def test_an_error_is_the_answer() -> None:
    async def work(fair: FairThreads) -> None:
        with pytest.raises(ZeroDivisionError):
            await fair.run(0.0, lambda: 1 / 0)
        assert await fair.run(0.0, abs, -1) == 1

    running(work)


def test_sound_is_estimated_without_decoding(tmp_path: Path) -> None:
    data = samples.AUDIO.read_bytes()
    assert estimate_seconds(data) == estimate_seconds(samples.AUDIO) == pytest.approx(1.9, abs=0.01)
    assert estimate_seconds(bytes(8000)) == 2.0  # no sound: as if it were densely coded
    assert estimate_seconds(data + bytes(10**7)) > 50  # more than its header claims
    assert estimate_seconds(bytes(32000), RawFormat.parse("16000,s16le,1")) == 1.0
    empty = tmp_path / "empty"
    empty.touch()
    assert estimate_seconds(empty) == 0.0
