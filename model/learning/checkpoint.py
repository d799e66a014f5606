"""Checkpoints, written after each epoch, so that a training run that was killed continues from its last complete epoch."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from phonechain.features.errors import TrainingError
from phonechain.features.files import write_whole
from phonechain.model.settings import TrainingSettings, to_dict

CHECKPOINT = "checkpoint.safetensors"

AUXILIARY = "auxiliary."
"""Prefix of the names of weights that only training uses."""


@dataclass
class History:
    """Metrics of each epoch, and which was the best.

    Attributes:
        best_epoch: the one with the smallest dev error; 0 before the first one, and where none was better than the initial
            weights of a warm start.
        start_error, start_nll: dev error and mean negative log posterior of these weights; None without a warm start.
        kept: epoch whose weights the run ended with; 0 for the initial ones.
        stopped: why the run ended: "epochs", "patience" or "asked".
    """

    epochs: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    best_error: float = math.inf
    start_error: float | None = None
    start_nll: float | None = None
    kept: int = 0
    stopped: str = ""

    def keep_last(self) -> bool:
        """Whether the last epoch's weights are no worse on the dev set than the initial ones."""
        if self.start_error is None or self.start_nll is None or not self.epochs:
            return bool(self.epochs)
        last = self.epochs[-1]
        return (last["dev_error"], last["dev_nll"]) <= (self.start_error, self.start_nll)


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of all current weights and buffers."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def write_checkpoint(
    path: Path,
    identity: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    best: dict[str, Tensor],
    mean: dict[str, Tensor],
) -> None:
    """Write everything that the rest of the run depends on, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {f"model/{k}": v for k, v in copy_weights(model).items()} | {f"best/{k}": v for k, v in best.items()}
    tensors |= {f"mean/{k}": v.clone() for k, v in mean.items()}  # which may be the best
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{k}": torch.as_tensor(v) for k, v in state.items() if v is not None}
    contiguous = {k: v.cpu().contiguous() for k, v in tensors.items()}
    metadata = {"identity": identity, "history": json.dumps(vars(history))}
    write_whole(path, lambda spare: save_file(contiguous, spare, metadata=metadata))


def best_so_far(path: Path) -> tuple[dict[str, Tensor], History]:
    """The weights of the best epoch in a checkpoint, and the history. Raises TrainingError."""
    metadata, tensors = _read(path)
    history = History()
    vars(history).update(json.loads(metadata["history"]))
    best = {k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")}
    return {k: v for k, v in best.items() if not k.startswith(AUXILIARY)}, history


def resume(
    path: Path, identity: str, model: nn.Module, optimizer: torch.optim.Optimizer, history: History
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Give model, optimizer and history the state in a checkpoint; returns the weights of the best epoch, and the mean's.

    Raises:
        TrainingError: the checkpoint cannot be read, or is of other data or settings.
    """
    metadata, tensors = _read(path)
    if not _is_same_run(metadata.get("identity", "{}"), identity):
        raise TrainingError(
            f"the checkpoint in {path.parent.name} belongs to other data or settings: "
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
    best, mean = (
        {k.removeprefix(kind): v for k, v in tensors.items() if k.startswith(kind)} for kind in ("best/", "mean/")
    )
    return best, mean


def identify(settings: TrainingSettings, fingerprint: str) -> str:
    """What a checkpoint must have been written for: these settings, and data and model of this fingerprint."""
    return json.dumps({"training": to_dict(settings), "of": fingerprint}, sort_keys=True)


def _is_same_run(stored: str, wanted: str) -> bool:
    """Whether two identities are of one run. A setting that the stored one is too old to have had its default."""
    before, now = json.loads(stored), json.loads(wanted)
    defaults = json.loads(identify(TrainingSettings(), ""))["training"]
    return before.get("of") == now["of"] and {**defaults, **before.get("training", {})} == now["training"]


def average_weights(mean: dict[str, Tensor], model: nn.Module, count: int) -> dict[str, Tensor]:
    """The mean moved by 1 / count of the way to the model's weights; a count of 1 gives these."""
    weights = copy_weights(model)
    if count == 1:
        return weights
    return {k: mean[k] + (v - mean[k]) / count if v.is_floating_point() else v for k, v in weights.items()}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as stored:
            return stored.metadata() or {}, {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError) as error:
        raise TrainingError(f"cannot read the checkpoint {path.name}: {error}") from None
