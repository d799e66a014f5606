"""Virtual adversarial training (Miyato et al. 2019): a label should not change where the features of segments change a little."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from phonechain.model.learning.dataset import Batch
from phonechain.model.networks.base import SequenceNetwork

PROBE = 0.5
"""Length of the random change from which the worst direction is found."""


def adversarial_loss(model: SequenceNetwork, batch: Batch, size: float, noise_state: Tensor) -> Tensor:
    """KL divergence per segment of the auxiliary layer's answers under the worst small change of the features from those without.

    The worst change is approximated by one step along the gradient of the divergence, from a random direction. All three
    encodings have the same dropout, so that only the change tells them apart.

    Args:
        size: length of the change of each segment's features.
        noise_state: state of the model's noise before the batch was encoded.
    """
    assert model.noise is not None
    x = batch.x
    later = model.noise.get_state()
    with torch.no_grad():
        target = _answers(model, batch, x, noise_state)
    model.noise.set_state(later)
    probe = torch.randn(x.shape, generator=model.noise, device=x.device, dtype=x.dtype)
    later = model.noise.get_state()
    probe = (PROBE * _unit(probe)).requires_grad_()
    (direction,) = torch.autograd.grad(_divergence(target, _answers(model, batch, x + probe, noise_state)), probe)
    found = _divergence(target, _answers(model, batch, x + size * _unit(direction), noise_state))
    model.noise.set_state(later)
    return found


def _answers(model: SequenceNetwork, batch: Batch, x: Tensor, noise_state: Tensor) -> Tensor:
    """[N, Y] log-probabilities of the auxiliary layer for features `x`."""
    assert model.noise is not None
    assert model.auxiliary is not None
    model.noise.set_state(noise_state)
    scores: Tensor = model.auxiliary(model.encode(x, batch.packing, batch.frames))
    return functional.log_softmax(scores, 1)


def _divergence(target: Tensor, answers: Tensor) -> Tensor:
    return functional.kl_div(answers, target, log_target=True, reduction="batchmean")


def _unit(rows: Tensor) -> Tensor:
    """[N, D] of length 1 each."""
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
