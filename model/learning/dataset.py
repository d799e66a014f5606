"""Corpora -> packed, normalised sequences of segment features.

S  sequences (utterances, or their labelled runs)      N  segments of all of them      D  features of a segment
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from phonechain.features.audio.reader import decode
from phonechain.features.errors import CorpusError, PhonechainError
from phonechain.features.files import write_whole
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.pooling import extract
from phonechain.features.segments import Segment, Utterance, prepare
from phonechain.model.chain.packing import Packing, sort_by_length

CPU = torch.device("cpu")

SPEAKER_PRIOR = 30.0
"""Segments' worth of the training set's statistics that a speaker's own are mixed with: few segments move them little."""


@dataclass(frozen=True)
class Featurised:
    """One utterance's segments (as prepared) and their features [T, D]; or the error that it met."""

    utterance: Utterance
    segments: list[Segment]
    features: NDArray[np.float32]
    error: PhonechainError | None = None


def featurise(
    utterances: Sequence[Utterance],
    settings: FeatureSettings,
    *,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Featurised]:
    """Features of every utterance, in order; a bad file becomes a row with its error and no segments.

    Args:
        cache: folder for the features of just these files, segments and settings; a second call reads them back.
        progress: called with (done, total).
    """
    stored = None if cache is None else cache / f"features-{_fingerprint(utterances, settings)}.npz"
    if stored is not None and stored.exists():
        return _read_cache(stored, utterances)
    results: list[Featurised] = []
    workers = min(4, os.cpu_count() or 1)
    # one utterance a thread: the matrix library's own threads would only get in each other's way
    with threadpool_limits(1), ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for n, result in enumerate(pool.map(lambda u: _featurise_one(u, settings), utterances), 1):
                results.append(result)
                if progress is not None:
                    progress(n, len(utterances))
        except BaseException:  # Ctrl-C, or a progress callback that stops the run: what is queued is not waited for
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if stored is not None:
        _write_cache(stored, results)
    return results


def _featurise_one(utterance: Utterance, settings: FeatureSettings) -> Featurised:
    nothing = np.zeros((0, 92), dtype=np.float32)
    try:
        audio = decode(utterance.audio, channel=utterance.channel, rate=settings.rate)
        segments, _ = prepare(utterance.segments, audio.duration)
        return Featurised(utterance, segments, extract(audio, segments, settings))
    except PhonechainError as error:
        return Featurised(utterance, [], nothing, error)
    except OSError as error:
        reason = f"expected a readable file, got {error.strerror or error}: {utterance.audio.name}"
        return Featurised(utterance, [], nothing, CorpusError(reason))


def _fingerprint(utterances: Sequence[Utterance], settings: FeatureSettings) -> str:
    digest = hashlib.sha256(json.dumps(settings.to_dict(), sort_keys=True).encode())
    for u in utterances:
        stat = u.audio.stat() if u.audio.exists() else None
        digest.update(
            os.fsencode(u.audio.resolve()) + f" {u.channel} {stat and (stat.st_size, stat.st_mtime_ns)}\n".encode()
        )
        digest.update(np.asarray([(s.start, s.end) for s in u.segments], dtype=np.float64).tobytes())
    return digest.hexdigest()[:24]


