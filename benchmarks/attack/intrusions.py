"""Attacks that want what is not theirs: to run code, read files, use others' rights, lose others' data."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from benchmarks.attack import cluster
from benchmarks.attack.archives import sample_archive
from benchmarks.attack.target import ADMIN, SECRET, Check, Target
from phonechain.app import samples
from phonechain.app.storage import references
from phonechain.app.storage.accounting import measure

LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def code_in_the_scheduler(target: Target) -> list[Check]:
    """Run code as the service through its Dask scheduler, with no certificate."""
    with cluster.open_cluster() as port:
        works, said = cluster.attempt(port, target.folder / "shown")
    checks = [(f"the attempt runs code in a cluster without certificates: {said}", works)]
    marker = target.folder / "owned"
    with target.client("train") as client:
        corpus = client.post(
            "/corpora", content=sample_archive("dask"), headers={"Content-Type": "application/zip"}
        ).json()
        job = client.post("/jobs", json={"kind": "label", "corpus": corpus["id"]}).json()
        limit = time.monotonic() + 120
        while client.get(f"/jobs/{job['id']}").json()["state"] == "queued" and time.monotonic() < limit:
            time.sleep(0.2)
        ports = sorted(listening(target.family()) - {target.port})
        for port in ports:
            ran, said = cluster.attempt(port, marker)
            checks.append((f"no code ran through port {port}: {said}", not ran))
            checks += [(f"port {port} tells {page}", False) for page in PAGES if is_dask_page(port, page)]
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in target.family()[1:]]
        state = wait_for_end(client, job["id"])
    return [
        *checks,
        ("ports of the cluster were found", bool(ports)),
        ("no code ran after all", not marker.exists()),
        ("workers hold no secrets", not any(s.encode() in e for e in environments for s in (ADMIN, SECRET))),
        ("the job succeeded", state == "succeeded"),
    ]


PAGES = ("info/main/workers.html", "json/identity.json", "metrics", "health")
"""What Dask would tell everybody over HTTP."""


def is_dask_page(port: int, page: str) -> bool:
    """Whether this port answers with a page of Dask's."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/{page}", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def listening(pids: list[int]) -> set[int]:
    """TCP ports on which these processes listen."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    inodes.add(os.readlink(fd))
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == LISTEN and f"socket:[{row[9]}]" in inodes}


def wait_for_end(client: httpx.Client, id: str, seconds: float = 240.0) -> str:
    """The state in which a job ends."""
    limit = time.monotonic() + seconds
    while (state := client.get(f"/jobs/{id}").json()["state"]) not in ("succeeded", "failed", "cancelled"):
        if time.monotonic() > limit:
            return f"still {state}"
        time.sleep(0.3)
    return str(state)


def refuse_twins(target: Target) -> list[Check]:
    """Uploads of one archive at the same time, some refused: those taken keep their files, the others leave nothing."""
    with target.client() as client, ThreadPoolExecutor(4) as pool:
        for n in range(6):
            data = sample_archive(f"twin {n}")

            def put(query: str, data: bytes = data) -> int:
                return client.post(
                    f"/corpora?{query}", content=data, headers={"Content-Type": "application/zip"}
                ).status_code

            statuses = list(pool.map(put, ("name=a", "tier=none", "name=b", "tier=none")))
    # The probe writes nothing; models that jobs took are collected first.
    references.collect(target.workspace())
    found = measure(target.workspace())
    return [
        ("taken and refused", sorted(statuses) == [201, 201, 422, 422]),
        (f"disk {found.disk}, rows {found.reachable} bytes, {len(found.stray)} strays", found.balanced),
    ]


def out_of_the_root(target: Target) -> list[Check]:
    """Read files outside of the folders for corpora, by `..` and by links; learn what they say from errors."""
    secret = target.folder / "secret"
    secret.mkdir()
    (secret / "u.flac").write_bytes(samples.AUDIO.read_bytes())
    (secret / "u.TextGrid").write_text("root:x:0:0:A SECRET LINE")
    corpus = target.folder / "roots" / "corpus"
    corpus.mkdir()
    (target.folder / "roots" / "link").symlink_to(secret)
    (corpus / "u.flac").symlink_to(secret / "u.flac")
    (corpus / "u.TextGrid").symlink_to(secret / "u.TextGrid")
    texts, statuses = [], []
    with target.client() as client:
        for folder in (
            f"{corpus}/../../secret",
            f"{corpus}/..",
            str(target.folder / "roots" / "link"),
            "/etc",
            str(corpus),
        ):
            answer = client.post("/corpora", json={"folder": folder})
            statuses.append(answer.status_code)
            texts.append(answer.text)
        line = json.dumps({"audio": f"{corpus}/../../secret/u.flac", "annotation": "/etc/passwd"}).encode()
        answer = client.post("/corpora", content=line, headers={"Content-Type": "application/jsonl"})
        statuses.append(answer.status_code)
        texts.append(answer.text)
    return [
        (f"refused: {statuses}", all(status in (403, 422) for status in statuses)),
        ("nothing of the files is told", not any("A SECRET" in text or "root:x" in text for text in texts)),
    ]


def other_sites(target: Target) -> list[Check]:
    """A page of another site, and a name of somebody else's that leads here; lines of the log that were never written."""
    key = target.bearer()
    forged = "1.2.3.4\t2026-01-01 00:00:00.000 INFO    access: GET / 200 key=admin"
    with httpx.Client(base_url=target.url, timeout=60) as client:
        rebound = client.get("/models", headers={"Host": "evil.example", **key}).status_code
        crossed = client.post("/jobs", headers={"Origin": "https://evil.example", **key}).status_code
        fetched = client.delete("/jobs/x", headers={"Sec-Fetch-Site": "cross-site", **key}).status_code
        moved = client.get("/jobs/", headers=key).headers.get("location")
        client.get("/nope%0A2026-01-01 INFO forged", headers={"X-Forwarded-For": forged, "X-Request-ID": "a b=c"})
        client.post("/jobs/%1b[2Jx/cancel", headers=key)
    lines = [line for line in target.log.splitlines() if "forged" in line or "1.2.3.4" in line]
    fields = [re.sub(r'"(\\.|[^"\\])*"', "", line) for line in lines]
    return [
        (f"host {rebound}, origin {crossed}, fetch {fetched}", (rebound, crossed, fetched) == (421, 403, 403)),
        (f"redirect to {moved}", moved == "/jobs"),
        ("no forged line or field", not any("key=admin" in one or one.startswith("2026-01-01") for one in fields)),
        ("no control characters", "\x1b" not in target.log),
    ]


