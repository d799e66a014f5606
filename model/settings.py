"""The settings of models and of their training, as plain values: read from presets, and stored in model files."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from phonechain.features.augmentation import AugmentationSettings
from phonechain.features.errors import SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.device import Precision

Covariance = Literal["shared", "diagonal", "full"]
T = TypeVar("T")


def _within(settings: Any, name: str, low: float, high: float) -> None:
    value = getattr(settings, name)
    if not low <= value <= high:
        raise SettingsError(
            f"expected {name} between {low} and {high}, got {value}", pointer=name, value=value, limit=[low, high]
        )


@dataclass(frozen=True)
class FactorSettings:
    """One input-dependent factor.

    Attributes:
        kind: function that scores a window.
        segments: m, segments in the window: 1 is the labelled one, 2 adds the one before, 3 also the one after.
        labels: n, consecutive labels that the factor scores; with 2 and 3, only n-grams seen in training.
        window: position of the window of a factor over n > 1 labels: it ends with the last of them ("last", as in the paper), or
            is centred on the last of them ("around").
        centred: whether a factor over n > 1 labels is 0 when its weights are zero, as for n-grams never seen. Otherwise seen
            n-grams start with the log of the number of hidden assignments, a prior that grows with the factor.
        layers: L, layers of the SPN.
        products: I, children per hidden state of the SPN.
        states: H, hidden states of the SPN, or components of the Gaussian mixture.
        operator: sum or max over the SPN's hidden states.
        covariance: covariance of the Gaussian mixture.
        units: hidden units of a DRBM or perceptron.
        dropout: share of the window's features set to zero in training.
        scale: standard deviation of the initial weights.
    """

    kind: Literal["linear", "spn", "gaussian", "hidden-units", "perceptron"] = "spn"
    segments: int = 1
    labels: int = 1
    window: Literal["last", "around"] = "last"
    centred: bool = False
    layers: int = 2
    products: int = 2
    states: int = 3
    operator: Literal["sum", "max"] = "sum"
    covariance: Covariance = "shared"
    units: int = 100
    dropout: float = 0.0
    scale: float = 0.02

    def __post_init__(self) -> None:
        for name, low, high in (
            ("segments", 1, 9), ("labels", 1, 3), ("layers", 1, 3), ("products", 1, 16), ("states", 1, 64), ("units", 1, 4096)
        ):  # fmt: skip
            _within(self, name, low, high)
        _within(self, "dropout", 0.0, 0.95)
        if self.labels > self.segments and self.labels > 1:
            raise SettingsError(
                f"expected a factor over {self.labels} labels to see as many segments, got segments = {self.segments}",
                pointer="segments", value=self.segments, limit=self.labels,
            )  # fmt: skip


@dataclass(frozen=True)
class EncoderSettings:
    """The network before the factors (phonechain.model.encoders).

    Attributes:
        kind: "none", as in the paper: factors see the segment features themselves; "segments": a recurrent network over the
            segments; "frames": one over log-mel frames, pooled by segment, followed by one over the segments.
        pooled: whether the 92 features of a segment are used together with the frames; without frames they always are.
        bands: log-mel bands of a frame.
        channels: channels of the two convolutions over frames; the second halves the rate.
        frame_units: units per direction of the recurrent network over frames.
        frame_layers: layers of the recurrent network over frames.
        width: width of the projection that the recurrent network over segments reads.
        segment_units: units per direction of the recurrent network over segments.
        segment_layers: layers of the recurrent network over segments.
        input_dropout: share of the 92 features set to zero in training.
        convolution_dropout: share of each convolution's output set to zero in training.
        frame_dropout: share of the frame network's output set to zero in training.
        dropout: share of the projection, and of what layers over segments pass on, set to zero in training.
    """

    kind: Literal["none", "segments", "frames"] = "none"
    pooled: bool = True
    bands: int = 40
    channels: int = 96
    frame_units: int = 96
    frame_layers: int = 1
    width: int = 192
    segment_units: int = 192
    segment_layers: int = 1
    input_dropout: float = 0.2
    convolution_dropout: float = 0.1
    frame_dropout: float = 0.2
    dropout: float = 0.4

    def __post_init__(self) -> None:
        for name, low, high in (
            ("bands", 13, 128), ("channels", 1, 1024), ("frame_units", 1, 1024), ("frame_layers", 1, 4), ("width", 1, 2048),
            ("segment_units", 1, 2048), ("segment_layers", 1, 4),
        ):  # fmt: skip
            _within(self, name, low, high)
        for name in ("input_dropout", "convolution_dropout", "frame_dropout", "dropout"):
            _within(self, name, 0.0, 0.95)

    def features(self, base: FeatureSettings) -> FeatureSettings:
        """The feature settings of a model with this encoder: `base` with exactly the inputs that the encoder reads."""
        framed = self.kind == "frames"
        return dataclasses.replace(base, pooled=self.pooled or not framed, bands=self.bands if framed else 0)


@dataclass(frozen=True)
class ModelSettings:
    """A chain, its factors and their encoder.

    Attributes:
        encoder: the network before the factors.
        chain: "crf", normalised over the sequence, or "memm", normalised at each position.
        factors: the input-dependent factors; their log-potentials are added.
        bigram, trigram: input-independent label n-gram weights: none, one for every possible n-gram, or one for each seen one.
        history: previous labels that the MEMM sees, M - 1 in the paper; not used by the CRF.
        history_dropout: share of those labels hidden in training, so that the MEMM does not rely on labels that may be wrong
            when it is used.
        input_scale: what the MEMM multiplies the factors' scores by in use, as speech recognisers weigh acoustic scores against a
            language model's. Below 1, a label that later labels contradict is dropped more easily. Chosen on held-out data.
        normalise: what features are normalised over: "model", the training set; "speaker", each speaker's recordings (or a
            single recording) as well; "any": training draws one of these for each utterance, so that users may choose.
        experts: settings of separately trained models that label together (phonechain.model.combination); their encoders,
            factors and n-grams are then used instead of those here.
    """

    chain: Literal["crf", "memm"] = "crf"
    factors: tuple[FactorSettings, ...] = (FactorSettings(),)
    bigram: Literal["none", "dense", "sparse"] = "dense"
    trigram: Literal["none", "dense", "sparse"] = "none"
    history: int = 1
    history_dropout: float = 0.0
    input_scale: float = 1.0
    normalise: Literal["model", "speaker", "any"] = "model"
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    experts: tuple[ModelSettings, ...] = ()

    def __post_init__(self) -> None:
        if any(e.experts or e.chain != "crf" or self.chain != "crf" for e in self.experts):
            raise SettingsError("expected experts that are CRFs, and no products themselves", pointer="experts")
        _within(self, "history", 0, 16)
        _within(self, "history_dropout", 0.0, 0.95)
        _within(self, "input_scale", 0.01, 100.0)
        if not self.factors:
            raise SettingsError("expected at least one factor, got none", pointer="factors")
        if not any(f.labels == 1 for f in self.factors):
            raise SettingsError("expected a factor that scores single labels (labels = 1), got none", pointer="factors")

    @property
    def order(self) -> int:
        """Markov order of the CRF: the length of the largest label n-gram minus one, at least 1."""
        if self.experts:
            return max(expert.order for expert in self.experts)
        return 2 if self.trigram != "none" or any(f.labels == 3 for f in self.factors) else 1

    @property
    def encoder_kind(self) -> str:
        """Kind of the encoder; with experts, the kinds of all of theirs."""
        return " + ".join(e.encoder.kind for e in self.experts) if self.experts else self.encoder.kind

    @property
    def bands(self) -> int:
        """Log-mel bands of the frames that the model reads; 0 if it reads none."""
        return max(e.encoder.bands if e.encoder.kind == "frames" else 0 for e in (self, *self.experts))


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained.

    Attributes:
        optimizer: "adam" on mini-batches, or "sgd" (the paper's, one utterance per step); changing to "sgd" also sets batch 1,
            learning_rate 0.2, ngram_rate 1 and l2 0 unless these are given.
        learning_rate: learning rate of the factors' weights.
        ngram_rate: learning rate of the n-gram weights, as a multiple of `learning_rate`.
        l2: strength rho of the penalty rho/2 |w|^2 on factor weights; with Adam, decoupled weight decay.
        ngram_l2: the same for n-gram weights; factors over n-grams use `l2`.
        batch: most utterances, or pieces of long ones, per step.
        segments: most segments per step. Longer recordings are cut in silences, or else anywhere.
        updates: fewest steps per epoch, where possible: batches of a small corpus are made smaller.
        held_out: share of the speakers (or utterances) that is held out if no dev set is given.
        epochs: most passes over the training set.
        patience: epochs without a better dev error before training stops; 0 never stops early.
        schedule: learning rate over the epochs: constant, or falling to zero along a line or a half cosine.
        warmup: epochs over which the learning rate first rises from zero.
        auxiliary: weight of a second loss, the cross entropy of a linear layer on the encoder, which is not stored.
        smoothing: label smoothing of that loss.
        adversarial: weight of a third loss, of virtual adversarial training: how much the answers of that layer change where the
            features of the segments change a little, in the worst direction. An epoch then takes two to three times as long.
        adversarial_size: length of that change; a segment's features have one of about 10.
        pieces: mean number of segments of the pieces into which the chain of labels is cut in training (CRFs only), at random
            places drawn anew in each epoch (structure regularisation, Sun 2014). Encoder and factors see the whole recording,
            and answers are those of the whole chain. 0 cuts nothing.
        teacher_weight: share of the loss that compares the chain's distribution over label sequences with the teacher's, where
            there is a teacher; the rest is the likelihood of the labels.
        augmentation: how training changes its input.
        keep: weights to keep at the end: those of the best epoch on the dev set, or of the last one.
        average: epochs over which the scored and kept weights are a mean, older ones counting less and less: after each epoch it
            moves by 1 / average of the way to the new weights; 1 takes the weights as they are.
        clip: largest norm of the gradient (0: no limit).
        gaps: treatment of unlabelled segments in training: "split" ends a sequence there; "sum" (CRFs only) keeps them and sums
            over their labels, so that the likelihood is that of the labels that are known. With a teacher, recordings without
            any label are then learnt from too.
        base_step: learning rate of a warm start from all weights of a base: "scaled" with the number of segments, from a
            twentieth up to the full rate at 20,000 segments (half an hour), or "full".
        precision: of the numbers that the products of the encoder and the factors multiply: "float32", or "bfloat16", which
            can be faster on processors with units for it (AMX, GPUs). Weights, sums of the chain, and models are of 32 bits.
        seed: seed of weights, order and dropout.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 2e-3
    ngram_rate: float = 30.0
    l2: float = 0.0
    ngram_l2: float = 0.0
    batch: int = 32
    segments: int = 2000
    updates: int = 40
    held_out: float = 0.1
    epochs: int = 15
    patience: int = 5
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    keep: Literal["best", "last"] = "best"
    average: int = 1
    clip: float = 0.0
    warmup: float = 0.0
    auxiliary: float = 0.0
    smoothing: float = 0.0
    adversarial: float = 0.0
    adversarial_size: float = 1.0
    pieces: float = 0.0
    teacher_weight: float = 0.5
    gaps: Literal["split", "sum"] = "split"
    base_step: Literal["scaled", "full"] = "scaled"
    precision: Precision = "float32"
    seed: int = 1
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)

    def __post_init__(self) -> None:
        _within(self, "learning_rate", 1e-8, 10.0)
        _within(self, "ngram_rate", 0.0, 1e4)
        for name in ("l2", "ngram_l2", "clip", "warmup", "auxiliary", "adversarial", "adversarial_size"):
            _within(self, name, 0.0, 1e6)
        if self.pieces:
            _within(self, "pieces", 1.0, 1e6)
        _within(self, "smoothing", 0.0, 0.9)
        _within(self, "teacher_weight", 0.0, 1.0)
        _within(self, "held_out", 0.001, 0.9)
        for name, low, high in (
            ("batch", 1, 100_000),
            ("segments", 1, 1_000_000),
            ("updates", 1, 100_000),
            ("epochs", 1, 100_000),
            ("patience", 0, 100_000),
            ("average", 1, 1000),
            ("seed", 0, 2**31),
        ):
            _within(self, name, low, high)


SGD: Mapping[str, Any] = {"batch": 1, "learning_rate": 0.2, "ngram_rate": 1.0, "l2": 0.0}
"""What `replace` also sets with `optimizer = "sgd"` by default, for the presets' rates and decay suit Adam. (After three epochs on
150 sentences of festvox-ru, `spn-lc-crf` has a dev error of 98.4 % with those, 22.8 % with SGD's, 34.4 % with Adam.)"""


