"""log Z of all segmentations with its gradient, beside torch-struct's SemiMarkov: CPU milliseconds, one thread, best round.

    python benchmarks/segmental.py [--rounds 5]

Both get the same scores [B, N, D, K], bigrams, first and last labels, and have to come to the same log Z. torch-struct wants a
table of edges [B, N, D + 1, K, K], which is made inside the measured time, as every training step has to make it. The last row is
what our aligner computes with; torch-struct's product of (D K) by (D K) matrices does not fit into memory there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch_struct
from torch import Tensor

from phonechain.model.segmental import sums

NEVER = -1e5

SIZES = ((1, 32, 6, 8), (4, 32, 6, 10), (1, 64, 8, 12), (4, 250, 20, 40))
"""Recordings, grid steps, longest duration in steps, labels."""

LARGEST = 5e7
"""Elements of torch-struct's largest tensor up to which it is measured."""


def edges(lattice: sums.Lattice) -> Tensor:
    """[B, N, D + 1, K, K]: n, duration, label, label before; what comes first comes after label 0, which stands for none."""
    b, n, d, k = lattice.scores.shape
    table = lattice.scores.new_full((b, n, d + 1, k, k), NEVER)
    for duration in range(1, d + 1):
        count = n - duration + 1
        value = lattice.scores[:, duration - 1 :, duration - 1]  # [B, count, K] by the start
        value = torch.cat([value[:, :-1], value[:, -1:] + lattice.last], 1)
        table[:, :count, duration] = value[:, :, :, None] + lattice.bigram.T
        table[:, 0, duration] = NEVER
        table[:, 0, duration, :, 0] = value[:, 0] + lattice.first
    return table


def best(work: Callable[[], Tensor], rounds: int) -> tuple[Tensor, float]:
    """The answer, and CPU milliseconds of the fastest round."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        value = work()
        times.append(1e3 * (time.process_time() - began))
    return value, min(times)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("  B    N   D   K   ours ms  torch-struct ms  ratio  log Z apart")
    for b, n, d, k in SIZES:
        generator = torch.Generator().manual_seed(1)
        leaves = [torch.randn(*shape, generator=generator) for shape in ((b, n, d, k), (k, k), (k,), (k,))]
        for leaf in leaves:
            leaf.requires_grad_()
        scores, bigram, first, last = leaves
        lattice = sums.Lattice(scores, bigram, first, last, torch.full((b,), n))

        def ours(lattice: sums.Lattice = lattice, leaves: list[Tensor] = leaves) -> Tensor:
            value = sums.log_z(lattice)
            torch.autograd.grad(value.sum(), leaves)
            return value.detach()

        def theirs(lattice: sums.Lattice = lattice, leaves: list[Tensor] = leaves) -> Tensor:
            value = torch_struct.SemiMarkov(torch_struct.LogSemiring).sum(edges(lattice))
            torch.autograd.grad(value.sum(), leaves)
            return value.detach()

        value, spent = best(ours, given.rounds)
        line = f"{b:3d}  {n:3d}  {d:2d}  {k:2d}  {spent:8.1f}"
        if b * n / 2 * (d * k) ** 3 <= LARGEST:
            other, long = best(theirs, given.rounds)
            line += f"  {long:15.1f}  {long / spent:5.0f}  {float((value - other).abs().max()):11.1e}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
