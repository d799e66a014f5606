"""The training loop: mini-batch Adam, or the paper's stochastic gradient steps of one utterance.

Everything random in an epoch comes from a generator seeded by (seed, epoch), and a checkpoint is written after each epoch.
So a run that was killed continues from its last complete epoch, and ends with the same weights as an uninterrupted one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phonechain.features.errors import SettingsError, TrainingError
from phonechain.model.device import make_generator, try_batches, try_halves
from phonechain.model.learning.checkpoint import (
    CHECKPOINT,
    History,
    average_weights,
    copy_weights,
    identify,
    resume,
    write_checkpoint,
)
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.objective import Objective, Teacher, add_auxiliary
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.networks.crf import ConditionalRandomField
from phonechain.model.settings import TrainingSettings

__all__ = ["CHECKPOINT", "History", "Progress", "dev_error", "train"]


@dataclass(frozen=True)
class Progress:
    """How far a long run is: `done` of `total` `unit`s of `stage`; `metrics` by name (loss, dev_error, epoch, ...)."""

    stage: str
    done: int
    total: int
    unit: str
    message: str = ""
    metrics: dict[str, float] = field(default_factory=dict)


def train(
    model: SequenceNetwork,
    data: Dataset,
    dev: Dataset,
    settings: TrainingSettings,
    *,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    run_dir: Path | None = None,
    fingerprint: str = "",
    warm: bool = False,
    teacher: Teacher | None = None,
) -> History:
    """Fit `model` in place; it ends with the weights of the epoch that was best on `dev`, or of the last one.

    Args:
        warm: whether the model's initial weights are usable already: they are then scored as epoch 0, and the run never ends
            with weights that are worse on `dev`, whatever `keep` says.
        teacher: a model of the same labels that reads the same inputs, whose answers are learnt too; a CRF learns from a CRF.
        stop: called before every batch; True ends the run with the result of the finished epochs.
        run_dir: folder of the checkpoint, which is written after each epoch, and read if it exists.
        fingerprint: of data and model; a checkpoint with another one is refused.

    Raises:
        TrainingError: no segments, a loss that is not finite, or a checkpoint of other settings.
        SettingsError: adversarial training without what it needs; pieces of a chain that is no CRF.

    Order, dropout and augmentation of an epoch depend on (seed, epoch) alone.
    """
    if not len(data) or not len(dev):
        raise TrainingError(f"expected labelled segments to train and to check on, got {len(data.y)} and {len(dev.y)}")
    if settings.auxiliary:
        add_auxiliary(model, settings)
    if settings.adversarial and (model.auxiliary is None or not data.x.shape[1]):
        raise SettingsError(
            "adversarial training needs an auxiliary loss and segment features: set training.auxiliary above 0, and "
            "model.encoder.pooled to true",
            pointer="training/adversarial", value=settings.adversarial,
        )  # fmt: skip
    if settings.pieces and not isinstance(model, ConditionalRandomField):
        raise SettingsError(
            "training.pieces needs a chain normalised over the sequence (crf)",
            pointer="training/pieces",
            value=settings.pieces,
        )
    optimizer = _make_optimizer(model, settings)
    rates = [group["lr"] for group in optimizer.param_groups]
    objective = Objective(model, settings, teacher)
    history, best, mean = History(), copy_weights(model), copy_weights(model)
    identity = identify(settings, fingerprint)
    if run_dir is not None and (run_dir / CHECKPOINT).exists():
        best, stored = resume(run_dir / CHECKPOINT, identity, model, optimizer, history)
        mean = stored or copy_weights(model)
    if warm and history.start_error is None:
        history.start_error, history.start_nll = dev_error(model, dev)
        history.best_error = history.start_error
    for epoch in range(len(history.epochs) + 1, settings.epochs + 1):
        if _out_of_patience(history, settings):
            break
        began = time.perf_counter()
        loss = _run_epoch(objective, data, optimizer, rates, epoch, progress, stop)
        if loss is None:
            history.stopped = "asked"
            break
        mean = average_weights(mean, model, min(epoch, settings.average))
        error, nll = _score(model, mean, dev)
        row = {
            "epoch": epoch, "loss": loss, "dev_error": error, "dev_nll": nll, "seconds": time.perf_counter() - began
        }  # fmt: skip
        history.epochs.append(row)
        if error < history.best_error:
            history.best_error, history.best_epoch, best = error, epoch, mean
        if run_dir is not None:
            averaged = mean if settings.average > 1 else {}
            write_checkpoint(run_dir / CHECKPOINT, identity, model, optimizer, history, best, averaged)
        if progress is not None:
            progress(Progress("epoch", epoch, settings.epochs, "epochs", "", row))
    history.kept = len(history.epochs)
    if settings.keep == "best" or not history.keep_last():
        history.kept, mean = history.best_epoch, best
    model.load_state_dict(mean)
    if settings.auxiliary:
        model.auxiliary = None
    model.eval()
    history.stopped = history.stopped or ("patience" if len(history.epochs) < settings.epochs else "epochs")
    return history


def _score(model: SequenceNetwork, weights: dict[str, Tensor], dev: Dataset) -> tuple[float, float]:
    """The dev error with these weights instead of the model's own, which it has again afterwards."""
    own = copy_weights(model)
    model.load_state_dict(weights)
    found = dev_error(model, dev)
    model.load_state_dict(own)
    return found


