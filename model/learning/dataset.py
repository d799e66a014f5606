"""Datasets: labelled sequences, normalised and packed into batches; frames are augmented each time they are used.

S  sequences (utterances, their labelled runs, or pieces of them)      N  segments of all of them      D  their features
F  frames of all of them                                               B  log-mel bands
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phonechain.features.augmentation import AugmentationSettings, augment, mask
from phonechain.features.inputs import Frames
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segments import Utterance
from phonechain.features.statistics import Statistics
from phonechain.model.chain.packing import Packing, sort_by_length
from phonechain.model.encoders.frames import FrameBatch
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.normaliser import FRAME_PRIOR, Mode, Normaliser
from phonechain.model.learning.splits import cut_run, labelled_runs

CPU = torch.device("cpu")

SMALLEST_BATCH = 64
"""Segments below which batches are not made smaller to give an epoch more steps."""


@dataclass(frozen=True)
class Batch:
    """Packed sequences: x [N, D], y [N] (label indices), which sequences of the dataset they are (longest first), frames."""

    x: Tensor
    y: Tensor
    packing: Packing
    sequences: NDArray[np.int64]
    frames: FrameBatch | None = None

    def reduce_to(self, features: int) -> Batch:
        """The same with `features` features of each segment, all or none: a network may read none where its teacher does."""
        return self if self.x.shape[1] == features else replace(self, x=self.x[:, :features])


@dataclass(frozen=True)
class FramedSequences:
    """The frames of a dataset's sequences.

    Attributes:
        values: [F, B] frames of all sequences, normalised; or, where they are augmented, unchanged (float16).
        starts: [S + 1] first frame of each sequence; the last entry is F.
        times: [N, 2] start and end of each segment, seconds from its sequence's first frame.
        period: seconds between two frames.
        augmenter: turns the frames into a training sequence; None where `values` is already normalised.
        clipped: [F, B] the same frames of clipped sound, which training uses now and then; [0, B] for none.
    """

    values: NDArray[np.float32] | NDArray[np.float16]
    starts: NDArray[np.int64]
    times: NDArray[np.float64]
    period: float
    augmenter: Augmenter | None = None
    clipped: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float16))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[S] frames of each sequence."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class Augmenter:
    """Turns recorded frames into normalised, augmented ones.

    Attributes:
        speakers: [S] number of each sequence's speaker.
        statistics: of each speaker's frames, normalised over the training set.
    """

    settings: AugmentationSettings
    features: FeatureSettings
    normaliser: Normaliser
    speakers: NDArray[np.int64]
    statistics: Sequence[Statistics]

    def __call__(
        self,
        sequence: int,
        frames: NDArray[np.float32],
        times: NDArray[np.float64],
        random: np.random.Generator,
        *,
        clipped: bool = False,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Augmented frames [F', B] and times [T, 2] of a sequence; the same state of `random` gives the same result.

        Clipped sound is normalised by itself, not with the speaker's other recordings.
        """
        mode = draw_mode(self.normaliser.normalise, random)
        frames, times, voice = augment(frames, times, self.settings, self.features, random)
        rows = self.normaliser.scale_frames(frames, self.features, own=mode != "model")
        if mode != "model":
            known = self.statistics[self.speakers[sequence]]
            if mode == "recording" or voice.additive or clipped:
                known = Statistics.of(rows)
            else:  # the speaker's other recordings, as if they had been augmented in the same way
                std = self.normaliser.frame_std.numpy()
                mean = voice.apply((known.mean * std + self.normaliser.frame_mean.numpy()).astype(np.float32))
                shifted = (mean + voice.shift - self.normaliser.frame_mean.numpy()) / std
                variance = voice.apply((known.variance * std**2).astype(np.float32)) / std**2
                known = Statistics(known.count, shifted.astype(np.float64), variance.astype(np.float64))
            rows = known.standardise(rows, FRAME_PRIOR)
        mask(rows, self.settings, random)
        return rows, times


