"""The bounded, micro-batched queue in front of the loaded labelers.

Decoding and features run in a small pool of threads, inference in one thread; the event loop does neither. While the
model works on one batch the next requests gather, and the worker takes what has gathered: batches grow with the load,
and a lone request waits for nobody. A request counts from the moment its body is read until its answer is
rendered; while `queue_size` are in progress, further ones are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from phonechain.app.labelling.pipeline import label_sequences
from phonechain.app.models.catalog import Entry
from phonechain.app.problems.errors import NotReady, Overloaded
from phonechain.app.settings import Settings, cores
from phonechain.features.inputs import Inputs
from phonechain.features.phones.comparison import LabelComparison
from phonechain.features.segments import Segment

if TYPE_CHECKING:
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.learning.normaliser import Mode
    from phonechain.model.phone_model import Decoding

P = ParamSpec("P")
R = TypeVar("R")

DELAY = 0.005
"""Seconds by which each segment of an utterance lets others go before it: a short one does not wait for all long ones
that came a little earlier, and a long one waits for those only that come within its own delay.
"""


@dataclass(slots=True)
class _Item:
    entry: Entry
    inputs: Inputs
    segments: list[Segment]
    n_best: int
    decode: Decoding
    answer: asyncio.Future[Scored]
    since: float
    mode: Mode
    starts: Sequence[int] = ()
    comparison: LabelComparison | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """The labels of one utterance; seconds spent waiting and in the model; utterances in its batch."""

    labelled: list[LabelledSegment]
    queue: float
    model: float
    batch: int


class Batcher:
    """Start and stop it inside the event loop that uses it."""

    def __init__(
        self, settings: Settings, on_batch: Callable[[int, int, float], None] = lambda utterances, segments, s: None
    ) -> None:
        self.settings = settings
        self.taken = 0
        self._on_batch = on_batch
        """Told of every batch: utterances, segments, seconds in the model."""
        self._waiting: deque[_Item] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._pool: ThreadPoolExecutor | None = None
        self._torch: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stopping = False
        threads = self.settings.torch_threads or cores()
        set_threads(threads)
        self._pool = ThreadPoolExecutor(self.settings.decode_threads, "decode")
        self._torch = ThreadPoolExecutor(1, "torch", initializer=set_threads, initargs=(threads,))
        self._task = asyncio.create_task(self._work(), name="batcher")

    async def stop(self) -> None:
        """Answer what was accepted, then end the threads."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        for pool in (self._pool, self._torch):
            if pool is not None:
                await asyncio.to_thread(pool.shutdown)

    @property
    def ready(self) -> bool:
        return self._task is not None and not self._task.done() and not self._stopping

    @property
    def waiting(self) -> int:
        """Utterances that wait for a batch."""
        return len(self._waiting)

    def refuse_if_full(self) -> None:
        """Raises Overloaded, NotReady: before a body is read for nothing."""
        if not self.ready:
            raise NotReady("the service is starting or stopping", retry_after=self.settings.retry_after)
        if self.taken >= self.settings.queue_size:
            raise Overloaded(
                f"server busy: {self.taken} requests in progress (limit {self.settings.queue_size})",
                retry_after=self.settings.retry_after,
                value=self.taken,
                limit=self.settings.queue_size,
            )

    @contextlib.contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request in progress. Raises Overloaded, NotReady."""
        self.refuse_if_full()
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._wake.set()

    def in_pool(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """What `work` returns, run in the pool of decoding threads."""
        assert self._pool is not None
        return asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **kwargs))

    def label(
        self,
        entry: Entry,
        inputs: Inputs,
        segments: list[Segment],
        *,
        n_best: int,
        decode: Decoding,
        starts: Sequence[int] = (),
        comparison: LabelComparison | None = None,
        mode: Mode | None = None,
    ) -> asyncio.Future[Scored]:
        """The labels of one utterance, from a batch with whatever else waits for the same model.

        At each place in `starts` a new sequence begins, over whose start the chain does not run; `comparison` says how the
        given labels are compared, `mode` over what features are normalised: by default as the model was trained for.
        """
        answer: asyncio.Future[Scored] = asyncio.get_running_loop().create_future()
        mode = mode or entry.model.normaliser.check_mode(None, known_speakers=False)
        self._waiting.append(
            _Item(entry, inputs, segments, n_best, decode, answer, time.perf_counter(), mode, starts, comparison)
        )
        self._wake.set()
        return answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting or self.taken or not self._stopping:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._take()
            if batch:
                assert self._torch is not None
                outcomes = await loop.run_in_executor(self._torch, _label_batch, batch)
                for item, outcome in zip(batch, outcomes, strict=True):
                    _settle(item.answer, outcome)
                spent = next((outcome.model for outcome in outcomes if isinstance(outcome, Scored)), None)
                if spent is not None:
                    self._on_batch(len(batch), sum(len(item.segments) for item in batch), spent)

    def _take(self) -> list[_Item]:
        """The first in turn, and those after it that can share its batch; the others keep their order."""
        batch: list[_Item] = []
        kept: list[_Item] = []
        total = 0
        for item in sorted(self._waiting, key=_turn):
            if item.answer.done():  # its client has gone
                continue
            alike = not batch or (item.entry, item.decode, item.mode) == (
                batch[0].entry,
                batch[0].decode,
                batch[0].mode,
            )
            if alike and (not batch or total + len(item.segments) <= self.settings.batch_segments):
                batch.append(item)
                total += len(item.segments)
            else:
                kept.append(item)
        self._waiting = deque(kept)
        return batch


def _turn(item: _Item) -> float:
    return item.since + DELAY * len(item.segments)


def _label_batch(batch: Sequence[_Item]) -> list[Scored | Exception]:
    """Runs in the torch thread. A batch that fails is tried one by one: one utterance cannot fail the others."""
    begun = time.perf_counter()
    first = batch[0]
    try:
        labelled = label_sequences(
            first.entry.model,
            [(item.inputs, item.segments, item.starts) for item in batch],
            n_best=max(item.n_best for item in batch),
            decode=first.decode,
            comparisons=[item.comparison for item in batch],
            mode=first.mode,
        )
    except Exception as error:
        if len(batch) == 1:
            return [error]
        return [outcome for item in batch for outcome in _label_batch([item])]
    spent = time.perf_counter() - begun
    return [
        Scored([_cut(segment, item.n_best) for segment in labels], begun - item.since, spent, len(batch))
        for item, labels in zip(batch, labelled, strict=True)
    ]


def _cut(segment: LabelledSegment, n_best: int) -> LabelledSegment:
    """A batch asks for the longest list that any of its requests wants; each request gets its own length."""
    return segment if len(segment.n_best) <= n_best else replace(segment, n_best=segment.n_best[:n_best])


def _settle(answer: asyncio.Future[Scored], outcome: Scored | Exception) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def set_threads(threads: int) -> None:
    """Give torch its threads, and numpy's matrix library one: the decoding threads are parallel already.

    OpenMP keeps the number for each thread, so the torch worker calls this for itself as well.
    """
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    threadpool_limits(1, user_api="blas")
