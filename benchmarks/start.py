"""Time from the start to the answer of `phonechain label` of one file, part by part.

Each part is a process of its own that does what the parts before it do, and one thing more; the difference is that part's time.
Medians, in turn. The whole command has a goal; it also parses its options and prints a table, which no part does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled, as an installed package has them
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from phonechain.app import samples  # noqa: E402

GOAL = 1.5
"""Seconds that `phonechain label` of the sample may take."""

CLI = """
import phonechain.app.cli.label, phonechain.app.cli.answers, phonechain.app.labelling.pipeline
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
"""
LOAD = "labeler = PhoneLabeler.load(pretrained_path())"
ANSWER = f"""
from phonechain import read_audio, read_segments
labeler.label(read_audio({str(samples.AUDIO)!r}), read_segments({str(samples.SEGMENTS)!r}))
"""

STEPS = {
    "python": "import atexit, gc; gc.set_threshold(50_000, 20, 20); atexit.register(gc.freeze)",  # as the command line does
    "numpy": "import numpy",
    "torch": "import torch",
    "the command line's own imports": CLI,
    "the model": LOAD,
    "features and answer of the sample": ANSWER,
}
"""What each part does, after those before it."""

LABEL = [sys.executable, "-m", "phonechain.app.cli", "label", str(samples.AUDIO), str(samples.SEGMENTS)]


def measure(command: list[str]) -> float:
    """Seconds of a process from start to end."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=str(ROOT)))
    return time.perf_counter() - begun


def main() -> int:
    """Run, print a table. The exit code is 1 if the goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    steps = list(STEPS.values())
    commands = [[sys.executable, "-c", "\n".join(steps[: n + 1])] for n in range(len(steps))] + [LABEL]
    for command in commands:
        measure(command)  # from now on modules are compiled and files in the system's memory
    rounds = [[measure(command) for command in commands] for _ in range(asked.rounds)]
    *sums, whole = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{'part':36}  seconds  so far   (medians of {asked.rounds})")
    before = 0.0
    for name, seconds in zip(STEPS, sums, strict=True):
        print(f"{name:36}  {seconds - before:7.2f} {seconds:7.2f}")
        before = seconds
    print(f"{'`phonechain label`, whole':36}          {whole:7.2f}")
    print(f"goal: {GOAL} s: {'met' if whole <= GOAL else 'missed'}")
    return int(whole > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
