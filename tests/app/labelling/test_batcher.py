"""The queue in front of the models: batches, places, overload, faults."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.batcher import Batcher, cores
from phonechain.app.labelling.lanes import LONG
from phonechain.app.models.catalog import Entry, Registry
from phonechain.app.problems.errors import NotReady, Overloaded
from phonechain.app.samples import AUDIO, SEGMENTS
from phonechain.app.settings import Settings
from phonechain.features import annotation as notation
from phonechain.features.segments import Segment
from tests.app.conftest import Client, serving


@dataclass
class Gate:
    """A labeler that waits to be let through, then hands on to the real one; it keeps a record of its batches."""

    real: Any
    open: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    batches: list[int] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    poison: int = -1

    @property
    def model_(self) -> Any:
        return self

    def label(self, items: Any, segments: Any, **more: Any) -> Any:
        self.entered.set()
        assert self.open.wait(120)
        self.batches.append(len(items))
        self.threads.add(threading.current_thread().name)
        if any(len(item) == self.poison for item in items):
            raise ValueError("poisoned")
        return self.real.model_.label(items, segments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real.model_, name)

    @property
    def features_(self) -> Any:
        return self.real.features_

    @property
    def card_(self) -> Any:
        return self.real.card_


@pytest.fixture
def gate(registry: Registry) -> Gate:
    return Gate(registry.get("default").labeler)


@pytest.fixture(scope="module")
def ready(registry: Registry) -> labelling.Prepared:
    annotation = notation.read(SEGMENTS.read_bytes())
    return labelling.prepare_utterance(AUDIO, annotation, registry.get("default").labeler.features_)


def running(work: Callable[[Batcher], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        batcher = Batcher(Settings(**settings))
        await batcher.start()
        try:
            return await work(batcher)
        finally:
            await batcher.stop()

    return asyncio.run(run())


async def in_the_models_hands(gate: Gate) -> None:
    """When a first batch is with the model."""
    while not gate.entered.is_set():
        await asyncio.sleep(0.001)


def parts(ready: labelling.Prepared, count: int) -> tuple[Any, list[Segment]]:
    return ready.inputs.part(0, count), ready.segments[:count]


def test_what_gathers_while_the_model_works_is_one_batch(gate: Gate, ready: labelling.Prepared) -> None:
    entry = Entry("default", gate)  # type: ignore[arg-type]

    async def work(batcher: Batcher) -> list[Any]:
        asked = [
            asyncio.ensure_future(batcher.label(entry, *parts(ready, n), n_best=n, decode="posterior"))
            for n in range(1, 8)
        ]
        await in_the_models_hands(gate)
        gate.open.set()
        return await asyncio.gather(*asked)

    scored = running(work)
    assert gate.batches == [1, 6] or gate.batches == [7]
    assert len(gate.threads) == 1
    for n, result in enumerate(scored, 1):
        alone = gate.real.label_inputs([ready.inputs.part(0, n)], segments=[ready.segments[:n]], n_best=n)[0]
        assert [s.label for s in result.labelled] == [s.label for s in alone]
        assert [len(s.n_best) for s in result.labelled] == [n] * n
        assert [s.posterior for s in result.labelled] == pytest.approx([s.posterior for s in alone], abs=1e-5)
        assert result.model > 0


def test_batches_hold_one_model_one_way_to_decode_and_so_many_segments(gate: Gate, ready: labelling.Prepared) -> None:
    one, other = Entry("one", gate), Entry("other", gate)  # type: ignore[arg-type]

    async def work(batcher: Batcher) -> None:
        first = asyncio.ensure_future(batcher.label(one, *parts(ready, 1), n_best=1, decode="posterior"))
        await in_the_models_hands(gate)
        kinds = [(one, "posterior"), (other, "posterior"), (one, "viterbi"), (one, "posterior"), (one, "posterior")]
        rest = [batcher.label(e, *parts(ready, 5), n_best=1, decode=d) for e, d in kinds]  # type: ignore[arg-type]
        gate.open.set()
        await asyncio.gather(first, *rest)

    running(work, batch_segments=10)
    assert gate.batches == [1, 2, 1, 1, 1]


def test_one_bad_utterance_fails_alone(gate: Gate, ready: labelling.Prepared) -> None:
    gate.poison = 3
    entry = Entry("default", gate)  # type: ignore[arg-type]

    async def work(batcher: Batcher) -> list[Any]:
        asked = [
            asyncio.ensure_future(batcher.label(entry, *parts(ready, n), n_best=1, decode="posterior"))
            for n in (1, 2, 3, 4)
        ]
        await in_the_models_hands(gate)
        gate.open.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = running(work)
    assert [isinstance(o, ValueError) for o in outcomes] == [False, False, True, False]


def test_a_request_that_was_given_up_is_not_labelled(gate: Gate, ready: labelling.Prepared) -> None:
    entry = Entry("default", gate)  # type: ignore[arg-type]

    async def work(batcher: Batcher) -> None:
        first = asyncio.ensure_future(batcher.label(entry, *parts(ready, 1), n_best=1, decode="posterior"))
        await in_the_models_hands(gate)
        second = asyncio.ensure_future(batcher.label(entry, *parts(ready, 2), n_best=1, decode="posterior"))
        second.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        await first

    running(work)
    assert gate.batches == [1]


def test_requests_in_progress_are_counted() -> None:
    async def work(batcher: Batcher) -> None:
        with batcher.admit():
            with batcher.admit(), pytest.raises(Overloaded, match=r"server busy: 2 requests in progress \(limit 2\)"):
                batcher.refuse_if_full()
            with pytest.raises(ZeroDivisionError), batcher.admit():
                raise ZeroDivisionError
            assert sum(batcher.shared.in_progress) == 1
        assert sum(batcher.shared.in_progress) == 0

    running(work, queue_size=2)


def test_what_was_accepted_is_answered_before_the_end(gate: Gate, ready: labelling.Prepared) -> None:
    entry = Entry("default", gate)  # type: ignore[arg-type]

    async def run() -> None:
        batcher = Batcher(Settings())
        await batcher.start()
        asked = [
            asyncio.ensure_future(batcher.label(entry, *parts(ready, 2), n_best=1, decode="posterior"))
            for _ in range(3)
        ]
        await in_the_models_hands(gate)
        stopping = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0)  # it begins
        assert not batcher.ready
        with pytest.raises(NotReady):
            batcher.refuse_if_full()
        gate.open.set()
        await stopping
        assert [len(result.labelled) for result in await asyncio.gather(*asked)] == [2, 2, 2]

    asyncio.run(run())


def test_a_request_in_its_decoding_is_answered_too(gate: Gate, ready: labelling.Prepared) -> None:
    gate.open.set()
    entry = Entry("default", gate)  # type: ignore[arg-type]

    async def run() -> None:
        batcher = Batcher(Settings())
        await batcher.start()

        decoding, decoded = threading.Event(), threading.Event()

        def decode() -> None:
            decoding.set()
            assert decoded.wait(120)

        async def request() -> int:
            with batcher.admit():
                await batcher.run_in_pool(0.0, decode)
                scored = await batcher.label(entry, *parts(ready, 2), n_best=1, decode="posterior")
                return await batcher.run_in_pool(0.0, len, scored.labelled)

        asked = asyncio.create_task(request())
        while not decoding.is_set():
            await asyncio.sleep(0.001)
        stopping = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0)  # it begins
        assert not stopping.done()
        decoded.set()
        await stopping
        assert await asked == 2

    asyncio.run(run())


def test_overload_is_answered_at_once_with_503(gate: Gate) -> None:
    from phonechain.app.main import create_app

    gate.open.set()  # for the warm-up
    app = create_app(Settings(queue_size=2, retry_after=7), Registry({"default": Entry("default", gate)}))  # type: ignore[arg-type]
    with serving(app) as client:
        gate.open.clear()
        answers = _together(client, 6, gate)
        later = client.classify()
    refused = [a for a in answers if a.status_code == 503]
    assert len(refused) == 4
    assert all(a.status_code == 200 for a in answers if a not in refused)
    for a in refused:
        assert a.headers["retry-after"] == "7"
        assert a.json()["type"] == "/problems/overloaded"
        assert (a.json()["value"], a.json()["limit"]) == (2, 2)
    assert later.status_code == 200


def _together(client: Client, count: int, gate: Gate) -> list[Any]:
    async def ask() -> list[Any]:
        files = {"audio": AUDIO.read_bytes(), "segments": SEGMENTS.read_bytes()}
        tasks = [asyncio.create_task(client.http.post("/classify", files=files)) for _ in range(count)]
        while sum(t.done() for t in tasks) < count - 2:  # those that are refused
            await asyncio.sleep(0.01)
        gate.open.set()
        return await asyncio.gather(*tasks)

    return client.portal.call(ask)


def test_threads_are_set_once_for_the_model_and_for_numpy() -> None:
    from threadpoolctl import threadpool_info

    before = torch.get_num_threads()
    seen: dict[str, int] = {}

    async def work(batcher: Batcher) -> None:
        loop = asyncio.get_running_loop()
        for line in batcher._lines:
            seen[line.name] = await loop.run_in_executor(line.pool, torch.get_num_threads)

    try:
        running(work, torch_threads=1)
        assert seen == {"torch": 1, "torch-long": 1}
        assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")
    finally:
        torch.set_num_threads(before)
    assert cores() >= 1


def test_a_short_utterance_goes_before_long_ones_that_came_a_little_earlier(
    gate: Gate, ready: labelling.Prepared
) -> None:
    entry = Entry("default", gate)  # type: ignore[arg-type]
    order: list[int] = []

    async def work(batcher: Batcher) -> None:
        async def label(count: int) -> None:
            await batcher.label(entry, *parts(ready, count), n_best=1, decode="posterior")
            order.append(count)

        tasks = [asyncio.create_task(label(1))]
        await in_the_models_hands(gate)
        for count in (20, 20, 20, 2):
            tasks.append(asyncio.create_task(label(count)))
        await asyncio.sleep(0)  # each has come
        gate.open.set()
        await asyncio.gather(*tasks)

    running(work, batch_segments=10)
    assert order == [1, 2, 20, 20, 20]


def test_a_short_utterance_is_labelled_while_the_model_works_on_a_long_one(
    gate: Gate, ready: labelling.Prepared
) -> None:
    entry = Entry("default", gate)  # type: ignore[arg-type]
    short = Entry("short", Gate(gate.real))  # type: ignore[arg-type]
    short.labeler.open.set()  # type: ignore[attr-defined]
    inputs, segments = parts(ready, 1)
    many = replace(inputs, segments=np.repeat(inputs.segments, 700, 0), times=np.repeat(inputs.times, 700, 0))

    async def work(batcher: Batcher) -> None:
        long = batcher.label(entry, many, segments * 700, n_best=1, decode="posterior")
        await in_the_models_hands(gate)
        await batcher.label(short, inputs, segments, n_best=1, decode="posterior")
        assert not long.done()
        gate.open.set()
        assert len((await long).labelled) == 700

    running(work)


def test_long_recordings_leave_places_for_short_ones() -> None:
    async def work(batcher: Batcher) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                place = stack.enter_context(batcher.admit())
                place.enlarge(LONG)
                place.enlarge(2 * LONG)
                place.enlarge(3 * LONG)  # counts once
            last = stack.enter_context(batcher.admit())
            last.enlarge(LONG)
            with pytest.raises(Overloaded, match=r"3 recordings of more than 60 s in progress \(limit 3\)"):
                last.enlarge(LONG + 1)
            assert last.size == LONG
        with batcher.admit() as place:
            place.enlarge(2 * LONG)

    running(work, queue_size=4)
