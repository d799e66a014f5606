"""The commands of the guide's pages, as they stand in its Markdown.

A fence with `sh` or `python` runs; with `sh skip` it does not; `text`, `ts` and `r` show something. What a page says that a
command prints stands in the `text` fence after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "app" / "guide"
RUN = ("sh", "python")
SHOW = ("sh skip", "text", "ts", "r")

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fence: its info string, its text, and the line on which it begins."""

    kind: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """Every fence of a page of the guide."""
    text = (GUIDE / f"{page}.md").read_text("utf-8")
    return [
        Block(match[1].strip(), match[2], text.count("\n", 0, match.start()) + 1) for match in _FENCE.finditer(text)
    ]
