"""Named systems: one TOML file each beside this one, and "auto", which chooses among them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from phonechain.features.errors import SettingsError
from phonechain.model.settings import ModelSettings, TrainingSettings, from_dict, replace


@dataclass(frozen=True)
class Preset:
    """A named system: its model, how it is trained, and one line on what it is."""

    name: str
    title: str = ""
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)


AUTO = "auto"
"""Name of the preset that chooses among the others for a corpus (phonechain.model.learning.selection)."""

NO_LIMIT = 100_000
"""Epochs of the preset auto: as many as the chosen system has."""

_ASKED_OF_AUTO = ("seed", "held_out", "gaps", "epochs")


def auto(changes: Mapping[str, Any]) -> Preset:
    """The preset "auto" with training settings for the system that it will choose.

    Raises:
        SettingsError: a setting that "auto" chooses itself.
    """
    for key in changes:
        if key not in _ASKED_OF_AUTO:
            raise SettingsError(
                f"the preset auto chooses {key} itself: expected one of {', '.join(_ASKED_OF_AUTO)}, or a preset by name",
                pointer=f"training/{key}", value=key,
            )  # fmt: skip
    training = replace(TrainingSettings(epochs=NO_LIMIT), changes)
    return Preset(
        AUTO, "The system that makes the fewest errors in short trainings on parts of the corpus", training=training
    )


def preset(name: str) -> Preset:
    """The preset of that name. Raises SettingsError, which lists the names.

    Examples:
        >>> system = preset("spn-ho-lc-crf")
        >>> system.model.chain, system.model.order, [factor.labels for factor in system.model.factors]
        ('crf', 2, [1, 2])
    """
    if name == AUTO:
        return auto({})
    if name not in preset_names():
        raise SettingsError(
            f"expected one of the presets {AUTO}, {', '.join(preset_names())}, got {name!r}",
            pointer="preset",
            value=name,
        )
    text = resources.files("phonechain.model.presets").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return from_dict(Preset, {"name": name, **tomllib.loads(text)})


def preset_names() -> list[str]:
    """Names of the presets that come with the package.

    Examples:
        >>> "spn-lc-crf" in preset_names()
        True
    """
    return sorted(
        f.name[: -len(".toml")]
        for f in resources.files("phonechain.model.presets").iterdir()
        if f.name.endswith(".toml")
    )
