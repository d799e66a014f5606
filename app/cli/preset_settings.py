"""The settings of a preset on the command line: `--set KEY=VALUE`, and what each key means.

A key is `training.l2`, `model.bigram`, `model.factors.0.dropout` or `features.engine`; the first word may be left out, except
`features`. Types, defaults and descriptions come from the settings' own classes (`phonechain.model.settings`).
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from phonechain.app.cli.options import split_assignment
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.features.feature_settings import FeatureSettings
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.presets import Preset
    from phonechain.model.segmental.settings import SegmentalPreset


FEATURES = "features."


@dataclasses.dataclass(frozen=True)
class Setting:
    """One key of `--set`. `type` is `int`, `float`, `bool`, `str`, or the values to choose from."""

    key: str
    type: str
    value: str
    meaning: str


def apply_changes(preset_name: str, changes: Sequence[str], base: PhoneLabeler | None = None) -> Preset:
    """The preset, or the settings of a `base`, with `KEY=VALUE` changes.

    Raises:
        SettingsError: no such preset or setting, or a value that it cannot have.
    """
    from phonechain.model import presets as known

    if preset_name == known.AUTO:
        given = [(key.removeprefix("training."), value) for key, value in map(split_assignment, changes)]
        return known.auto(dict(given))
    if base is not None:
        name = base.preset if base.preset in known.preset_names() else preset_name
        preset = dataclasses.replace(known.preset(name), model=base.system.model, training=base.system.training)
    else:
        preset = known.preset(preset_name)
    assignments = [split_assignment(change) for change in changes]
    # The optimizer comes first, since it brings its steps along: what is given for these wins.
    for key, value in sorted(assignments, key=lambda pair: pair[0] not in ("optimizer", "training.optimizer")):
        path = key.split(".")
        if path[0] not in ("training", "model"):
            group = _group_of(path[0], preset)
            if group is None:
                names = [setting.key for setting in list_settings(preset)]
                near = difflib.get_close_matches(key, [*names, *(name.split(".", 1)[1] for name in names)], 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise SettingsError(
                    f"--set {key}: no such setting; {hint}`phonechain presets {preset.name}` lists all of them",
                    pointer=key, value=key,
                )  # fmt: skip
            path.insert(0, group)
        part = _replace(getattr(preset, path[0]), path[1:], value, key)
        preset = dataclasses.replace(preset, **{path[0]: part})
    return preset


def split_features(changes: Sequence[str]) -> tuple[list[str], FeatureSettings | None]:
    """The changes of other settings, and the feature settings that `features.KEY=VALUE` gives; None without such a change.

    Raises:
        SettingsError: no such setting, one that follows from the encoder, or a value that it cannot have.
    """
    from phonechain.features.feature_settings import FeatureSettings
    from phonechain.model.settings import from_dict

    others, given = [], {}
    names = [setting.key for setting in list_features()]
    for change in changes:
        key, value = split_assignment(change)
        if not key.startswith(FEATURES):
            others.append(change)
        elif key in names:
            given[key.removeprefix(FEATURES)] = value
        else:
            raise SettingsError(f"--set {key}: expected one of {', '.join(names)}", pointer=key, value=key)
    return others, from_dict(FeatureSettings, given) if given else None


def _group_of(name: str, preset: Preset) -> str | None:
    """The part of a preset, training or model, that has a setting of that name; None where neither has."""
    for group in ("training", "model"):
        if name in {field.name for field in dataclasses.fields(getattr(preset, group))}:
            return group
    return None


def _replace(settings: Any, path: Sequence[str], value: str, key: str) -> Any:
    from phonechain.model import settings as known

    if isinstance(settings, tuple):
        if not (path and path[0].isdecimal() and int(path[0]) < len(settings)):
            raise SettingsError(f"--set {key}: expected the number of a factor from 0 to {len(settings) - 1}")
        number = int(path[0])
        return tuple(_replace(one, path[1:], value, key) if n == number else one for n, one in enumerate(settings))
    if not path:
        raise SettingsError(f"--set {key}: expected one setting, got a group of them")
    inner = getattr(settings, path[0], None)
    if len(path) == 1 and not isinstance(inner, tuple):
        return known.replace(settings, {path[0]: value})
    if not (isinstance(inner, tuple) or dataclasses.is_dataclass(inner)):
        names = ", ".join(field.name for field in dataclasses.fields(settings))
        raise SettingsError(f"--set {key}: expected one of {names}, got {path[0]}")
    return dataclasses.replace(settings, **{path[0]: _replace(inner, path[1:], value, key)})


# ------------------------------------------------------------------------------------------------- what there is to set


def list_settings(preset: Preset | SegmentalPreset | None = None) -> list[Setting]:
    """Every key with the preset's value; without a preset with the default, and N for the number of a factor."""
    from phonechain.model.settings import ModelSettings, TrainingSettings

    model: Any = ModelSettings() if preset is None else preset.model
    training: Any = TrainingSettings() if preset is None else preset.training
    return [*_iterate_rows(training, "training.", preset is None), *_iterate_rows(model, "model.", preset is None)]


