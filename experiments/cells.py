"""One cell of a table: train a system on a fold, test it, say what came out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import crfsuite
from experiments.corpora import Fold, Source
from experiments.tables import Experiment
from phonechain.features.errors import SettingsError
from phonechain.model.learning.dataset import Dataset
from phonechain.model.learning.training import Progress, train
from phonechain.model.networks.build import build as build_network
from phonechain.model.settings import TrainingSettings, from_dict, stored_model, to_dict

Result = dict[str, Any]
MONITORED = 200
"""Training words whose error is shown after each epoch where there is no dev set."""


def key(experiment: Experiment, source: Source, fold: str) -> str:
    """What a result is filed under: everything that it depends on but the code."""
    return digest(experiment, source.digest, fold)


def stored_key(result: Result) -> str:
    """The key of a result that was stored earlier, by its own settings.

    A result holds the settings that there were when it was computed. Those added since would change its key, so it is made anew,
    with the values that have the meaning of then. Results of other kinds keep the key they have.

    Examples:
        >>> stored_key({"key": "little-data festvox-ru 5", "error": 0.257})
        'little-data festvox-ru 5'
    """
    try:
        experiment = Experiment(
            result["name"], result["preset"], stored_model(result["model"]), from_dict(TrainingSettings, result["training"]),
            split=result["split"], augment=result["augment"], every=result.get("every", 1),
        )  # fmt: skip
        return digest(experiment, result["corpus"], result["fold"])
    except (KeyError, SettingsError):
        return str(result["key"])


def digest(experiment: Experiment, corpus: str, fold: str) -> str:
    """The key, of a corpus with that digest."""
    facts = {
        "model": to_dict(experiment.model), "training": to_dict(experiment.training), "peer": experiment.preset == "crfsuite",
        "corpus": corpus, "split": experiment.split, "fold": fold, "augment": experiment.augment,
        "every": experiment.every,
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def run(experiment: Experiment, source: Source, fold_name: str, runs: Path, tell: Callable[[str], None]) -> Result:
    """Train and test. A run that was broken off goes on from its last epoch, whose checkpoint lies in `runs`."""
    torch.set_num_threads(1)
    normalise, split = experiment.model.normalise, experiment.split
    if fold_name == "dev":
        fold = source.choice(split, normalise=normalise, augment=experiment.augment)
    else:
        fold = source.fold(split, fold_name, normalise=normalise, augment=experiment.augment)
    if experiment.every > 1:
        fold = dataclasses.replace(fold, train=thin(fold.train, experiment.every))
    name, began, busy = key(experiment, source, fold_name), time.perf_counter(), time.process_time()
    found = _peer(fold, tell) if experiment.preset == "crfsuite" else _own(experiment, fold, runs / name, name, tell)
    return {
        "key": name, "name": experiment.name, "preset": experiment.preset, "fold": fold_name, "split": experiment.split,
        "corpus": source.digest, "seed": experiment.training.seed, "commit": commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"), "torch": torch.__version__,
        "seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(time.process_time() - busy, 1),
        "training": to_dict(experiment.training), "model": to_dict(experiment.model), "augment": experiment.augment,
        "every": experiment.every, **found,
    }  # fmt: skip


def _own(experiment: Experiment, fold: Fold, run_dir: Path, name: str, tell: Callable[[str], None]) -> Result:
    network = build_network(experiment.model, fold.train.x.shape[1], fold.labels, fold.train)
    training = experiment.training
    network.reset(torch.Generator().manual_seed(training.seed))
    dev = fold.dev
    if dev is None:  # nothing is held out: the last epoch counts, and some training words show how it goes
        training = dataclasses.replace(training, keep="last")
        dev = _first(fold.train, MONITORED)

    def progress(p: Progress) -> None:
        if p.stage == "epoch":
            m = p.metrics
            tell(
                f"{experiment.name}, {fold.name}: epoch {p.done}/{p.total}, loss {m['loss']:.4f}, "
                f"{'dev' if fold.dev is not None else 'training'} error {100 * m['dev_error']:.2f} %, {m['seconds']:.1f} s"
            )

    history = train(network, fold.train, dev, training, progress=progress, run_dir=run_dir, fingerprint=name)
    wrong, wrong_path = count_errors(network, fold.test)
    shutil.rmtree(run_dir, ignore_errors=True)
    return {
        "error": wrong / len(fold.test.y), "errors": wrong, "segments": len(fold.test.y),
        "error_viterbi": wrong_path / len(fold.test.y),
        "dev_error": None if fold.dev is None else history.best_error, "epochs": len(history.epochs),
        "parameters": sum(p.numel() for p in network.parameters()),
    }  # fmt: skip


def _peer(fold: Fold, tell: Callable[[str], None]) -> Result:
    tell(f"CRFsuite, {fold.name}")
    answer, weights = crfsuite.train_and_label(fold.train, fold.test, len(fold.labels))
    wrong = int((answer != fold.test.y).sum())
    return {
        "error": wrong / len(fold.test.y), "errors": wrong, "segments": len(fold.test.y), "dev_error": None,
        "parameters": weights,
    }  # fmt: skip


def count_errors(network: torch.nn.Module, data: Dataset) -> tuple[int, int]:
    """Segments that are answered wrong as the model decodes, and along the most probable sequence."""
    wrong = wrong_path = 0
    network.eval()
    with torch.no_grad():
        for batch in data.batches(64):
            h = network.encode(batch.x, batch.packing, batch.frames)  # type: ignore[operator]
            path = network.decode(h, batch.packing)  # type: ignore[operator]
            answer = path
            if network.decoding == "posterior":
                answer = network.posteriors(h, batch.packing).argmax(1)  # type: ignore[operator]
            wrong += int((answer != batch.y).sum())
            wrong_path += int((path != batch.y).sum())
    return wrong, wrong_path


def thin(data: Dataset, n: int) -> Dataset:
    """Every n-th sequence of segment features."""
    kept = np.arange(0, len(data), n)
    rows = np.concatenate([np.arange(data.starts[s], data.starts[s + 1]) for s in kept])
    starts = np.concatenate([[0], np.cumsum(data.lengths[kept])])
    return dataclasses.replace(data, x=data.x[rows], y=data.y[rows], starts=starts, groups=data.groups[kept])


def _first(data: Dataset, n: int) -> Dataset:
    """The first n sequences, as they are (never moved)."""
    n = min(n, len(data))
    rows = int(data.starts[n])
    return Dataset(data.x[:rows], data.y[:rows], data.starts[: n + 1], np.arange(n))


def commit() -> str:
    """Of the code that computes, with a + if files were changed since; "" where it cannot be told."""
    try:
        here = Path(__file__).parent
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", "../model", "../features", "."],
            cwd=here, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    code = [line for line in changed if line.rstrip().endswith((".py", ".toml"))]
    return head + ("+" if code else "")
