"""The version of this installation."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The installed version; "0" in a checkout that was not installed."""
    try:
        return metadata.version("phonechain")
    except metadata.PackageNotFoundError:
        return "0"