def _write_cache(path: Path, results: Sequence[Featurised]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    times = np.asarray([(s.start, s.end) for r in results for s in r.segments], dtype=np.float64).reshape(-1, 2)

    def save(spare: Path) -> None:
        with spare.open("wb") as file:  # by name, numpy would add a suffix
            np.savez(
                file,
                features=np.concatenate([r.features for r in results]),
                times=times,
                lengths=np.asarray([len(r.segments) for r in results]),
                errors=np.asarray([str(r.error or "") for r in results], dtype=np.str_),
            )

    write_whole(path, save)


def _read_cache(path: Path, utterances: Sequence[Utterance]) -> list[Featurised]:
    with np.load(path, allow_pickle=False) as stored:
        features, times, lengths, errors = (stored[key] for key in ("features", "times", "lengths", "errors"))
    results, at = [], 0
    for u, length, error in zip(utterances, lengths, errors, strict=True):
        here = slice(at, at + int(length))
        at += int(length)
        # the boundaries may have been clipped, never reordered, so that the labels stay with their segments
        segments = [Segment(float(a), float(b), s.label) for (a, b), s in zip(times[here], u.segments, strict=False)]
        results.append(Featurised(u, segments, features[here], CorpusError(str(error)) if error else None))
    return results


# ---------------------------------------------------------------------------------------------------- normalising


@dataclass(frozen=True)
class Normaliser:
    """Zero mean and unit standard deviation over the training set (the paper, "Labeling Experiments").

    Attributes:
        mean, std: [D].
        by_speaker: statistics of each speaker's own recordings instead, mixed with these as a prior.
    """

    mean: Tensor
    std: Tensor
    by_speaker: bool = False

    @classmethod
    def fit(cls, x: NDArray[np.float32], *, by_speaker: bool = False) -> Normaliser:
        """Statistics of the rows of `x` [N, D]; a constant feature gets unit deviation."""
        mean, std = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
        std[std < 1e-6] = 1.0
        return cls(torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(std.astype(np.float32)), by_speaker)

    def apply(
        self, x: NDArray[np.float32], groups: Sequence[int] | NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """[N, D] normalised. `groups` [N] says whose rows belong together; None takes all as one speaker's."""
        scaled = (x - self.mean.numpy()) / self.std.numpy()
        if not self.by_speaker or not len(x):
            return scaled
        group = np.zeros(len(x), dtype=np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
        count = np.bincount(group).astype(np.float64)[:, None]
        total, squares = np.zeros((len(count), x.shape[1])), np.zeros((len(count), x.shape[1]))
        np.add.at(total, group, scaled)
        np.add.at(squares, group, np.square(scaled))
        mean = total / (count + SPEAKER_PRIOR)
        variance = (squares - 2 * mean * total + count * mean**2 + SPEAKER_PRIOR) / (count + SPEAKER_PRIOR)
        return ((scaled - mean[group]) / np.sqrt(variance)[group]).astype(np.float32)


# ------------------------------------------------------------------------------------------------------- datasets


@dataclass(frozen=True)
class Batch:
    """Packed sequences: x [N, D], y [N] (label indices), and which sequences of the dataset they are, longest first."""

    x: Tensor
    y: Tensor
    packing: Packing
    sequences: NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Sequences of normalised features and label indices, one after the other.

    Attributes:
        x: [N, D] float32, possibly memory-mapped.
        y: [N] int64.
        starts: [S + 1] first row of each sequence; the last entry is N.
        groups: [S] which utterance (or speaker) a sequence belongs to, for resampling; any integers.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    starts: NDArray[np.int64]
    groups: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[S] segments of each sequence."""
        return np.diff(self.starts)

    def labels_of(self, sequence: int) -> NDArray[np.int64]:
        """[T] label indices of one sequence."""
        return self.y[self.starts[sequence] : self.starts[sequence + 1]]

    def batch(self, sequences: NDArray[np.int64], device: torch.device = CPU) -> Batch:
        """The given sequences, packed."""
        chosen = sequences[sort_by_length(self.lengths[sequences])]
        packing = Packing(tuple(int(n) for n in self.lengths[chosen]), device)
        time, sequence = packing.time.cpu().numpy(), packing.sequence.cpu().numpy()
        rows = self.starts[chosen][sequence] + time
        return Batch(
            torch.from_numpy(self.x[rows]).to(device), torch.from_numpy(self.y[rows]).to(device), packing, chosen
        )  # fmt: skip

    def batches(
        self, size: int, *, order: NDArray[np.int64] | None = None, device: torch.device = CPU
    ) -> Iterator[Batch]:
        """All sequences, `size` at a time, in `order` (default: by length, which wastes no steps)."""
        order = sort_by_length(self.lengths) if order is None else order
        for at in range(0, len(order), size):
            yield self.batch(order[at : at + size], device)


def labelled_runs(
    labels: Sequence[str | None], index: dict[str, int], drop: Collection[str] = ()
) -> list[tuple[list[int], list[int]]]:
    """Runs of consecutive labelled segments as (positions, label indices).

    A dropped label is left out and the chain runs across it, as TIMIT's `q` is by custom. An unlabelled segment, or one
    whose label the index does not know, ends a run: what stood there is not known, so nothing is learnt of its neighbours'
    sequence.
    """
    runs: list[tuple[list[int], list[int]]] = [([], [])]
    for position, label in enumerate(labels):
        if label in drop:
            continue
        if label is None or label not in index:
            if runs[-1][0]:
                runs.append(([], []))
            continue
        runs[-1][0].append(position)
        runs[-1][1].append(index[label])
    return [run for run in runs if run[0]]


def dataset(
    items: Sequence[Featurised], labels: Sequence[str], normaliser: Normaliser, *, drop: Collection[str] = ()
) -> Dataset:
    """Labelled, normalised sequences; utterances with an error, and segments without a known label, are left out."""
    index = {label: n for n, label in enumerate(labels)}
    good = [item for item in items if item.error is None and len(item.segments)]
    speakers = {name: n for n, name in enumerate(dict.fromkeys(_speaker(i.utterance) for i in good))}
    x = [item.features for item in good]
    counts = [len(f) for f in x]
    who = np.repeat([speakers[_speaker(i.utterance)] for i in good], counts) if good else np.zeros(0, dtype=np.int64)
    normal = normaliser.apply(np.concatenate(x) if x else np.zeros((0, len(normaliser.mean)), dtype=np.float32), who)
    rows: list[int] = []
    y: list[int] = []
    starts, groups, at = [0], [], 0
    for n, (item, count) in enumerate(zip(good, counts, strict=True)):
        for positions, indices in labelled_runs([s.label for s in item.segments], index, drop):
            rows.extend(at + p for p in positions)
            y.extend(indices)
            starts.append(len(rows))
            groups.append(n)
        at += count
    return Dataset(
        np.ascontiguousarray(normal[rows]),
        np.asarray(y, dtype=np.int64),
        np.asarray(starts),
        np.asarray(groups, dtype=np.int64),
    )


def _speaker(utterance: Utterance) -> str:
    """Whose recording it is; unknown speakers are taken to be one a recording."""
    return utterance.speaker if utterance.speaker is not None else f"\0{utterance.id}"


def hold_out(utterances: Sequence[Utterance], share: float, seed: int) -> tuple[list[Utterance], list[Utterance]]:
    """(train, dev): whole speakers are held out where there are at least five, utterances otherwise; at least one each.

    Raises:
        CorpusError: fewer than two utterances.
    """
    if len(utterances) < 2:
        raise CorpusError(
            f"expected at least 2 utterances to hold some out for early stopping, got {len(utterances)}",
            value=len(utterances), limit=2,
        )  # fmt: skip
    random = np.random.default_rng(seed)
    speakers = sorted({u.speaker for u in utterances if u.speaker is not None})
    if len(speakers) >= 5:
        out = set(random.permutation(speakers)[: max(1, round(share * len(speakers)))].tolist())
        dev = [u.speaker in out for u in utterances]
    else:
        chosen = set(random.permutation(len(utterances))[: max(1, round(share * len(utterances)))].tolist())
        dev = [n in chosen for n in range(len(utterances))]
    return [u for u, d in zip(utterances, dev, strict=True) if not d], [
        u for u, d in zip(utterances, dev, strict=True) if d
    ]
