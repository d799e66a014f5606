"""Virtual adversarial training: the change is the worst of its size, the loss teaches, nothing of it stays in the model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional

from phonechain.features.errors import SettingsError
from phonechain.model.learning.adversarial import adversarial_loss
from phonechain.model.learning.dataset import Batch
from phonechain.model.learning.objective import Objective, add_auxiliary
from phonechain.model.learning.training import dev_error, train
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.settings import EncoderSettings
from tests.model.test_training import CRF, QUICK, data, network, same, weights

RECURRENT = dataclasses.replace(CRF, encoder=EncoderSettings(kind="segments", width=12, segment_units=8))
SETTINGS = dataclasses.replace(QUICK, auxiliary=0.3, adversarial=1.0, adversarial_size=0.5)


def trained() -> SequenceNetwork:
    model = network(RECURRENT)
    train(model, data(60, 1), data(40, 2), dataclasses.replace(QUICK, auxiliary=0.3))
    add_auxiliary(model, SETTINGS)
    assert model.auxiliary is not None
    torch.nn.init.normal_(model.auxiliary.weight, generator=torch.Generator().manual_seed(3))
    model.train()
    return model


def divergence(model: SequenceNetwork, batch: Batch, change: torch.Tensor, seed: int) -> float:
    """KL divergence of the auxiliary layer's answers, computed on its own, with the dropout of that seed."""
    answers = []
    for x in (batch.x, batch.x + change):
        model.noise = torch.Generator().manual_seed(seed)
        assert model.auxiliary is not None
        with torch.no_grad():
            answers.append(functional.softmax(model.auxiliary(model.encode(x, batch.packing, batch.frames)), 1))
    before, after = answers
    return float((before * (before / after).log()).sum(1).mean())


@pytest.mark.parametrize("size", [0.1, 1.0])
def test_the_change_is_worse_than_random_ones_of_its_size(size: float) -> None:
    model, batch = trained(), data(40, 5).batch(np.arange(40))
    model.noise = torch.Generator().manual_seed(11)
    worst = float(adversarial_loss(model, batch, size, model.noise.get_state()).detach())
    draw = torch.Generator().manual_seed(12)
    for _ in range(20):
        change = torch.randn(batch.x.shape, generator=draw)
        change = size * change / change.norm(dim=1, keepdim=True)
        assert 0 <= divergence(model, batch, change, 11) < 0.8 * worst


def test_no_change_has_no_loss_although_there_is_dropout() -> None:
    model, batch = trained(), data(10, 5).batch(np.arange(10))
    model.noise = torch.Generator().manual_seed(11)
    assert float(adversarial_loss(model, batch, 0.0, model.noise.get_state()).detach()) == pytest.approx(0, abs=1e-6)


def test_its_weight_multiplies_it_in_the_whole_loss() -> None:
    batch, losses = data(10, 5).batch(np.arange(10)), {}
    model = trained()
    for weight in (0.0, 1.0, 3.0):
        model.noise = torch.Generator().manual_seed(4)
        loss, chain = Objective(model, dataclasses.replace(SETTINGS, adversarial=weight))(batch)
        losses[weight] = (float(loss.detach()), chain)
    own = losses[1.0][0] - losses[0.0][0]
    assert own > 1e-3
    assert losses[3.0][0] - losses[0.0][0] == pytest.approx(3 * own, rel=1e-4)
    assert len({chain for _, chain in losses.values()}) == 1


def test_training_with_it_learns_repeats_and_leaves_a_plain_model() -> None:
    models = [network(RECURRENT) for _ in range(2)]
    before = dev_error(models[0], data(40, 2))
    for model in models:
        train(model, data(60, 1), data(40, 2), SETTINGS)
    assert same(weights(models[0]), weights(models[1]))
    assert dev_error(models[0], data(40, 2))[0] < 0.7 * before[0]
    plain = network(RECURRENT)
    train(plain, data(60, 1), data(40, 2), dataclasses.replace(SETTINGS, adversarial=0.0))
    assert weights(plain).keys() == weights(models[0]).keys()
    assert not same(weights(plain), weights(models[0]))


def test_without_an_auxiliary_loss_it_is_refused() -> None:
    with pytest.raises(SettingsError, match="needs an auxiliary loss and segment features") as caught:
        train(network(), data(20, 1), data(10, 2), dataclasses.replace(SETTINGS, auxiliary=0.0))
    assert caught.value.pointer == "training/adversarial"
