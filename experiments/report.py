"""The store of finished cells, and RESULTS.md made of it."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.cells import stored_key
from experiments.tables import Experiment, Table

Result = dict[str, Any]


class Store:
    """Results by key: one line of JSON each, one file per table, appended as they arrive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._results: dict[str, Result] = {}
        found = []
        for file in sorted(folder.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:  # the line that a kill cut short
                    continue
        for result in sorted(found, key=lambda r: r.get("created", "")):  # of two for the same cell, the newer one
            self._results[stored_key(result)] = result

    def get(self, key: str) -> Result | None:
        """The result of that key, from whichever table."""
        return self._results.get(key)

    def results(self) -> list[Result]:
        """All results, in the order in which they came."""
        return list(self._results.values())

    def add(self, table: str, result: Result) -> None:
        """Keep a result."""
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{table}.jsonl"
            torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size
            with path.open("a", encoding="utf-8") as file:
                file.write(("\n" if torn else "") + json.dumps(result, sort_keys=True) + "\n")
            self._results[result["key"]] = result


@dataclass(frozen=True)
class Row:
    """An experiment with the results of its folds, and how its settings were chosen."""

    experiment: Experiment
    results: list[Result]
    chosen: Mapping[str, Any]
    folds: int


def section(table: Table, corpus: str, rows: Iterable[Row], command: str) -> str:
    """The table as Markdown, our numbers beside the paper's."""
    rows = list(rows)
    done = [r for row in rows for r in row.results]
    dev = any(r.get("dev_error") is not None for r in done)
    lines = [f"## {table.name} on {corpus}", "", f"{table.title} ({table.reference}).", ""]
    if table.text:
        lines += [table.text.strip(), ""]
    lines += [f"`{command}`", ""]
    if done:
        lines += [_facts(done), ""]
    if any(not row.results for row in rows):
        lines += ["Rows without a figure were not computed, for want of time; the command goes on with them.", ""]
    head = [
        "system",
        "paper %",
        "ours %",
        *(["95 % or fold range"] if done else []),
        "folds",
        "weights",
        "min",
        "chosen, notes",
    ]
    if dev:
        head.insert(2, "paper dev %")
        head.insert(4, "ours dev %")
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(_cells(row, dev, bool(done))) + " |")
    return "\n".join(lines) + "\n"


def _facts(done: list[Result]) -> str:
    commits = sorted({r["commit"] for r in done})
    seeds = sorted({r["seed"] for r in done})
    wall, cpu = (sum(r[k] for r in done) / 60 for k in ("seconds", "cpu_seconds"))
    return (
        f"Seed {', '.join(map(str, seeds))}; commit {', '.join(commits)} (+: with changes); "
        f"{wall:.0f} minutes of wall time, {cpu:.0f} of one core."
    )


def _cells(row: Row, dev: bool, done: bool) -> list[str]:
    e, results = row.experiment, row.results
    paper = "" if e.paper is None else f"{e.paper:g}"
    cells = [e.name, paper]
    if dev:
        cells.append("" if e.paper_dev is None else f"{e.paper_dev:g}")
    if not results:
        return [*cells, "–", *([""] if dev else []), *([""] if done else []), f"0/{row.folds}", "", "", e.note]
    errors = [100 * r["error"] for r in results]
    cells.append(f"**{statistics.fmean(errors):.2f}**")
    if dev:
        devs = [100 * r["dev_error"] for r in results if r.get("dev_error") is not None]
        cells.append(f"{statistics.fmean(devs):.2f}" if devs else "")
    if len(errors) > 1:
        cells.append(f"{min(errors):.2f} to {max(errors):.2f}")
    else:
        low, high = wilson(results[0]["errors"], results[0]["segments"])
        cells.append(f"{100 * low:.1f} to {100 * high:.1f}")
    chosen = ", ".join(f"{k} {v:g}" for k, v in row.chosen.items())
    return [
        *cells, f"{len(results)}/{row.folds}", f"{results[0]['parameters']:,}".replace(",", " "),
        f"{sum(r['seconds'] for r in results) / 60:.1f}", "; ".join(x for x in (chosen, e.note) if x),
    ]  # fmt: skip


def wilson(errors: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share, taking the segments as independent."""
    p = errors / n
    middle, half = (p + z * z / (2 * n)), z * ((p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5)
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


HEAD = """# Results

The paper's tables, computed again: *Sum-Product Networks for Sequence Labeling*, its number beside ours. Each section is
written by the command under its title from the cells in `runs/`; "min" is wall time of one process with one thread, of all
folds together.

"""


def write(path: Path, text: str) -> None:
    """Put the section into RESULTS.md, in place of the one with the same title."""
    old = path.read_text(encoding="utf-8") if path.exists() else HEAD
    head, *parts = old.split("\n## ")
    sections = {part.split("\n", 1)[0]: part for part in parts}
    sections[text.removeprefix("## ").split("\n", 1)[0]] = text.removeprefix("## ")
    body = "\n## ".join(part.strip() + "\n" for part in (sections[k] for k in sorted(sections)))
    path.write_text(head.strip() + "\n\n## " + body, encoding="utf-8")