def to_dict(settings: Any) -> dict[str, Any]:
    """A settings object as JSON-serialisable values."""
    return dataclasses.asdict(settings)


def from_dict(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """A settings object from plain values. Raises SettingsError with the setting and what was expected.

    Examples:
        >>> from_dict(TrainingSettings, {"epochs": 20, "schedule": "cosine"}).schedule
        'cosine'
    """
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise SettingsError(
            f"expected a table of settings at {where.rstrip('/') or 'the top'}, got {values!r}",
            pointer=where.rstrip("/"), value=values,
        )  # fmt: skip
    if cls is ModelSettings and isinstance(
        values.get("speaker_normalised"), bool
    ):  # as files of 2026 and before say it
        values = {k: v for k, v in values.items() if k != "speaker_normalised"} | (
            {"normalise": "speaker"} if values["speaker_normalised"] else {}
        )
    for key in values:
        if key not in names:
            raise SettingsError(
                f"expected one of the settings {', '.join(names)}, got {where}{key}", pointer=where + key, value=key
            )
    converted = {key: _convert(hints[key], value, where + key) for key, value in values.items()}
    try:
        return cls(**converted)
    except SettingsError as error:  # of __post_init__, which does not know where this object stands
        place = where + (error.pointer or "")
        raise SettingsError(str(error), pointer=place.rstrip("/"), value=error.value, limit=error.limit) from None


def stored_model(values: Mapping[str, Any]) -> ModelSettings:
    """The settings in a model file's header; those missing in an older file keep the meaning they had when it was written."""
    factors = values.get("factors", ())
    if all(isinstance(factor, Mapping) for factor in factors):
        values = {**values, "factors": [_with_old_meaning(factor) for factor in factors]}
    return from_dict(ModelSettings, values)


def _with_old_meaning(factor: Mapping[str, Any]) -> dict[str, Any]:
    # up to two segments, and over one label, both windows are the same one
    differs = factor.get("labels", 1) > 1 and factor.get("segments", 1) > 2
    return {"window": "around" if differs else "last", "centred": False, **factor}


def replace(settings: T, changes: Mapping[str, Any]) -> T:
    """A copy with some settings changed; values may be strings, as they come from a command line ("l2" -> "0.001").

    Examples:
        >>> replace(TrainingSettings(), {"epochs": "20"}).epochs
        20
    """
    current = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}  # type: ignore[arg-type]
    if isinstance(settings, TrainingSettings) and changes.get("optimizer") == "sgd" != settings.optimizer:
        changes = {**SGD, **changes}
    return from_dict(type(settings), {**current, **changes})


def _convert(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_dict(hint, value, where + "/")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in arguments:
            return value
        raise SettingsError(
            f"expected {where} to be one of {', '.join(map(str, arguments))}, got {value!r}", pointer=where, value=value
        )
    if origin is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(_convert(arguments[0], v, f"{where}/{n}") for n, v in enumerate(value))
        raise SettingsError(f"expected {where} to be a list, got {value!r}", pointer=where)
    if origin is types.UnionType:
        return None if value is None else _convert(next(a for a in arguments if a is not type(None)), value, where)
    try:
        if hint is bool:
            if isinstance(value, bool):
                return value
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[str(value).lower()]
        if hint is int:
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            return int(value)
        if hint is float:
            if isinstance(value, bool):
                raise ValueError
            return float(value)
        return str(value)
    except (ValueError, TypeError, KeyError):
        raise SettingsError(
            f"expected {where} to be of type {hint.__name__}, got {value!r}", pointer=where, value=value
        ) from None
