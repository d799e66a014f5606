"""What is chosen on held-out recordings after training: temperature, bias of the boundaries, the recogniser's decoding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import PhonechainError
from phonechain.features.segments import Segment
from phonechain.model.scoring import edits

if TYPE_CHECKING:
    from phonechain.model.segmental.aligner import PhoneAligner

ALIGNED = 16
"""Most recordings that are aligned for the temperature."""

TEMPERATURES = (0.75, 0.9, 1.0, 1.15, 1.35)
"""Temperatures that calibration tries."""

FLAT_TEMPERATURES = (1.0, 1.5, 2.0)
"""Temperatures of which one makes held-out transcripts most probable, after a flat start."""

FLAT_FACTOR = 2.0
"""How much more than that a flat start's boundaries need: what it makes of them is off in the same way in every recording. Two
corpora whose boundaries are known agree on it (`experiments/ALIGNMENT.md`).
"""

RECOGNISED = 100
"""Most recordings that are recognised for the decoding."""

NGRAMS = (0.7, 0.85, 1.0, 0.55, 0.4)
"""Factors on the n-gram weights that calibration tries; of equally good ones the first is taken."""

BONUSES = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5)
"""Nats per segment that calibration tries; of equally good ones the first is taken."""

HeldOut = Sequence[tuple[Audio, Sequence[Segment]]]
"""Recordings with the segments of a reference, which cover them and all have labels of the model."""


def calibrate(aligner: PhoneAligner, held: HeldOut) -> None:
    """Set temperature, bias and decoding of an aligner, and add what they are good for to its `metrics_`."""
    calibrate_boundaries(aligner, held[:ALIGNED])
    calibrate_decoding(aligner, [(audio, [str(s.label) for s in segments]) for audio, segments in held])


def calibrate_flat(aligner: PhoneAligner, held: HeldOut) -> None:
    """Set temperature and decoding of an aligner that was trained without boundaries; those of `held` do not count.

    The temperature is FLAT_FACTOR times the one at which the transcripts of these recordings are most probable.
    """
    said = [(audio, [str(s.label) for s in segments]) for audio, segments in held]
    probable = dict[float, float]()
    for temperature in FLAT_TEMPERATURES:
        aligner.temperature_ = temperature
        probable[temperature] = sum(_log_posterior(aligner, *one) for one in said[:ALIGNED])
    aligner.temperature_ = FLAT_FACTOR * max(probable, key=lambda t: probable[t]) if said else 1.0
    calibrate_decoding(aligner, said)


def _log_posterior(aligner: PhoneAligner, audio: Audio, labels: Sequence[str]) -> float:
    try:
        return aligner.align_phones(audio, labels).log_posterior
    except PhonechainError:
        return 0.0


def calibrate_boundaries(aligner: PhoneAligner, held: HeldOut) -> None:
    """Set the bias and the temperature from labelled boundaries.

    The temperature is the one whose certainties ("within 20 ms") are right on average; the bias is the median error.
    """
    best: tuple[float, float, NDArray[np.float64], NDArray[np.float64]] | None = None
    for temperature in TEMPERATURES:
        aligner.temperature_ = temperature
        errors, certain = _errors(aligner, held)
        if not len(errors):
            break
        right = np.abs(errors - np.median(errors)) <= 0.020
        gap = abs(float(certain.mean() - right.mean()))
        if best is None or gap < best[0]:
            best = (gap, temperature, errors, certain)
    if best is None:
        aligner.temperature_ = 1.0
        return
    _, aligner.temperature_, errors, certain = best
    aligner.shift_ = -round(float(np.median(errors)), 4)
    off = np.abs(errors + aligner.shift_)
    aligner.metrics_ |= {
        "dev_boundaries": len(off), "dev_within_20_ms": round(float((off <= 0.020).mean()), 4),
        "dev_mean_error_ms": round(1e3 * float(off.mean()), 2),
    }  # fmt: skip


def calibrate_decoding(aligner: PhoneAligner, held: Sequence[tuple[Audio, Sequence[str]]]) -> float | None:
    """Set the decoding with the fewest phone errors; returns their share, None without recordings. Boundaries don't count.

    Args:
        held: recordings and their phones in order, silence included, each spelled as the model does.
    """
    choices = [{"ngrams": ngrams, "bonus": bonus} for ngrams, bonus in itertools.product(NGRAMS, BONUSES)]
    wrong = np.zeros(len(choices), dtype=int)
    phones = 0
    for audio, labels in held[:RECOGNISED]:
        wrong += [edits.distance(labels, found) for found in aligner.recognize_labels(audio, choices)]
        phones += len(labels)
    if not phones:
        return None
    best = int(wrong.argmin())
    aligner.decoding_ = choices[best]
    aligner.metrics_ |= {"dev_phones": phones, "dev_phone_error": round(wrong[best] / phones, 4)}
    return float(wrong[best] / phones)


def _errors(aligner: PhoneAligner, held: HeldOut) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    errors: list[float] = []
    certain: list[float] = []
    for audio, segments in held:
        try:
            answer = aligner.align_phones(audio, [str(s.label) for s in segments])
        except PhonechainError:
            continue
        errors += [p.start - s.start for p, s in zip(answer.phones, segments, strict=True)][1:]
        certain += [p.within for p in answer.phones][1:]
    return np.array(errors), np.array(certain)
