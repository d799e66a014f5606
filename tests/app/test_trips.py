"""How long the trip of one request through our files is: counted, so the same on every machine.

Raising a bar is a decision: say in the commit what the longer trip buys. So far: an encoder in front of the factors (ten
files), labels that are spelled otherwise (one), a client that has gone (one), forms that never touch /tmp (one), the checks
of host and origin (one); in a job's creation uploads that are held until a row names them (three) and quotas (one).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trips() -> dict[str, dict[str, dict[str, int]]]:
    """Files and moves by request, from a process of its own: tracing watches every thread."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PHONECHAIN_")}
    out = subprocess.run(
        [sys.executable, "scripts/trace_request.py", "--json"],
        cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    found: dict[str, dict[str, dict[str, int]]] = json.loads(out.stdout)
    return found


def own(files: dict[str, int]) -> set[str]:
    return {name for name in files if name.startswith("app/")}


def test_classify(trips: dict[str, dict[str, dict[str, int]]]) -> None:
    trip = trips["POST /classify"]
    assert len(own(trip["files"])) <= 11, sorted(own(trip["files"]))
    moves = {move: count for move, count in trip["moves"].items() if move.count("app/") == 2}
    assert sum(moves.values()) <= 52, moves
    assert sum(trip["moves"].values()) <= 180, trip["moves"]


def test_a_jobs_creation(trips: dict[str, dict[str, dict[str, int]]]) -> None:
    trip = trips["POST /jobs"]
    every_request = {"app/http/gateway.py", "app/http/origins.py", "app/http/dependencies.py", "app/ops/metrics.py"}
    files = set(trip["files"]) - every_request
    assert len({name.split("/")[1] for name in files}) <= 7, sorted(files)
    assert len(files) <= 14, sorted(files)
    assert own(trip["files"]) == set(trip["files"]), "no model is loaded"


def test_the_top_of_app_is_small() -> None:
    assert len(list((ROOT / "app").glob("*.py"))) <= 8
