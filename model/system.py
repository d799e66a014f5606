"""Which system a labeler's arguments describe, or which one is chosen for a corpus: what `fit` starts from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from phonechain.features.errors import SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.fitted import FittedLabeler
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.selection import Choice, Search
from phonechain.model.learning.training import Progress
from phonechain.model.settings import AUTO, ModelSettings, Preset, TrainingSettings, auto, preset, preset_names


class SystemSelection(FittedLabeler):
    """The preset and the settings of a labeler, and the choice among presets where the preset is "auto"."""

    preset: str
    model: ModelSettings | None
    training: TrainingSettings | None
    features: FeatureSettings | None
    drop: Collection[str]
    _choice: Choice | None = None

    @property
    def system(self) -> Preset:
        """The system that the arguments describe.

        Raises:
            SettingsError: no such preset.
        """
        if self.preset == AUTO:
            if self._choice is not None:
                return self._choice.candidate.system
            raise SettingsError("the preset auto has chosen no system yet: call fit", pointer="preset", value=AUTO)
        known = not (self.model and self.training) or self.preset in preset_names()
        base = preset(self.preset) if known and self.preset else Preset(self.preset or "custom")
        return Preset(base.name, base.title, self.model or base.model, self.training or base.training)

    def _root_features(self, base: FittedLabeler | None) -> FeatureSettings:
        """How sound becomes features, apart from what an encoder adds."""
        if self.features is None and self.preset == AUTO and base is not None:
            return base.features_
        return self.features or FeatureSettings()

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
        asked = self.training or auto({}).training
        model = base.model_ if base is not None else None
        if model is not None and not model.features.gives_same_frames(model.settings.encoder.features(features)):
            model = None
        search = Search(asked, features, drop=self.drop, base=model, progress=progress, stop=stop)
        self._choice = search.choose_once(items, run_dir)
        return self._choice.candidate.warm
