"""A temperature for each recording, by how uncertain the model is on the whole of it: `python -m experiments.temperature CORPUS`.

The logarithm of a recording's temperature is a line over the mean entropy of its segments at the model's own temperature. The
line is fitted, by the likelihood of the labels, to the speakers of CORPUS that the model's training held out, as they are and
under some conditions of `experiments.robustness`; it is scored there, and on the corpora of `--also`, which it has not seen.
Posteriors are interpolated between those at a few temperatures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import robustness
from experiments.robustness import CONDITIONS, DecodedUtterance
from phonechain.features import corpora
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.inputs import extract_inputs
from phonechain.features.segment_checks import prepare
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.splits import hold_out
from phonechain.model.scoring.calibration import calibration_error, chance_calibration_error, reliability_table

FACTORS = np.array([0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.0])
"""Temperatures at which posteriors are computed, as multiples of the model's own."""
FITTED = (
    "as recorded",
    "8 kHz band",
    "white noise, 10 dB",
    "white noise, 5 dB",
    "boundaries +-20 ms",
    "boundaries +-30 ms",
)
MIDDLES, SLOPES = np.linspace(-0.4, 0.4, 9), np.arange(-4, 5) / 5
"""Lines that are tried: log of the temperature's factor at the mean entropy of all, and its slope over the entropy (nats)."""


@dataclass
class Recording:
    """Posteriors [F, T, Y] of one recording at each factor, its labels [T], and the mean entropy at the model's temperature."""

    posteriors: NDArray[np.float32]
    labels: NDArray[np.int64]
    entropy: float

    def at(self, log_factor: float) -> NDArray[np.float64]:
        """[T, Y] at a temperature between those that were computed."""
        logs = np.log(FACTORS)
        n = int(np.clip(np.searchsorted(logs, log_factor) - 1, 0, len(logs) - 2))
        share = float(np.clip((log_factor - logs[n]) / (logs[n + 1] - logs[n]), 0.0, 1.0))
        mixed: NDArray[np.float64] = (1 - share) * self.posteriors[n].astype(np.float64) + share * self.posteriors[
            n + 1
        ]
        return mixed


def answers(
    labeler: PhoneLabeler, spoken: Sequence[DecodedUtterance], condition: str = "as recorded"
) -> list[Recording]:
    """The recordings under a condition, labels that the model does not know left out."""
    change, deviation = CONDITIONS[condition]
    model, inputs, labels = labeler.model_, [], []
    for n, one in enumerate(spoken):
        random = np.random.default_rng(n)
        segments = robustness.shaken(deviation)(one.segments, random) if deviation else one.segments
        audio = one.audio if change is None else Audio(change(one.audio.samples, random), 16000)
        comparison = model.label_set.compare([s.label for s in segments])
        targets = [comparison.targets.get(s.label or "") for s in segments]
        kept = [k for k, target in enumerate(targets) if target is not None]
        if kept:
            inputs.append(extract_inputs(audio, segments, labeler.features_).select(kept))
            labels.append(np.array([comparison.classes[targets[k] or 0][0] for k in kept]))
    own, tables = model.temperature, []
    for factor in FACTORS:
        model.temperature = own * float(factor)
        tables.append([p for n in range(0, len(inputs), 32) for p in labeler.posteriors(inputs[n : n + 32])[0]])
    model.temperature = own
    found = []
    for n, truth in enumerate(labels):
        p = tables[int(np.argmin(np.abs(FACTORS - 1)))][n].astype(np.float64)
        entropy = float(-(p * np.log(np.maximum(p, 1e-30))).sum(1).mean())
        found.append(Recording(np.stack([table[n] for table in tables]), truth, entropy))
    return found


def negative_log_likelihood(recordings: Sequence[Recording], middle: float, slope: float, mean: float) -> float:
    """Per segment, in nats."""
    total = sum(
        -np.log(np.maximum(r.at(middle + slope * (r.entropy - mean))[np.arange(len(r.labels)), r.labels], 1e-30)).sum()
        for r in recordings
    )
    return float(total) / sum(len(r.labels) for r in recordings)


def scores(recordings: Sequence[Recording], middle: float, slope: float, mean: float) -> tuple[float, float, float]:
    """Calibration error, mean posterior less the share of right answers, and the calibration error by chance, in per cent."""
    tables = [r.at(middle + slope * (r.entropy - mean)) for r in recordings]
    confidence = np.concatenate([p.max(1) for p in tables])
    right = np.concatenate([p.argmax(1) == r.labels for p, r in zip(tables, recordings, strict=True)])
    table = reliability_table(confidence, right)
    gap = confidence.mean() - right.mean()
    return 100 * calibration_error(table), float(100 * gap), 100 * chance_calibration_error(confidence)


def held_out(root: Path, labeler: PhoneLabeler, share: float | None) -> list[DecodedUtterance]:
    """The utterances of the train split whose speakers the model's training held out."""
    training = labeler.system.training
    _, dev = hold_out(corpora.read(root).split("train"), training.held_out if share is None else share, training.seed)
    spoken = [(u, decode(u.audio, rate=16000)) for u in dev]
    return [DecodedUtterance(u, audio, prepare(u.segments, audio.duration)[0]) for u, audio in spoken]


def main(given: list[str] | None = None) -> int:
    """Fit, and print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.temperature", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument(
        "--held-out", type=float, help="Share of speakers held out, where another dev set was named in training."
    )
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="Corpora to score, all of each.")
    options = parser.parse_args(given)
    labeler = PhoneLabeler.load(options.model if Path(options.model).is_file() else pretrained_path(options.model))
    spoken = held_out(options.corpus, labeler, options.held_out)
    groups = {condition: answers(labeler, spoken, condition) for condition in FITTED}
    fit = [r for group in groups.values() for r in group]
    mean = float(np.mean([r.entropy for r in fit]))
    fits = {(m, s): negative_log_likelihood(fit, m, s, mean) for m in MIDDLES for s in SLOPES}
    middle, slope = min(fits, key=lambda line: fits[line])
    single = min(MIDDLES, key=lambda m: fits[m, 0.0])
    gain = fits[single, 0.0] - fits[middle, slope]
    print(f"slope {slope:.2f} per nat of mean entropy; {gain:.4f} nats per segment better than one temperature\n")
    print(
        "| speech | segments | entropy | calibration error, as shipped | too sure by | with the line | too sure by | by chance |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for root in options.also:
        groups[root.name] = answers(labeler, robustness.read(root, None, 1))
    for name, group in groups.items():
        before, after = scores(group, 0.0, 0.0, mean), scores(group, middle, slope, mean)
        count, entropy = sum(len(r.labels) for r in group), np.mean([r.entropy for r in group])
        print(
            f"| {name} | {count} | {entropy:.2f} | {before[0]:.1f} | {before[1]:+.1f} | {after[0]:.1f} | {after[1]:+.1f} | "
            f"{before[2]:.1f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
