"""A GPU against the CPU: the same answers, an epoch at TIMIT's size, the share of the peak, labelling, alignment, OCR.

    python benchmarks/gpu.py                        on a GPU; scripts/gpu_check.sh calls it
    python benchmarks/gpu.py --device cpu --tiny    a trial on the CPU, a thousandth of the size

Exits with 1 where an answer differs from the CPU's by more than BOUND, or a label where no two are equally probable, or a part
ends with an error. The epoch is one of SPN-HO-LC-CRF with L = 3, I = 2, H = 3 on drawn data of TIMIT's size, in float32, in
bfloat16, and by the Triton kernels. Its multiplications are those that torch counts in matrix products; their share of the peak
is against the largest speed of a square product of the same type, measured first. No part begins after BUDGET seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

from phonechain.features.inputs import Inputs
from phonechain.features.reading import read_audio, read_segments
from phonechain.model import ALIGNMENT, pretrained_path
from phonechain.model.device import Precision, accelerate, choose_device, describe_device
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.training import dev_error, train
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.build import build
from phonechain.model.presets import preset
from phonechain.model.segmental.aligner import PhoneAligner

ROOT = Path(__file__).resolve().parent.parent

BOUND = 1e-4
"""Largest difference of a posterior from the CPU's."""

GOAL = 5.0
"""Seconds of an epoch at TIMIT's size."""

BUDGET = 400.0
"""Seconds after which no further part begins; scripts/gpu_check.sh ends everything after 480."""

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


def measure_epoch(device: torch.device, segments: int, peak: float, *, small: bool, precision: Precision) -> float:
    """Print an epoch's seconds and its share of the peak; returns the seconds."""
    data = draw_corpus(segments)
    held = draw_corpus(min(segments, 2000))
    network = make_network(data, device, small=small)
    operations = count_operations(network, data, 64)
    settings = dataclasses.replace(preset("spn-ho-lc-crf").training, epochs=2, precision=precision)
    history = train(network, data, held, settings)
    wait(device)
    scoring = best_time(lambda: dev_error(network, held), device, 1)
    seconds = min(row["seconds"] for row in history.epochs) - scoring
    weights = sum(p.numel() for p in network.parameters())
    print(
        f"  {weights:,} weights, {len(network.bigrams)} bigrams, {operations / 1e6:.1f} million operations per segment"
    )
    print(f"  epoch of {len(data.y):,} segments: {seconds:.2f} s (goal {GOAL:g} s at 140,000)")
    print(f"  share of the peak: {100 * operations * len(data.y) / seconds / peak:.1f} %")
    if device.type == "cuda":
        print(f"  memory at most: {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB")
    return seconds


def measure_labelling(device: torch.device, segments: int, *, small: bool) -> None:
    """Print how many segments are labelled in a second."""
    data = draw_corpus(segments)
    network = make_network(data, device, small=small).eval()
    batches = [data.batch(np.arange(at, min(at + 64, len(data))), device) for at in range(0, min(len(data), 640), 64)]

    def label() -> None:
        with torch.inference_mode():
            for b in batches:
                network.posteriors(network.encode(b.x, b.packing), b.packing).argmax(1).cpu()

    rows = sum(len(b.y) for b in batches)
    print(f"  {rows / best_time(label, device, 3):,.0f} segments per second, batches of 64 utterances")


def compare_alignment(device: str) -> bool:
    """Print how far alignments of the sample are from the CPU's; whether they are the same."""
    near, far = (PhoneAligner.load(pretrained_path(ALIGNMENT), device=d) for d in ("cpu", device))
    audio = read_audio(ROOT / "samples" / "LJ001-0002.flac")
    labels = [str(s.label) for s in read_segments(ROOT / "samples" / "LJ001-0002.TextGrid")]
    same = True
    for name in ("align_phones", "recognize"):
        given = (labels,) if name == "align_phones" else ()
        expected, found = (getattr(aligner, name)(audio, *given) for aligner in (near, far))
        pairs = list(zip(expected.phones, found.phones, strict=False))
        moved = max(abs(a.start - b.start) for a, b in pairs)
        changed = max(abs(a.within - b.within) for a, b in pairs)
        equal = [p.label for p in expected.phones] == [p.label for p in found.phones]
        same &= equal and moved <= 1e-3 and changed <= 10 * BOUND
        seconds = best_time(lambda name=name, given=given: getattr(far, name)(audio, *given), far.device_, 3)  # type: ignore[misc]
        print(
            f"  {name}: starts differ by at most {1000 * moved:.2f} ms, certainties by {changed:.1e}, labels "
            f"{'are the same' if equal else 'differ'}; {audio.duration / seconds:.0f} times real time"
        )
    return same


