"""No sweep waits for the device at its steps: however long the sequences, the host waits equally often, and copies as much.

Counted by the stand-in for a GPU (tests/far.py): transfers to the host, `.item()`, shapes that depend on data, and boolean
masks as indices; and copies to the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from phonechain.model.chain import inference as chain
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.spans import span_log_probabilities
from phonechain.model.networks import memm
from tests.far import DEVICE, Gpu

SHORT, LONG = 10, 40
LABELS = 5
WIDE = 200.0
"""Nats of a standard deviation at which sums are taken in logarithms."""

Work = Callable[[], object]


def draw(length: int, order: int, *, local: bool, scale: float = 1.0, sequences: int = 3) -> chain.Potentials:
    """Log-potentials on the stand-in, of sequences of about that length."""
    packing = Packing((length, length - 1, 3)[:sequences], DEVICE)
    shape, y = (packing.rows,), (LABELS,)

    def table(*size: int) -> torch.Tensor:
        return (scale * torch.randn(size, generator=torch.Generator().manual_seed(len(size)))).to(DEVICE)

    made = chain.Potentials(packing, table(*shape, *y), table(*y * 2), table(*shape, *y * 2) if local else None)
    if order == 2:
        made = replace(made, trigram=table(*y * 3), hyperedge=table(*shape, *y * 3) if local else None)
    return made


def draw_labels(rows: int) -> torch.Tensor:
    return torch.randint(0, LABELS, (rows,), generator=torch.Generator().manual_seed(rows)).to(DEVICE)


def train(potentials: chain.Potentials, labels: torch.Tensor, loss: Callable[..., torch.Tensor]) -> None:
    weights = potentials.map(lambda table: table.detach().clone().requires_grad_())
    loss(weights, labels).sum().backward()


def chain_work(length: int, order: int, *, local: bool) -> dict[str, Work]:
    many, one = draw(length, order, local=local), draw(length, order, local=local, sequences=1)
    wide = draw(length, order, local=local, scale=WIDE)
    labels, own = draw_labels(many.packing.rows), draw_labels(length)
    gaps = labels.clone()
    gaps[0] = -1
    return {
        "marginals": lambda: chain.marginals(many, pairs=True, triples=True),
        "marginals of one sequence": lambda: chain.marginals(one),
        "marginals in logarithms": lambda: chain.marginals(wide),
        "likelihood and gradient": lambda: train(many, labels, chain.log_likelihood),
        "likelihood with gaps": lambda: train(many, gaps, chain.partial_log_likelihood),
        "the best sequence": lambda: chain.viterbi(many),
        "n-best sequences": lambda: chain.k_best(many, 4),
        "samples": lambda: chain.sample(many, 2),
        "entropy": lambda: chain.entropy(one),
        "spans": lambda: span_log_probabilities(one, own, [(0, 2), (1, 5), (3, 7)]),
    }


def memm_work(length: int, history: int) -> dict[str, Work]:
    packing = Packing((length, length - 1, 3), DEVICE)
    unary = torch.randn(packing.rows, LABELS).to(DEVICE)
    distant = torch.randn(history, LABELS, LABELS).to(DEVICE)
    return {
        "marginals": lambda: memm.forward_marginals(unary, distant, packing),
        "the best sequence": lambda: memm.viterbi(unary, distant, packing),
        "n-best of a beam": lambda: memm.beam_n_best(unary, distant, packing, 3, width=7),
        "marginals of a beam": lambda: memm.beam_marginals(unary, distant, packing, width=7),
    }


def count(work: Work) -> tuple[int, int]:
    work()  # the packing's indices are made once
    before = Gpu.syncs, Gpu.uploads
    work()
    return Gpu.syncs - before[0], Gpu.uploads - before[1]


@pytest.mark.parametrize("local", [False, True], ids=["shared", "local"])
@pytest.mark.parametrize("order", [1, 2])
def test_a_chain_waits_as_often_for_long_sequences_as_for_short_ones(order: int, local: bool) -> None:
    with Gpu():
        short, long = (chain_work(length, order, local=local) for length in (SHORT, LONG))
        found = {name: (count(short[name]), count(long[name])) for name in short}
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}
    assert max(found[name][0][0] for name in ("the best sequence", "n-best sequences", "samples")) == 0
    # the range of the n-grams and of the unaries, whether log Z is finite, and whether any sequence is possible
    assert found["marginals"][0][0] <= 4


@pytest.mark.parametrize("history", [0, 1, 2])
def test_a_locally_normalised_chain_never_waits(history: int) -> None:
    with Gpu():
        found = {name: count(work) for name, work in memm_work(SHORT, history).items()}
    assert set(found.values()) == {(0, 0)}


def test_waits_are_counted() -> None:
    with Gpu():
        far = torch.arange(4.0, device=DEVICE)
        for wait in (
            lambda: float(far[0]), lambda: far.cpu(), lambda: far.nonzero(), lambda: far[far > 1], lambda: bool(far.any()),
            lambda: torch.bincount(far.long()), lambda: torch.repeat_interleave(far, far.long()),
        ):  # fmt: skip
            before = Gpu.syncs
            wait()
            assert Gpu.syncs == before + 1
        before = Gpu.uploads
        torch.ones(2).to(DEVICE)
        torch.tensor([1.0], device=DEVICE)
        assert Gpu.uploads == before + 2
        before = Gpu.syncs
        far.masked_fill(far > 1, 0.0).sum().clamp_min(1)
        assert Gpu.syncs == before
