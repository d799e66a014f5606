"""What training minimises: the loss of the chain and of a layer on the encoder, and the part of a teacher in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional

from phonechain.features.errors import SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.chain.potentials import Potentials
from phonechain.model.device import Precision
from phonechain.model.encoders.recurrent import drop, reset_linear
from phonechain.model.learning.adversarial import adversarial_loss
from phonechain.model.learning.dataset import Batch
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import ModelSettings, TrainingSettings

AUXILIARY_DROPOUT = 0.4
"""Dropout of the encoder's output before the auxiliary loss."""


@dataclass(frozen=True)
class Teacher:
    """A trained model whose answers another one learns (Hinton et al. 2015), at the temperature it was calibrated to."""

    network: ConditionalRandomField
    temperature: float

    @classmethod
    def of(cls, model: PhoneModel) -> Teacher:
        """From a model that `check_teacher` has accepted."""
        assert isinstance(model.network, ConditionalRandomField)
        return cls(model.network.eval(), model.temperature)

    def potentials(self, batch: Batch, precision: Precision = "float32") -> Potentials:
        """The teacher's log-potentials of a batch, augmented as for the student; no gradient."""
        with torch.no_grad(), _computing_in(self.network, precision):
            x = batch.x[:, : self.network.features]
            h = self.network.encode(x, batch.packing, batch.frames)
            return self.network.potentials(h, batch.packing).scale(1.0 / self.temperature)


@dataclass(frozen=True)
class Objective:
    """The loss of a batch."""

    model: SequenceNetwork
    settings: TrainingSettings
    teacher: Teacher | None = None

    def __call__(self, batch: Batch) -> tuple[Tensor, float]:
        """The loss to minimise, and the chain's part of it, per segment."""
        with _computing_in(
            self.model, self.settings.precision
        ):  # dev errors are those of answers as they will be given
            return self._compute(batch)

    def _compute(self, batch: Batch) -> tuple[Tensor, float]:
        model, settings, weight = self.model, self.settings, self.settings.teacher_weight
        whole, batch = batch, batch.reduce_to(model.features)
        noise_state = None if model.noise is None else model.noise.get_state()
        h = model.encode(batch.x, batch.packing, batch.frames)
        taught: Tensor | None = None
        starts = self._draw_starts(batch)
        if self.teacher is not None and weight:
            assert isinstance(model, ConditionalRandomField)
            potentials = self.teacher.potentials(whole, settings.precision)
            loss, taught = model.distillation_loss(h, batch.y, batch.packing, potentials, weight, starts=starts)
        elif starts is not None:
            assert isinstance(model, ConditionalRandomField)
            loss = model.loss(h, batch.y, batch.packing, starts=starts)
        else:
            loss = model.loss(h, batch.y, batch.packing)
        value = float(loss.detach())
        if model.auxiliary is not None:
            scores = model.auxiliary(drop(h, AUXILIARY_DROPOUT, True, model.noise))
            if bool((batch.y >= 0).any()):
                extra = functional.cross_entropy(scores, batch.y, label_smoothing=settings.smoothing, ignore_index=-1)
            else:  # recordings that only the teacher has answers for
                extra = scores.new_zeros(())
            if taught is not None:
                extra = (1.0 - weight) * extra + weight * functional.cross_entropy(scores, taught)
            loss = loss + settings.auxiliary * extra
            if settings.adversarial and noise_state is not None:
                loss = loss + settings.adversarial * adversarial_loss(
                    model, batch, settings.adversarial_size, noise_state
                )
        return loss, value

    def _draw_starts(self, batch: Batch) -> Tensor | None:
        """[N] where the chains of labels are cut, anew for each batch; None for whole ones."""
        if not self.settings.pieces:
            return None
        drawn = torch.rand(len(batch.y), generator=self.model.noise, device=batch.y.device)
        return drawn < 1.0 / self.settings.pieces


@contextmanager
def _computing_in(network: SequenceNetwork, precision: Precision) -> Iterator[None]:
    """Within it the network multiplies in that precision."""
    before = network.precision
    network.compute_in(precision)
    try:
        yield
    finally:
        network.compute_in(before)


def check_teacher(
    teacher: PhoneModel, settings: ModelSettings, features: FeatureSettings, labels: Sequence[str]
) -> None:
    """Raise SettingsError if a model with these settings, inputs and labels cannot learn from `teacher`."""

    def refuse(message: str) -> NoReturn:
        raise SettingsError(message, pointer="training/teacher")

    for name, chain in (("teacher", teacher.settings.chain), ("student", settings.chain)):
        if chain != "crf":
            refuse(f"expected a {name} whose chain is a crf, got {chain}")
    own = teacher.features
    if features.bands and own.bands and features.bands != own.bands:
        refuse(f"expected a system of {own.bands} bands, as its teacher, got {features.bands}")
    if not features.extend_to(own).gives_same_frames(own.extend_to(features)):
        refuse("expected a system with the feature settings of its teacher, got other ones")
    known = set(teacher.labels)
    if new := [label for label in labels if label not in known]:
        refuse(
            f"expected labels that the teacher has, got {len(new)} of {len(labels)} that it lacks: "
            f"{', '.join(new[:5])}{', ...' if new[5:] else ''}"
        )


def add_auxiliary(model: SequenceNetwork, settings: TrainingSettings) -> None:
    """The layer of the auxiliary loss, part of the model while it is trained."""
    model.auxiliary = nn.Linear(model.encoder.width, model.labels)
    reset_linear(model.auxiliary, torch.Generator().manual_seed(settings.seed))
    model.auxiliary.to(model.device)