def list_features() -> list[Setting]:
    """The feature settings that can be chosen; whether frames and the 92 features are read follows from the encoder."""
    from phonechain.features.feature_settings import FeatureSettings

    given = {FEATURES + field.name for field in dataclasses.fields(FeatureSettings) if field.init}
    rows = _iterate_rows(FeatureSettings(), FEATURES, general=True)
    return [row for row in rows if row.key in given - {f"{FEATURES}pooled", f"{FEATURES}bands"}]


def _iterate_rows(settings: Any, prefix: str, general: bool) -> Iterator[Setting]:
    hints = typing.get_type_hints(type(settings))
    meanings = read_attribute_docs(type(settings))
    for field in dataclasses.fields(settings):
        value, key = getattr(settings, field.name), prefix + field.name
        inner = _settings_class(hints[field.name])
        if isinstance(value, tuple) and inner is not None:
            for number, one in enumerate(value[:1] if general else value):
                yield from _iterate_rows(one, f"{key}.{'N' if general else number}.", general)
        elif inner is not None and (value is not None or general):
            yield from _iterate_rows(inner() if value is None else value, f"{key}.", general)
        else:
            yield Setting(key, _type_name(hints[field.name]), _format_value(value), meanings.get(field.name, ""))


def _settings_class(hint: Any) -> type | None:
    """The settings class in a hint: itself, optional, or in a tuple; None for a plain value."""
    for one in (hint, *typing.get_args(hint)):
        if isinstance(one, type) and dataclasses.is_dataclass(one):
            return one
    return None


def _type_name(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (types.UnionType, typing.Union):
        return "|".join("none" if one is type(None) else _type_name(one) for one in arguments)
    if origin is not None:
        return ",".join(_type_name(one) for one in arguments if one is not Ellipsis)
    return str(hint.__name__)


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(_format_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


_ENTRY = re.compile(r"(?P<names>\w+(?:, \w+)*): (?P<text>.*)")


def read_attribute_docs(cls: type) -> dict[str, str]:
    """What the `Attributes:` section of a docstring says of each name, on one line each."""
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break
        entry = _ENTRY.fullmatch(line.strip())
        if entry is not None and len(line) - len(line.lstrip()) == 4:
            names = entry["names"].split(", ")
            found.update(dict.fromkeys(names, entry["text"]))
        else:
            for name in names:
                found[name] += f" {line.strip()}"
    return {name: text.strip() for name, text in found.items()}


def describe_settings() -> str:
    """Every key with its type, default and meaning, for `--help`."""
    lines = [
        "Settings for --set. A preset changes some of the defaults: `phonechain presets NAME` shows its values; N is",
        "the number of a factor from 0, and the first word of a key may be left out, except features.",
        "",
    ]
    for setting in [*list_settings(), *list_features()]:
        lines.append(f"  {setting.key} ({setting.type}; default {setting.value})")
        lines += textwrap.wrap(setting.meaning, 110, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)
