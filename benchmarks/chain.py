"""The chain against its peers: negative log-likelihood and its gradient, on equal inputs, in one interleaved run.

    python benchmarks/chain.py                     B=64 T=40 C=39, one thread and two
    python benchmarks/chain.py --threads 1 --check

Peers: pytorch-crf 0.7.2 and torch-struct 0.5, first order, each with the layout it works in: time-major and padded for
pytorch-crf; a table of edges for torch-struct, made from unaries and transitions inside the measured time, as every
caller has to; packed rows for model/chain/inference.py; padded and batch-first for phonechain.CRF, which packs them inside
the measured time. Before anything is timed, all must give the same likelihood and the same gradients. The second-order
chain has no peer; it is checked against a plain recursion in float64, and stands beside pytorch-crf's first order.

In a round the systems take turns; the table shows medians over the rounds, and the median of the ratios within a round.
A system that needs more than SLOW seconds takes part in the first two rounds only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a checkout

from phonechain.model.chain.inference import Potentials, log_likelihood
from phonechain.model.chain.layer import CRF
from phonechain.model.chain.packing import Packing

try:
    import torch_struct
    import torchcrf
except ImportError as error:
    sys.exit(f"benchmarks/chain.py needs its peers, got: {error}. Install them with: pip install -e '.[bench]'")

TARGETS = {"first order": 8.0, "second order": 1.5}
"""Times pytorch-crf's first-order speed on full-length batches."""


