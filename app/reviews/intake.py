"""A recording and its annotation become a file of a review: kept as they came, with what a browser draws and plays."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.pipeline import Prepared
from phonechain.app.schemas.classify import round_probability
from phonechain.app.storage.workspace import Workspace
from phonechain.features.annotation import tier_segments
from phonechain.features.audio import reader

RATE = 16000
"""Sample rate of the sound that a browser gets (Hz): what the model hears."""
PEAKS = 100
"""Pairs of extremes in a second of sound."""
N_BEST = 8
"""Labels kept for each segment."""
MAX_SECONDS = 5400.0
MAX_SEGMENTS = 100_000
"""Longest recording, and most segments, of a file under review. Answers are kept, so an hour is labelled once."""


@dataclass(frozen=True, slots=True)
class Playback:
    """Digests of the sound for a browser and of its extremes."""

    sound: str
    peaks: str


def keep_playback(workspace: Workspace, source: Path, channel: int | Literal["mix"]) -> Playback:
    """Decode a recording and keep it as 16-bit WAV at RATE, with the extremes of every 1 / PEAKS s.

    Raises:
        AudioError, StorageFull.
    """
    audio = reader.decode(source, channel=channel, rate=RATE, max_seconds=MAX_SECONDS)
    samples = np.clip(np.rint(audio.samples * 32767.0), -32768, 32767).astype("<i2")
    with workspace.store.writing() as out:
        out.write(wav_header(len(samples)))
        for begin in range(0, len(samples), 1 << 20):
            out.write(samples[begin : begin + (1 << 20)].tobytes())
    return Playback(out.digest, workspace.store.put(peaks_of(samples).tobytes()))


def wav_header(count: int, rate: int = RATE) -> bytes:
    """The 44 bytes before `count` samples of mono 16-bit PCM."""
    size = 2 * count
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", size
    )


def peaks_of(samples: NDArray[np.int16]) -> NDArray[np.int8]:
    """Extremes `[n, 2]` (least, greatest) of every RATE / PEAKS samples, from -128 to 127."""
    step = RATE // PEAKS
    padded = np.pad(samples, (0, -len(samples) % step)).reshape(-1, step)
    low, high = padded.min(axis=1) >> 8, -(-padded.max(axis=1).astype(np.int32) >> 8)
    return np.stack([low, np.minimum(high, 127)], axis=1).astype(np.int8)


def answer_to_json(ready: Prepared, labelled: Sequence[Any], label_set: Sequence[str]) -> dict[str, Any]:
    """The segments as given and what the model answered, a list for each column.

    `compared_as[i]` is the label of the model with which the given one was compared, where it is spelled otherwise.
    `given_support[i]` is the probability that it is right in view of all other given labels (see model.support), by which
    given labels are ranked; null where the model has none. `n_best[i]` lists index in `labels` and posterior in turn; a
    segment that was set aside has none, and a reason in `skipped` under its index. `tiers` are all tiers of the file.
    """
    index = {label: n for n, label in enumerate(label_set)}
    rows = labelling.insert_skipped(ready, labelled)
    given = tier_segments(ready.tier)
    assert len(rows) == len(given), "an answer for each segment"
    return {
        "labels": list(label_set),
        "start": [s.start for s in given],
        "end": [s.end for s in given],
        "given": [s.label for s in given],
        "compared_as": [row.compared_as for row in rows],
        "given_posterior": [round_probability(row.given_posterior) for row in rows],
        "given_support": [round_probability(row.given_support) for row in rows],
        "given_rank": [row.given_rank for row in rows],
        "n_best": [
            [value for label, p in row.n_best for value in (index[label], round_probability(p))] for row in rows
        ],
        "skipped": {str(i): skipped.reason for i, skipped in ready.skipped},
        "tiers": [
            {
                "name": tier.name,
                "kind": tier.kind,
                "start": [s.start for s in tier.entries],
                "end": [s.end for s in tier.entries],
                "text": [s.label or "" for s in tier.entries],
            }
            for tier in ready.annotation.tiers
        ],
    }


def keep_answer(workspace: Workspace, document: dict[str, Any]) -> str:
    """The digest of an answer as a blob. Raises StorageFull."""
    return workspace.store.put(
        json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    )


def read_answer(workspace: Workspace, digest: str) -> dict[str, Any]:
    """The answer of a blob."""
    with workspace.store.local(digest).open(encoding="utf-8") as file:
        return dict(json.load(file))
