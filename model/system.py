"""Which system a labeler's arguments describe, or which one is chosen for a corpus: what `fit` starts from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from phonechain.features.errors import SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.fitted import FittedLabeler
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.selection import Choice, Search
from phonechain.model.learning.training import Progress
from phonechain.model.presets import AUTO, Preset, auto, preset, preset_names
from phonechain.model.settings import ModelSettings, TrainingSettings, from_dict

Settings = TypeVar("Settings", ModelSettings, TrainingSettings)


class SystemSelection(FittedLabeler):
    """The preset and the settings of a labeler, and the choice among presets where the preset is "auto"."""

    preset: str
    model: ModelSettings | Mapping[str, Any] | None
    training: TrainingSettings | Mapping[str, Any] | None
    features: FeatureSettings | Mapping[str, Any] | None
    drop: Collection[str]
    _choice: Choice | None = None

    @property
    def system(self) -> Preset:
        """The system that the arguments describe.

        Raises:
            SettingsError: no such preset, or settings given by name among which one is unknown or out of range.
        """
        if self.preset == AUTO:
            if self._choice is not None:
                return self._choice.candidate.system
            raise SettingsError("the preset auto has chosen no system yet: call fit", pointer="preset", value=AUTO)
        model = _to_settings(ModelSettings, self.model, "model")
        training = self._training_settings
        known = not (model and training) or self.preset in preset_names()
        base = preset(self.preset) if known and self.preset else Preset(self.preset or "custom")
        return Preset(base.name, base.title, model or base.model, training or base.training)

    @property
    def _training_settings(self) -> TrainingSettings | None:
        return _to_settings(TrainingSettings, self.training, "training")

    def _root_features(self, base: FittedLabeler | None) -> FeatureSettings:
        """How sound becomes features, apart from what an encoder adds."""
        if self.features is None and self.preset == AUTO and base is not None:
            return base.features_
        if self.features is None or isinstance(self.features, FeatureSettings):
            return self.features or FeatureSettings()
        return FeatureSettings.from_dict(self.features)

    def _features_to_extract(self, base: FittedLabeler | None) -> FeatureSettings:
        root = self._root_features(base)
        if self.preset != AUTO:
            return self.system.model.encoder.features(root)
        bands = base.model_.features.bands if base is not None else 0
        return replace(root, pooled=True, bands=bands)

    def _choose(
        self,
        items: Sequence[Featurised],
        base: FittedLabeler | None,
        features: FeatureSettings,
        progress: Callable[[Progress], None] | None,
        stop: Callable[[], bool] | None,
        run_dir: Path | None,
    ) -> bool:
        """Let the systems compete, or take the choice of a run that was broken off; whether the chosen one needs the base."""
        asked = self._training_settings or auto({}).training
        model = base.model_ if base is not None else None
        if model is not None and not model.features.gives_same_frames(model.settings.encoder.features(features)):
            model = None
        search = Search(asked, features, drop=self.drop, base=model, progress=progress, stop=stop)
        self._choice = search.choose_once(items, run_dir)
        return self._choice.candidate.warm


def _to_settings(cls: type[Settings], values: Settings | Mapping[str, Any] | None, argument: str) -> Settings | None:
    """Settings that may be given by name as plain values. Raises SettingsError with the place, `argument/name`."""
    if values is None or isinstance(values, cls):
        return values
    return from_dict(cls, cast("Mapping[str, Any]", values), f"{argument}/")  # which refuses what is no mapping
