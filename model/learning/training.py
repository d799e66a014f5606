"""The training loop: mini-batch Adam, or the paper's stochastic gradient steps of one utterance.

Everything random in an epoch comes from a generator seeded by (seed, epoch), and a checkpoint is written after each epoch:
a run that was killed goes on from its last whole epoch and ends with the weights of an unbroken one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy import optimize
from torch import Tensor, nn

from phonechain.features.errors import TrainingError
from phonechain.features.files import write_whole
from phonechain.model.learning.dataset import Dataset
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.settings import TrainingSettings, to_dict

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Progress:
    """Where a long run stands: `done` of `total` `unit`s of `stage`; `metrics` by name (loss, dev_error, epoch, ...)."""

    stage: str
    done: int
    total: int
    unit: str
    message: str = ""
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass
class History:
    """What each epoch brought, and the best one. `stopped` says why the run ended: "epochs", "patience" or "asked"."""

    epochs: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    best_error: float = math.inf
    stopped: str = ""


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
) -> History:
    """Fit `model` in place; it ends with the weights of the epoch that was best on `dev`, or of the last.

    Args:
        stop: asked before every batch; True ends the run with what the finished epochs gave.
        run_dir: where the checkpoint is written after each epoch, and read from if it is there.
        fingerprint: of data and model; a checkpoint of another one is refused.

    Raises:
        TrainingError: no segments, a loss that is not finite, or a checkpoint of other settings.
    """
    if not len(data) or not len(dev):
        raise TrainingError(f"expected labelled segments to train and to check on, got {len(data.y)} and {len(dev.y)}")
    device = next(model.parameters()).device
    optimizer = _optimizer(model, settings)
    rates = [group["lr"] for group in optimizer.param_groups]
    history, best = History(), _copy(model)
    steps = -(-len(data) // settings.batch)
    total = steps * settings.epochs
    identity = json.dumps({"training": to_dict(settings), "of": fingerprint}, sort_keys=True)
    if run_dir is not None and (run_dir / CHECKPOINT).exists():
        best = _resume(run_dir / CHECKPOINT, identity, model, optimizer, history)
    for epoch in range(len(history.epochs) + 1, settings.epochs + 1):
        if _finished(history, settings):
            break
        generator = torch.Generator(device).manual_seed(settings.seed * 1_000_003 + epoch)
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(data))
        model.noise = generator
        model.train()
        began, loss_sum, segments = time.perf_counter(), 0.0, 0
        for n, batch in enumerate(data.batches(settings.batch, order=order, device=device)):
            if stop is not None and stop():
                history.stopped = "asked"
                break
            _set_rates(optimizer, rates, settings, (epoch - 1 + n / steps) / settings.epochs)
            optimizer.zero_grad(set_to_none=True)
            loss = model.loss(batch.x, batch.y, batch.packing)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise TrainingError(
                    f"expected a finite loss, got {value} in epoch {epoch}: try a learning rate under {settings.learning_rate:g}",
                    value=str(value),
                )
            loss.backward()
            if settings.clip:
                nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            loss_sum, segments = loss_sum + value * batch.packing.rows, segments + batch.packing.rows
            if progress is not None:
                metrics = {"epoch": epoch, "loss": loss_sum / segments}
                progress(Progress("train", (epoch - 1) * steps + n + 1, total, "batches", "", metrics))
        if history.stopped:
            break
        error, nll = dev_error(model, dev)
        row = {
            "epoch": epoch, "loss": loss_sum / segments, "dev_error": error, "dev_nll": nll,
            "seconds": time.perf_counter() - began,
        }  # fmt: skip
        history.epochs.append(row)
        if error < history.best_error:
            history.best_error, history.best_epoch, best = error, epoch, _copy(model)
        if run_dir is not None:
            _checkpoint(run_dir / CHECKPOINT, identity, model, optimizer, history, best)
        if progress is not None:
            progress(Progress("epoch", epoch, settings.epochs, "epochs", "", row))
    if settings.keep == "best":
        model.load_state_dict(best)
    model.eval()
    history.stopped = history.stopped or ("patience" if len(history.epochs) < settings.epochs else "epochs")
    return history


def dev_error(model: SequenceNetwork, dev: Dataset, *, batch: int = 64) -> tuple[float, float]:
    """(share of segments that are answered wrong, mean negative log posterior of the right label).

    The answer is what the model's `decoding` says: the label most probable by itself, or that of the most probable sequence.
    """
    model.eval()
    wrong, nll = 0, 0.0
    device = next(model.parameters()).device
    with torch.no_grad():
        for b in dev.batches(batch, device=device):
            posterior = model.posteriors(b.x, b.packing)
            answer = posterior.argmax(1) if model.decoding == "posterior" else model.decode(b.x, b.packing)
            wrong += int((answer != b.y).sum())
            nll -= float(posterior.gather(1, b.y[:, None]).clamp_min(1e-30).log().sum())
    return wrong / len(dev.y), nll / len(dev.y)


@dataclass(frozen=True)
class Temperature:
    """The temperature that a dev set asks for.

    Attributes:
        value: at which its posteriors have the least negative log-likelihood; 1 where there is no such temperature.
        low, high: a 95 % interval (sequences are taken as independent); None where there is no such temperature.
        notice: what to tell where the dev set cannot settle it, else "".
    """

    value: float
    low: float | None = None
    high: float | None = None
    notice: str = ""


def fit_temperature(model: SequenceNetwork, dev: Dataset, *, batch: int = 64) -> Temperature:
    """The temperature at which the posteriors on `dev` are most honest: Brent's method on its logarithm, without walls."""
    model.eval()
    device = next(model.parameters()).device
    batches = list(dev.batches(batch, device=device))

    def surprise(log_temperature: float) -> NDArray[np.float64]:
        """[S] negative log posterior of the labels of each sequence, longest first."""
        if abs(log_temperature) > _FARTHEST:
            return np.full(len(dev), np.inf)
        sums = []
        with torch.no_grad():
            for b in batches:
                p = model.posteriors(b.x, b.packing, temperature=math.exp(log_temperature))
                rows = -p.gather(1, b.y[:, None]).double().clamp_min(1e-30).log()[:, 0]
                sums.append(rows.new_zeros(len(b.packing.lengths)).index_add(0, b.packing.sequence, rows))
        return np.nan_to_num(torch.cat(sums).cpu().numpy(), nan=np.inf)

    def total(log_temperature: float) -> float:
        return float(surprise(log_temperature).sum())

    try:
        low, middle, high, *_ = optimize.bracket(total, 0.0, 0.5, grow_limit=2.0, maxiter=50)
        found = optimize.minimize_scalar(total, (low, middle, high), method="brent", options={"xtol": 1e-3})
        best = float(found.x)
        before, at, after = (surprise(best + step) for step in (-_STEP, 0.0, _STEP))
    except (RuntimeError, ValueError):  # nothing to bracket: the same at every temperature
        return Temperature(1.0, notice=_unsettled(dev, "their posteriors are the same at every temperature"))
    curvature = float((before - 2 * at + after).sum()) / _STEP**2
    slopes = (after - before) / (2 * _STEP)
    if not (abs(best) < _FARTHEST - 1 and 1e-6 < curvature < math.inf):
        return Temperature(1.0, notice=_unsettled(dev, "the likelihood rises without end"))
    # the spread of an M-estimate: each sequence's slope counts once, for the segments of one err together
    spread = 1.96 * math.sqrt(float((slopes**2).sum())) / curvature
    fit = Temperature(math.exp(best), math.exp(best - spread), math.exp(min(best + spread, _FARTHEST)))
    if spread > math.log(_WIDE):
        between = f"it lies between {fit.low:.2g} and {fit.high:.2g}"
        return replace(fit, notice=_unsettled(dev, between))
    return fit


