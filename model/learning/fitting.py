"""From the features of utterances to a trained, calibrated model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phonechain.features.errors import CorpusError, Notice, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.readings import recognise
from phonechain.model.device import CPU
from phonechain.model.files.header import MAX_LABELS
from phonechain.model.files.storage import halve_weights
from phonechain.model.learning.checkpoint import History
from phonechain.model.learning.dataset import Dataset, dataset
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.learning.objective import Teacher, check_teacher
from phonechain.model.learning.temperature import fit_temperature
from phonechain.model.learning.training import Progress, train
from phonechain.model.learning.warm_start import (
    choose_start,
    copy_network,
    extend_network,
    matching_expert,
    new_labels,
    scale_step,
)
from phonechain.model.networks.build import build
from phonechain.model.phone_model import PhoneModel
from phonechain.model.settings import ModelSettings, TrainingSettings, to_dict


@dataclass
class Run:
    """A training run: its settings, and its result.

    Attributes:
        base, base_name, base_version: a model to start from.
        teacher, teacher_name, teacher_version: a model to learn from; its labels, front end and normaliser are taken over. One
            of the two may read frames or segment features that the other does not.
        device: where it is computed.
        start: what was taken from the base, or is learnt from a teacher, in words.
        model: set when training begins; trained and calibrated at the end.
        notices: what a person should know about the result.
    """

    settings: ModelSettings
    training: TrainingSettings
    features: FeatureSettings
    drop: Collection[str] = ()
    base: PhoneModel | None = None
    base_name: str = ""
    base_version: str = ""
    teacher: PhoneModel | None = None
    teacher_name: str = ""
    teacher_version: str = ""
    start: str = ""
    device: torch.device = CPU
    model: PhoneModel | None = None
    history: History = field(default_factory=History)
    metrics: dict[str, Any] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def fit(
        self,
        items: Sequence[Featurised],
        dev: Sequence[Featurised],
        *,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        run_dir: Path | None = None,
    ) -> PhoneModel:
        """Train on `items`, with `dev` for early stopping and calibration.

        Raises:
            CorpusError: nothing to train on. TrainingError: see `train`.
            SettingsError: gaps = "sum" with a locally normalised chain; a base or a teacher that does not fit.
        """
        sum_gaps = self.training.gaps == "sum"
        if sum_gaps and self.settings.chain != "crf":
            raise SettingsError(
                f'gaps = "sum" needs a chain normalised over the sequence (crf), this one is {self.settings.chain}',
                pointer="training/gaps", value="sum",
            )  # fmt: skip
        labels = labels_of(items, self.drop)
        read = self.features if self.teacher is None else self.features.extend_to(self.teacher.features)
        items, dev = (
            [replace(i, inputs=i.inputs.reduce_to(features)) for i in part]
            for part, features in ((items, read), (dev, self.features))
        )
        kind = "none"
        if self.base is not None:
            self.base = matching_expert(self.base, self.settings).on(CPU)  # where new networks are made of it
            kind, self.start = choose_start(self.base, self.base_name, self.settings, self.features, labels)
            if progress is not None:
                progress(Progress("start", 1, 1, "models", self.start))
        teacher = None
        if self.teacher is not None:
            check_teacher(self.teacher, self.settings, self.features, labels)
            teacher, labels = Teacher.of(self.teacher.on(self.device)), self.teacher.labels
            self.start = f"learns from {self.teacher_name} ({100 * self.training.teacher_weight:g} % of the loss)"
            if progress is not None:
                progress(Progress("start", 1, 1, "models", self.start))
        good = [i.inputs for i in items if i.error is None and len(i.inputs)]
        if self.teacher is not None:
            own = Normaliser.fit_inputs(good, read, normalise=self.settings.normalise)
            normaliser = own.take_over(self.teacher.normaliser)
        elif kind == "none" or self.base is None:
            normaliser = Normaliser.fit_inputs(good, self.features, normalise=self.settings.normalise)
        else:
            normaliser = self.base.normaliser
            if kind in ("all", "labels"):
                labels = [*self.base.labels, *new_labels(self.base, labels)]
        data = dataset(
            items, labels, normaliser, drop=self.drop, features=read, augmentation=self.training.augmentation,
            cut=True, gaps=sum_gaps, unlabelled=sum_gaps and self.teacher is not None and self.training.teacher_weight > 0,
        )  # fmt: skip
        normaliser = normaliser.reduce_to(self.features)
        held = dataset(dev, labels, normaliser, drop=self.drop, features=self.features)
        if kind == "all" and self.base is not None:
            network = copy_network(self.base)
        elif kind == "labels" and self.base is not None:
            network = extend_network(self.base, labels, data, torch.Generator().manual_seed(self.training.seed))
        else:
            network = build(self.settings, len(normaliser.mean), labels, data)
            network.reset(torch.Generator().manual_seed(self.training.seed))
            if kind == "encoder" and self.base is not None:
                network.encoder.load_state_dict(self.base.network.encoder.state_dict())
        self.model = PhoneModel(
            self.settings, self.features, list(labels), normaliser, network, phone_set=recognise(labels)
        ).to(self.device)
        labelled = int((data.y >= 0).sum())
        warm = kind in ("all", "labels")
        training = scale_step(self.training, labelled) if warm else self.training
        self.history = train(
            network, data, held, training, progress=progress, stop=stop, run_dir=run_dir,
            fingerprint=fingerprint(self.settings, labels, data, held) + self.base_version + self.teacher_version, warm=warm,
            teacher=teacher,
        )  # fmt: skip
        if (kept := self._base_notice(len(held.y))) is not None:
            self._tell(kept, progress)
        halve_weights(self.model)
        fitted = fit_temperature(network, held)
        self.model.temperature = fitted.value
        if fitted.notice and self.base is not None and not self.history.kept:
            self.model.temperature = self.base.temperature  # of the same weights, from more data
        if fitted.notice:
            self._tell(Notice("calibration-unsettled", fitted.notice), progress)
        self.metrics = self._metrics(len(held.y)) | {
            "train_segments": labelled, "temperature_low": fitted.low, "temperature_high": fitted.high,
        }  # fmt: skip
        return self.model

    def _metrics(self, dev_segments: int) -> dict[str, Any]:
        history = self.history
        error = history.epochs[history.kept - 1]["dev_error"] if history.kept else history.best_error
        found = {
            "dev_error": error, "dev_segments": dev_segments, "best_epoch": history.kept, "epochs": len(history.epochs)
        }  # fmt: skip
        return found if history.start_error is None else {**found, "start_error": history.start_error}

    def _base_notice(self, dev_segments: int) -> Notice | None:
        """A notice where training made the base worse; None where it did not."""
        history = self.history
        if history.start_error is None or history.kept == len(history.epochs):
            return None
        if history.kept and self.training.keep == "best":
            return None
        base = f"the base ({100 * history.start_error:.1f} % errors on the {dev_segments} segments of the dev set)"
        if history.kept:
            return Notice("last-epoch-worse", f"the last epoch was worse than {base}: epoch {history.kept} is kept")
        return Notice("base-kept", f"no epoch was better than {base}: the model keeps its weights")

    def _tell(self, notice: Notice, progress: Callable[[Progress], None] | None) -> None:
        self.notices.append(notice)
        if progress is not None:
            progress(Progress("notice", 1, 1, "models", notice.message))


def labels_of(items: Sequence[Featurised], drop: Collection[str]) -> list[str]:
    """The labels of the items, sorted.

    Raises:
        CorpusError: fewer than two, or more than `MAX_LABELS`.
    """
    labels = sorted({s.label for i in items for s in i.segments if s.label is not None and s.label not in drop})
    if len(labels) < 2:
        raise CorpusError(
            f"expected at least 2 different labels to train on, got {len(labels)}"
            + (f" ({labels[0]})" if labels else "; are the segments labelled?"),
            value=len(labels), limit=2,
        )  # fmt: skip
    if len(labels) > MAX_LABELS:
        raise CorpusError(
            f"expected at most {MAX_LABELS} different labels, got {len(labels)} ({', '.join(labels[:5])}, ...): "
            "is it the right tier?",
            value=len(labels), limit=MAX_LABELS,
        )  # fmt: skip
    return labels


def fingerprint(settings: ModelSettings, labels: Sequence[str], *sets: Dataset) -> str:
    """Hash of everything, apart from the training settings, that a checkpoint depends on."""
    digest = hashlib.sha256(json.dumps([to_dict(settings), list(labels)], sort_keys=True).encode())
    for data in sets:
        arrays = [data.x, data.y, data.starts]
        if data.frames is not None:
            arrays += [data.frames.values, data.frames.times, data.frames.clipped]
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:24]