def draw_mode(normalise: str, random: np.random.Generator) -> Mode:
    """How a training utterance is normalised; with "any", one in ten over the training set alone."""
    drawn = random.random()
    if normalise == "any":
        return "model" if drawn < 0.1 else "speaker" if drawn < 0.55 else "recording"
    return "speaker" if normalise == "speaker" else "model"


@dataclass(frozen=True)
class Dataset:
    """Concatenated sequences of normalised features and label indices.

    Attributes:
        x: [N, D] float32, possibly memory-mapped.
        y: [N] int64; -1 for an unlabelled segment whose label is to be summed out.
        starts: [S + 1] first row of each sequence; the last entry is N.
        groups: [S] which utterance (or speaker) a sequence belongs to, for resampling; any integers.
        frames: their frames, for encoders that read them.
        variants: [V, N, D] augmented features that training uses in place of `x` now and then.
        variant_share: probability of that.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    starts: NDArray[np.int64]
    groups: NDArray[np.int64]
    frames: FramedSequences | None = None
    variants: NDArray[np.float32] | None = None
    variant_share: float = 0.0

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[S] segments of each sequence."""
        return np.diff(self.starts)

    def count_labelled(self, sequences: NDArray[np.int64]) -> int:
        """Segments of the given sequences that have a label, as a weight in means: at least 1."""
        return max(1, sum(int((self.labels_of(s) >= 0).sum()) for s in sequences))

    def labels_of(self, sequence: int) -> NDArray[np.int64]:
        """[T] label indices of one sequence."""
        return self.y[self.starts[sequence] : self.starts[sequence + 1]]

    def batch(
        self,
        sequences: NDArray[np.int64],
        device: torch.device = CPU,
        random: np.random.Generator | None = None,
    ) -> Batch:
        """The given sequences, packed; with `random`, augmented for training."""
        order, packing = Packing.longest_first(self.lengths[sequences], device)
        chosen = sequences[order]
        time, sequence = packing.time_and_sequence
        rows = self.starts[chosen][sequence] + time
        x = self.x[rows]
        if self.variants is not None and random is not None:
            which = np.where(
                random.random(len(chosen)) < self.variant_share,
                random.integers(len(self.variants), size=len(chosen)),
                -1,
            )
            x = np.where((which >= 0)[sequence, None], self.variants[which[sequence], rows], x)
        frames = None if self.frames is None else self._frame_batch(self.frames, chosen, packing, random, device)
        return Batch(torch.from_numpy(x).to(device), torch.from_numpy(self.y[rows]).to(device), packing, chosen, frames)

    def _frame_batch(
        self,
        frames: FramedSequences,
        chosen: NDArray[np.int64],
        packing: Packing,
        random: np.random.Generator | None,
        device: torch.device,
    ) -> FrameBatch:
        values, times = [], []
        for s in chosen:
            here = slice(frames.starts[s], frames.starts[s + 1])
            own = np.asarray(frames.values[here], dtype=np.float32)
            when = frames.times[self.starts[s] : self.starts[s + 1]]
            if frames.augmenter is not None:
                draw = random or np.random.default_rng(int(s))
                clipped = bool(len(frames.clipped)) and draw.random() < frames.augmenter.settings.clipping
                if clipped:
                    own = np.asarray(frames.clipped[here], dtype=np.float32)
                own, when = frames.augmenter(int(s), own, when, draw, clipped=clipped)
            values.append(own)
            times.append(when)
        return FrameBatch.of(values, times, packing, frames.period, device)

    def batches(
        self, size: int, *, order: NDArray[np.int64] | None = None, device: torch.device = CPU
    ) -> Iterator[Batch]:
        """All sequences, `size` at a time, in `order` (default: by length, which wastes no steps)."""
        order = sort_by_length(self._weights) if order is None else order
        for at in range(0, len(order), size):
            yield self.batch(order[at : at + size], device)

    def plan(self, size: int, segments: int, updates: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
        """The batches of an epoch: all sequences in random order.

        Each has at most `size` sequences and `segments` segments, or fewer if an epoch would otherwise have fewer than
        `updates` steps. With frames, a batch has sequences of similar length, to save padding.
        """
        limit = min(segments, max(SMALLEST_BATCH, -(-len(self.y) // updates)))
        order = random.permutation(len(self))
        if self.frames is not None:
            order = order[np.argsort(self._weights[order] * np.exp(0.15 * random.normal(size=len(order))))]
        plan: list[NDArray[np.int64]] = []
        begin, held = 0, 0
        for n, length in enumerate(self.lengths[order]):
            if n > begin and (n - begin == size or held + length > limit):
                plan.append(order[begin:n])
                begin, held = n, 0
            held += int(length)
        if begin < len(order):
            plan.append(order[begin:])
        if self.frames is not None:
            plan = [plan[n] for n in random.permutation(len(plan))]
        return plan

    @property
    def _weights(self) -> NDArray[np.int64]:
        """[S] cost of each sequence: frames where there are any, else segments."""
        return self.lengths if self.frames is None else self.frames.lengths


def dataset(
    items: Sequence[Featurised],
    labels: Sequence[str],
    normaliser: Normaliser,
    *,
    drop: Collection[str] = (),
    features: FeatureSettings | None = None,
    augmentation: AugmentationSettings | None = None,
    cut: bool = False,
    gaps: bool = False,
    unlabelled: bool = False,
) -> Dataset:
    """Labelled, normalised sequences; utterances with an error, and segments without a known label, are left out.

    Args:
        augmentation: of batches that are given a generator; None for test data, which is normalised as a single recording
            or, for a model that needs it, with the speaker's others.
        cut: whether long sequences are cut into pieces, for training.
        gaps: whether segments without a known label stay, as -1, in sequences where others have one.
        unlabelled: with `gaps`, whether sequences stay of which no label is known: a teacher has an answer for them too.
    """
    features = features or FeatureSettings()
    index = {label: n for n, label in enumerate(labels)}
    good = [item for item in items if item.error is None and len(item.segments)]
    names = {name: n for n, name in enumerate(dict.fromkeys(_speaker(i.utterance) for i in good))}
    who = [names[_speaker(i.utterance)] for i in good]
    mode: Mode = (
        "speaker" if normaliser.normalise == "speaker" else "model" if normaliser.normalise == "model" else "recording"
    )
    groups = who if mode == "speaker" else list(range(len(good)))
    inputs = normaliser.apply_inputs([i.inputs for i in good], features, groups, mode)
    augmented = augmentation is not None and augmentation.active and bool(features.bands)
    parts, pieces, clipped, y, runs = [], [], [], [], []
    for n, item in enumerate(good):
        for positions, indices in labelled_runs([s.label for s in item.segments], index, drop, gaps=gaps):
            for piece in cut_run(positions, item.segments) if cut else [slice(0, len(positions))]:
                if max(indices[piece]) < 0 and not unlabelled:
                    continue
                kept = np.asarray(positions[piece], dtype=np.int64)
                source = item.inputs if augmented else inputs[n]
                whole = source.part(int(kept[0]), int(kept[-1]) + 1)
                pieces.append((whole.frames, whole.times[kept - kept[0]]))
                if augmented and len(item.clipped):
                    other = replace(source, frames=item.clipped)
                    clipped.append(other.part(int(kept[0]), int(kept[-1]) + 1).frames)
                parts.append((n, kept))
                y.extend(indices[piece])
                runs.append(len(kept))
    starts = np.concatenate([[0], np.cumsum(runs)]).astype(np.int64)
    return Dataset(
        _join_rows([i.segments for i in inputs], parts, len(normaliser.mean)),
        np.asarray(y, dtype=np.int64),
        starts,
        np.asarray([n for n, _ in parts], dtype=np.int64),
        _join_frames(
            pieces,
            features,
            _make_augmenter(normaliser, features, augmentation, good, who, parts) if augmented else None,
            clipped if len(clipped) == len(pieces) else (),
        )
        if features.bands
        else None,
        *_variants(normaliser, augmentation, good, who, parts),
    )


def _join_rows(
    x: Sequence[NDArray[np.float32]], parts: Sequence[tuple[int, NDArray[np.int64]]], width: int
) -> NDArray[np.float32]:
    """[N, D] the rows of all sequences, concatenated."""
    return np.concatenate([np.zeros((0, width), dtype=np.float32), *(x[n][kept] for n, kept in parts)])


def _join_frames(
    pieces: Sequence[tuple[Frames, NDArray[np.float64]]],
    features: FeatureSettings,
    augmenter: Augmenter | None,
    clipped: Sequence[Frames] = (),
) -> FramedSequences:
    kind = np.float32 if augmenter is None else np.float16
    nothing = np.zeros((0, features.bands), dtype=kind)
    return FramedSequences(
        np.concatenate([nothing, *(frames.astype(kind) for frames, _ in pieces)]),
        np.concatenate([[0], np.cumsum([len(frames) for frames, _ in pieces])]).astype(np.int64),
        np.concatenate([np.zeros((0, 2)), *(times for _, times in pieces)]),
        features.frame_period,
        augmenter,
        np.concatenate([nothing, *clipped]).astype(np.float16),
    )


def _make_augmenter(
    normaliser: Normaliser,
    features: FeatureSettings,
    augmentation: AugmentationSettings | None,
    good: Sequence[Featurised],
    who: Sequence[int],
    parts: Sequence[tuple[int, NDArray[np.int64]]],
) -> Augmenter:
    assert augmentation is not None
    frames: list[list[NDArray[np.float32]]] = [[] for _ in range(max(who, default=-1) + 1)]
    for item, speaker in zip(good, who, strict=True):
        frames[speaker].append(normaliser.scale_frames(item.inputs.frames, features, own=True))
    speakers = np.asarray([who[n] for n, _ in parts], dtype=np.int64)
    statistics = [Statistics.of(np.concatenate(own)) for own in frames]
    return Augmenter(augmentation, features, normaliser, speakers, statistics)


def _variants(
    normaliser: Normaliser,
    augmentation: AugmentationSettings | None,
    good: Sequence[Featurised],
    who: Sequence[int],
    parts: Sequence[tuple[int, NDArray[np.int64]]],
) -> tuple[NDArray[np.float32] | None, float]:
    """Segment features of warped filter banks and, where training draws it, of the other normalisation."""
    if augmentation is None or not len(normaliser.mean) or not good:
        return None, 0.0
    warped = [i.warped for i in good]
    modes: list[Mode] = ["recording", "speaker"] if normaliser.normalise == "any" else [
        "speaker" if normaliser.normalise == "speaker" else "model"
    ]  # fmt: skip
    plain = [i.inputs.segments for i in good]
    versions = [[w[v] for w in warped] for v in range(min(len(w) for w in warped))]
    if normaliser.normalise == "any":
        versions = [plain] * max(1, len(versions)) + versions  # half of the draws change the normalisation alone
    made = []
    for mode in modes:
        for version in versions:
            lengths = [len(rows) for rows in version]
            group = np.repeat(who if mode == "speaker" else list(range(len(good))), lengths)
            rows = np.split(normaliser.apply(np.concatenate(version), group, mode=mode), np.cumsum(lengths)[:-1])
            made.append(_join_rows(rows, parts, len(normaliser.mean)))
    if not made:
        return None, 0.0
    share = 1.0 if normaliser.normalise == "any" else augmentation.warp
    return np.stack(made), share


def _speaker(utterance: Utterance) -> str:
    """Key of an utterance's speaker; a recording by an unknown speaker counts as a speaker of its own."""
    return utterance.speaker if utterance.speaker is not None else f"\0{utterance.id}"
