"""Users' maps: given label -> label of the model, or None for "not scored"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from phonechain.features.errors import PhoneSetError

MOST = 10_000
"""Most entries of a map."""
LONGEST = 200
"""Most characters of a label in a map."""
UNSCORED = "-"


def parse(text: str) -> dict[str, str | None]:
    """Parse a map from a JSON object, or from lines of two tab-separated columns: given label, label of the model.

    `-` and, in JSON, null mean "not scored". Empty lines, and lines that begin with `#` and have no tab, are ignored.

    Raises:
        PhoneSetError: neither, a label twice, or labels too long or too many.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text, object_pairs_hook=_pairs)
        except (ValueError, RecursionError) as error:
            raise PhoneSetError(f"map: expected a JSON object of labels, got invalid JSON: {error}") from None
        return check(found)
    entries: dict[str, str | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or (line.startswith("#") and "\t" not in line):
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2:
            raise PhoneSetError(
                f"map: expected two tab-separated columns in line {number}, got {len(columns)}",
                pointer=f"line {number}",
                value=line[:80],
            )
        if columns[0] in entries:
            raise PhoneSetError(
                f"map: expected each label once, got {columns[0]!r} again in line {number}", pointer=f"line {number}"
            )
        entries[columns[0]] = columns[1]
    return check(entries)


def check(entries: Mapping[str, Any]) -> dict[str, str | None]:
    """Check that a map's entries are text or None, and replace `-` by None.

    Raises:
        PhoneSetError: an entry that is neither, or too many or too long ones.
    """
    if len(entries) > MOST:
        raise PhoneSetError(f"map: expected at most {MOST} labels, got {len(entries)}", value=len(entries), limit=MOST)
    out: dict[str, str | None] = {}
    for given, target in entries.items():
        if target is not None and (not isinstance(target, str) or not target):
            got = "an empty label" if target == "" else f"a value of type {type(target).__name__}"
            raise PhoneSetError(f"map: expected a label of the model or - for {given[:80]!r}, got {got}", pointer="map")
        if max(len(given), len(target or "")) > LONGEST:
            raise PhoneSetError(
                f"map: expected labels of at most {LONGEST} characters, got {given[:40]!r}",
                pointer="map",
                limit=LONGEST,
            )
        out[given] = None if target == UNSCORED else target
    return out


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n]))
        raise PhoneSetError(f"map: expected each label once, got {twice[:80]!r} again", pointer="map")
    return entries
