"""The models that the service has loaded, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.problems.errors import UnknownModel
from phonechain.app.settings import Settings
from phonechain.features.errors import ModelFileError, SettingsError

if TYPE_CHECKING:
    from phonechain.model.labeler import PhoneLabeler

DEFAULT = "default"
SUFFIX = ".safetensors"


@dataclass(frozen=True, slots=True)
class Entry:
    """A loaded model under the name that requests call it by."""

    name: str
    labeler: PhoneLabeler

    @property
    def version(self) -> str:
        return str(self.labeler.card_.get("version", ""))

    @property
    def card(self) -> dict[str, Any]:
        return dict(self.labeler.card_)

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "labels": len(self.labeler.labels_),
            "title": self.labeler.card_.get("name"),
        }

    def detail(self) -> dict[str, Any]:
        return {**self.summary(), "label_set": list(self.labeler.labels_), "card": self.card}


class Registry:
    """Names to loaded models. Filled once at the start; a model that cannot be read stops the start."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries

    @classmethod
    def load(cls, settings: Settings) -> Registry:
        """Load the default model and those of the settings' folder.

        Raises:
            ModelFileError: a file is not a model.
            SettingsError: the folder is not there.
        """
        from phonechain.model.labeler import PhoneLabeler

        entries = {}
        for name, path in model_files(settings).items():
            try:
                entries[name] = Entry(name, PhoneLabeler.load(path))
            except ModelFileError as error:
                where = "PHONECHAIN_MODEL" if name == DEFAULT else "PHONECHAIN_MODELS"
                raise ModelFileError(f"{where}: {error}") from None
        return cls(entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, name: str) -> Entry:
        """Raises UnknownModel, which lists the names."""
        try:
            return self._entries[name]
        except KeyError:
            names = ", ".join(self._entries)
            raise UnknownModel(
                f"expected a model out of {names}, got {name[:80]!r}", pointer="model", value=name[:80]
            ) from None


def model_files(settings: Settings) -> dict[str, Path]:
    """The file of each model name, the default first."""
    from phonechain.model import pretrained_path

    files = {DEFAULT: settings.model if settings.model is not None else pretrained_path()}
    if settings.models is not None:
        if not settings.models.is_dir():
            raise SettingsError(
                f"PHONECHAIN_MODELS: expected a folder, got {settings.models}", value=str(settings.models)
            )
        for path in sorted(settings.models.glob(f"*{SUFFIX}")):
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", path.stem):
                raise SettingsError(
                    "PHONECHAIN_MODELS: expected file names of letters, digits, dots, hyphens and underscores, "
                    f"got {path.name!r}"
                )
            if path.stem == DEFAULT:
                raise SettingsError(
                    "PHONECHAIN_MODELS: expected no model called default (PHONECHAIN_MODEL sets that one)"
                )
            files[path.stem] = path
    return files
