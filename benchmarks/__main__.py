"""`python -m benchmarks`: the benchmarks one after the other, into `benchmarks/RESULTS.md`.

    python -m benchmarks                  all of them, about ten minutes
    python -m benchmarks chain requests   these; the others' sections stay as they are

Each section has its command, the commit and the day. Figures are ratios of one run or stand beside their peer in it; what is
absolute holds for the machine that the head names.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"

COMMANDS = {
    "chain": ("chain.py",),
    "features": ("features.py",),
    "annotation": ("annotation.py",),
    "requests": ("requests.py",),
    "start": ("start.py",),
    "corpus": ("corpus.py",),
    "alignment": ("alignment.py", "--seconds", "10", "--rounds", "3"),
    "memory": ("memory.py", "--segments", "1000", "60000"),
}


def git(*command: str) -> str:
    """What git says, without the end of the line."""
    done = subprocess.run(["git", "-C", str(HERE), *command], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def describe_commit() -> str:
    """The commit, and whether the tree has changes that it does not; the file of results is left out."""
    return git("rev-parse", "--short", "HEAD") + (
        " with changes" if git("status", "--porcelain", "-uno", "--", ":/", ":!RESULTS.md") else ""
    )


def describe_machine() -> str:
    """Processor, cores and versions."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "numpy", "librosa"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{found[1] if found else platform.machine()}, {cores} cores; Python {platform.python_version()}, {packages}"


def run(name: str) -> tuple[str, int]:
    """The section of a benchmark, and its exit code."""
    command = COMMANDS[name]
    env = dict(os.environ, PYTHONPATH=str(HERE.parent))
    print(f"{name} ...", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, HERE / command[0], *command[1:]], stdout=subprocess.PIPE, text=True, env=env, check=False
    )
    line = f"`python benchmarks/{' '.join(command)}`, {describe_commit()}, {datetime.date.today()}"
    failed = f"\n\n**exit code {done.returncode}**" if done.returncode else ""
    body = done.stdout.strip()
    if "|" not in body:
        body = f"```\n{body}\n```"
    return f"## {name}\n\n{line}{failed}\n\n{body}\n", done.returncode


def main() -> int:
    """Run what is asked for, write the file. The exit code is 1 where a benchmark failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMMANDS)}; all by default")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(COMMANDS):
        parser.error(f"expected names among {', '.join(COMMANDS)}, got {', '.join(sorted(unknown))}")
    text = RESULTS.read_text("utf-8") if RESULTS.exists() else ""
    sections = {part.split("\n", 1)[0]: f"## {part}" for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}
    worst = 0
    for name in asked.names or COMMANDS:
        sections[name], code = run(name)
        worst = max(worst, code)
        ordered = [sections[one].rstrip() for one in COMMANDS if one in sections]
        head = f"# Benchmarks\n\n`make bench` writes this file. {describe_machine()}."
        RESULTS.write_text("\n\n".join([head, *ordered]) + "\n", "utf-8")
    return int(worst != 0)


if __name__ == "__main__":
    raise SystemExit(main())
