"""The bounded, micro-batched queue in front of the loaded labelers.

Decoding and features run in a small pool of threads, inference in two, one for long recordings and one for the others;
the event loop does neither. While the model works on one batch the next requests gather, and the worker takes what has
gathered: batches grow with the load, and a lone request waits for nobody. A request counts from the moment its body is
read until its answer is rendered; while `queue_size` are in progress, further ones are refused at once, and long ones
while they have `LONG_SHARE` of the places.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from phonechain.app.labelling.lanes import DELAY, LONG, SEGMENTS_PER_SECOND, FairThreads
from phonechain.app.labelling.pipeline import label_sequences
from phonechain.app.models.catalog import Entry
from phonechain.app.ops.shared import Shared
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

LONG_SHARE = 0.75
"""Of the places in the queue, those that long recordings may have together."""


@dataclass(slots=True)
class _Item:
    entry: Entry
    inputs: Inputs
    segments: list[Segment]
    n_best: int
    decode: Decoding
    answer: asyncio.Future[LabelledUtterance]
    since: float
    mode: Mode
    starts: Sequence[int] = ()
    comparison: LabelComparison | None = None
    support: bool = False

    @property
    def size(self) -> float:
        """Seconds of sound that are as much work."""
        spoken = float(self.inputs.times[-1, 1] - self.inputs.times[0, 0]) if len(self.inputs.frames) else 0.0
        return max(spoken, len(self.segments) / SEGMENTS_PER_SECOND)

    @property
    def kind(self) -> tuple[object, ...]:
        """What those of a batch have in common."""
        return self.entry, self.decode, self.mode, self.support


class Slot:
    """Of a request in progress: what it asks of threads takes its turn by the length of its recording."""

    def __init__(self, batcher: Batcher) -> None:
        self.size = 0.0
        """Seconds of sound, as far as they are known."""
        self.ended = False
        """The request is no longer in progress: perhaps its client has left while a thread works for it."""
        self._batcher = batcher

    def enlarge(self, seconds: float) -> None:
        """Say how long the recording is, as soon as that is known.

        Raises:
            Overloaded: it is long, and long ones have all the places that they may have.
        """
        if self.size <= LONG < seconds:
            self._batcher.count_long()
        self.size = max(self.size, seconds)

    def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """What `work` returns, run in the pool of decoding threads, in its turn: short work first (see lanes)."""
        return self._batcher.run_in_pool(self.size, work, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class LabelledUtterance:
    """The labels of one utterance; seconds spent waiting and in the model; utterances in its batch."""

    labelled: list[LabelledSegment]
    queue: float
    model: float
    batch: int


class Batcher:
    """Start and stop it inside the event loop that uses it."""

    def __init__(
        self,
        settings: Settings,
        on_batch: Callable[[int, int, float], None] = lambda utterances, segments, s: None,
        shared: Shared | None = None,
    ) -> None:
        self.settings = settings
        self.shared = shared or Shared()
        """Requests in progress here and in the other processes: limits are over all of them."""
        self._me = self.shared.number
        self._on_batch = on_batch
        """Told of every batch: utterances, segments, seconds in the model."""
        self._lines = (_Line("torch"), _Line("torch-long"))
        """Utterances that wait for a batch: short ones, long ones."""
        self._stopping = False
        self._pool: FairThreads | None = None

    async def start(self) -> None:
        self._stopping = False
        threads = self.settings.torch_threads or cores()
        set_threads(threads)
        self._pool = FairThreads(self.settings.decode_threads, "decode")
        for line in self._lines:
            line.pool = ThreadPoolExecutor(1, line.name, initializer=set_threads, initargs=(threads,))
            line.task = asyncio.create_task(self._work(line), name=f"batcher-{line.name}")

    async def stop(self) -> None:
        """Answer what was accepted, then end the threads."""
        self._stopping = True
        self._wake()
        for line in self._lines:
            if line.task is not None:
                await line.task
        for pool in (self._pool, *(line.pool for line in self._lines)):
            if pool is not None:
                await asyncio.to_thread(pool.shutdown)

    @property
    def ready(self) -> bool:
        return not self._stopping and all(line.task is not None and not line.task.done() for line in self._lines)

    def refuse_if_full(self) -> None:
        """Raises Overloaded, NotReady: before a body is read for nothing."""
        if not self.ready:
            raise NotReady("the service is starting or stopping", retry_after=self.settings.retry_after)
        if (busy := sum(self.shared.in_progress)) >= self.settings.queue_size:
            raise Overloaded(
                f"server busy: {busy} requests in progress (limit {self.settings.queue_size})",
                retry_after=self.settings.retry_after,
                value=busy,
                limit=self.settings.queue_size,
            )

    @contextlib.contextmanager
    def admit(self, seconds: float = 0.0) -> Iterator[Slot]:
        """Count a request in progress, of so many seconds of sound as far as is known. Raises Overloaded, NotReady."""
        self.refuse_if_full()
        self.shared.in_progress[self._me] += 1
        slot = Slot(self)
        try:
            if seconds > LONG:
                self.count_long()
            slot.size = seconds
            yield slot
        finally:
            slot.ended = True
            self.shared.in_progress[self._me] -= 1
            self.shared.long[self._me] -= slot.size > LONG
            self._wake()

    def count_long(self) -> None:
        """One more request in progress is of a long recording. Raises Overloaded."""
        limit = max(1, int(LONG_SHARE * self.settings.queue_size))
        if (busy := sum(self.shared.long)) >= limit:
            raise Overloaded(
                f"server busy: {busy} recordings of more than {LONG:g} s in progress (limit {limit})",
                retry_after=self.settings.retry_after,
                value=busy,
                limit=limit,
            )
        self.shared.long[self._me] += 1

    def run_in_pool(self, size: float, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """What `work` returns, run in the pool of decoding threads; `size` is in seconds of sound."""
        assert self._pool is not None
        return self._pool.run(size, work, *args, **kwargs)

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
        support: bool = False,
    ) -> asyncio.Future[LabelledUtterance]:
        """The labels of one utterance, from a batch with whatever else waits for the same model.

        At each index in `starts` a new sequence begins, over whose start the chain does not run; `comparison` says how the
        given labels are compared, `mode` over what features are normalised: by default as the model was trained for.
        `support` asks for the support of given labels too (see model.support), which takes a second pass.
        """
        answer: asyncio.Future[LabelledUtterance] = asyncio.get_running_loop().create_future()
        mode = mode or entry.model.normaliser.check_mode(None, known_speakers=False)
        item = _Item(
            entry, inputs, segments, n_best, decode, answer, time.perf_counter(), mode, starts, comparison, support
        )
        line = self._lines[item.size > LONG]
        line.waiting.append(item)
        self.shared.waiting[self._me] += 1
        line.wake.set()
        return answer

    def _wake(self) -> None:
        for line in self._lines:
            line.wake.set()

    async def _work(self, line: _Line) -> None:
        loop = asyncio.get_running_loop()
        while line.waiting or self.shared.in_progress[self._me] or not self._stopping:
            if not line.waiting:
                line.wake.clear()
                await line.wake.wait()
                continue
            assert self._pool is not None
            async with self._pool.count_long() if line is self._lines[True] else contextlib.nullcontext():
                before = len(line.waiting)
                batch = line.take(self.settings.batch_segments)
                self.shared.waiting[self._me] -= before - len(line.waiting)
                outcomes = await loop.run_in_executor(line.pool, _label_batch, batch) if batch else []
            if batch:
                for item, outcome in zip(batch, outcomes, strict=True):
                    _set_outcome(item.answer, outcome)
                spent = next((outcome.model for outcome in outcomes if isinstance(outcome, LabelledUtterance)), None)
                if spent is not None:
                    self._on_batch(len(batch), sum(len(item.segments) for item in batch), spent)


@dataclass(slots=True)
class _Line:
    """Utterances that wait for one of the threads with the model."""

    name: str
    waiting: deque[_Item] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    pool: ThreadPoolExecutor | None = None
    task: asyncio.Task[None] | None = None

    def take(self, most: int) -> list[_Item]:
        """The first in turn, and those after it that can share its batch of `most` segments; the others keep their order."""
        batch: list[_Item] = []
        kept: list[_Item] = []
        total = 0
        for item in sorted(self.waiting, key=_due_time):
            if item.answer.done():  # its client has gone
                continue
            if (not batch or item.kind == batch[0].kind) and (not batch or total + len(item.segments) <= most):
                batch.append(item)
                total += len(item.segments)
            else:
                kept.append(item)
        self.waiting = deque(kept)
        return batch


def _due_time(item: _Item) -> float:
    return item.since + DELAY * item.size


def _label_batch(batch: Sequence[_Item]) -> list[LabelledUtterance | Exception]:
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
            support=first.support,
        )
    except Exception as error:
        if len(batch) == 1:
            return [error]
        return [outcome for item in batch for outcome in _label_batch([item])]
    spent = time.perf_counter() - begun
    return [
        LabelledUtterance(
            [_trim_n_best(segment, item.n_best) for segment in labels], begun - item.since, spent, len(batch)
        )
        for item, labels in zip(batch, labelled, strict=True)
    ]


def _trim_n_best(segment: LabelledSegment, n_best: int) -> LabelledSegment:
    """A batch asks for the longest list that any of its requests wants; each request gets its own length."""
    return segment if len(segment.n_best) <= n_best else replace(segment, n_best=segment.n_best[:n_best])


def _set_outcome(answer: asyncio.Future[LabelledUtterance], outcome: LabelledUtterance | Exception) -> None:
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
