"""Pydantic's findings in the sentences of this project: "expected ..., got ..."."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LONGEST = 200
"""Characters of a value that an answer or a line repeats."""

_WORDS = {
    "input should be": "expected", "value should be": "expected", "Input should be": "expected", "Value error, ": "",
    "greater than or equal to": "at least", "less than or equal to": "at most",
}  # fmt: skip
"""Pydantic's words, and ours."""


def describe(finding: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` as a sentence without the place, which the caller adds."""
    if finding["type"] == "missing":
        return "expected a value, got none"
    if finding["type"] == "extra_forbidden":
        return "expected nothing here: there is no option of this name"
    if finding["type"] == "json_invalid":
        return f"expected JSON, got {finding['ctx']['error']}"
    if finding["type"] == "value_error":
        return str(finding["ctx"]["error"])
    if finding["type"].startswith("byte_size"):
        return f"expected a number of bytes such as 64MiB, got {short(finding['input'])!r}"
    message = str(finding["msg"])
    message = reword(message[0].lower() + message[1:])
    value = short(finding.get("input"))
    return message if value is None or ", got " in message else f"{message}, got {value!r}"


def reword(message: str) -> str:
    """A message of pydantic's, or of typer's around one, in this project's words and without its advice on parsing."""
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message.split(", unable to ")[0]


def short(value: Any) -> Any:
    """`value` where it is a plain, short value that JSON can hold; None otherwise, a cut text for a long one."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return None
