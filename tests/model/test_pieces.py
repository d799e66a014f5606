"""Structure regularisation: a chain that is cut has the likelihood of its pieces; training so learns, repeats and resumes."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from phonechain.features.errors import SettingsError
from phonechain.model.chain.inference import log_likelihood
from phonechain.model.chain.packing import Packing
from phonechain.model.chain.potentials import Potentials
from phonechain.model.learning.objective import Objective, Teacher
from phonechain.model.learning.training import dev_error, train
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.settings import FactorSettings
from tests.model.chains import TABLES, make
from tests.model.test_training import CRF, MEMM, QUICK, data, end_after, network, same, weights

WINDOWS = dataclasses.replace(
    CRF, factors=(*CRF.factors, FactorSettings(kind="perceptron", segments=2, labels=2, units=5))
)
SETTINGS = dataclasses.replace(QUICK, pieces=3.0)


def by_hand(potentials: Potentials, labels: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """The sum of the pieces' log-likelihoods, one piece at a time."""
    total = torch.zeros((), dtype=torch.float64)
    for sequence, length in enumerate(potentials.packing.lengths):
        rows = potentials.packing.rows_of(sequence)
        cuts = [0, *(t for t in range(1, length) if starts[rows[t]]), length]
        for begin, end in pairwise(cuts):
            own = rows[begin:end]
            edge, hyperedge = (None if x is None else x[own] for x in (potentials.edge, potentials.hyperedge))
            piece = Potentials(
                Packing((end - begin,)), potentials.unary[own], potentials.bigram, edge, potentials.trigram, hyperedge
            )
            total = total + log_likelihood(piece, labels[own]).sum()
    return total


@pytest.mark.parametrize("tables", [{"bigram"}, {"edge", "bigram"}, {"trigram", "edge"}, set(TABLES)])
def test_pieces_have_the_likelihood_and_gradient_of_sequences_of_their_own(tables: set[str]) -> None:
    given = make([7, 5, 5, 2, 1], 3, tables=tables, seed=3).potentials
    random = torch.Generator().manual_seed(4)
    labels = torch.randint(3, (20,), generator=random)
    for share in (0.0, 0.4, 1.0):
        starts = torch.rand(20, generator=random) < share
        whole, again = (given.map(lambda t: t.clone().requires_grad_()) for _ in range(2))
        cut, rows = whole.cut(starts)
        value, wanted = log_likelihood(cut, labels[rows]).sum(), by_hand(again, labels, starts)
        assert sorted(rows.tolist()) == list(range(20))
        assert float(value.detach()) == pytest.approx(float(wanted.detach()), abs=1e-9)
        value.backward()
        wanted.backward()
        for a, b in zip(whole.tensors(), again.tensors(), strict=True):
            if a is not None and b is not None and b.grad is not None:
                torch.testing.assert_close(torch.zeros_like(a) if a.grad is None else a.grad, b.grad, atol=1e-9, rtol=0)


def test_a_piece_of_one_segment_is_classified_alone_with_its_whole_window() -> None:
    model, batch = network(WINDOWS).eval(), data(12, 3).batch(np.arange(12))
    assert isinstance(model, ConditionalRandomField)
    unary = model.potentials(batch.x, batch.packing).unary
    loss = model.loss(batch.x, batch.y, batch.packing, starts=torch.ones(len(batch.y), dtype=torch.bool))
    assert float(loss.detach()) == pytest.approx(float(functional.cross_entropy(unary, batch.y).detach()), rel=1e-5)


def test_cuts_are_as_frequent_as_asked_for() -> None:
    model = network(WINDOWS)
    objective = Objective(model, dataclasses.replace(SETTINGS, pieces=4.0))
    batch = data(2000, 5).batch(np.arange(2000))
    model.noise = torch.Generator().manual_seed(1)
    first, second = objective._draw_starts(batch), objective._draw_starts(batch)
    assert first is not None
    assert second is not None
    assert not torch.equal(first, second)
    assert float(first.float().mean()) == pytest.approx(0.25, abs=0.02)
    assert Objective(model, QUICK)._draw_starts(batch) is None


def test_gaps_and_a_teacher_go_with_pieces() -> None:
    """A teacher's cross entropy is that of whole sequences."""
    model, batch = network(WINDOWS), data(12, 3).batch(np.arange(12))
    train(model, data(60, 1), data(40, 2), QUICK)
    gaps = dataclasses.replace(batch, y=torch.where(torch.arange(len(batch.y)) % 3 == 0, -1, batch.y))
    taught = network(WINDOWS, seed=5).eval()
    assert isinstance(taught, ConditionalRandomField)

    def value(weight: float, pieces: float) -> float:
        model.noise = torch.Generator().manual_seed(2)
        settings = dataclasses.replace(QUICK, teacher_weight=weight, pieces=pieces)
        return Objective(model, settings, Teacher(taught, 1.0))(gaps)[1]

    assert value(1.0, 2.0) == value(1.0, 0.0)
    assert value(0.5, 2.0) == pytest.approx(0.5 * (value(0.0, 2.0) + value(1.0, 0.0)), rel=1e-5)
    assert value(0.0, 2.0) != pytest.approx(value(0.0, 0.0), rel=1e-3)


def test_it_learns_repeats_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole, again, broken, other = network(WINDOWS), network(WINDOWS), network(WINDOWS), network(WINDOWS)
    before = dev_error(whole, data(40, 2))
    train(whole, data(60, 1), data(40, 2), SETTINGS)
    train(again, data(60, 1), data(40, 2), SETTINGS)
    train(other, data(60, 1), data(40, 2), QUICK)

    with pytest.raises(KeyboardInterrupt):
        train(broken, data(60, 1), data(40, 2), SETTINGS, run_dir=tmp_path, progress=end_after(2))
    resumed = network(WINDOWS)
    train(resumed, data(60, 1), data(40, 2), SETTINGS, run_dir=tmp_path)
    assert same(weights(whole), weights(again))
    assert same(weights(whole), weights(resumed))
    assert not same(weights(whole), weights(other))
    assert dev_error(whole, data(40, 2))[1] < 0.8 * before[1]


def test_what_has_no_pieces_is_refused() -> None:
    with pytest.raises(SettingsError, match="pieces needs a chain normalised over the sequence"):
        train(network(MEMM), data(60, 1), data(40, 2), SETTINGS)
    with pytest.raises(SettingsError, match="expected pieces between 1"):
        dataclasses.replace(QUICK, pieces=0.5)
