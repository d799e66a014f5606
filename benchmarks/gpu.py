"""A GPU against the CPU: the same answers, an epoch at TIMIT's size, the share of the peak, labelling, one OCR system.

    python benchmarks/gpu.py                        on a GPU; scripts/gpu_check.sh calls it
    python benchmarks/gpu.py --device cpu --tiny    a trial on the CPU, a thousandth of the size

Exits with 1 where an answer differs from the CPU's by more than BOUND, or a label where no two are equally probable. The epoch
is one of SPN-HO-LC-CRF with L = 3, I = 2, H = 3 on drawn data of TIMIT's size. Its multiplications are those that torch counts in
matrix products; their share of the peak is against the largest speed of a square product of the same type, measured first.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

from phonechain.features.inputs import Inputs
from phonechain.model import pretrained_path
from phonechain.model.device import choose_device, describe_device
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.training import dev_error, train
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.build import build
from phonechain.model.presets import preset

BOUND = 1e-4
"""Largest difference of a posterior from the CPU's."""

GOAL = 5.0
"""Seconds of an epoch at TIMIT's size."""

MODELS = ("default", "paper")
LABELS, FEATURES, LENGTH = 39, 92, 38
SUCCESSORS = 28
"""Labels that may follow a label: 39 times 28 bigrams are TIMIT's 1,100."""

LETTERS = Path("data") / "letters" / "letter.data.gz"


def wait(device: torch.device) -> None:
    """Wait for what the GPU was given to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best_time(work: Callable[[], object], device: torch.device, rounds: int) -> float:
    """The shortest of some rounds, in seconds, after one to warm up."""
    work()
    found = []
    for _ in range(rounds):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        found.append(time.perf_counter() - began)
    return min(found)


def draw_inputs(labeler: PhoneLabeler, utterances: int, seed: int) -> list[Inputs]:
    """Inputs of recordings of up to 60 segments, as the model reads them."""
    random, features = np.random.default_rng(seed), labeler.features_
    found = []
    for _ in range(utterances):
        count = int(random.integers(2, 60))
        ends = np.cumsum(random.uniform(0.04, 0.2, count))
        times = np.stack([np.concatenate([[0.0], ends[:-1]]), ends], 1)
        frames = np.zeros((0, 0), np.float32)
        if features.bands:
            shape = (int(ends[-1] / features.frame_period) + 1, features.bands)
            frames = (2 * random.standard_normal(shape) - 6).astype(np.float32)
        rows = random.standard_normal((count, FEATURES if features.pooled else 0)).astype(np.float32)
        found.append(Inputs(rows, times, frames, features.frame_period))
    return found


def compare(name: str, device: str, utterances: int) -> tuple[float, int, int]:
    """(largest difference of a posterior, labels that differ, those of them that no tie explains) from the CPU's answers."""
    near, far = (PhoneLabeler.load(pretrained_path(name), device=d) for d in ("cpu", device))
    inputs = draw_inputs(near, utterances, 0)
    expected, answered = near.posteriors(inputs)
    found, labels = far.posteriors(inputs)
    largest, differ, wrong = 0.0, 0, 0
    for p, q, a, b in zip(expected, found, answered, labels, strict=True):
        largest = max(largest, float(np.abs(p - q).max()))
        for t in np.flatnonzero(a != b):
            differ += 1
            wrong += bool(abs(p[t, a[t]] - p[t, b[t]]) > BOUND)
    return largest, differ, wrong


def measure_peak(device: torch.device, size: int) -> float:
    """Multiplications and additions per second of a square product in 32 bits."""
    a = torch.randn(size, size, device=device)
    return 2 * size**3 / best_time(lambda: a @ a, device, 5)