@dataclass
class Problem:
    """Emissions [T, B, C], labels [T, B], lengths [B] (longest first), transitions [C, C], trigrams [C, C, C]."""

    emissions: Tensor
    labels: Tensor
    lengths: list[int]
    transitions: Tensor
    trigrams: Tensor

    @classmethod
    def draw(cls, batch: int, length: int, labels: int, *, ragged: bool, seed: int = 0) -> Problem:
        """Standard normal unaries, n-gram weights of deviation 0.3; ragged lengths are uniform from an eighth up."""
        g = torch.Generator().manual_seed(seed)
        lengths = [length] * batch
        if ragged:
            drawn = torch.randint(max(1, length // 8), length + 1, (batch,), generator=g)
            lengths = sorted(drawn.tolist(), reverse=True)
            lengths[0] = length
        return cls(
            torch.randn(length, batch, labels, generator=g),
            torch.randint(labels, (length, batch), generator=g),
            lengths,
            0.3 * torch.randn(labels, labels, generator=g),
            0.3 * torch.randn(labels, labels, labels, generator=g),
        )

    @property
    def mask(self) -> Tensor:
        """[T, B] whether a sequence has that position."""
        return torch.arange(len(self.emissions))[:, None] < torch.tensor(self.lengths)[None, :]


SLOW = 1.0
"""Seconds."""

Answer = tuple[Tensor, Tensor, Tensor]
System = Callable[[], Answer]
"""One evaluation: the summed NLL, and its gradients in the emissions [T, B, C] or [N, C] and the n-gram weights."""


def ours(problem: Problem, *, order: int) -> System:
    """model/chain/inference.py on packed rows; the packing is made anew every time, as for a new batch."""
    mask = problem.mask
    unary = problem.emissions[mask].requires_grad_()
    labels = problem.labels[mask]
    bigram = problem.transitions.clone().requires_grad_()
    trigram = problem.trigrams.clone().requires_grad_() if order == 2 else None
    lengths = tuple(problem.lengths)

    def run() -> Answer:
        unary.grad = bigram.grad = None
        if trigram is not None:
            trigram.grad = None
        loss = -log_likelihood(Potentials(Packing(lengths), unary, bigram=bigram, trigram=trigram), labels).sum()
        loss.backward()
        assert unary.grad is not None
        assert bigram.grad is not None
        return loss.detach(), unary.grad, bigram.grad if trigram is None else trigram.grad

    return run


def layer(problem: Problem, *, order: int) -> System:
    """phonechain.CRF on padded emissions [B, T, C], batch first, with its start and end scores at zero."""
    crf = CRF(problem.transitions.shape[0], order)
    with torch.no_grad():
        crf.start_transitions.zero_()
        crf.end_transitions.zero_()
        crf.transitions.copy_(problem.transitions)
        if crf.second_transitions is not None:
            crf.second_transitions.copy_(problem.trigrams)
    emissions = problem.emissions.transpose(0, 1).contiguous().requires_grad_()
    labels, mask = problem.labels.T.contiguous(), problem.mask.T.contiguous()

    def run() -> Answer:
        emissions.grad = None
        crf.zero_grad(set_to_none=True)
        loss = -crf(emissions, labels, mask, reduction="sum")
        loss.backward()
        weights = crf.transitions if crf.second_transitions is None else crf.second_transitions
        assert emissions.grad is not None
        assert weights.grad is not None
        return loss.detach(), emissions.grad.transpose(0, 1), weights.grad

    return run


def pytorch_crf(problem: Problem) -> System:
    """torchcrf.CRF with its start and end scores at zero."""
    crf = torchcrf.CRF(problem.transitions.shape[0])
    with torch.no_grad():
        crf.start_transitions.zero_()
        crf.end_transitions.zero_()
        crf.transitions.copy_(problem.transitions)
    emissions = problem.emissions.clone().requires_grad_()
    mask = problem.mask

    def run() -> Answer:
        emissions.grad = None
        crf.zero_grad(set_to_none=True)
        loss = -crf(emissions, problem.labels, mask=mask, reduction="sum")
        loss.backward()
        assert emissions.grad is not None
        return loss.detach(), emissions.grad, crf.transitions.grad

    return run


def torch_struct_crf(problem: Problem) -> System:
    """torch_struct.LinearChain on edges [B, T-1, next, previous]."""
    emissions = problem.emissions.transpose(0, 1).contiguous().requires_grad_()
    labels = problem.labels.T.contiguous()
    transitions = problem.transitions.clone().requires_grad_()
    lengths = torch.tensor(problem.lengths)
    count = problem.transitions.shape[0]

    def run() -> Answer:
        emissions.grad = transitions.grad = None
        edges = transitions.T + emissions[:, 1:, :, None]
        start = torch.zeros_like(edges)
        start[:, 0] = emissions[:, 0, None, :].expand(-1, count, -1)
        edges = edges + start
        partition = torch_struct.LinearChain(torch_struct.LogSemiring).sum(edges, lengths=lengths)
        parts = torch_struct.LinearChain.to_parts(labels, count, lengths=lengths).type_as(edges)
        loss = (partition - (edges * parts).sum((1, 2, 3))).sum()
        loss.backward()
        assert emissions.grad is not None
        return loss.detach(), emissions.grad.transpose(0, 1), transitions.grad

    return run


def plain_second_order(problem: Problem) -> Tensor:
    """Summed NLL of the second-order chain in float64, by sums of logs over one sequence after the other."""
    total = torch.zeros((), dtype=torch.float64)
    emissions, bigram, trigram = (x.double() for x in (problem.emissions, problem.transitions, problem.trigrams))
    for b, length in enumerate(problem.lengths):
        x, y = emissions[:length, b], problem.labels[:length, b]
        total -= x[torch.arange(length), y].sum() + bigram[y[:-1], y[1:]].sum() + trigram[y[:-2], y[1:-1], y[2:]].sum()
        if length == 1:
            total += x[0].logsumexp(0)
            continue
        state = x[0][:, None] + bigram + x[1][None, :]
        for t in range(2, length):
            state = (state[:, :, None] + trigram).logsumexp(0) + bigram + x[t][None, :]
        total += state.flatten().logsumexp(0)
    return total


def check(problem: Problem) -> None:
    """Exit unless every system gives the same likelihood and gradients to 1e-4 (relative to the largest)."""
    mask = problem.mask
    loss, unary, bigram = ours(problem, order=1)()
    for name, system in (
        ("pytorch-crf", pytorch_crf(problem)),
        ("torch-struct", torch_struct_crf(problem)),
        ("phonechain.CRF", layer(problem, order=1)),
    ):
        their_loss, their_unary, their_bigram = system()
        agree(f"{name}: NLL", loss, their_loss)
        agree(f"{name}: gradient of the unaries", unary, their_unary[mask])
        agree(f"{name}: gradient of the transitions", bigram, their_bigram)
    few = Problem(
        problem.emissions[:, :2], problem.labels[:, :2], problem.lengths[:2], problem.transitions, problem.trigrams
    )
    agree("second order: NLL", ours(few, order=2)()[0].double(), plain_second_order(few))


def agree(what: str, found: Tensor, expected: Tensor) -> None:
    """Exit with a sentence where two answers differ."""
    distance = float((found - expected).abs().max() / expected.abs().max().clamp(min=1.0))
    if not distance <= 1e-4:
        sys.exit(f"{what}: expected equal answers to 1e-4, got a distance of {distance:.2e}; nothing was timed")


def measure(systems: dict[str, System], rounds: int, tell: Callable[[str], None]) -> dict[str, list[float]]:
    """Seconds of each system in each round; systems take turns, so that whatever else runs hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    for n in range(-1, rounds):  # the first one warms up, and counts for slow systems only
        for name, system in systems.items():
            if len(times[name]) > 1 and times[name][0] > SLOW:
                continue
            tell(f"round {max(n, 0) + 1} of {rounds}: {name}")
            start = time.perf_counter()
            system()
            seconds = time.perf_counter() - start
            if n >= 0 or seconds > SLOW:
                times[name].append(seconds)
    return times


def report(title: str, times: dict[str, list[float]], reference: str) -> dict[str, float]:
    """Print a table; return each system's median speed-up over the reference, from the ratios within rounds."""
    print(f"\n{title}")
    print(f"  {'system':<28}{'median':>12}{'fastest':>12}{'speed, ' + reference + ' = 1':>26}")
    ratios = {}
    for name, seconds in times.items():
        ratios[name] = statistics.median(r / s for r, s in zip(times[reference], seconds, strict=False))
        median, fastest = 1e3 * statistics.median(seconds), 1e3 * min(seconds)
        print(f"  {name:<28}{median:>9.2f} ms{fastest:>9.2f} ms{ratios[name]:>26.2f}")
    return ratios


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code: 1 where --check finds a target missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=64, metavar="B")
    parser.add_argument("--length", type=int, default=40, metavar="T")
    parser.add_argument("--labels", type=int, default=39, metavar="C")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--check", action="store_true", help=f"fail below {TARGETS} times pytorch-crf on full batches")
    options = parser.parse_args(arguments)

    def tell(line: str) -> None:
        print(f"\r{line:<60}", end="", file=sys.stderr, flush=True)

    size = f"B={options.batch} T={options.length} C={options.labels}"
    print(f"NLL forward and backward, float32, {size}, torch {torch.__version__}")
    missed = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for ragged in (False, True):
            problem = Problem.draw(options.batch, options.length, options.labels, ragged=ragged)
            check(problem)
            systems = {
                "pytorch-crf": pytorch_crf(problem),
                "torch-struct": torch_struct_crf(problem),
                "phonechain, first order": ours(problem, order=1),
                "phonechain.CRF, first order": layer(problem, order=1),
                "phonechain, second order": ours(problem, order=2),
                "phonechain.CRF, second order": layer(problem, order=2),
            }
            times = measure(systems, options.rounds, tell)
            tell("")
            what = f"ragged, {sum(problem.lengths)} segments" if ragged else f"full, {sum(problem.lengths)} segments"
            ratios = report(f"{threads} thread{'s' if threads > 1 else ''}, {what}", times, "pytorch-crf")
            for order, target in TARGETS.items():
                if not ragged and ratios[f"phonechain, {order}"] < target:
                    missed.append(f"{order}, {threads} threads: {ratios[f'phonechain, {order}']:.2f} < {target}")
    if missed:
        print("\nbelow target: " + "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