def _run_epoch(
    objective: Objective,
    data: Dataset,
    optimizer: torch.optim.Optimizer,
    rates: list[float],
    epoch: int,
    progress: Callable[[Progress], None] | None,
    stop: Callable[[], bool] | None,
) -> float | None:
    """One pass over the data: the mean loss per segment; None if `stop` ended it. Raises TrainingError."""
    model, settings = objective.model, objective.settings
    device = model.device
    random = np.random.default_rng([settings.seed, epoch])
    plan = data.plan(settings.batch, settings.segments, settings.updates, random)
    model.noise = make_generator(settings.seed * 1_000_003 + epoch, device)
    model.train()
    loss_sum, segments = 0.0, 0
    for n, chosen in enumerate(plan):
        if stop is not None and stop():
            return None
        _set_rates(optimizer, rates, settings, epoch - 1 + n / len(plan), 1 / len(plan))
        value, labelled = _compute_gradients(objective, data, chosen, random)
        if not math.isfinite(value):
            raise TrainingError(
                f"expected a finite loss, got {value} in epoch {epoch}: try a learning rate under {settings.learning_rate:g}",
                value=str(value),
            )
        if settings.clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        loss_sum, segments = loss_sum + value * labelled, segments + labelled
        if progress is not None:
            metrics = {"epoch": epoch, "loss": loss_sum / segments}
            done, total = (epoch - 1) * len(plan) + n + 1, settings.epochs * len(plan)
            progress(Progress("train", done, total, "batches", "", metrics))
    return loss_sum / segments


def _compute_gradients(
    objective: Objective,
    data: Dataset,
    chosen: NDArray[np.int64],
    random: np.random.Generator,
    share: float = 1.0,
) -> tuple[float, int]:
    """Set the gradients to `share` times those of a batch; its loss per segment, and number of labelled segments.

    Where memory is short the batch is done in halves, whose gradients add up to its own; only dropout and augmentation
    draw anew. Raises TrainingError where it does not suffice for one sequence.
    """

    model = objective.model

    def whole() -> tuple[float, int]:
        model.zero_grad(set_to_none=True)
        batch = data.batch(chosen, model.device, random)
        loss, value = objective(batch)
        if math.isfinite(value):
            (loss if share == 1.0 else loss * share).backward()
        return value, data.count_labelled(chosen)

    def halves() -> tuple[float, int]:
        if len(chosen) == 1:
            length = int(data.lengths[chosen[0]])
            raise TrainingError(f"out of memory on {model.device}: one sequence of {length} segments does not fit")
        parts = [chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]]
        total, value = sum(map(data.count_labelled, parts)), 0.0
        sums: list[Tensor | None] = [None] * len(list(model.parameters()))
        for part in parts:
            of_all = data.count_labelled(part) / total
            value += of_all * _compute_gradients(objective, data, part, random, share * of_all)[0]
            for n, parameter in enumerate(model.parameters()):
                own, known = parameter.grad, sums[n]
                sums[n] = own if known is None else known if own is None else known + own
        for parameter, grad in zip(model.parameters(), sums, strict=True):
            parameter.grad = grad
        return value, total

    return try_halves(whole, halves, model.device)


def dev_error(model: SequenceNetwork, dev: Dataset, *, batch: int = 64) -> tuple[float, float]:
    """(share of wrong answers, mean negative log posterior of the true label).

    The model's `decoding` says what its answer is: the most probable label of each segment, or the most probable sequence.

    Args:
        batch: sequences at once, fewer where memory is short.
    """
    return try_batches(lambda size: _dev_error(model, dev, size), batch, model.device)


def _dev_error(model: SequenceNetwork, dev: Dataset, batch: int) -> tuple[float, float]:
    model.eval()
    wrong, nll = 0, 0.0
    device = model.device
    with torch.no_grad():
        for b in dev.batches(batch, device=device):
            h = model.encode(b.x, b.packing, b.frames)
            posterior = model.posteriors(h, b.packing)
            answer = posterior.argmax(1) if model.decoding == "posterior" else model.decode(h, b.packing)
            wrong += int((answer != b.y).sum())
            nll -= float(posterior.gather(1, b.y[:, None]).clamp_min(1e-30).log().sum())
    return wrong / len(dev.y), nll / len(dev.y)


def _make_optimizer(model: SequenceNetwork, settings: TrainingSettings) -> torch.optim.Optimizer:
    groups = []
    encoder = model.encoder_parameters()
    vectors = [p for p in encoder if p.dim() == 1]  # biases and norms are not decayed
    rate = settings.learning_rate
    for parameters, step, decay in (
        (model.factor_parameters(), rate, settings.l2),
        (model.ngram_parameters(), rate * settings.ngram_rate, settings.ngram_l2),
        ([p for p in encoder if p.dim() > 1], rate, settings.l2),
        (vectors, rate, 0.0),
        ([] if model.auxiliary is None else list(model.auxiliary.parameters()), rate, settings.l2),
    ):
        if parameters:
            groups.append({"params": parameters, "lr": step, "weight_decay": decay})
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups)
    return torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=True)


def _set_rates(
    optimizer: torch.optim.Optimizer, rates: list[float], settings: TrainingSettings, epochs: float, step: float
) -> None:
    """Set the learning rates after `epochs` of training, where `step` is the length of one step in epochs."""
    done = epochs / settings.epochs
    factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 + 0.5 * math.cos(math.pi * done)}[settings.schedule]
    if settings.warmup:
        factor *= min(1.0, (epochs + step) / settings.warmup)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * factor


def _out_of_patience(history: History, settings: TrainingSettings) -> bool:
    return (
        settings.keep == "best"
        and bool(settings.patience)
        and len(history.epochs) - history.best_epoch >= settings.patience
    )
