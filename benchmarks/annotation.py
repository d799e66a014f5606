"""How long annotation files take to read, and whether the time grows with the file and no faster.

    python benchmarks/annotation.py [--count 10000]

Least processor time of five readings. The first table has a file of `count` intervals in each format and the ratio to a
file of a quarter of them; the second has files with one thing repeated, as a damaged or hostile file would, and the same
ratio. 4 is linear, 16 quadratic. The exit code is 1 where a format takes more than 0.1 s or a ratio is 10 or more.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from phonechain.features.annotation import FORMATS, read, write
from tests.features.annotation.test_fuzz import LONG_RUNS, survive
from tests.features.annotation.test_growth import grid

LONGEST = 0.1
STEEPEST = 10.0
SHORT = 0.01
"""Seconds below which a time is mostly noise, and a ratio says nothing."""


def seconds(run: Callable[[], object], times: int = 5) -> float:
    """Least processor time of several runs."""
    spent = []
    for _ in range(times):
        gc.collect()
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return min(spent)


def growth(one: float, four: float) -> float:
    """Of the time, where the input grew fourfold."""
    return four / max(one, SHORT / 4)


def main() -> int:
    """Print both tables; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    missed = []
    print(f"{'format':16} {count:>8} intervals, ms  growth at four times the size")
    for name in FORMATS:
        few, many = write(grid(count // 4), name), write(grid(count), name)
        one = seconds(lambda few=few, name=name: read(few, format=name))  # type: ignore[misc]
        four = seconds(lambda many=many, name=name: read(many, format=name))  # type: ignore[misc]
        print(f"{name:16} {1000 * four:22.1f}  {growth(one, four):.1f}")
        if four > LONGEST or growth(one, four) >= STEEPEST:
            missed.append(name)
    print(f"\n{'repeated':28} {'count':>8} {'ms':>8}  growth at four times the size")
    for before, unit, length, after in LONG_RUNS:
        one = seconds(lambda: survive(before + unit * (length // 4) + after, None), 3)  # noqa: B023
        four = seconds(lambda: survive(before + unit * length + after, None), 3)  # noqa: B023
        print(f"{ascii(unit)[1:]:28} {length:8} {1000 * four:8.1f}  {growth(one, four):.1f}")
        if growth(one, four) >= STEEPEST:
            missed.append(ascii(unit))
    if missed:
        print(f"too slow: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
