"""Training a segmental CRF from recordings whose boundaries are labelled.

Three things make it learn. It starts as a hybrid: durations and bigrams from counts, the factor a sum of the log-odds of a
frame classifier that is trained first. The weights of bigrams and durations take a larger step. And one dropout mask serves
all candidates of a batch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phonechain.features.errors import CorpusError
from phonechain.model.device import try_halves
from phonechain.model.segmental import placement, sums
from phonechain.model.segmental.network import FRAME, SemiCRF
from phonechain.model.segmental.settings import SegmentalSettings, SegmentalTraining

Piece = tuple[int, int, int]
"""Start and end (grid points) and label index of a segment, or of one of the equal parts of a long one."""


@dataclass(frozen=True)
class Example:
    """A labelled recording: its frames [T, 39] for each warp of the filter bank, and (start, end, label index) in seconds.

    The segments touch and cover the recording from 0. `shift` is the bias of its labels, see `SegmentalTraining`. What follows
    is for the loss of boundaries: they are right to `tolerance` frames, but those of segments of at most `short` seconds, which
    an aligner often gets wrong, may be anywhere near.
    """

    frames: Sequence[NDArray[np.floating]]
    segments: Sequence[tuple[float, float, int]]
    shift: float = 0.0
    tolerance: int = 0
    short: float = 0.0


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch: training loss and dev loss (nats per segment), and seconds since the start."""

    number: int
    stage: str
    loss: float
    dev_loss: float | None
    seconds: float


def grid_points(segments: Sequence[tuple[float, float, int]], steps: int, step: float) -> NDArray[np.int64]:
    """[P + 1] grid points of the boundaries and of both ends, at least a step apart."""
    times = np.array([*(s[0] for s in segments), segments[-1][1]])
    at = np.clip(np.round(times / step).astype(int), 0, steps)
    at[0], at[-1] = 0, steps
    for n in range(1, len(at)):
        at[n] = max(at[n], at[n - 1] + 1)
    for n in range(len(at) - 1, -1, -1):
        at[n] = min(at[n], steps - (len(at) - 1 - n))
    if at[0] < 0:
        raise CorpusError(f"expected at most {steps} segments in {steps * step:.2f} s, got {len(segments)}")
    return at


