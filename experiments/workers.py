"""What a process of `python -m experiments --jobs N` does. It is a module of its own since a started process can't import the
names of a package's `__main__`."""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from experiments import cells
from experiments.corpora import Source, open_source
from experiments.tables import Experiment


def compute_cell(experiment: Experiment, fold: str, path: Path, runs: Path) -> dict[str, Any]:
    """One cell, from the data at `path`; a run that was broken off goes on from its checkpoint in `runs`."""
    return cells.run(experiment, open_cached(path, runs / "cache"), fold, runs / "unfinished", tell)


@cache
def open_cached(path: Path, cache_folder: Path) -> Source:
    """The data, opened once per process."""
    return open_source(path, cache_folder, tell)


def tell(line: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
