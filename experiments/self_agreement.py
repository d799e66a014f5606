"""How far an aligner agrees with its own labels: the ceiling of what agreement with them can say.

    python -m experiments.self_agreement FOLDER --split test --per-speaker

FOLDER is a corpus with labels by pocketsphinx and the English model of its package (`pip install pocketsphinx`). The same program
aligns the same recordings again: as they are (the labels were made from the originals, before these were compressed), 5 ms later
(half a frame), and with white noise 30 and 20 dB below the speech. Boundaries are those between two phones, neither silence. Then
our model's errors at the same boundaries, which are counted --shift seconds later.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from experiments import alignment, side_by_side
from phonechain.features.audio.reader import Audio
from phonechain.features.segments import Segment
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.segmental.aligner import PhoneAligner

LATER = 0.005
"""Seconds of silence before a recording in one of the trials."""


def with_noise(samples: NDArray[np.float32], level: float, random: np.random.Generator) -> NDArray[np.float32]:
    """White noise at `level` dB of the recording's mean power."""
    power = float(np.mean(np.square(samples))) * 10 ** (level / 10)
    return (samples + random.normal(0.0, np.sqrt(power), len(samples))).astype(np.float32)


def trials(
    random: np.random.Generator,
) -> dict[str, tuple[Callable[[NDArray[np.float32]], NDArray[np.float32]], float]]:
    """What is done to the samples, and by how much that makes boundaries later (s)."""
    return {
        "as it is": (lambda x: x, 0.0),
        "5 ms later": (lambda x: np.concatenate([np.zeros(round(LATER * 16000), np.float32), x]), LATER),
        "noise 30 dB below": (lambda x: with_noise(x, -30.0, random), 0.0),
        "noise 20 dB below": (lambda x: with_noise(x, -20.0, random), 0.0),
    }


def starts(system: side_by_side.System, audio: Audio, labels: Sequence[str]) -> list[float] | None:
    """Where the system puts each label; None where it finds no alignment or gives up."""
    try:
        return system(audio, labels)
    except RuntimeError:  # pocketsphinx where no path is left
        return None


def errors(found: Sequence[float], reference: Sequence[Segment], later: float) -> list[float]:
    """Of the boundaries between two phones."""
    pairs = list(zip(found, reference, strict=True))
    return [
        x - s.start - later
        for (_, before), (x, s) in itertools.pairwise(pairs)
        if side_by_side.SILENCE not in (before.label, s.label)
    ]


def show(name: str, off: Sequence[float], recordings: int) -> None:
    """Print the figures as one line of JSON."""
    size = np.abs(np.asarray(off))
    print(json.dumps({
        "trial": name, "recordings": recordings, "boundaries": len(size),
        "within_20_ms": round(100 * float((size <= 0.020 + 1e-6).mean()), 1),
        "mae_ms": round(1e3 * float(size.mean()), 1), "median_ms": round(1e3 * float(np.median(size)), 1),
    }), flush=True)  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    alignment.add_recordings(parser, shift=0.010)
    given = parser.parse_args()
    torch.set_num_threads(1)
    aligner = PhoneAligner.load(pretrained_path(ALIGNMENT))
    recordings = list(alignment.sounds(given, aligner))
    sphinx = side_by_side.pocketsphinx()
    for name, (change, later) in trials(np.random.default_rng(0)).items():
        off: list[float] = []
        used = 0
        for audio, reference in recordings:
            labels = [str(s.label) for s in reference]
            found = starts(sphinx, replace(audio, samples=change(audio.samples)), labels)
            if found is not None:
                used += 1
                off += errors(found, reference, later)
        show(f"pocketsphinx, {name}", off, used)
    ours: list[float] = []
    for audio, reference in recordings:
        answer = aligner.align_phones(audio, [str(s.label) for s in reference])
        ours += errors([p.start for p in answer.phones], reference, given.shift)
    show("phonechain", ours, len(recordings))


if __name__ == "__main__":
    main()
