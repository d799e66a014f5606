"""A trained or loaded labeler: its attributes, which end in `_` as in scikit-learn, and labelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phonechain.features.audio.reader import Audio
from phonechain.features.errors import CorpusError, Notice, PhonechainError, SettingsError
from phonechain.features.inputs import Inputs, extract_inputs, from_array
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelComparison, LabelSet
from phonechain.features.segments import Segment, Utterance
from phonechain.model.answers import LabelledSegment
from phonechain.model.files.header import Provenance
from phonechain.model.learning.checkpoint import History
from phonechain.model.learning.extraction import featurise
from phonechain.model.learning.normaliser import Mode, Normaliser
from phonechain.model.learning.temperature import describe
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.phone_model import Decoding, PhoneModel
from phonechain.model.sequences import SequenceAnswer, find_spans

Array = NDArray[np.float32]


class FittedLabeler:
    """The attributes that `fit` and `load` set, and labelling, which needs them. Before, properties raise SettingsError."""

    _model: PhoneModel | None = None
    version_ = ""
    start_ = ""
    metrics_: dict[str, Any] = {}  # noqa: RUF012  (replaced, never changed)
    history_ = History()
    problems_: list[tuple[Utterance, PhonechainError]] = []  # noqa: RUF012
    held_out_: tuple[Utterance, ...] = ()
    notices_: list[Notice] = []  # noqa: RUF012
    provenance_ = Provenance("")

    def _require_model(self) -> PhoneModel:
        if self._model is None:
            raise SettingsError("the labeler has no weights yet: call fit or load")
        return self._model

    @property
    def model_(self) -> PhoneModel:
        """The trained network with everything that it needs. Raises SettingsError before training."""
        return self._require_model()

    @property
    def labels_(self) -> list[str]:
        """The model's labels, in the order of the posteriors' columns."""
        return self._require_model().labels

    @property
    def phone_set_(self) -> str:
        """Name of the labels' phone set, or ""."""
        return self._require_model().phone_set

    @property
    def label_set_(self) -> LabelSet:
        """The model's labels, for comparison with given ones."""
        return self._require_model().label_set

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The labels as an array, under scikit-learn's name."""
        return np.asarray(self.labels_)

    @property
    def network_(self) -> SequenceNetwork:
        """The network."""
        return self._require_model().network

    @property
    def device_(self) -> torch.device:
        """Where the model computes."""
        return self._require_model().device

    @property
    def normaliser_(self) -> Normaliser:
        """The training set's statistics."""
        return self._require_model().normaliser

    @property
    def features_(self) -> FeatureSettings:
        """How sound becomes the model's inputs."""
        return self._require_model().features

    @property
    def temperature_(self) -> float:
        """Temperature of the posteriors."""
        return self._require_model().temperature

    @property
    def calibration_(self) -> str:
        """How the temperature was fitted, in a sentence; "" if the model file does not say."""
        return describe(self.temperature_, self.metrics_)

    @property
    def parameters_(self) -> int:
        """Number of weights."""
        return 0 if self._model is None else self._model.parameters

    # ------------------------------------------------------------------------------------------------- labelling

    def label(
        self,
        audio: Audio,
        segments: Sequence[Segment],
        *,
        n_best: int = 1,
        decode: Decoding = "posterior",
        normalise: str | None = None,
    ) -> list[LabelledSegment]:
        """The phone of each segment of one recording. Segments have to fit it: see features.segment_checks.prepare.

        Args:
            n_best: how many labels each segment lists.
            decode: "posterior" gives each segment's most probable label; "viterbi" the most probable sequence of labels, whose
                labels may be less probable individually.
            normalise: "recording", over this recording, or "model", over the training set only, so that no answer depends on
                distant sound; by default the first if the model was trained for it.
        """
        return self.label_inputs(
            [extract_inputs(audio, segments, self.features_)],
            segments=[list(segments)], n_best=n_best, decode=decode, normalise=normalise,
        )[0]  # fmt: skip

    def label_inputs(
        self,
        items: Sequence[Inputs],
        *,
        segments: Sequence[Sequence[Segment]],
        n_best: int = 1,
        decode: Decoding = "posterior",
        groups: Sequence[int] | None = None,
        normalise: str | None = None,
        comparisons: Sequence[LabelComparison] | None = None,
        support: bool = False,
    ) -> list[list[LabelledSegment]]:
        """The same for several recordings in one batch, from their inputs.

        Args:
            groups: number of each recording's speaker; by default each recording is normalised by itself.
            comparisons: how each recording's given labels are compared; by default with the folding that fits them.
            support: whether to compute the probability that given labels are right in view of all others (`given_support`),
                in a second pass of the model; not for a MEMM.
        """
        if decode not in ("posterior", "viterbi"):
            raise SettingsError(
                f"expected decode to be posterior or viterbi, got {decode!r}", pointer="decode", value=decode
            )
        mode, own = self._normalisation(normalise, groups)
        return self._require_model().label(
            items,
            segments,
            n_best=n_best,
            decode=decode,
            groups=own,
            mode=mode,
            comparisons=comparisons,
            support=support,
        )

    def posteriors(
        self,
        items: Sequence[Inputs] | Sequence[Array],
        *,
        viterbi: bool = False,
        groups: Sequence[int] | None = None,
        normalise: str | None = None,
        evidence: Sequence[Array] | None = None,
    ) -> tuple[list[Array], list[NDArray[np.int64]]]:
        """For each recording the calibrated p(label | x) [T, Y], and the label indices [T] of the answer.

        The posteriors include `evidence` on the labels, log p(g_t | y_t) [T, Y] (see model.support).
        """
        mode, own = self._normalisation(normalise, groups)
        inputs = [i if isinstance(i, Inputs) else from_array(i) for i in items]
        return self._require_model().posteriors(inputs, viterbi=viterbi, groups=own, mode=mode, evidence=evidence)

    def label_sequence(self, audio: Audio, segments: Sequence[Segment], *, n_best: int = 5) -> SequenceAnswer:
        """The labels of one recording as a sequence: its probability, the n most probable sequences, and the entropy.

        Given labels are compared through the folding that fits them; one that means several of the model's counts as missing.

        Raises:
            CorpusError: no segments.
        """
        found = self.label_set_.compare([s.label for s in segments])
        given = [-1] * len(segments)
        for n, s in enumerate(segments):
            members = found.classes[found.targets[s.label]] if s.label is not None and s.label in found.targets else ()
            given[n] = members[0] if len(members) == 1 else -1
        item, mode = self._sequence_inputs(audio, segments), self.normalisation(None)
        return self._require_model().label_sequence(item, n_best=n_best, given=given, mode=mode)

    def word_confidences(
        self, audio: Audio, segments: Sequence[Segment], words: Sequence[Segment]
    ) -> list[float | None]:
        """For each word the probability that all answered labels in it are right; None where no segment lies in it.

        Raises:
            CorpusError: no segments. SettingsError: a chain that cannot say it (MEMM).
        """
        item, spans = self._sequence_inputs(audio, segments), find_spans(segments, words)
        confidences = iter(
            self._require_model().span_probabilities(
                item, [(a, b) for a, b in spans if a < b], self.normalisation(None)
            )
        )
        return [next(confidences) if a < b else None for a, b in spans]

    def hidden_states(self, audio: Audio, segments: Sequence[Segment]) -> list[list[NDArray[np.float32]]]:
        """Posteriors of the hidden variables of each factor, given the answered labels (see model.sequences.hidden_states).

        Raises:
            CorpusError: no segments. SettingsError: a chain that has no such posteriors (MEMM).
        """
        return self._require_model().hidden_states(self._sequence_inputs(audio, segments), self.normalisation(None))

    def _sequence_inputs(self, audio: Audio, segments: Sequence[Segment]) -> Inputs:
        self._require_model()
        if not segments:
            raise CorpusError("expected at least one segment, got none")
        return extract_inputs(audio, list(segments), self.features_)

    def normalisation(self, normalise: str | None = None, *, known_speakers: bool = False) -> Mode:
        """The normalisation to use for `normalise`: "model", "recording" or "speaker".

        Raises:
            SettingsError: one that the model was not trained for.
        """
        return self._require_model().normaliser.check_mode(normalise, known_speakers=known_speakers)

    def _normalisation(self, normalise: str | None, groups: Sequence[int] | None) -> tuple[Mode, Sequence[int] | None]:
        """How recordings are normalised, and which of them together. Raises SettingsError, as `normalisation`."""
        mode = self.normalisation(normalise, known_speakers=groups is not None)
        return mode, None if mode == "recording" and normalise is not None else groups

    def predict(self, X: Sequence[Utterance] | Sequence[Array]) -> list[list[str]]:
        """The labels of each utterance's segments, or of each sequence of features [T, D]."""
        return [[self.labels_[n] for n in best] for best in self.posteriors(self._extract_inputs(X))[1]]

    def predict_proba(self, X: Sequence[Utterance] | Sequence[Array]) -> list[Array]:
        """The posteriors [T, Y] of each utterance's segments, columns in the order of `labels_`."""
        return self.posteriors(self._extract_inputs(X))[0]

    def score(self, X: Sequence[Utterance] | Sequence[Array], y: Sequence[Sequence[str]] | None = None) -> float:
        """Accuracy: the share of segments whose answer is their label; unlabelled segments do not count."""
        given: list[list[str | None]]
        given = [[s.label for s in u.segments] for u in X] if y is None else [list(labels) for labels in y]  # type: ignore[union-attr]
        pairs = [
            (a, g) for answer, truth in zip(self.predict(X), given, strict=True)
            for a, g in zip(answer, truth, strict=True) if g is not None
        ]  # fmt: skip
        return sum(a == g for a, g in pairs) / len(pairs) if pairs else float("nan")

    def _extract_inputs(self, X: Sequence[Utterance] | Sequence[Array]) -> list[Inputs]:
        """The model's inputs for utterances, or for plain features. Raises the error of the first bad file."""
        if not all(isinstance(x, Utterance) for x in X):
            return [from_array(x) for x in X]  # type: ignore[arg-type]
        items = featurise(X, self.features_)  # type: ignore[arg-type]
        for item in items:
            if item.error is not None:
                raise item.error
        return [i.inputs for i in items]
