"""What `compose.sh` asks of a running service, with the standard library alone: `drive.py URL COMMAND ARGUMENTS...`.

ready SECONDS            until /health/ready answers 200
classify AUDIO SEGMENTS  the sample, with a posterior for every segment
upload ZIP               the id of the corpus
train CORPUS NAME EPOCHS the id of the job
label CORPUS MODEL       the id of the job
wait JOB SECONDS         until it has ended; fails unless it succeeded
state JOB                its state, stage and how far it is
running JOB SECONDS      until it is running
rows JOB                 digest of the rows of a labelling job, without what differs from job to job
everything               every job, model and corpus with the digests of the results, for comparison
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

GOING = frozenset({"queued", "running", "cancelling"})


def ask(path: str, body: bytes | None = None, kind: str = "application/json", method: str | None = None) -> bytes:
    """The answer's body; what the service cannot do for the moment is asked again for a minute."""
    limit = time.monotonic() + 60
    while True:
        request = urllib.request.Request(URL + path, body, {"Content-Type": kind} if body else {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != 503 or time.monotonic() > limit:
                sys.exit(f"{path}: {error.code} {error.read(2000).decode('utf-8', 'replace')}")
        except OSError as error:
            if body is not None or time.monotonic() > limit:
                sys.exit(f"{path}: {error}")
        time.sleep(1)


def get(path: str) -> Any:
    return json.loads(ask(path))


def pages(path: str, member: str) -> list[dict[str, Any]]:
    found, cursor = [], ""
    while True:
        page = get(f"{path}?limit=50{cursor}")
        found += page[member]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def ready(seconds: str) -> None:
    limit = time.monotonic() + float(seconds)
    while True:
        try:
            with urllib.request.urlopen(URL + "/health/ready", timeout=5):
                return
        except OSError as error:
            if time.monotonic() > limit:
                sys.exit(f"not ready after {seconds} s: {error}")
        time.sleep(0.2)


def classify(audio: str, segments: str) -> None:
    boundary = uuid.uuid4().hex
    parts = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{Path(file).name}"\r\n\r\n'.encode()
        + Path(file).read_bytes()
        + b"\r\n"
        for name, file in (("audio", audio), ("segments", segments))
    )
    body = parts + f"--{boundary}--\r\n".encode()
    answer = json.loads(ask("/classify?n_best=3", body, f"multipart/form-data; boundary={boundary}"))
    found = [s for s in answer["segments"] if s["label"] and 0 < s["posterior"] <= 1 and len(s["n_best"]) == 3]
    assert len(found) == len(answer["segments"]) == 23, answer
    right = sum(s["label"] == s["given"] for s in found)
    print(f"{len(found)} segments, {right} as the aligner has them, model {answer['model']['version']}")
    assert right >= 12, "a label in two should be right"


def upload(file: str) -> None:
    made = json.loads(ask("/corpora?name=e2e", Path(file).read_bytes(), "application/zip"))
    assert not made["problems"], made["problems"]
    print(made["id"])


def start(**asked: Any) -> None:
    print(json.loads(ask("/jobs", json.dumps(asked).encode()))["id"])


def train(corpus: str, name: str, epochs: str) -> None:
    # Never early: the killed scheduler must find the job running.
    training = {"epochs": int(epochs), "patience": 0, "batch": 4}
    start(kind="train", corpus=corpus, name=name, preset="spn-lc-crf", training=training)


def label(corpus: str, model: str) -> None:
    start(kind="label", corpus=corpus, model=model, formats=["textgrid", "htk"])


def wait_to_leave(job: str, states: frozenset[str], seconds: str, pause: float) -> Any:
    """The job, once it is in none of the states."""
    limit = time.monotonic() + float(seconds)
    while (found := get(f"/jobs/{job}"))["state"] in states:
        if time.monotonic() > limit:
            sys.exit(f"still {found['state']} after {seconds} s: {found}")
        time.sleep(pause)
    return found


def wait(job: str, seconds: str) -> None:
    found = wait_to_leave(job, GOING, seconds, 0.5)
    if found["state"] != "succeeded":
        sys.exit(f"expected a job that succeeds, got {json.dumps(found)}")


def state(job: str) -> None:
    found = get(f"/jobs/{job}")
    print(found["state"], found["progress"]["stage"], found["progress"]["done"])


def running(job: str, seconds: str) -> None:
    found = wait_to_leave(job, frozenset({"queued"}), seconds, 0.1)
    if found["state"] != "running":
        sys.exit(f"expected a running job, got one that is {found['state']}")


def rows(job: str) -> None:
    lines = ask(f"/jobs/{job}/result?format=csv")
    print(lines.count(b"\n"), hashlib.sha256(lines).hexdigest())


def everything() -> None:
    for corpus in pages("/corpora", "corpora"):
        print(json.dumps({"corpus": corpus}, sort_keys=True))
    for job in pages("/jobs", "jobs"):
        print(json.dumps({"job": job}, sort_keys=True))
        kinds = ("zip", "jsonl", "csv") if job["kind"] == "label" else ("zip",)
        for kind in kinds:
            result = ask(f"/jobs/{job['id']}/result?format={kind}")
            print(job["id"], kind, len(result), hashlib.sha256(result).hexdigest())
    print(json.dumps(get("/models"), sort_keys=True))


URL, command, *arguments = sys.argv[1:]
{f.__name__: f for f in (ready, classify, upload, train, label, wait, state, running, rows, everything)}[command](
    *arguments
)
