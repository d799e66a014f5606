"""python -m experiments TABLE [--data PATH] [--folds 0,1] [--only NAME] [--jobs 2]"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from experiments import cells, report, tables
from experiments.corpora import Source
from experiments.tables import Experiment
from experiments.workers import compute_cell, open_cached, tell
from phonechain.features.errors import CorpusError, PhonechainError
from phonechain.model.settings import replace

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("PHONECHAIN_SHARED", HERE.parent.parent / "shared"))
DEFAULTS = {
    "letters": SHARED / "data" / "letters" / "letter.data.gz",
    "speech": SHARED / "data" / "speechocean762",
}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Compute a table of the paper.")
    parser.add_argument("table", help=f"a table ({', '.join(tables.names())}), a TOML file like theirs, or all")
    parser.add_argument(
        "--data", type=Path, help="the letters' file, or the folder of TIMIT or another corpus of speech"
    )
    parser.add_argument("--folds", default="", help="folds to compute, as 0,1,2 (default: all)")
    parser.add_argument(
        "--only", default="", help="rows to compute: those in whose name this regular expression is found"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1), of one thread each")
    parser.add_argument("--seed", type=int, default=None, help="of weights, order and dropout (default: the preset's)")
    parser.add_argument("--runs", type=Path, default=HERE / "runs", help="where finished cells are kept")
    parser.add_argument("--results", type=Path, default=HERE / "RESULTS.md", help="what is written")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Compute what is missing of a table, and write RESULTS.md after each cell."""
    options = arguments(given)
    try:
        for name in tables.names() if options.table == "all" else [options.table]:
            compute(name, options)
    except PhonechainError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("experiments: broken off; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def compute(name: str, options: argparse.Namespace) -> None:
    """One table: choose settings on a dev split where the table says so, then the folds, then the report."""
    path = options.data or next(DEFAULTS[kind] for kind in tables.corpora(name))
    if not path.exists():
        raise CorpusError(f"expected the data of {name} at {path}, got nothing there: say where with --data")
    kind = "letters" if path.is_file() else "speech"
    table = tables.read(name, kind)
    tell(f"{table.name}: {table.title}; reading {path.name}")
    source = open_cached(path, options.runs / "cache")
    store = report.Store(options.runs)
    experiments = [
        _with_seed(e, options.seed) for e in table.experiments if re.search(options.only, e.name, re.IGNORECASE)
    ]
    folds = [f for f in options.folds.split(",") if f]

    def write() -> None:
        rows = []
        for experiment in (_with_seed(e, options.seed) for e in table.experiments):
            decided = _choose_values(experiment, source, store)
            all_folds = source.folds(experiment.split)
            found = [] if decided is None else [store.get(cells.key(decided, source, f)) for f in all_folds]
            chosen = {} if decided is None else {k: decided.value(k) for k in experiment.choose}
            rows.append(report.Row(decided or experiment, [r for r in found if r is not None], chosen, len(all_folds)))
        command = f"python -m experiments {name}" + (f" --data {path.name}" if options.data is not None else "")
        report.write(options.results, report.section(table, path.name, rows, command))

    def finish(result: dict[str, Any]) -> None:
        store.add(table.name, result)
        tell(f"{result['name']}, {result['fold']}: error {100 * result['error']:.2f} % in {result['seconds']:.0f} s")
        write()

    wanted = [(c, "dev") for e in experiments if e.choose for c in e.candidates()]
    _run_all(wanted, path, source, store, options, finish)
    decided = [_choose_values(e, source, store) for e in experiments]
    # fold by fold, so that a table broken off has something of every row
    wanted = [(e, f) for e in decided if e is not None for f in folds or source.folds(e.split)]
    wanted.sort(key=lambda pair: pair[1])
    _run_all(wanted, path, source, store, options, finish)
    write()
    tell(f"{table.name}: {options.results}")


def _with_seed(experiment: Experiment, seed: int | None) -> Experiment:
    if seed is None:
        return experiment
    return dataclasses.replace(experiment, training=replace(experiment.training, {"seed": seed}))


def _choose_values(experiment: Experiment, source: Source, store: report.Store) -> Experiment | None:
    """The experiment with the values that were best on the dev split; None while they are not known."""
    if not experiment.choose:
        return experiment
    tried = [(c, store.get(cells.key(c, source, "dev"))) for c in experiment.candidates()]
    if any(result is None for _, result in tried):
        return None
    return min(tried, key=lambda pair: pair[1]["error"])[0]  # type: ignore[index]


def _run_all(
    wanted: Iterable[tuple[Experiment, str]], path: Path, source: Source, store: report.Store,
    options: argparse.Namespace, finish: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    missing: dict[str, tuple[Experiment, str]] = {}
    for experiment, fold in wanted:
        missing.setdefault(cells.key(experiment, source, fold), (experiment, fold))
    todo = [pair for key, pair in missing.items() if store.get(key) is None]
    tell(f"{len(missing) - len(todo)} of {len(missing)} cells are there, {len(todo)} to compute")
    if options.jobs <= 1:
        for n, (experiment, fold) in enumerate(todo, 1):
            tell(f"[{n}/{len(todo)}] {experiment.name}, {fold}")
            finish(cells.run(experiment, source, fold, options.runs / "unfinished", tell))
        return
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        queue = iter(todo)
        running: set[Future[dict[str, Any]]] = set()
        done = 0
        while True:
            for experiment, fold in itertools.islice(queue, options.jobs - len(running)):
                running.add(pool.submit(compute_cell, experiment, fold, path, options.runs))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                done += 1
                tell(f"[{done}/{len(todo)}]")
                finish(future.result())


if __name__ == "__main__":
    sys.exit(main())
