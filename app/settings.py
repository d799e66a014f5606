"""The settings of the service: one class, every variable with its default, unit and meaning.

Each field is read from the environment variable `PHONECHAIN_<FIELD>`. `docs/operations.md` holds the same table, and a
test keeps the two equal. A value that cannot be used stops the start with one line that names the variable.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.wording import expected
from features.errors import SettingsError

PREFIX = "PHONECHAIN_"

NOT_SETTINGS = frozenset({"PHONECHAIN_SHARED"})
"""Variables with the prefix that others read: the tests find the corpora by this one."""


def _setting(default: Any, unit: str, description: str, **bounds: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"unit": unit}, **bounds)


class Settings(BaseSettings):
    """What the service can be told from outside. Immutable once read."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = _setting(
        "127.0.0.1", "address", "Interface to listen on; 0.0.0.0 for every interface of the machine.", min_length=1
    )
    port: int = _setting(8000, "port", "TCP port to listen on; 0 takes a free one.", ge=0, le=65535)
    model: Path | None = _setting(
        None, "path", "Model file served under the name `default`; unset serves the model that ships with the package."
    )
    models: Path | None = _setting(
        None, "path", "Folder of further model files, each served under its file name without `.safetensors`."
    )
    max_body_bytes: int = _setting(
        64 * 2**20, "bytes", "Largest request body; a longer one is refused before it is parsed.", ge=1024, le=2**40
    )
    max_audio_seconds: float = _setting(
        600.0,
        "seconds",
        "Longest recording in one request, counted in decoded sound.",
        gt=0.0,
        le=86400.0,
        allow_inf_nan=False,
    )
    max_segments: int = _setting(20_000, "segments", "Most segments in one request.", ge=1, le=10_000_000)
    max_n_best: int = _setting(50, "labels", "Most alternatives (`n_best`) that a request may ask for.", ge=1, le=1000)
    queue_size: int = _setting(
        64,
        "requests",
        "Requests decoded, waiting or being labelled at one time; further ones are answered 503 with Retry-After.",
        ge=1,
        le=100_000,
    )
    batch_segments: int = _setting(
        4096,
        "segments",
        "Most segments labelled as one batch; an utterance longer than this is a batch of its own.",
        ge=1,
        le=10_000_000,
    )
    retry_after: int = _setting(1, "seconds", "What Retry-After says when the service is overloaded.", ge=1, le=3600)
    decode_threads: int = _setting(
        2, "threads", "Threads that decode sound and compute features beside the event loop.", ge=1, le=256
    )
    torch_threads: int = _setting(
        0, "threads", "Threads inside the one torch worker; 0 takes the cores that the process may use.", ge=0, le=1024
    )


def variable(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings from the environment; `overrides` (a command line's options) win where they are not None.

    Raises:
        SettingsError: one line that names the variable, what it may be and what came.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    if environ is not None:
        for name in Settings.model_fields:
            if variable(name) in environ:
                given.setdefault(name, environ[variable(name)])
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        raise SettingsError(
            f"{variable(field)}: {expected(first)}",
            pointer=variable(field),
            value=str(first["input"]),
        ) from None


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """A line for each `PHONECHAIN_` variable that no setting reads, with the nearest name: most are typing slips."""
    known = {variable(name) for name in Settings.model_fields}
    lines = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known | NOT_SETTINGS:
            near = difflib.get_close_matches(name.upper(), sorted(known), n=1)
            lines.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
    return lines


def table() -> str:
    """The settings as a Markdown table, as `docs/operations.md` holds it."""
    rows = ["| variable | default | unit | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        unit = extra.get("unit", "") if isinstance(extra, dict) else ""
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `{variable(name)}` | {default} | {unit} | {field.description} |")
    return "\n".join(rows)
