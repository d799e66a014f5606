"""PhoneLabeler: what a notebook, the command line and the service call.

labeler = PhoneLabeler(preset="spn-lc-crf").fit(utterances)
labeler.save("mine.safetensors")
PhoneLabeler.load("mine.safetensors").label(audio, segments)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import CorpusError, ModelFileError, PhonechainError, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelComparison, LabelSet
from phonechain.features.phones.readings import recognise
from phonechain.features.pooling import extract
from phonechain.features.segments import Segment, Utterance
from phonechain.model.answers import LabelledSegment, answers
from phonechain.model.chain.packing import Packing, sort_by_length
from phonechain.model.files import modelfile
from phonechain.model.learning import warm_start as tuning
from phonechain.model.learning.dataset import Dataset, Featurised, Normaliser, dataset, featurise, hold_out
from phonechain.model.learning.training import History, Progress, fit_temperature, train
from phonechain.model.networks import build as networks
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.settings import ModelSettings, Preset, TrainingSettings, from_dict, preset, stored_model, to_dict

Decoding = Literal["posterior", "viterbi"]
MAX_LABELS = 400
"""Labels that a model may tell apart: a second-order chain keeps a number for each triple of them."""


class PhoneLabeler:
    """A chain over segment features, trained on labelled utterances.

    Args:
        preset: name of the system (`phonechain.model.settings.preset_names()`), or "" to give `model` and `training` yourself.
        model, training: settings instead of the preset's.
        features: how sound becomes the 92 features.
        drop: labels that are left out of training and evaluation, the chain running across them (TIMIT's `q`).
        name, description, licence, data, limits: the model card.

    Examples:
        >>> from phonechain.features.reading import read_audio, read_segments
        >>> from phonechain.model import pretrained_path
        >>> labeler = PhoneLabeler.load(pretrained_path())
        >>> audio, segments = read_audio("samples/LJ001-0002.flac"), read_segments("samples/LJ001-0002.TextGrid")
        >>> answers = labeler.label(audio, segments, n_best=2)
        >>> answers[2].label, 0 < answers[2].posterior <= 1, len(answers[2].n_best)
        ('B', True, 2)
    """

    def __init__(
        self,
        preset_name: str = "spn-lc-crf",
        *,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
        features: FeatureSettings | None = None,
        drop: Collection[str] = (),
        name: str = "",
        description: str = "",
        licence: str = "",
        data: str = "",
        limits: str = "",
    ) -> None:
        base = preset(preset_name) if preset_name else Preset("custom")
        self.preset = base.name
        self.model = model or base.model
        self.training = training or base.training
        self.features_ = features or FeatureSettings()
        self.drop = tuple(drop)
        self.card = modelfile.Card(
            name=name, description=description or base.title, licence=licence, data=data, limits=limits
        )
        self.labels_: list[str] = []
        self.phone_set_ = ""
        self.network_: SequenceNetwork | None = None
        self.normaliser_: Normaliser | None = None
        self.temperature_ = 1.0
        self.metrics_: dict[str, Any] = {}
        self.provenance_ = modelfile.Provenance.now()
        self.version_ = ""
        self.history_ = History()
        self.start_ = ""
        self.problems_: list[tuple[Utterance, PhonechainError]] = []

    # ------------------------------------------------------------------------------------------------- learning

    def fit(
        self,
        utterances: Sequence[Utterance],
        dev: Sequence[Utterance] | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        run_dir: Path | None = None,
        cache: Path | None = None,
        base: PhoneLabeler | None = None,
        corpus: str = "",
        command: str = "",
    ) -> PhoneLabeler:
        """Learn from labelled utterances; with a `run_dir`, a run that was broken off goes on from its last epoch.

        Args:
            dev: utterances for early stopping and calibration; by default a tenth of the speakers (or utterances).
            progress: called with what is going on.
            stop: asked often; True ends the training with the best epoch so far.
            run_dir: folder of the checkpoint and of the features.
            cache: folder of the features only.
            base: a model whose weights are the start, where warm_start.obstacle finds nothing; `start_` says which.
            corpus, command: what the model file will say of where it comes from.

        Raises:
            CorpusError: nothing to train on. TrainingError: see phonechain.model.learning.training.train.

        Bad files are left out; `problems_` lists them.
        """
        if dev is None:
            utterances, dev = hold_out(utterances, 0.1, self.training.seed)
        store = cache or run_dir
        items = self._featurise(utterances, "training set", store, progress)
        held = self._featurise(dev, "dev set", store, progress)
        self.problems_ = [(i.utterance, i.error) for i in (*items, *held) if i.error is not None]
        return self.fit_featurised(
            items, held, progress=progress, stop=stop, run_dir=run_dir, base=base, corpus=corpus, command=command
        )

    def fit_featurised(
        self,
        items: Sequence[Featurised],
        dev: Sequence[Featurised],
        *,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        run_dir: Path | None = None,
        base: PhoneLabeler | None = None,
        corpus: str = "",
        command: str = "",
    ) -> PhoneLabeler:
        """As `fit`, from features that were computed before (see phonechain.model.learning.dataset.featurise)."""
        labels = sorted(
            {s.label for i in items for s in i.segments if s.label is not None and s.label not in self.drop}
        )
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
        rows = np.concatenate([i.features for i in items if i.error is None])
        base = self._start(base, labels, progress)
        if base is not None and base.normaliser_ is not None:
            labels, normaliser = base.labels_, base.normaliser_
        else:
            normaliser = Normaliser.fit(rows, by_speaker=self.model.speaker_normalised)
        data = dataset(items, labels, normaliser, drop=self.drop)
        held = dataset(dev, labels, normaliser, drop=self.drop)
        self.labels_, self.normaliser_, self.phone_set_ = labels, normaliser, recognise(labels)
        if base is not None:
            self.network_ = tuning.copied(base)
        else:
            self.network_ = networks.build(self.model, rows.shape[1], labels, data)
            self.network_.reset(torch.Generator().manual_seed(self.training.seed))
        self.history_ = train(
            self.network_, data, held, self.training,
            progress=progress, stop=stop, run_dir=run_dir,
            fingerprint=self._fingerprint(data, held) + (base.version_ if base is not None else ""),
        )  # fmt: skip
        fitted = fit_temperature(self.network_, held)
        self.temperature_ = fitted.value
        if fitted.notice and progress is not None:
            progress(Progress("calibration", 1, 1, "models", fitted.notice))
        self.metrics_ = {
            "dev_error": self.history_.best_error, "dev_segments": len(held.y), "best_epoch": self.history_.best_epoch,
            "epochs": len(self.history_.epochs), "train_segments": len(data.y),
            "temperature_low": fitted.low, "temperature_high": fitted.high,
        }  # fmt: skip
        self.provenance_ = modelfile.Provenance.now(command=command, seed=self.training.seed, corpus=corpus)
        return self

    def _start(
        self, base: PhoneLabeler | None, labels: Sequence[str], progress: Callable[[Progress], None] | None
    ) -> PhoneLabeler | None:
        """The base if its weights can be the start; `start_` says what is, and so does a report of progress."""
        if base is None:
            return None
        why = tuning.obstacle(base, self, labels)
        name = tuning.named(base)
        self.start_ = f"starts from {name}" if why is None else f"starts anew, not from {name}: {why}"
        if progress is not None:
            progress(Progress("start", 1, 1, "models", self.start_))
        return base if why is None else None

    def _featurise(
        self,
        utterances: Sequence[Utterance],
        what: str,
        cache: Path | None,
        progress: Callable[[Progress], None] | None,
    ) -> list[Featurised]:
        def tell(done: int, total: int) -> None:
            if progress is not None:
                progress(Progress("features", done, total, "utterances", what))

        items = featurise(utterances, self.features_, cache=cache, progress=tell)
        if not any(i.error is None and i.segments for i in items):
            first = next((str(i.error) for i in items if i.error is not None), "no utterances")
            raise CorpusError(
                f"expected at least one usable utterance in the {what}, got none out of {len(items)}: {first}"
            )
        return items

    def _fingerprint(self, *sets: Dataset) -> str:
        digest = hashlib.sha256(json.dumps([to_dict(self.model), self.labels_], sort_keys=True).encode())
        for data in sets:
            for array in (data.x, data.y, data.starts):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:24]

    # ------------------------------------------------------------------------------------------------- labelling

    def label(
        self, audio: Audio, segments: Sequence[Segment], *, n_best: int = 1, decode: Decoding = "posterior"
    ) -> list[LabelledSegment]:
        """The phone of each segment of one recording. Segments have to fit it: see phonechain.features.segments.prepare.

        Args:
            n_best: how many labels each segment lists.
            decode: "posterior" answers each segment's most probable label; "viterbi" the most probable sequence of labels,
                whose members may be less probable one by one.
        """
        return self.label_features(
            [extract(audio, segments, self.features_)], segments=[list(segments)], n_best=n_best, decode=decode
        )[0]

    def label_features(
        self,
        items: Sequence[NDArray[np.float32]],
        *,
        segments: Sequence[Sequence[Segment]],
        n_best: int = 1,
        decode: Decoding = "posterior",
        groups: Sequence[int] | None = None,
        comparisons: Sequence[LabelComparison] | None = None,
    ) -> list[list[LabelledSegment]]:
        """The same for several recordings at once, from their features [T, D], in one batch.

        Args:
            groups: which speaker each recording is of, for models normalised by speaker; by default each its own.
            comparisons: how each recording's given labels are compared; by default by the folding that fits them.
        """
        if decode not in ("posterior", "viterbi"):
            raise SettingsError(
                f"expected decode to be posterior or viterbi, got {decode!r}", pointer="decode", value=decode
            )
        posteriors, best = self.posteriors(items, viterbi=decode == "viterbi", groups=groups)
        if comparisons is None:
            comparisons = [self.label_set_.compare(s.label for s in each) for each in segments]
        rows = zip(posteriors, best, segments, comparisons, strict=True)
        return [answers(self.labels_, p, b, s, n_best, c) for p, b, s, c in rows]

    def posteriors(
        self, items: Sequence[NDArray[np.float32]], *, viterbi: bool = False, groups: Sequence[int] | None = None
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.int64]]]:
        """For each recording p(label | x) [T, Y], calibrated, and the label indices [T] that are answered."""
        network, normaliser = self._ready()
        kept = [n for n, f in enumerate(items) if len(f)]
        nothing = np.zeros((0, len(self.labels_)), dtype=np.float32)
        all_p, all_best = [nothing] * len(items), [np.zeros(0, dtype=np.int64)] * len(items)
        if not kept:
            return all_p, all_best
        lengths = [len(items[n]) for n in kept]
        who = np.repeat(np.arange(len(items))[kept] if groups is None else np.asarray(groups)[kept], lengths)
        x = normaliser.apply(np.concatenate([items[n] for n in kept]), who)
        order = sort_by_length(lengths)
        pieces = np.split(x, np.cumsum(lengths)[:-1])
        packing = Packing(tuple(lengths[n] for n in order))
        with torch.inference_mode():
            packed = torch.from_numpy(np.concatenate([pieces[n] for n in order]))[packing.from_concatenated]
            p = network.posteriors(packed, packing, temperature=self.temperature_)
            best = network.decode(packed, packing) if viterbi else p.argmax(1)
        for n, p_n, best_n in zip(order, packing.split(p), packing.split(best), strict=True):
            all_p[kept[n]], all_best[kept[n]] = p_n.numpy(), best_n.numpy()
        return all_p, all_best

    @property
    def label_set_(self) -> LabelSet:
        """The model's labels, as given ones are compared with them."""
        return LabelSet(tuple(self.labels_), self.phone_set_)

    def _ready(self) -> tuple[SequenceNetwork, Normaliser]:
        if self.network_ is None or self.normaliser_ is None:
            raise SettingsError(
                "expected a model that was trained or loaded, got one without weights: call fit or load"
            )
        return self.network_, self.normaliser_

    # ---------------------------------------------------------------------------------------------- the model file

    @property
    def card_(self) -> dict[str, Any]:
        """What a person should know before using the model, JSON-serialisable."""
        return {
            "name": self.card.name, "version": self.version_, "description": self.card.description,
            "preset": self.preset, "labels": self.labels_, "phone_set": self.phone_set_,
            "licence": self.card.licence, "data": self.card.data,
            "limits": self.card.limits, "metrics": self.metrics_, "temperature": self.temperature_,
            "created": self.provenance_.created, "command": self.provenance_.command, "seed": self.provenance_.seed,
            "corpus": self.provenance_.corpus, "drop": list(self.drop),
            "rate": self.features_.rate, "parameters": self.parameters_,
        }  # fmt: skip

    @property
    def parameters_(self) -> int:
        """Number of weights."""
        return 0 if self.network_ is None else sum(p.numel() for p in self.network_.parameters())

    def save(self, path: str | Path) -> PhoneLabeler:
        """Write the model file, whole or not at all."""
        network, normaliser = self._ready()
        tensors = {f"network.{k}": v.detach().contiguous() for k, v in network.state_dict().items()}
        for name in (
            "network.bigrams",
            "network.trigrams",
        ):  # label indices: four times smaller than they are in memory
            tensors[name] = tensors[name].to(torch.int16 if len(self.labels_) <= 2**15 else torch.int64)
        tensors |= {"normaliser.mean": normaliser.mean, "normaliser.std": normaliser.std}
        header = modelfile.Header(
            labels=tuple(self.labels_),
            provenance=self.provenance_,
            card=self.card,
            features=self.features_.to_dict(),
            model={
                "preset": self.preset, "model": to_dict(self.model), "training": to_dict(self.training),
                "drop": list(self.drop), "phone_set": self.phone_set_,
            },
            normaliser={"mean": "normaliser.mean", "std": "normaliser.std"},
            ngrams={"bigrams": "network.bigrams", "trigrams": "network.trigrams"},
            calibration={"temperature": self.temperature_},
            metrics=self.metrics_,
        )  # fmt: skip
        self.version_ = modelfile.write(path, tensors, header).version
        return self

    @classmethod
    def load(cls, source: str | Path | bytes, *, name: str | None = None) -> PhoneLabeler:
        """The labeler in a model file, which errors call `name` if given, else by its path.

        Raises:
            ModelFileError: not a model file, damaged, or one whose parts do not fit together.
        """
        tensors, header = modelfile.read(source, name=name)
        try:
            settings = header.model
            labeler = cls(
                "",
                model=stored_model(settings["model"]),
                training=from_dict(TrainingSettings, settings["training"]),
                features=FeatureSettings.from_dict(header.features),
                drop=[str(label) for label in settings.get("drop", ())],
            )
            labeler.preset, labeler.card = str(settings["preset"]), header.card
            labeler.labels_ = list(header.labels)
            labeler.phone_set_ = str(settings.get("phone_set", recognise(header.labels)))
            labeler.normaliser_ = networks.normaliser_of(tensors, by_speaker=labeler.model.speaker_normalised)
            labeler.temperature_ = float(header.calibration["temperature"])
            labeler.network_ = networks.restored(labeler.model, labeler.labels_, tensors)
        except (SettingsError, KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(f"expected a model file whose parts fit together, got: {reason}") from error
        labeler.metrics_, labeler.provenance_, labeler.version_ = header.metrics, header.provenance, header.version
        return labeler
