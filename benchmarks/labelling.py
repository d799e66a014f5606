"""A labelling job of 5,000 utterances with one worker and with two, and of 100,000 by reference.

    python benchmarks/labelling.py [--utterances 5000] [--references 100000] [--workers 1 2]

What is timed is the job, from its first part to its end, once the workers have loaded their libraries; beside it the
largest memory of a worker at the first tenth and in the last tenth of the job. Speech: speechocean762 (PHONECHAIN_SHARED, or
`shared` beside the checkout).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.app.jobs import speech  # noqa: E402
from tests.storm.stage import Patient, Stage  # noqa: E402


def resident(pid: int) -> int:
    """Memory of a process that is nobody else's, bytes (the unique set size)."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private_Dirty:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def run(stage: Stage, client: Patient, corpus: dict[str, Any]) -> dict[str, float]:
    """One labelling job: seconds, and the largest memory of a worker (MiB) early and late."""
    body = {"kind": "label", "corpus": corpus["id"], "formats": ["htk"]}
    job = client.post("/jobs", json=body).json()
    early, late = 0, 0
    while True:
        at = client.get(f"/jobs/{job['id']}").json()
        share = at["progress"]["done"] / max(1, at["progress"]["total"])
        memory = max((resident(pid) for pid in stage.workers()), default=0)
        if 0.05 <= share <= 0.15:
            early = max(early, memory)
        if share >= 0.9:
            late = max(late, memory)
        if at["state"] in ("succeeded", "failed", "cancelled"):
            break
        time.sleep(0.5)
    assert at["state"] == "succeeded", at
    assert at["progress"]["done"] == corpus["utterances"], at
    events = client.get(f"/jobs/{job['id']}/events").text
    times = [json.loads(line[6:])["at"] for line in events.splitlines() if line.startswith("data: ")]
    return {"seconds": times[-1] - times[1], "early": early / 2**20, "late": late / 2**20}


def references(root: Path, count: int) -> str:
    """A list of `count` references to the utterances under `root`, over and over."""
    files = sorted(root.rglob("*.lab"))
    lines = []
    for n in range(count):
        lab = files[n % len(files)]
        lines.append(json.dumps({"id": f"{n:06d}", "audio": str(lab.with_suffix(".ogg")), "annotation": str(lab)}))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--utterances", type=int, default=5000)
    parser.add_argument("--references", type=int, default=100_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    asked = parser.parse_args()
    root = Path(os.environ.get("PHONECHAIN_SHARED") or ROOT.parent / "shared").resolve() / "data" / "speechocean762"
    if not root.is_dir():
        print("speechocean762 is not there: set PHONECHAIN_SHARED", file=sys.stderr)
        return 1
    found: dict[tuple[int, int], dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="labelling-") as name:
        folder = Path(name)
        model = speech.model(folder / "model.safetensors", speech.folder(folder / "corpus", 20))
        for workers in asked.workers:
            place = folder / f"w{workers}"
            place.mkdir()
            counts = [asked.utterances, *([asked.references] if workers == max(asked.workers) else [])]
            with Stage(
                place,
                model,
                clustered=False,
                workers=workers,
                shard_files=64,
                corpus_roots=root,
                max_upload_bytes=2**32,
            ) as stage:
                client = Patient(stage, 600)
                headers = {"content-type": "application/jsonl"}
                warm = client.post("/corpora", content=references(root, 64 * workers), headers=headers).json()
                run(stage, client, warm)
                for count in filter(None, counts):
                    made = client.post("/corpora", content=references(root, count), headers=headers)
                    assert made.status_code == 201, made.text
                    one = found[workers, count] = run(stage, client, made.json())
                    print(f"{workers} workers, {count} utterances: {one['seconds']:.1f} s", file=sys.stderr, flush=True)
    print(f"{'utterances':>10} {'workers':>8} {'seconds':>9} {'ms each':>8} {'MiB early':>10} {'MiB late':>9}")
    for (workers, count), one in found.items():
        each = 1e3 * one["seconds"] / count
        print(f"{count:10} {workers:8} {one['seconds']:9.1f} {each:8.2f} {one['early']:10.0f} {one['late']:9.0f}")
    first, last = min(asked.workers), max(asked.workers)
    if first != last:
        ratio = found[last, asked.utterances]["seconds"] / found[first, asked.utterances]["seconds"]
        print(f"{last} workers take {ratio:.2f} of the time of {first} (bar 0.65)")
    if asked.references:
        linear = (found[last, asked.references]["seconds"] / asked.references) / (
            found[last, asked.utterances]["seconds"] / asked.utterances
        )
        print(f"an utterance among {asked.references} costs {linear:.2f} of one among {asked.utterances}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