def snap(segments: Sequence[tuple[float, float, int]], steps: int, step: float, longest: int) -> list[Piece]:
    """Segments on the grid, each at least one step long; those longer than `longest` steps are cut into equal pieces."""
    at = grid_points(segments, steps, step)
    pieces = []
    for (_, _, label), i, j in zip(segments, at[:-1], at[1:], strict=True):
        count = -(-int(j - i) // longest)
        cuts = np.linspace(i, j, count + 1).round().astype(int)
        pieces += [(int(a), int(b), label) for a, b in itertools.pairwise(cuts)]
    return pieces


def place(example: Example, segments: Sequence[tuple[float, float, int]], count: int, longest: int) -> placement.Placed:
    """An example's segments on the grid of frames, of which the recording has `count` steps, and how right they are."""
    at = grid_points(segments, count, FRAME)
    short = np.array([end - start <= example.short + 1e-9 for start, end, _ in example.segments])
    doubtful = np.r_[False, short] | np.r_[short, False]
    tolerance = np.where(doubtful, placement.WINDOW, example.tolerance)
    return placement.place(at.tolist(), [s[2] for s in segments], tolerance.tolist(), longest)


def train(
    model: SemiCRF,
    examples: Sequence[Example],
    dev: Sequence[Example],
    training: SegmentalTraining,
    *,
    warm: bool = False,
    normalised: bool = False,
    report: Callable[[Epoch], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[Epoch]:
    """Fit the model in place.

    Args:
        warm: continue from its weights, without counts and without the epochs on frames.
        normalised: keep its normaliser, which belongs to a frame network trained earlier.

    Raises:
        CorpusError: nothing to train on, or more segments than a recording has grid steps.
    """
    if not examples:
        raise CorpusError("expected labelled recordings to train on, got none")
    if not (warm or normalised):
        fit_normaliser(model, examples)
    return _Run(model, examples, dev, training, warm, report, stop).run()


class _Run:
    def __init__(
        self,
        model: SemiCRF,
        examples: Sequence[Example],
        dev: Sequence[Example],
        training: SegmentalTraining,
        warm: bool,
        report: Callable[[Epoch], None] | None,
        stop: Callable[[], bool] | None,
    ) -> None:
        self.model, self.examples, self.dev, self.training = model, examples, dev, training
        self.warm, self.report, self.stop = warm, report, stop
        self.began, self.epochs = time.monotonic(), list[Epoch]()
        if not warm:
            start_from_counts(model, examples)
        ngrams = model.ngram_parameters()
        own = {id(p) for p in ngrams}
        rest = [p for p in model.parameters() if id(p) not in own]
        self.rates = [training.rate, training.rate * training.ngram_rate]
        self.optimiser = torch.optim.AdamW(
            [{"params": rest, "weight_decay": training.decay}, {"params": ngrams, "weight_decay": training.decay / 10}],
            lr=training.rate,
            betas=(0.9, 0.98),
        )

    def run(self) -> list[Epoch]:
        t = self.training
        pretraining = 0 if self.warm else t.pretraining
        for stage, count in (("frames", pretraining), ("segments", t.epochs)):
            if stage == "segments" and pretraining:
                self.model.start_from_head()
            for n in range(count):
                if self.stop is not None and self.stop():
                    return self.epochs
                loss = self._epoch(stage, n, count)
                held = self._dev_loss() if stage == "segments" and self.dev else None
                self.epochs.append(Epoch(n + 1, stage, loss, held, time.monotonic() - self.began))
                if self.report is not None:
                    self.report(self.epochs[-1])
        self.model.eval()
        return self.epochs

    def _epoch(self, stage: str, number: int, count: int) -> float:
        random = np.random.default_rng([self.training.seed, number, stage == "segments"])
        torch.manual_seed(int(random.integers(2**31)))
        batches = make_batches(self.examples, self.training.batch_frames, random)
        self.model.train()
        total, weight = 0.0, 0
        for n, batch in enumerate(batches):
            done = (number + n / len(batches)) / count
            warm = min(1.0, (number * len(batches) + n + 1) / (0.5 * len(batches)))
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate * warm * (1.0 - done if stage == "segments" else 1.0)
            whole = not self.training.placement or n % self.training.every == 0
            loss, segments = self._compute_gradients([self.examples[k] for k in batch], random, stage, whole)
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimiser.step()
            total += loss * segments
            weight += segments
        return total / max(1, weight)

    def _compute_gradients(
        self, batch: Sequence[Example], random: np.random.Generator, stage: str, whole: bool
    ) -> tuple[float, int]:
        """Set the gradients to those of a batch; its loss and number of pieces. Where memory is short, in halves.

        Args:
            whole: as in `_loss`.

        Raises CorpusError where it does not suffice for one recording.
        """

        def at_once() -> tuple[float, int]:
            self.optimiser.zero_grad()
            loss, pieces = self._loss(batch, random, stage, whole=whole)
            loss.backward()
            return float(loss.detach()), pieces

        def halves() -> tuple[float, int]:
            if len(batch) == 1:
                seconds = len(batch[0].frames[0]) * FRAME
                raise CorpusError(
                    f"out of memory on {self.model.device}: one recording of {seconds:.1f} s does not fit"
                )
            parameters = list(self.model.parameters())
            added: list[Tensor | None] = [None] * len(parameters)
            value, count = 0.0, 0
            for part in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                loss, pieces = self._compute_gradients(part, random, stage, whole)
                value, count = value + loss * pieces, count + pieces
                for n, parameter in enumerate(parameters):
                    if parameter.grad is not None:
                        own, known = parameter.grad * pieces, added[n]
                        added[n] = own if known is None else known + own
            for parameter, grad in zip(parameters, added, strict=True):
                parameter.grad = None if grad is None else grad / count
            return value / count, count

        return try_halves(at_once, halves, self.model.device)

    def _loss(
        self, batch: Sequence[Example], random: np.random.Generator | None, stage: str, *, whole: bool = True
    ) -> tuple[Tensor, int]:
        """Loss per segment of a batch, and its segments; without `random` the segmental loss alone, as it is measured.

        Args:
            whole: whether the segmental loss counts beside the loss of boundaries.
        """
        model, settings, device = self.model, self.model.settings, self.model.device
        stride = round(settings.step / FRAME)
        rows, golds, labels, placed = [], [], [], []
        for e in batch:
            warp = 0 if random is None else int(random.integers(len(e.frames)))
            # the grid begins at any frame of the first step, so that each frame can be a boundary
            cut = 0 if random is None else int(random.integers(stride))
            shift = self.training.shift + e.shift - cut * FRAME
            segments = shift_boundaries(e.segments, shift)
            frames = model.normalise(np.asarray(e.frames[warp], dtype=np.float32))[cut:]
            count = max(1, round(segments[-1][1] / settings.step))
            rows.append(torch.from_numpy(frames[: count * stride + 1]))
            golds.append(snap(segments, count, settings.step, round(settings.max_duration / settings.step)))
            labels.append(torch.from_numpy(frame_labels(segments, len(rows[-1]))))
            if self.training.placement and random is not None:
                placed.append(place(e, segments, count * stride, round(settings.max_duration / FRAME)))
        lengths = torch.tensor([len(r) for r in rows], device=device)
        x = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
        track = model.track(x, lengths)
        if random is not None and settings.dropout:
            keep = functional.dropout(torch.ones(track.shape[2]), settings.dropout)
            keep[-1 - settings.units] = 1.0  # the channel that is one
            keep = keep.to(device)
        else:
            keep = None
        logits = model.head(track if keep is None else track * keep)
        targets = nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-1).to(device)
        by_frame = functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=-1, label_smoothing=0.05
        )
        pieces = sum(map(len, golds))
        if stage == "frames":
            return by_frame, pieces
        loss = by_frame.new_zeros(())
        if whole:
            steps = [g[-1][1] for g in golds]
            lattice = model.lattice(model.scores(track, max(steps), keep=keep), torch.tensor(steps, device=device))
            loss = -sums.log_likelihood(lattice, sums.Segmentation.of(golds, device)).sum() / pieces
        if random is None:
            return loss, pieces
        if placed:
            heard = track if keep is None else track * keep
            loss = loss - self.training.placement * placement.log_likelihood(model, heard, placed).sum() / pieces
        return loss + self.training.frame_loss * by_frame, pieces

    def _dev_loss(self) -> float:
        """Segmental loss of the dev set (nats per segment)."""
        self.model.eval()
        total, weight = 0.0, 0
        with torch.no_grad():
            for batch in make_batches(self.dev, self.training.batch_frames, None):
                loss, segments = self._loss([self.dev[k] for k in batch], None, "segments")
                total += float(loss) * segments
                weight += segments
        return total / max(1, weight)


def shift_boundaries(segments: Sequence[tuple[float, float, int]], shift: float) -> list[tuple[float, float, int]]:
    """Move boundaries by `shift` seconds. The recording still starts at 0; a negative shift cuts its end."""
    last = segments[-1][1] + min(shift, 0.0)
    times = [0.0, *(min(max(s[0] + shift, 0.0), last) for s in segments[1:]), last]
    return [(times[n], times[n + 1], s[2]) for n, s in enumerate(segments)]


def frame_labels(segments: Sequence[tuple[float, float, int]], count: int) -> NDArray[np.int64]:
    """[count] label of the segment that each frame's centre lies in."""
    starts = np.array([s[0] for s in segments])
    at = np.clip(np.searchsorted(starts, np.arange(count) * FRAME + 1e-9, side="right") - 1, 0, None)
    return np.array([s[2] for s in segments])[at]


def make_batches(examples: Sequence[Example], frames: int, random: np.random.Generator | None) -> list[list[int]]:
    """Batches of recordings of similar length, at most `frames` frames per batch, in random order."""
    lengths = np.array([len(e.frames[0]) for e in examples], dtype=float)
    if random is not None:
        lengths *= np.exp(random.normal(0.0, 0.03, len(lengths)))
    batches: list[list[int]] = []
    longest = 0.0
    for k in np.argsort(lengths, kind="stable"):
        longest = max(longest, lengths[k])
        if not batches or (len(batches[-1]) + 1) * longest > frames:
            batches.append([])
            longest = lengths[k]
        batches[-1].append(int(k))
    return batches if random is None else [batches[n] for n in random.permutation(len(batches))]


def fit_normaliser(model: SemiCRF, examples: Sequence[Example]) -> None:
    """Set mean and deviation from the frames of all recordings."""
    count, total, squares = 0, 0.0, 0.0
    for e in examples:
        x = np.asarray(e.frames[0], dtype=np.float64)
        count, total, squares = count + len(x), total + x.sum(0), squares + np.square(x).sum(0)
    mean = np.asarray(total / count)
    deviation = np.sqrt(np.maximum(np.asarray(squares / count) - mean**2, 1e-12))
    model.mean.copy_(torch.from_numpy(mean))
    model.deviation.copy_(torch.from_numpy(deviation))


def start_from_counts(model: SemiCRF, examples: Sequence[Example]) -> None:
    """Set durations, bigrams, first and last labels to relative frequencies, so that training starts from an HSMM."""
    settings, k = model.settings, model.labels
    step, longest = settings.step, round(settings.max_duration / settings.step)
    durations = np.full((len(model.durations), k), 0.02)
    bigram, first, last = np.full((k, k), 0.2), np.full(k, 0.2), np.full(k, 0.2)
    kernel = np.array([1, 2, 3, 2, 1]) / 9
    for e in examples:
        pieces = snap(e.segments, max(1, round(e.segments[-1][1] / step)), step, longest)
        for i, j, y in pieces:
            m = np.clip(round((j - i) * step / FRAME) + np.arange(-2, 3), 0, len(durations) - 1)
            np.add.at(durations[:, y], m, kernel)
        labels = [p[2] for p in pieces]
        np.add.at(bigram, (labels[:-1], labels[1:]), 1.0)
        first[labels[0]] += 1
        last[labels[-1]] += 1
    with torch.no_grad():
        stride = round(step / FRAME)
        for weight, p in (
            (model.durations, stride * durations / durations.sum(0)), (model.bigram, bigram / bigram.sum(1, keepdims=True)),
            (model.first, first / first.sum()), (model.last, last / last.sum()),
        ):  # fmt: skip
            weight.copy_(torch.from_numpy(np.log(p)))


def build(settings: SegmentalSettings, labels: int, seed: int) -> SemiCRF:
    """A model with random weights."""
    torch.manual_seed(seed)
    return SemiCRF(settings, labels)
