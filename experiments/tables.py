"""A table's settings file -> the experiments it asks for.

Settings are laid over one another: the preset's, the table's defaults, the system's, the cell's; and at each of these
levels what is meant for one corpus only (`letters` or `speech`) over what is meant for all.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from experiments.letter_augmentation import check_augmentation
from phonechain.features.errors import SettingsError
from phonechain.model.presets import Preset, preset
from phonechain.model.settings import FactorSettings, ModelSettings, TrainingSettings, from_dict, replace

CORPORA = ("letters", "speech")
_LAYER = ("model", "factor", "factor2", "training")
_SIZES = {"layers": "L", "products": "I", "states": "H", "history": "M-1", "units": "units", "segments": "seg."}


@dataclass(frozen=True)
class Experiment:
    """One row of a table.

    Attributes:
        name: as in the table.
        preset: what it is called in RESULTS.md; "crfsuite" for that library on the same features.
        model, training: the settings, complete but for what is chosen.
        choose: training settings, or settings of the model, with the values among which a dev split decides.
        paper: the paper's error in per cent, and its error on the dev set.
        split: which split of the corpus ("" is the usual one).
        augment: what is done to the training inputs: "", or names out of AUGMENTATIONS (letter_augmentation.py) joined by "+".
        every: training has only every n-th recording of the corpus (of letters, every n-th word).
        note: a word for the reader.
    """

    name: str
    preset: str
    model: ModelSettings
    training: TrainingSettings
    choose: Mapping[str, list[Any]] = field(default_factory=dict)
    paper: float | None = None
    paper_dev: float | None = None
    split: str = ""
    augment: str = ""
    every: int = 1
    note: str = ""

    def candidates(self) -> Iterator[Experiment]:
        """The experiment with each combination of the values to choose among."""
        for values in product(*self.choose.values()):
            chosen = dict(zip(self.choose, values, strict=True))
            yield dataclasses.replace(
                self,
                training=replace(self.training, {k: v for k, v in chosen.items() if hasattr(self.training, k)}),
                model=replace(self.model, {k: v for k, v in chosen.items() if not hasattr(self.training, k)}),
                choose={},
            )

    def value(self, name: str) -> Any:
        """What a setting that can be chosen has been set to."""
        return getattr(self.training if hasattr(self.training, name) else self.model, name)


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    corpora: tuple[str, ...]
    reference: str
    text: str
    experiments: tuple[Experiment, ...]


def names() -> list[str]:
    """The tables there are."""
    files = resources.files("experiments").joinpath("tables").iterdir()
    return sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml"))


def read(name: str, corpus: str) -> Table:
    """The table of that name, or in a TOML file of that path, with its settings for a corpus ("letters" or "speech").

    Raises:
        SettingsError: no such table, or a setting that there is not.
    """
    return parse(Path(name).stem, _values(name), corpus)


def corpora(name: str) -> tuple[str, ...]:
    """What the table can be computed on."""
    return tuple(_values(name)["corpora"])


def _values(name: str) -> dict[str, Any]:
    if name.endswith(".toml") and Path(name).is_file():
        return tomllib.loads(Path(name).read_text(encoding="utf-8"))
    if name not in names():
        raise SettingsError(
            f"expected a TOML file or a table out of {', '.join(names())}, got {name!r}", pointer="table", value=name
        )
    text = resources.files("experiments").joinpath("tables", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def parse(name: str, values: Mapping[str, Any], corpus: str) -> Table:
    """The same from the plain values of the file."""
    known = {"title", "corpora", "reference", "text", "defaults", "system"}
    for key in values:
        if key not in known:
            raise SettingsError(f"expected a table's key out of {', '.join(sorted(known))}, got {key!r}", pointer=key)
    if corpus not in values["corpora"]:
        raise SettingsError(
            f"expected a corpus out of {', '.join(values['corpora'])} for {name}, got {corpus}",
            pointer="corpus",
            value=corpus,
        )
    defaults = values.get("defaults", {})
    experiments: list[Experiment] = []
    for system in values["system"]:
        for cell in system.get("cells", [{}]):
            experiments.append(_experiment(defaults, system, cell, corpus))
    return Table(
        name, values["title"], tuple(values["corpora"]), values.get("reference", ""), values.get("text", ""), tuple(experiments)
    )  # fmt: skip


def _experiment(
    defaults: Mapping[str, Any], system: Mapping[str, Any], cell: Mapping[str, Any], corpus: str
) -> Experiment:
    known = {
        "name", "preset", "paper", "paper_dev", "note", "split", "augment", "every", "choose", "cells", *CORPORA, *_LAYER
    }  # fmt: skip
    for key in system:
        if key not in known:
            raise SettingsError(f"expected a system's key out of {', '.join(sorted(known))}, got {key!r}", pointer=key)
    peer = system["preset"] == "crfsuite"
    base = Preset("crfsuite") if peer else preset(system["preset"])
    sizes = {key: value for key, value in cell.items() if key in _SIZES}
    shape = {
        "factor": {k: v for k, v in sizes.items() if k != "history"},
        "model": {k: v for k, v in sizes.items() if k == "history"},
    }
    model, training = base.model, base.training
    extra: dict[str, Any] = {}
    for layer in (defaults, defaults.get(corpus, {}), system, system.get(corpus, {}), shape, cell):
        model = _lay_over(model, layer)
        training = replace(training, layer.get("training", {}))
        extra |= {k: layer[k] for k in ("choose", "augment", "split", "every", "note") if k in layer}
    check_augmentation(extra.get("augment", ""))
    label = " ".join(f"{_SIZES[k]}={v}" for k, v in sizes.items())
    return Experiment(
        name=f"{system['name']} {label}".strip(), preset=system["preset"], model=model, training=training,
        paper=cell.get("paper", system.get("paper")), paper_dev=cell.get("paper_dev", system.get("paper_dev")), **extra,
    )  # fmt: skip


def _lay_over(model: ModelSettings, layer: Mapping[str, Any]) -> ModelSettings:
    changes = dict(layer.get("model", {}))
    if "factors" in changes:
        model = dataclasses.replace(model, factors=tuple(from_dict(FactorSettings, f) for f in changes.pop("factors")))
    model = replace(model, changes)
    factors = list(model.factors)
    for place, key in enumerate(("factor", "factor2")):
        if key in layer and place < len(factors):
            factors[place] = replace(factors[place], layer[key])
    return dataclasses.replace(model, factors=tuple(factors))