def others_jobs(target: Target) -> list[Check]:
    """See and cancel what belongs to another key; call addresses of the network by webhook."""
    with target.client("train") as mine, target.client("other") as other:
        corpus = mine.post(
            "/corpora", content=sample_archive("mine"), headers={"Content-Type": "application/zip"}
        ).json()
        job = mine.post("/jobs", json={"kind": "label", "corpus": corpus["id"]}).json()
        seen = [
            other.get(f"/jobs/{job['id']}").status_code, other.post(f"/jobs/{job['id']}/cancel").status_code,
            other.get(f"/corpora/{corpus['id']}").status_code, other.get(f"/jobs/{job['id']}/result").status_code,
        ]  # fmt: skip
        listed = len(other.get("/jobs").json()["jobs"])
        hooks = [
            mine.post("/jobs", json={"kind": "label", "corpus": corpus["id"], "webhook": f"http://{host}/"}).status_code
            for host in ("127.0.0.1", "[64:ff9b::7f00:1]", "[::7f00:1]", "169.254.169.254", "[2002:7f00:1::]")
        ]
        denied = other.post("/keys", json={"name": "x", "scopes": ["admin"]}).status_code
        state = wait_for_end(mine, job["id"])
    return [
        (f"another's: {seen}, {listed} listed", seen == [404] * 4 and not listed),
        (f"webhooks: {hooks}", hooks == [422] * 5),
        (f"keys: {denied}", denied == 403),
        (f"the job {state}", state == "succeeded"),
    ]
