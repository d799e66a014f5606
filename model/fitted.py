"""What a labeler knows once it is trained or loaded: attributes that end in `_`, as scikit-learn has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phonechain.features.errors import PhonechainError, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelSet
from phonechain.features.segments import Utterance
from phonechain.model.files.header import Provenance
from phonechain.model.learning.checkpoint import History
from phonechain.model.learning.normaliser import Normaliser
from phonechain.model.learning.temperature import describe
from phonechain.model.networks.base import SequenceNetwork
from phonechain.model.phone_model import PhoneModel


class FittedAttributes:
    """The attributes of a labeler that `fit` and `load` set; all but the last lines raise SettingsError before that."""

    _model: PhoneModel | None = None
    version_ = ""
    start_ = ""
    metrics_: dict[str, Any] = {}  # noqa: RUF012  (replaced, never changed)
    history_ = History()
    problems_: list[tuple[Utterance, PhonechainError]] = []  # noqa: RUF012
    held_out_: tuple[Utterance, ...] = ()
    notices_: list[str] = []  # noqa: RUF012
    provenance_ = Provenance("")

    def _require_model(self) -> PhoneModel:
        if self._model is None:
            raise SettingsError("the labeler has no weights yet: call fit or load")
        return self._model

    @property
    def model_(self) -> PhoneModel:
        """The trained network with all that it needs. Raises SettingsError where there is none."""
        return self._require_model()

    @property
    def labels_(self) -> list[str]:
        """The labels that the model tells apart, in the order of the posteriors' columns."""
        return self._require_model().labels

    @property
    def phone_set_(self) -> str:
        """Name of the set that the labels are of, or ""."""
        return self._require_model().phone_set

    @property
    def label_set_(self) -> LabelSet:
        """The model's labels, as given ones are compared with them."""
        return self._require_model().label_set

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The same as an array, as scikit-learn names it."""
        return np.asarray(self.labels_)

    @property
    def network_(self) -> SequenceNetwork:
        """The network."""
        return self._require_model().network

    @property
    def normaliser_(self) -> Normaliser:
        """The training set's statistics."""
        return self._require_model().normaliser

    @property
    def features_(self) -> FeatureSettings:
        """How sound becomes what the model sees."""
        return self._require_model().features

    @property
    def temperature_(self) -> float:
        """That of the posteriors."""
        return self._require_model().temperature

    @property
    def calibration_(self) -> str:
        """How the temperature was fitted, in a sentence; "" where the model file does not say."""
        return describe(self.temperature_, self.metrics_)

    @property
    def parameters_(self) -> int:
        """Number of weights."""
        return 0 if self._model is None else self._model.parameters