_FARTHEST, _STEP, _WIDE = 12.0, 0.05, 1.5
"""Log temperature past which nothing is computed; step of its derivatives; widest interval, as a factor either way, that
goes without a notice."""


def _unsettled(dev: Dataset, why: str) -> str:
    return (
        f"The dev set ({len(dev.y)} segments in {len(dev)} sequences) is too small to fit the temperature: {why}. "
        "Posteriors may be too high or too low."
    )


def _optimizer(model: SequenceNetwork, settings: TrainingSettings) -> torch.optim.Optimizer:
    groups = []
    for parameters, rate, decay in (
        (model.factor_parameters(), settings.learning_rate, settings.l2),
        (model.ngram_parameters(), settings.learning_rate * settings.ngram_rate, settings.ngram_l2),
    ):
        if parameters:
            groups.append({"params": parameters, "lr": rate, "weight_decay": decay})
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups)
    return torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=True)


def _set_rates(optimizer: torch.optim.Optimizer, rates: list[float], settings: TrainingSettings, done: float) -> None:
    factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 + 0.5 * math.cos(math.pi * done)}[settings.schedule]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * factor


def _finished(history: History, settings: TrainingSettings) -> bool:
    return (
        settings.keep == "best"
        and bool(settings.patience)
        and len(history.epochs) - history.best_epoch >= settings.patience
    )


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _checkpoint(
    path: Path,
    identity: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    best: dict[str, Tensor],
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {f"model/{k}": v for k, v in _copy(model).items()} | {f"best/{k}": v for k, v in best.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{k}": torch.as_tensor(v) for k, v in state.items() if v is not None}
    contiguous = {k: v.contiguous() for k, v in tensors.items()}
    metadata = {"identity": identity, "history": json.dumps(vars(history))}
    write_whole(path, lambda spare: save_file(contiguous, spare, metadata=metadata))


def best_so_far(path: Path) -> tuple[dict[str, Tensor], History]:
    """The weights of the best epoch in a checkpoint, and what each epoch brought. Raises TrainingError."""
    metadata, tensors = _read_checkpoint(path)
    history = History()
    vars(history).update(json.loads(metadata["history"]))
    return {k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")}, history


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as stored:
            return stored.metadata() or {}, {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError) as error:
        raise TrainingError(f"expected a checkpoint at {path.name}, got a file that cannot be read: {error}") from None


def _resume(
    path: Path, identity: str, model: nn.Module, optimizer: torch.optim.Optimizer, history: History
) -> dict[str, Tensor]:
    metadata, tensors = _read_checkpoint(path)
    if metadata.get("identity") != identity:
        raise TrainingError(
            f"expected the checkpoint in {path.parent.name} to be of the same data and settings, got one of others: "
            "use another run directory, or remove this one"
        )
    vars(history).update(json.loads(metadata["history"]))
    history.stopped = ""
    model.load_state_dict({k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")})
    state = optimizer.state_dict()
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            _, number, key = name.split("/")
            state["state"].setdefault(int(number), {})[key] = value
    optimizer.load_state_dict(state)
    return {k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")}