def draw_corpus(segments: int) -> Dataset:
    """Drawn features, and labels that follow each other as 1,100 bigrams allow."""
    random = np.random.default_rng(0)
    follows = np.stack([random.permutation(LABELS)[:SUCCESSORS] for _ in range(LABELS)])
    lengths = np.full(max(1, segments // LENGTH), LENGTH)
    y = random.integers(0, LABELS, int(lengths.sum()))
    for t in range(1, len(y)):
        if t % LENGTH:
            y[t] = follows[y[t - 1], random.integers(SUCCESSORS)]
    means = random.normal(0.0, 0.35, (LABELS, FEATURES))
    x = (means[y] + random.normal(size=(len(y), FEATURES))).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Dataset(x, y.astype(np.int64), starts, np.arange(len(lengths)))


def make_network(data: Dataset, device: torch.device, *, small: bool) -> SequenceNetwork:
    """SPN-HO-LC-CRF with L = 3, I = 2, H = 3 in the factor over one label, as the table of TIMIT has it."""
    given = preset("spn-ho-lc-crf")
    sizes = (1, 1, 2) if small else (3, 2, 3)
    factors = tuple(
        dataclasses.replace(f, layers=sizes[0], products=sizes[1], states=sizes[2]) if f.labels == 1 else f
        for f in given.model.factors
    )
    model = dataclasses.replace(given.model, factors=factors)
    network = build(model, FEATURES, [str(n) for n in range(LABELS)], data)
    network.reset(torch.Generator().manual_seed(0))
    return network.to(device)


def count_operations(network: SequenceNetwork, data: Dataset, sequences: int) -> float:
    """Multiplications and additions per segment of a step of training, in matrix products."""
    batch = data.batch(np.arange(min(sequences, len(data))), network.device)
    network.train()
    network.noise = torch.Generator(network.device)
    with FlopCounterMode(display=False) as counted:
        network.loss(network.encode(batch.x, batch.packing), batch.y, batch.packing).backward()
    network.zero_grad(set_to_none=True)
    return counted.get_total_flops() / len(batch.y)


def measure_epoch(device: torch.device, segments: int, peak: float, *, small: bool) -> None:
    """Print an epoch's seconds, its share of the peak, and the speed of labelling."""
    data = draw_corpus(segments)
    held = draw_corpus(min(segments, 2000))
    network = make_network(data, device, small=small)
    print(f"network: {sum(p.numel() for p in network.parameters()):,} weights, {len(network.bigrams)} bigrams")
    operations = count_operations(network, data, 64)
    settings = dataclasses.replace(preset("spn-ho-lc-crf").training, epochs=2)
    history = train(network, data, held, settings)
    wait(device)
    scoring = best_time(lambda: dev_error(network, held), device, 1)
    seconds = min(row["seconds"] for row in history.epochs) - scoring
    share = operations * len(data.y) / seconds / peak
    print(f"epoch of {len(data.y):,} segments: {seconds:.2f} s (goal {GOAL:g} s at 140,000)")
    print(f"share of the peak: {100 * share:.1f} % ({operations / 1e6:.1f} million operations per segment)")
    batches = [data.batch(np.arange(at, min(at + 64, len(data))), device) for at in range(0, min(len(data), 640), 64)]
    network.eval()

    def label() -> None:
        with torch.inference_mode():
            for b in batches:
                network.posteriors(network.encode(b.x, b.packing), b.packing).argmax(1).cpu()

    rows = sum(len(b.y) for b in batches)
    print(f"labelling: {rows / best_time(label, device, 3):,.0f} segments per second, batches of 64 utterances")
    if device.type == "cuda":
        print(f"memory at most: {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB")


def measure_letters(device: torch.device, file: Path) -> None:
    """Print the error and time of a linear-chain SPN-CRF on the first fold of the letters."""
    from experiments.cells import count_errors
    from experiments.corpora import open_source

    fold = open_source(file, file.parent, print).fold("", "0")
    given = preset("spn-lc-crf")
    network = build(given.model, fold.train.x.shape[1], fold.labels, fold.train)
    network.reset(torch.Generator().manual_seed(0))
    network.to(device)
    began = time.perf_counter()
    train(network, fold.train, fold.test, dataclasses.replace(given.training, epochs=5, keep="last"))
    seconds = time.perf_counter() - began
    wrong, _ = count_errors(network.to("cpu"), fold.test)
    print(f"letters, fold 0, spn-lc-crf, 5 epochs: {100 * wrong / len(fold.test.y):.2f} % errors, {seconds:.1f} s")


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu for a trial")
    parser.add_argument("--tiny", action="store_true", help="a thousandth of the size")
    parser.add_argument("--letters", type=Path, default=Path(os.environ.get("PHONECHAIN_SHARED", "shared")) / LETTERS)
    options = parser.parse_args(given)
    device = choose_device(options.device)
    print(f"device: {describe_device(device)}, torch {torch.__version__}")
    failed = False
    for name in MODELS:
        largest, differ, wrong = compare(name, options.device, 4 if options.tiny else 100)
        failed |= largest > BOUND or wrong > 0
        print(
            f"{name}: posteriors differ from the CPU's by at most {largest:.1e}, {differ} labels, {wrong} without a tie"
        )
    peak = measure_peak(device, 256 if options.tiny else 8192)
    print(f"peak: {peak / 1e12:.2f} trillion operations per second, 32 bits")
    measure_epoch(device, 380 if options.tiny else 140_000, peak, small=options.tiny)
    if options.tiny or not options.letters.exists():
        print("letters: left out" + ("" if options.tiny else f", {options.letters} does not exist"))
    else:
        measure_letters(device, options.letters)
    print("FAILED: answers differ from the CPU's" if failed else "answers are the CPU's")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
