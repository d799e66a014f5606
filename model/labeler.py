"""PhoneLabeler: the interface for notebooks, the command line and the service.

labeler = PhoneLabeler(preset="spn-lc-crf").fit(utterances)
labeler.save("mine.safetensors")
PhoneLabeler.load("mine.safetensors").label(audio, segments)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phonechain.features.augmentation import WARPS
from phonechain.features.corpora.check import scarcity
from phonechain.features.errors import CorpusError, Notice, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.segments import Utterance
from phonechain.model import pretrained_path
from phonechain.model.device import Precision, choose_device
from phonechain.model.files import storage
from phonechain.model.files.header import Card, Provenance
from phonechain.model.learning import warm_start
from phonechain.model.learning.extraction import Featurised, featurise, wrap_array
from phonechain.model.learning.fitting import Run
from phonechain.model.learning.splits import hold_out, part
from phonechain.model.learning.training import Progress
from phonechain.model.presets import AUTO
from phonechain.model.settings import ModelSettings, TrainingSettings
from phonechain.model.system import SystemSelection

Array = NDArray[np.float32]


class PhoneLabeler(SystemSelection):
    """A chain over segments, trained on labelled utterances, with the interface of a scikit-learn estimator.

    The constructor only stores its arguments under their names. Attributes that `fit` or `load` set end in `_`:

        model_          the trained network with its labels, features and normaliser (`PhoneModel`)
        labels_         its labels; `classes_` is the same as an array
        features_       how sound becomes its inputs
        metrics_, history_, problems_, notices_, held_out_, start_, provenance_, version_

    Args:
        preset: name of the system (`phonechain.model.presets.preset_names()`); "auto" to choose one by its errors on parts of
            the corpus (`metrics_` lists the candidates); or "" with `model` and `training`.
        model, training: settings instead of the preset's, as an object or by name (`training={"epochs": 5}`; those left out
            have their defaults, not the preset's values). With "auto" only seed, held_out, gaps and epochs (the most) count.
        features: how sound becomes features, as an object or by name; what the encoder reads is added to it.
        drop: labels to leave out of training and evaluation, with the chain continuing across them (TIMIT's `q`).
        name, description, licence, data, limits: the model card.
        device: device to train and label on: cpu, cuda, cuda:N, or auto (a GPU if torch can use one, otherwise the CPU).

    Examples:
        >>> from phonechain.features.reading import read_audio, read_segments
        >>> from phonechain.model import pretrained_path
        >>> labeler = PhoneLabeler.load(pretrained_path())
        >>> audio, segments = read_audio("samples/LJ001-0002.flac"), read_segments("samples/LJ001-0002.TextGrid")
        >>> answers = labeler.label(audio, segments, n_best=2)
        >>> answers[2].label, 0 < answers[2].posterior <= 1, len(answers[2].n_best)
        ('B', True, 2)
    """

    _run: Run | None = None

    def __init__(
        self,
        preset: str = "spn-lc-crf",
        *,
        model: ModelSettings | Mapping[str, Any] | None = None,
        training: TrainingSettings | Mapping[str, Any] | None = None,
        features: FeatureSettings | Mapping[str, Any] | None = None,
        drop: Collection[str] = (),
        name: str = "",
        description: str = "",
        licence: str = "",
        data: str = "",
        limits: str = "",
        device: str = "auto",
    ) -> None:
        self.preset = preset
        self.model = model
        self.training = training
        self.features = features
        self.drop = drop
        self.name = name
        self.description = description
        self.licence = licence
        self.data = data
        self.limits = limits
        self.device = device

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> PhoneLabeler:
        """Change arguments of the constructor.

        Raises:
            SettingsError: no argument of that name.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise SettingsError(f"expected one of {', '.join(known)}, got {name}", pointer=name)
            setattr(self, name, value)
        return self

    def to(self, device: str) -> PhoneLabeler:
        """Move a fitted labeler to a device. Raises SettingsError, as `load`."""
        self._require_model().to(choose_device(device))
        self.device = device
        return self

    def __repr__(self) -> str:
        """The preset and, once fitted, its name, version, and numbers of labels and weights."""
        if self._model is None:
            return f"PhoneLabeler(preset={self.preset!r}, not fitted)"
        version = f", version {self.version_}" if self.version_ else ""
        return (
            f"PhoneLabeler(preset={self.preset!r}, name={self.name!r}{version}, {len(self.labels_)} labels, "
            f"{self.parameters_:,} weights)"
        )

    @property
    def title_(self) -> str:
        """What messages and cards call a model: its name and version, and which part of it is meant."""
        part = "" if self.whole_ is None else f" (the first of its {len(self.whole_.model_.settings.experts)} networks)"
        return f"{self.name or 'a model'}{f'@{self.version_}' if self.version_ else ''}{part}"

    # ------------------------------------------------------------------------------------------------- learning

    def fit(
        self,
        X: Sequence[Utterance] | Sequence[Array],
        y: Sequence[Sequence[str]] | None = None,
        dev: Sequence[Utterance] | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        run_dir: Path | None = None,
        cache: Path | None = None,
        base: PhoneLabeler | None = None,
        teacher: PhoneLabeler | None = None,
        corpus: str = "",
        command: str = "",
    ) -> PhoneLabeler:
        """Learn from labelled utterances; with a `run_dir`, an interrupted run continues from its last epoch.

        Args:
            X: utterances with labelled segments; or, with `y`, the features [T, D] of each sequence's segments.
            y: the labels of each sequence's segments.
            dev: utterances for early stopping and calibration; by default a tenth of the speakers (or utterances).
            progress: called with the progress.
            stop: called often; True ends the training with the best epoch so far.
            run_dir: folder for the checkpoint and the features.
            cache: folder for the features only.
            base: a model to start from: its weights, or its encoder's, are used where they fit; `start_` says which.
            teacher: a model from whose answers to learn as well (`training.teacher_weight`). It must know the corpus's labels
                and have the same feature settings; its normaliser is used.
            corpus, command: provenance for the model file.

        Raises:
            CorpusError: nothing to train on. TrainingError: see model.learning.training.train.

        Bad files are left out; `problems_` lists them.
        """
        auto = self.preset == AUTO
        training = self._training_settings or TrainingSettings() if auto else self.system.training
        base = self._base_of(base)
        store = cache or run_dir
        notices: list[Notice] = []
        if y is not None:
            arrays = [wrap_array(n, x, labels) for n, (x, labels) in enumerate(zip(X, y, strict=True))]  # type: ignore[arg-type]
            train, held = hold_out([a.utterance for a in arrays], training.held_out, training.seed)
            by_id = {a.utterance.id: a for a in arrays}
            items, held_items = [by_id[u.id] for u in train], [by_id[u.id] for u in held]
        else:
            utterances: Sequence[Utterance] = X  # type: ignore[assignment]
            if (little := scarcity(utterances)) is not None:
                notices.append(little)
                if progress is not None:
                    progress(Progress("notice", 1, 1, "models", little.message))
            if dev is None and len(utterances) == 1:
                first, second = part(utterances[0], training.held_out)
                utterances, dev = [first], [second]
            elif dev is None:
                utterances, dev = hold_out(utterances, training.held_out, training.seed, ends=True)
            features = self._features_to_extract(base)
            read = features if teacher is None else features.extend_to(teacher.features_)
            items = self._featurise(utterances, read, "training set", store, progress, warped=True)
            held_items = self._featurise(dev, features, "dev set", store, progress)
            self.held_out_ = tuple(dev)
        self.problems_ = [(i.utterance, i.error) for i in (*items, *held_items) if i.error is not None]
        return self.fit_featurised(
            items, held_items, progress=progress, stop=stop, run_dir=run_dir, base=base, teacher=teacher, corpus=corpus,
            command=command, notices=notices,
        )  # fmt: skip

    def fit_featurised(
        self,
        items: Sequence[Featurised],
        dev: Sequence[Featurised],
        *,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        run_dir: Path | None = None,
        base: PhoneLabeler | None = None,
        teacher: PhoneLabeler | None = None,
        corpus: str = "",
        command: str = "",
        notices: Sequence[Notice] = (),
    ) -> PhoneLabeler:
        """As `fit`, from computed features (see model.learning.extraction.featurise).

        `notices` are those of the corpus, and precede those of the training in `notices_`.
        """
        base = self._base_of(base)
        root = self._root_features(base)
        as_is, start = None, base
        if self.preset == AUTO:
            as_is, start = self._choose(items, base, root, progress, stop, run_dir)
        settings = self.system
        run = self._run = Run(
            settings.model, settings.training, settings.model.encoder.features(root), tuple(self.drop),
            device=choose_device(self.device),
        )  # fmt: skip
        run.notices += notices
        if start is not None:
            run.base, run.base_name, run.base_version = start._model, start.title_, start.version_
        if teacher is not None:
            if base is not None:  # with the preset auto there is always one
                raise SettingsError("expected a base or a teacher, got both", pointer="training/teacher")
            run.teacher, run.teacher_name, run.teacher_version = (
                teacher._require_model(),
                teacher.title_,
                teacher.version_,
            )
        if not self._base_is_chosen:
            run.fit(items, dev, progress=progress, stop=stop, run_dir=run_dir)
        if as_is is not None:
            run.notices += as_is.notices()
        if as_is is not None and not as_is.obstacle and self._keep_base(as_is, run, dev, progress):
            run.notices[:0] = notices
            corpus = self._take_card(base)
        self._adopt(run, Provenance.now(command=command, seed=settings.training.seed, corpus=corpus))
        return self

    def trainable(self) -> PhoneLabeler:
        """The labeler that training can continue from: this one or, for a product of experts, that of the first expert."""
        model = self._require_model()
        if not model.settings.experts:
            return self
        first = model.expert(0)
        made = PhoneLabeler(
            self.preset, model=first.settings, training=self.training, features=first.features, drop=self.drop,
            name=self.name, description=self.description, licence=self.licence, data=self.data, limits=self.limits,
            device=self.device,
        )  # fmt: skip
        made._model, made.version_, made.provenance_, made.whole_ = first, self.version_, self.provenance_, self
        return made

    def _take_card(self, base: PhoneLabeler | None) -> str:
        """Say of this labeler what is known of the base whose weights it has; returns what that was trained on."""
        if base is None:
            return ""
        whole = base.whole_ or base
        self.description = self.description or f"{whole.title_} as it is"
        self.licence, self.data = self.licence or whole.licence, self.data or whole.data
        self.limits = self.limits or whole.limits
        return whole.provenance_.corpus

    def recover(self, run_dir: Path) -> bool:
        """After an interrupted `fit`, take the weights of its best complete epoch; False if there was none.

        Its posteriors are not calibrated; its card says so.

        Raises:
            TrainingError: the checkpoint cannot be read.
        """
        if self._run is None or self._run.model is None:
            return False
        history = warm_start.recover(self._run.model, run_dir)
        if history is None:
            return False
        self._run.history = history
        self._run.metrics = {
            "dev_error": history.best_error, "best_epoch": history.best_epoch, "epochs": len(history.epochs),
        }  # fmt: skip
        said = f"Training was broken off after epoch {len(history.epochs)}; the posteriors are not calibrated."
        self.limits = f"{self.limits} {said}".strip()
        self._adopt(self._run, Provenance.now(seed=self._run.training.seed))
        return True

    def _adopt(self, run: Run, provenance: Provenance) -> None:
        if self.preset == AUTO and self._choice is not None:
            run.metrics["candidates"] = self._choice.table
        self._model = run.model
        self.history_, self.metrics_, self.start_, self.notices_ = run.history, run.metrics, run.start, run.notices
        self.provenance_, self.version_ = provenance, ""

    def _base_of(self, base: PhoneLabeler | None) -> PhoneLabeler | None:
        """The model to go on from: the shipped one competes where a system is chosen and no other is named."""
        if base is None and self.preset == AUTO:
            base = PhoneLabeler.load(pretrained_path(), device=self.device)
        if base is not None:
            base._require_model()
        return base.trainable() if base is not None and self.preset == AUTO else base

    def _featurise(
        self,
        utterances: Sequence[Utterance],
        features: FeatureSettings,
        what: str,
        cache: Path | None,
        progress: Callable[[Progress], None] | None,
        warped: bool = False,
    ) -> list[Featurised]:
        def tell(done: int, total: int) -> None:
            if progress is not None:
                progress(Progress("features", done, total, "utterances", what))

        augmentation = None if self.preset == AUTO else self.system.training.augmentation
        warps = WARPS if warped and features.pooled and augmentation is not None and augmentation.warp else ()
        clipping = augmentation if warped and features.bands and augmentation and augmentation.clipping else None
        items = featurise(utterances, features, warps=warps, clipping=clipping, cache=cache, progress=tell)
        if not any(i.error is None and i.segments for i in items):
            first = next((str(i.error) for i in items if i.error is not None), "no utterances")
            raise CorpusError(
                f"expected at least one usable utterance in the {what}, got none out of {len(items)}: {first}"
            )
        return items

    # ---------------------------------------------------------------------------------------------- the model file

    @property
    def card_(self) -> dict[str, Any]:
        """The model card: what users should know, JSON-serialisable."""
        model = self._require_model()
        return {
            "name": self.name, "version": self.version_, "description": self.description or self.system.title,
            "preset": self.preset, "labels": model.labels, "phone_set": model.phone_set, "licence": self.licence, "data": self.data,
            "limits": self.limits, "metrics": self.metrics_, "temperature": model.temperature, "calibration": self.calibration_,
            "created": self.provenance_.created, "command": self.provenance_.command, "seed": self.provenance_.seed,
            "corpus": self.provenance_.corpus, "drop": list(self.drop), "rate": model.features.rate,
            "encoder": model.settings.encoder_kind, "normalise": model.settings.normalise, "parameters": model.parameters,
        }  # fmt: skip

    def save(self, path: str | Path) -> PhoneLabeler:
        """Write the model file atomically."""
        settings = self.system
        card = Card(self.name, self.description or settings.title, self.licence, self.data, self.limits)
        self.version_ = storage.save_model(
            path, self._require_model(), preset=settings.name, training=settings.training, drop=tuple(self.drop),
            card=card, provenance=self.provenance_, metrics=self.metrics_,
        )  # fmt: skip
        return self

    @classmethod
    def load(
        cls,
        source: str | Path | bytes,
        *,
        name: str | None = None,
        device: str = "auto",
        precision: Precision = "float32",
    ) -> PhoneLabeler:
        """Load the labeler from a model file onto a device. Errors call the file `name`; by default, by its path.

        `precision` is that of the products of encoder and factors (see `phonechain.model.device.multiply_in`): with bfloat16,
        posteriors change by up to 0.01.

        Raises:
            ModelFileError: not a model file, a damaged one, or one whose parts do not fit together.
            SettingsError: a device that torch does not have.
        """
        chosen = choose_device(device)
        model, training, header = storage.load_model(source, name=name)
        card = header.card
        labeler = cls(
            str(header.model.get("preset", "")), model=model.settings, training=training, features=model.features,
            drop=tuple(str(label) for label in header.model.get("drop", ())), name=card.name,
            description=card.description, licence=card.licence, data=card.data, limits=card.limits, device=device,
        )  # fmt: skip
        labeler._model = model.to(chosen)
        model.network.compute_in(precision)
        labeler.metrics_, labeler.provenance_, labeler.version_ = header.metrics, header.provenance, header.version
        return labeler
