"""Arrays -> labels and posteriors: factors, chains, learning, the model file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from phonechain.features.errors import SettingsError

PRETRAINED = "english"
"""The model that comes with the package, also called "default"."""

ALIGNMENT = "english-alignment"
"""The alignment model that comes with the package."""


def pretrained_names() -> list[str]:
    """The names of the models that come with the package, sorted."""
    folder = Path(str(resources.files("phonechain.model.pretrained")))
    return sorted(path.stem for path in folder.glob("*.safetensors"))


def labelling_names() -> list[str]:
    """The names of those that label given segments, the default one first.

    Examples:
        >>> labelling_names()
        ['default', 'paper', 'small']
    """
    return ["default", *(name for name in pretrained_names() if name not in (PRETRAINED, ALIGNMENT))]


def pretrained_path(name: str = "default") -> Path:
    """The file of a model that comes with the package.

    Raises:
        SettingsError: there is none of that name.

    Examples:
        >>> pretrained_path().name
        'english.safetensors'
    """
    folder = Path(str(resources.files("phonechain.model.pretrained")))
    path = folder / f"{PRETRAINED if name == 'default' else name}.safetensors"
    if path.parent != folder or not path.is_file():
        names = ", ".join([f"default ({PRETRAINED})", *labelling_names()[1:], f"{ALIGNMENT} (to align)"])
        raise SettingsError(
            f"expected one of the models {names}, or the path of a model file, got {name[:80]!r}",
            pointer="model",
            value=name[:80],
        )
    return path
