"""From `POST /jobs/{id}/cancel` to the end of the job: a training and a labelling job in mid-course, embedded form.

    python benchmarks/cancel.py [--tries 5] [--workers 1] [--utterances 100]

Each try starts a job, lets it run for a time of its own up to two seconds, cancels it and asks until it has ended. The
bar is a second; the exit code is 1 where a try took longer.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.app.jobs import speech  # noqa: E402
from tests.storm.stage import Patient, Stage  # noqa: E402

BAR = 1.0
"""Seconds."""
EVERY = 0.01
"""Seconds between two questions for the state."""
ENDED = ("succeeded", "failed", "cancelled")


def corpora(client: Patient, root: Path, count: int) -> dict[str, str]:
    """A corpus for each kind of job: the folder, and a list that names its utterances over and over."""
    folder = client.post("/corpora", json={"folder": str(root), "name": "folder"})
    files = sorted(root.rglob("*.wav"))
    lines = [
        json.dumps({"id": f"{n:06d}", "audio": str(p), "annotation": str(p.with_suffix(".lab"))}) + "\n"
        for n, p in ((n, files[n % len(files)]) for n in range(200 * count))
    ]
    listed = client.post("/corpora", content="".join(lines), headers={"content-type": "application/jsonl"})
    for answer in (folder, listed):
        assert answer.status_code == 201, answer.text
    return {"train": folder.json()["id"], "label": listed.json()["id"]}


def seconds_to_end(client: Patient, body: dict[str, Any], wait: float) -> float:
    """Start a job, cancel it when it has done something and `wait` seconds more; seconds until it has ended."""
    job = client.post("/jobs", json=body).json()
    while True:
        at = client.get(f"/jobs/{job['id']}").json()
        if at["progress"]["stage"] in ("train", "label") and at["progress"]["done"]:
            break
        assert at["state"] in ("queued", "running"), at
        time.sleep(0.05)
    time.sleep(wait)
    began = time.monotonic()
    client.post(f"/jobs/{job['id']}/cancel")
    while (state := client.get(f"/jobs/{job['id']}").json()["state"]) not in ENDED:
        time.sleep(EVERY)
    spent = time.monotonic() - began
    assert state == "cancelled", state
    return spent


def main() -> int:
    """Run, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--utterances", type=int, default=100, help="of the corpus that is trained on")
    asked = parser.parse_args()
    draw = random.Random(1)
    found: dict[str, list[float]] = {"train": [], "label": []}
    with tempfile.TemporaryDirectory(prefix="cancel-") as name:
        place = Path(name)
        root = speech.folder(place / "corpus", asked.utterances)
        model = speech.model(place / "model.safetensors", root, epochs=1)
        with Stage(place, model, clustered=False, workers=asked.workers, corpus_roots=root, shard_files=64) as stage:
            client = Patient(stage, 600)
            ids = corpora(client, root, asked.utterances)
            bodies: dict[str, dict[str, Any]] = {
                "train": {
                    "kind": "train", "corpus": ids["train"], "name": "endless",
                    "training": {"epochs": 100_000, "patience": 0},
                },
                "label": {"kind": "label", "corpus": ids["label"], "formats": ["textgrid"]},
            }  # fmt: skip
            for n in range(asked.tries):
                for kind, body in bodies.items():
                    found[kind].append(seconds_to_end(client, body, draw.uniform(0, 2)))
                    print(f"{kind} {n + 1} of {asked.tries}: {found[kind][-1]:.2f} s", file=sys.stderr, flush=True)
    print("seconds from the cancel to the end of the job")
    print(f"{'':8}" + "".join(f"{n + 1:>8}" for n in range(asked.tries)) + f"{'worst':>8}")
    for kind, times in found.items():
        print(f"{kind:8}" + "".join(f"{t:8.2f}" for t in times) + f"{max(times):8.2f}")
    worst = max(max(times) for times in found.values())
    print(f"bar {BAR:.2f}: {'held' if worst <= BAR else 'missed'}")
    return 0 if worst <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
