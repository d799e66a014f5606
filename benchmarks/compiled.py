"""The sweeps of a chain as they are and under torch.compile, on one batch: milliseconds, and seconds of the compilation.

    python benchmarks/compiled.py [--sequences 32] [--length 38] [--labels 39] [--mode default]
    python benchmarks/compiled.py --shapes CORPUS [--sequences 32] [--epochs 20]

`--shapes` counts how many shapes the batches of a training on a corpus have, as they are and padded to buckets: a recorded CUDA
graph, like a compiled sweep, serves one shape.

A compiled sweep holds for one tuple of batch sizes: another batch is another compilation. `--mode reduce-overhead` records
CUDA graphs on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

from phonechain.features.corpora import read
from phonechain.model.chain import first_order, second_order
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials, Want
from phonechain.model.device import choose_device
from phonechain.model.learning.dataset import Dataset
from phonechain.model.settings import TrainingSettings


def best_time(work: Callable[[], object], device: torch.device, rounds: int = 9) -> float:
    """Seconds of the fastest round."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - began)
    return min(found)


def count_shapes(corpus: Path, sequences: int, epochs: int) -> None:
    """Print the number of shapes of the batches of some epochs, and what padding to fewer costs."""
    lengths = [len(utterance.segments) for utterance in read(corpus).utterances if utterance.segments]
    rows = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = Dataset(np.zeros((rows, 0), np.float32), np.zeros(rows, np.int64), offsets, np.arange(len(lengths)))
    settings = TrainingSettings(batch=sequences)
    batches = [
        sorted((lengths[n] for n in plan), reverse=True)
        for epoch in range(epochs)
        for plan in data.plan(
            settings.batch, settings.segments, settings.updates, np.random.default_rng((settings.seed, epoch))
        )
    ]
    real = sum(map(sum, batches))
    print(f"{len(lengths)} sequences, {rows} segments, {len(batches)} batches in {epochs} epochs")
    print(f"packed: {len(set(map(tuple, batches)))} shapes")
    for step in (1, 8, 16, 32):
        padded = [(len(batch), -(-batch[0] // step) * step) for batch in batches]
        cost = sum(count * length for count, length in padded) / real
        print(
            f"padded to the longest, in steps of {step}: {len(set(padded))} shapes, {cost:.2f} times the segments, "
            f"{np.mean([length for _, length in padded]) / np.mean([batch[0] for batch in batches]):.2f} times the steps"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=38)
    parser.add_argument("--labels", type=int, default=39)
    parser.add_argument("--mode", default="default")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shapes", type=Path, metavar="CORPUS", help="count the shapes of batches instead")
    parser.add_argument("--epochs", type=int, default=20)
    asked = parser.parse_args()
    if asked.shapes is not None:
        count_shapes(asked.shapes, asked.sequences, asked.epochs)
        return
    device, y = choose_device(asked.device), asked.labels
    packing = Packing((asked.length,) * asked.sequences, device)
    torch.manual_seed(0)
    unary, bigram = torch.randn(packing.rows, y, device=device), torch.randn(y, y, device=device)
    trigram = torch.randn(y, y, y, device=device)
    want, spread = Want(unary=True, bigram=True), float(bigram.max() - bigram.min())

    def first() -> torch.Tensor:
        return first_order.sweep(Potentials(packing, unary, bigram), want, None, spread)[0]

    def second() -> torch.Tensor:
        return second_order.sweep(Potentials(packing, unary, bigram, None, trigram), want, None)[0]

    print(f"{asked.sequences} sequences of {asked.length}, {y} labels, {device}, {torch.get_num_threads()} threads")
    for name, work in (("order 1", first), ("order 2", second)):
        with torch.no_grad():
            expected = work()
            plain = best_time(work, device)
            compiled = torch.compile(work, mode=asked.mode, dynamic=False)
            began = time.perf_counter()
            try:
                found = compiled()
            except Exception as error:  # what the compiler cannot do is a result too
                print(f"{name}: {1000 * plain:.2f} ms; not compiled: {type(error).__name__}: {str(error)[:200]}")
                continue
            compiling = time.perf_counter() - began
            fast = best_time(compiled, device)
        off = float((found - expected).abs().max())
        print(
            f"{name}: {1000 * plain:.2f} ms, compiled {1000 * fast:.2f} ms after {compiling:.1f} s; log Z differs by {off:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