def compare_answers(device: str, utterances: int, names: Sequence[str] = MODELS) -> bool:
    """Print how far the models' posteriors are from the CPU's; whether they are the same."""
    same = True
    for name in names:
        largest, differ, wrong = compare(name, device, utterances)
        same &= largest <= BOUND and not wrong
        print(f"  {name}: posteriors differ by at most {largest:.1e}, {differ} labels, {wrong} without a tie")
    return same


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
    print(f"  fold 0, spn-lc-crf, 5 epochs: {100 * wrong / len(fold.test.y):.2f} % errors, {seconds:.1f} s")


class Check:
    """Parts one after the other, each with its time and whether it passed."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.results: dict[str, str] = {}

    def run(self, name: str, work: Callable[[], object]) -> None:
        """Do a part, unless the time is up. What `work` returns is not looked at but for False, which is a failure."""
        if time.monotonic() - self.began > BUDGET:
            self.results[name] = "left out, out of time"
            return
        print(name, flush=True)
        began = time.monotonic()
        try:
            outcome = "FAILED: differs from the CPU" if work() is False else "done"
        except Exception as error:  # the other parts go on
            outcome = f"FAILED: {type(error).__name__}: {str(error)[:200]}"
        self.results[name] = f"{outcome}, {time.monotonic() - began:.1f} s"

    def leave_out(self, name: str, why: str) -> None:
        """Say why a part is not done."""
        self.results[name] = f"left out, {why}"

    def finish(self) -> int:
        """Print the summary; 1 if a part failed."""
        print("summary")
        for name, outcome in self.results.items():
            print(f"  {name}: {outcome}")
        failed = any("FAILED" in outcome for outcome in self.results.values())
        print("FAILED: see above" if failed else "answers are the CPU's")
        return int(failed)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu for a trial")
    parser.add_argument("--tiny", action="store_true", help="a thousandth of the size")
    parser.add_argument("--letters", type=Path, default=Path(os.environ.get("PHONECHAIN_SHARED", "shared")) / LETTERS)
    options = parser.parse_args(given)
    device, tiny = choose_device(options.device), options.tiny
    print(f"device: {describe_device(device)}, torch {torch.__version__}")
    utterances, segments = (4, 380) if tiny else (100, 140_000)
    check = Check()
    check.run("answers", lambda: compare_answers(options.device, utterances))
    peak = measure_peak(device, 256 if tiny else 8192)
    print(f"peak: {peak / 1e12:.2f} trillion operations per second, 32 bits")

    def epoch(precision: Precision = "float32") -> float:
        return measure_epoch(device, segments, peak, small=tiny, precision=precision)

    check.run("epoch", epoch)
    check.run("labelling", lambda: measure_labelling(device, min(segments, 30_000), small=tiny))
    check.run("alignment", lambda: compare_alignment(options.device))
    check.run("epoch in bfloat16", lambda: epoch("bfloat16"))
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        check.leave_out("kernels", "they need a GPU and Triton")
    else:
        accelerate("kernels")
        check.run("answers by kernels", lambda: compare_answers(options.device, utterances, ("paper",)))
        check.run("epoch by kernels", epoch)
        check.run("epoch by kernels in bfloat16", lambda: epoch("bfloat16"))
        accelerate()
    if tiny or not options.letters.exists():
        check.leave_out("letters", "a trial" if tiny else f"{options.letters} does not exist")
    else:
        check.run("letters", lambda: measure_letters(device, options.letters))
    return check.finish()


if __name__ == "__main__":
    sys.exit(main())
