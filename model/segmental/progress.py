"""How long work on long recordings says how far it is, and can be ended from outside."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]
"""Called between windows with the share of the work that is done, 0 to 1; what it raises ends the work."""


def go_on(share: float) -> None:
    """The `Progress` of those who do not want to know."""
