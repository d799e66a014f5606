"""The settings as the environment gives them: read, checked, and complained about by the name of the variable."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from phonechain.app.problems.wording import describe, short
from phonechain.app.settings import NOT_SETTINGS, PREFIX, SECRETS, Settings, variable
from phonechain.features.errors import SettingsError


class _Given(Settings):
    """Settings from what is passed alone, whatever the environment of the process says."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings from the environment; `overrides` (a command line's options) win where they are not None.

    Args:
        environ: to be read instead of the process's own.

    Raises:
        SettingsError: one line that names the variable, what it may be and what came; never the value of a secret.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    given = _from_files(os.environ if environ is None else environ) | given
    if environ is not None:
        given = {n: environ[variable(n)] for n in Settings.model_fields if variable(n) in environ} | given
    try:
        return Settings(**given) if environ is None else _Given(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # several settings together
            raise SettingsError(str(first["msg"])) from None
        field = str(first["loc"][0])
        shown = {**first, "input": None} if _is_secret(field) else first
        raise SettingsError(
            f"{variable(field)}: {describe(shown)}", pointer=variable(field), value=short(shown["input"])
        ) from None


def check_locations(known: Settings) -> None:
    """What can be seen of files and folders without making any. Raises SettingsError, one line that names the variable."""
    for field, path in (("model", known.model), ("models", known.models)):
        wrong = path is not None and not (path.is_file() if field == "model" else path.is_dir())
        if wrong:
            kind = "file" if field == "model" else "folder"
            raise SettingsError(f"{variable(field)}: expected a {kind}, got {path}", pointer=variable(field))
    for root in known.roots:
        _check_root(root)
    if known.data is None:
        return
    there = known.folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "a folder" if not there.is_dir() else "a folder that can be written to"
        raise SettingsError(f"{variable('data')}: expected {what}, got {known.data}", pointer=variable("data"))


def _check_root(root: str) -> None:
    """Raises SettingsError for a URL that corpora cannot be read from."""
    if "://" not in root:
        return
    from fsspec import get_filesystem_class

    protocol, name = root.split("://")[0], variable("corpus_roots")
    if protocol in ("file", "local") or "::" in root:
        raise SettingsError(f"{name}: expected a folder as /PATH, or one URL, got {root}", pointer=name)
    try:
        get_filesystem_class(protocol)
    except (ValueError, ImportError) as error:
        raise SettingsError(f"{name}: expected a URL that can be opened, got {root}: {error}", pointer=name) from None


def _from_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings whose values lie in files, as orchestrators hand over secrets."""
    found = {}
    for field in SECRETS:
        name = f"{variable(field)}_FILE"
        path = environ.get(name)
        if not path:
            continue
        if environ.get(variable(field)):
            raise SettingsError(f"{name}: expected this or {variable(field)}, got both", pointer=name)
        try:
            found[field] = Path(path).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no text"
            raise SettingsError(
                f"{name}: expected a file that can be read, got {path}: {reason}", pointer=name
            ) from None
        if not found[field]:
            raise SettingsError(f"{name}: expected a file with a value, got an empty one: {path}", pointer=name)
    return found


def _is_secret(field: str) -> bool:
    return field in Settings.model_fields and "SecretStr" in str(Settings.model_fields[field].annotation)


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """A line for each `PHONECHAIN_` variable that no setting reads, with the nearest name: most are typing slips."""
    known = {variable(name) for name in Settings.model_fields} | {f"{variable(name)}_FILE" for name in SECRETS}
    lines = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known | NOT_SETTINGS:
            near = difflib.get_close_matches(name.upper(), sorted(known), n=1, cutoff=0.8)
            lines.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
    return lines
