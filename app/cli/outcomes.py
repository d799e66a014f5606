"""What `align` and `recognize` do with a folder: the same work on every recording, its outcomes counted and printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import typer

from phonechain.app.cli import common
from phonechain.features.corpora.base import NoticeCount
from phonechain.features.errors import Notice

EVERY = 10.0
"""Seconds between two lines of progress, where standard error is not a terminal."""

T = TypeVar("T")


@dataclass(slots=True)
class Outcome:
    """What came of one recording of a folder.

    Attributes:
        failure: why it could not be used.
        lines: what to print about it at once.
        notices: what to print at the end, once for all recordings with the same one.
        rows: of a table of the whole folder.
    """

    audio: Path
    failure: str | None = None
    phones: int = 0
    lines: Sequence[str] = ()
    notices: Sequence[Notice] = ()
    rows: Sequence[Any] = ()


@dataclass(slots=True)
class Totals:
    """What came of all recordings of a folder."""

    done: int = 0
    failed: int = 0
    phones: int = 0
    notices: NoticeCount = field(default_factory=NoticeCount)
    rows: list[Any] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count a recording that could be used."""
        self.done += 1
        self.phones += outcome.phones
        self.notices.add(outcome.audio, outcome.notices)
        self.rows += outcome.rows

    def finish(self, said: str) -> None:
        """Print what was done. Exits with 1 if files could not be used, 2 if nothing could be done."""
        wrong = f"; {common.count_noun(self.failed, 'file')} could not be used" if self.failed else ""
        print(f"{said}{wrong}", file=sys.stderr)
        if self.failed or not self.done:
            raise typer.Exit(1 if self.done else 2)


def run_folder(
    name: str, work: Callable[[T], Outcome], recordings: Sequence[T], workers: int, lines: Iterable[str] = ()
) -> Totals:
    """`work` on every recording, by so many processes, with progress under a name; `lines` are printed first."""
    totals, count = Totals(), len(recordings)
    with common.bars(every=EVERY) as bars, common.map_in_processes(work, recordings, workers) as outcomes:
        for line in lines:
            bars.line(line)
        for n, outcome in enumerate(outcomes):
            bars.update(name, n, count)
            for line in outcome.lines:
                bars.line(line)
            if outcome.failure is None:
                totals.add(outcome)
            else:
                totals.failed += 1
                bars.line(f"failed {outcome.failure}")
        bars.update(name, count, count)
    common.warn(totals.notices.notices())
    return totals
