"""Seconds of an epoch of training in float32 and in bfloat16, of systems with and without a recurrent encoder, on drawn data.

    python benchmarks/training.py [--utterances 120] [--presets blstm-ho-lc-crf spn-ho-lc-crf]

Each runs two epochs, in batches as large as a large corpus has them; the faster one counts, with its small dev set. The last
column is the loss of the second epoch, which shows that both learn the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

from phonechain.features.inputs import Inputs
from phonechain.features.segments import Segment, Utterance
from phonechain.model.device import choose_device
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import Featurised
from phonechain.model.presets import preset

LABELS = [f"p{n}" for n in range(39)]
FRAME = 0.01


def draw_utterances(count: int, seed: int) -> list[Featurised]:
    """Utterances of 20 to 50 segments of 40 to 200 ms: a mean of each label in features and frames, and noise."""
    random, means = np.random.default_rng(seed), np.random.default_rng(0)
    rows, spectra = means.normal(0.0, 0.35, (len(LABELS), 92)), means.normal(0.0, 1.0, (len(LABELS), 40))
    found = []
    for n in range(count):
        y = (random.integers(len(LABELS)) + np.cumsum(random.integers(1, 29, random.integers(20, 51)))) % len(LABELS)
        lasts = random.integers(4, 21, len(y))
        ends = np.cumsum(lasts)
        segments = [
            Segment(FRAME * (end - last), FRAME * end, LABELS[k]) for k, end, last in zip(y, ends, lasts, strict=True)
        ]
        x = (rows[y] + random.normal(size=(len(y), 92))).astype(np.float32)
        frames = (np.repeat(spectra[y], lasts, axis=0) + random.normal(size=(ends[-1], 40)) - 2).astype(np.float32)
        inputs = Inputs(x, np.asarray([(s.start, s.end) for s in segments]), frames, FRAME)
        utterance = Utterance(f"u{n}", Path(f"u{n}.wav"), segments, f"s{n % 8}", None)
        found.append(Featurised(utterance, segments, inputs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--utterances", type=int, default=120)
    parser.add_argument("--presets", nargs="+", default=["blstm-ho-lc-crf", "blstm-seg-lc-crf", "spn-ho-lc-crf"])
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    data, dev = draw_utterances(asked.utterances, 1), draw_utterances(8, 2)
    segments = sum(len(item.segments) for item in data)
    device = choose_device(asked.device)
    print(f"{segments:,} segments, {device}, {torch.get_num_threads()} threads")
    print(f"{'preset':20} {'precision':10} {'s/epoch':>8} {'segments/s':>11} {'loss':>7}")
    for name in asked.presets:
        given = preset(name)
        for precision in ("float32", "bfloat16"):
            training = dataclasses.replace(given.training, epochs=2, updates=1, precision=precision)
            labeler = PhoneLabeler(name, model=given.model, training=training, device=asked.device)
            rows = labeler.fit_featurised(data, dev).history_.epochs
            seconds = min(row["seconds"] for row in rows)
            print(
                f"{name:20} {precision:10} {seconds:8.2f} {segments / seconds:11,.0f} {rows[-1]['loss']:7.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
