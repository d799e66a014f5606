"""The sweeps of a chain as they are and under torch.compile, on one batch: milliseconds, and seconds of the compilation.

    python benchmarks/compiled.py [--sequences 32] [--length 38] [--labels 39] [--mode default]

A compiled sweep holds for one tuple of batch sizes: another batch is another compilation. `--mode reduce-overhead` records
CUDA graphs on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

from phonechain.model.chain import first_order, second_order
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials, Want
from phonechain.model.device import choose_device


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=38)
    parser.add_argument("--labels", type=int, default=39)
    parser.add_argument("--mode", default="default")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
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
