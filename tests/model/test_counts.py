"""Expected counts of one chain in the shape of another's tables, and the cross entropy between two chains, by enumeration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phonechain.model.chain.counts import cross_entropy, expected_counts
from phonechain.model.chain.inference import Potentials, log_likelihood, log_partition
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Gradients
from tests.model.chains import TABLES, Case, make
from tests.model.oracle import log_sum_exp

KINDS = [frozenset(), {"bigram"}, {"bigram", "edge"}, {"bigram", "edge", "trigram"}, set(TABLES)]


def enumerated(student: Case, teacher: Case) -> float:
    """-sum_y q(y) log p(y) over every label sequence of every chain."""
    total = 0.0
    for n in range(len(student.lengths)):
        p, q = student.oracle(n), teacher.oracle(n)
        log_q, log_p = (o.scores - log_sum_exp(o.scores) for o in (q, p))
        total -= float((np.exp(log_q) * log_p).sum())
    return total


def counted(student: Case, teacher: Case) -> list[np.ndarray | None]:
    """What the teacher expects of each table of the student, sequence by sequence and n-gram by n-gram."""
    tables = [None if t is None else np.zeros(t.shape) for t in student.potentials.tensors()]
    unary, bigram, edge, trigram, hyperedge = tables
    assert unary is not None
    for n in range(len(student.lengths)):
        oracle, rows = teacher.oracle(n), student.rows(n)
        for path, weight in zip(oracle.sequences, np.exp(oracle.scores - log_sum_exp(oracle.scores)), strict=True):
            for t, row in enumerate(rows):
                unary[row, path[t]] += weight
                for order, shared, local in ((2, bigram, edge), (3, trigram, hyperedge)):
                    if t + 1 >= order:
                        gram = tuple(path[t + 1 - order : t + 1])
                        if shared is not None:
                            shared[gram] += weight
                        if local is not None:
                            local[(row, *gram)] += weight
    return tables


@pytest.mark.parametrize("own", KINDS, ids=lambda k: "+".join(sorted(k)) or "unary")
@pytest.mark.parametrize("other", KINDS, ids=lambda k: "+".join(sorted(k)) or "unary")
def test_counts_and_cross_entropy_between_chains_of_any_tables(own: Any, other: Any) -> None:
    student = make([4, 3, 1], 3, tables=own, size=2.0, seed=1)
    teacher = make([4, 3, 1], 3, tables=other, size=2.0, seed=2)
    counts = expected_counts(teacher.potentials, student.potentials)
    for found, wanted in zip(counts, counted(student, teacher), strict=True):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
    assert float(cross_entropy(student.potentials, counts)) == pytest.approx(enumerated(student, teacher), abs=1e-10)


@given(st.integers(0, 2**20), st.sampled_from(KINDS), st.sampled_from(KINDS), st.sampled_from([0.1, 3.0, 30.0]))
def test_drawn_chains(seed: int, own: Any, other: Any, size: float) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 5, 2).tolist()
    student = make(lengths, 3, tables=own, size=size, seed=seed)
    teacher = make(lengths, 3, tables=other, size=size, seed=seed + 1)
    value = float(cross_entropy(student.potentials, expected_counts(teacher.potentials, student.potentials)))
    assert value == pytest.approx(enumerated(student, teacher), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("tables", KINDS, ids=lambda k: "+".join(sorted(k)) or "unary")
def test_gradients_by_finite_differences(tables: Any) -> None:
    student = make([3, 2], 3, tables=tables, seed=3).potentials
    counts = expected_counts(make([3, 2], 3, tables={"bigram", "trigram"}, seed=4).potentials, student)
    names = ["unary", *(name for name in TABLES if name in tables)]
    leaves = [getattr(student, name).clone().requires_grad_() for name in names]

    def value(*given: torch.Tensor) -> torch.Tensor:
        changes: dict[str, Any] = dict(zip(names, given, strict=True))
        return cross_entropy(replace(student, **changes), counts)

    assert torch.autograd.gradcheck(value, leaves)


def test_a_teacher_that_is_certain_gives_the_likelihood_of_its_labels() -> None:
    student = make([5, 3], 3, tables={"bigram", "trigram"}, seed=5).potentials
    labels = torch.tensor([0, 1, 2, 0, 1, 1, 2, 0])
    certain = Potentials(student.packing, 1e3 * torch.nn.functional.one_hot(labels, 3).double())
    value = cross_entropy(student, expected_counts(certain, student))
    assert float(value) == pytest.approx(-float(log_likelihood(student, labels).sum()), abs=1e-9)


def test_least_where_both_are_the_same() -> None:
    """Its gradient vanishes there, and its value is the entropy."""
    student = make([4, 4], 3, tables={"bigram", "edge"}, seed=6).potentials.map(torch.Tensor.requires_grad_)
    value = cross_entropy(student, expected_counts(student.detach(), student))
    for grad in torch.autograd.grad(value, [t for t in student.tensors() if t is not None]):
        assert float(grad.abs().max()) < 1e-12


def test_no_gradient_reaches_the_teacher() -> None:
    teacher = make([3], 2, seed=7).potentials.map(torch.Tensor.requires_grad_)
    counts = expected_counts(teacher, make([3], 2, seed=8).potentials)
    assert not any(t.requires_grad for t in counts if t is not None)
    assert isinstance(counts, Gradients)


def test_a_teacher_without_any_possible_sequence_is_refused() -> None:
    packing = Packing((2,))
    impossible = Potentials(packing, torch.full((2, 2), -torch.inf))
    with pytest.raises(ValueError, match="no label sequence is possible"):
        expected_counts(impossible, Potentials(packing, torch.zeros(2, 2)))


def test_single_precision_keeps_the_small_difference_of_large_sums() -> None:
    """Log-potentials far from zero add up to thousands, and a cross entropy of a few nats is left."""
    student, teacher = (make([6] * 20, 3, tables={"bigram"}, seed=seed).potentials for seed in (9, 10))
    far = replace(student, unary=student.unary + 20.0)
    exact = float(cross_entropy(student, expected_counts(teacher, student)))
    single = far.to(torch.float32)
    assert float(log_partition(single).sum()) > 2000
    assert float(cross_entropy(single, expected_counts(teacher.to(torch.float32), single))) == pytest.approx(
        exact, rel=1e-4
    )


def test_all_sequences_of_a_batch_count_alike() -> None:
    """The shared tables hold sums over sequences: a batch's gradient is the sum of those of its sequences."""
    student, teacher = make([3, 3], 2, seed=11), make([3, 3], 2, seed=12)
    whole = student.potentials.map(torch.Tensor.requires_grad_)
    cross_entropy(whole, expected_counts(teacher.potentials, whole)).backward()
    assert whole.bigram is not None
    assert whole.bigram.grad is not None
    total = torch.zeros_like(whole.bigram)
    for n in range(2):
        alone = student.alone(n).detach().map(torch.Tensor.requires_grad_)
        cross_entropy(alone, expected_counts(teacher.alone(n), alone)).backward()
        assert alone.bigram is not None
        assert alone.bigram.grad is not None
        total += alone.bigram.grad
    torch.testing.assert_close(whole.bigram.grad, total)
