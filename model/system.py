"""The system that a labeler's arguments describe, or that is chosen for a corpus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from phonechain.features.errors import Notice, SettingsError
from phonechain.features.mfcc import FeatureSettings
from phonechain.model.device import choose_device
from phonechain.model.fitted import FittedLabeler
from phonechain.model.learning.base_as_is import BaseAsIs
from phonechain.model.learning.checkpoint import History
from phonechain.model.learning.extraction import Featurised
from phonechain.model.learning.fitting import Run
from phonechain.model.learning.selection import Candidate, Choice, Search
from phonechain.model.learning.training import Progress
from phonechain.model.presets import AUTO, Preset, auto, preset, preset_names
from phonechain.model.settings import ModelSettings, TrainingSettings, from_dict

Settings = TypeVar("Settings", ModelSettings, TrainingSettings)

if TYPE_CHECKING:
    from phonechain.model.labeler import PhoneLabeler


class SystemSelection(FittedLabeler):
    """The preset and the settings of a labeler, and the choice among presets where the preset is "auto"."""

    preset: str
    model: ModelSettings | Mapping[str, Any] | None
    training: TrainingSettings | Mapping[str, Any] | None
    features: FeatureSettings | Mapping[str, Any] | None
    drop: Collection[str]
    device: str
    whole_: PhoneLabeler | None = None
    _choice: Choice | None = None

    @property
    def system(self) -> Preset:
        """The system described by the arguments.

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
        base: PhoneLabeler | None,
        features: FeatureSettings,
        progress: Callable[[Progress], None] | None,
        stop: Callable[[], bool] | None,
        run_dir: Path | None,
    ) -> tuple[BaseAsIs | None, PhoneLabeler | None]:
        """Let the systems compete, or take the choice of a run that was broken off.

        Returns:
            the base as it is, which cannot answer for the corpus where it has an obstacle; and what the chosen training goes
            on from.
        """
        asked = self._training_settings or auto({}).training
        as_is = None
        if base is not None:
            whole = base.whole_ or base
            as_is = BaseAsIs.of(whole.model_, whole.system, whole.title_, items, features, self.drop)
        model = base.model_ if base is not None else None
        if model is not None and not model.features.gives_same_frames(model.settings.encoder.features(features)):
            model = None
        search = Search(
            asked, features, drop=self.drop, base=model, as_is=as_is, progress=progress, stop=stop,
            device=choose_device(self.device),
        )  # fmt: skip
        self._choice = search.choose_once(items, run_dir)
        return as_is, base if self._choice.candidate.warm else None

    @property
    def _base_is_chosen(self) -> bool:
        """Whether the base as it is was chosen, and nothing is to be trained."""
        return self.preset == AUTO and self._choice is not None and self._choice.candidate.kept

    def _keep_base(
        self, as_is: BaseAsIs, run: Run, dev: Sequence[Featurised], progress: Callable[[Progress], None] | None
    ) -> bool:
        """Make the base as it is the outcome of a run, if it was chosen or training did worse on the dev set."""
        assert self._choice is not None
        wrong, count = as_is.count_errors(dev)
        error = wrong / max(1, count)
        if self._base_is_chosen:
            message = _explain(as_is.name, self._choice.table)
        elif error < run.metrics["dev_error"]:
            after = run.metrics["dev_error"]
            message = _say_kept(as_is.name, error, f"the {count} segments of the dev set", after)
        else:
            return False
        table = sorted(self._choice.table, key=lambda row: not row["kept"])
        self._choice = Choice(Candidate(as_is.system, kept=True), table)
        run.model, run.history, run.start = as_is.model, History(), message
        run.metrics = {
            "dev_error": error, "dev_segments": count, "best_epoch": 0, "epochs": 0, "start_error": error, "train_segments": 0,
        }  # fmt: skip
        run.notices = [Notice("base-kept", message), *as_is.comparison.notices()]
        if progress is not None:
            progress(Progress("start", 1, 1, "models", message))
        return True


def _explain(name: str, table: Sequence[dict[str, Any]]) -> str:
    """Why a base is kept that the candidates' table puts first."""
    kept = next(row for row in table if row["kept"])
    trained = next((row["dev_error"] for row in table if not row["kept"]), None)
    return _say_kept(name, kept["dev_error"], f"{kept['segments']} held-out segments of the corpus", trained)


def _say_kept(name: str, error: float, where: str, trained: float | None) -> str:
    after = "" if trained is None else f", {100 * trained:.1f} % after training on the corpus"
    return f"keeps {name} as it is: {100 * error:.1f} % errors on {where}{after}"


def _to_settings(cls: type[Settings], values: Settings | Mapping[str, Any] | None, argument: str) -> Settings | None:
    """Settings that may be given by name as plain values. Raises SettingsError with the place, `argument/name`."""
    if values is None or isinstance(values, cls):
        return values
    return from_dict(cls, cast("Mapping[str, Any]", values), f"{argument}/")  # which refuses what is no mapping
