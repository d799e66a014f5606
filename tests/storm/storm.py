"""Kills at random moments, and what has to be true afterwards."""

from __future__ import annotations

import io
import json
import random
import shutil
import time
import uuid
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load
from sqlalchemy import delete

from phonechain.app.jobs import cleanup
from phonechain.app.storage.accounting import Account, measure
from phonechain.app.storage.database import sqlite_url
from phonechain.app.storage.tables import Hold
from phonechain.app.storage.workspace import Workspace
from tests.storm.stage import Patient, Stage

SPECS: dict[str, dict[str, Any]] = {
    "label": {"kind": "label", "formats": ["htk"]},
    "align": {"kind": "align", "refine": True, "formats": ["htk"]},
    "train": {"kind": "train", "name": "stormy", "training": {"epochs": 5, "batch": 4, "patience": 0}},
}
ATTEMPTS = 0.35, 3.0
"""The pause before a kill, as multiples of the time that a job takes from its request to its first progress."""


class Storm:
    """Jobs without end, and kills among them."""

    def __init__(self, stage: Stage, archive: bytes, seed: int, say: Callable[[str], None] = print) -> None:
        self.stage, self.seed, self.say = stage, seed, say
        self.random = random.Random(seed)
        self.client = Patient(stage, 300)
        answer = self.client.post("/corpora", content=archive, headers={"content-type": "application/zip"})
        assert answer.status_code == 201, answer.text
        self.corpus = answer.json()
        self.archive = archive
        self.jobs: dict[str, str] = {}
        self.ended: dict[str, dict[str, Any]] = {}
        self.calm: dict[str, Any] = {}
        self.pace = 5.0
        self.kills: dict[str, int] = {}
        self.uploads = 0
        self.accounts: list[Account] = []

    def submit(self, kind: str, service: int = 0) -> str:
        """A job, once, however often the request has to be repeated."""
        key = uuid.uuid4().hex
        body = {**SPECS[kind], "corpus": self.corpus["id"]}
        answer = self.client.post("/jobs", json=body, headers={"Idempotency-Key": key}, service=service)
        assert answer.status_code == 202, answer.text
        self.jobs[answer.json()["id"]] = kind
        return str(answer.json()["id"])

    def calmly(self) -> None:
        """One job of each kind without kills: what the others are compared with, and how long things take here."""
        first: list[float] = []
        for kind in SPECS:
            job = self.client.wait_for_end(self.submit(kind), 600)
            assert job["state"] == "succeeded", job
            self.calm[kind] = self.result(job["id"], kind)
            self.ended[job["id"]] = job
            if kind == "label":
                events = self.events(job["id"])
                first.append(events[min(2, len(events) - 1)]["at"] - events[0]["at"])
        self.pace = max(1.0, first[0])

    def rage(self, kills: int, victims: dict[str, int]) -> None:
        """Kill `kills` processes, chosen by weight, while there are always jobs to do."""
        done = 0
        began = time.monotonic()
        while done < kills:
            self._keep_busy()
            low, high = (0.0, 0.3) if self.random.random() < 0.3 else ATTEMPTS
            time.sleep(self.pace * self.random.uniform(low, high) / 2)
            kind = self.random.choices(list(victims), list(victims.values()))[0]
            if self.stage.kill(kind, self.random.choice):
                done += 1
                self.kills[kind] = self.kills.get(kind, 0) + 1
                if done % 10 == 0 or done == kills:
                    self.refuse_uploads()
                    self.account()
                    ended = len(self.ended)
                    self.say(
                        f"{done} kills in {time.monotonic() - began:.0f} s, {ended} of {len(self.jobs)} jobs ended"
                    )

    def refuse_uploads(self) -> None:
        """One archive four times at once, to each service in turn; two of them are refused."""
        out = io.BytesIO(self.archive)
        with zipfile.ZipFile(out, "a") as file:
            file.writestr("README.md", f"{self.seed} {self.uploads}")
        headers = {"content-type": "application/zip"}

        def put(n: int) -> int:
            query = ("name=twin", "tier=no-such-tier")[n % 2]
            service = (n // 2) % len(self.stage.ports)
            return self.client.post(
                f"/corpora?{query}", content=out.getvalue(), headers=headers, service=service
            ).status_code

        with ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(put, range(4)))
        assert statuses == [201, 422] * 2, statuses
        self.uploads += 1

    def account(self, *, quiet: bool = False) -> Account:
        """The disk against the rows. While jobs run, files may be half written; once it is quiet, all is equal."""
        workspace = workspace_of(self.stage)
        if quiet:  # what killed processes held and half wrote is theirs no more
            with workspace.db.write() as session:
                session.execute(delete(Hold))
            for leftover in cleanup.list_leftovers(workspace):
                shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)
            cleanup.sweep(workspace)
        found = measure(workspace)
        assert not found.missing, found
        unwritten = ("blobs/tmp/", "cache/corpora/.", "cache/tmp/", "runs/")
        # A worker's blob has a hold before it has its name, so that one without either is a leak.
        strays = [path for path in found.stray if quiet or not path.startswith(unwritten)]
        assert not strays, found
        assert not quiet or found.balanced, found
        self.accounts.append(found)
        self.say(f"disk {found.disk} bytes, reachable {found.reachable}, {len(found.stray)} files half written")
        return found

    def _keep_busy(self) -> None:
        for id in [id for id in self.jobs if id not in self.ended]:
            job = self.client.get(f"/jobs/{id}").json()
            if job["state"] in ("succeeded", "failed", "cancelled"):
                self.ended[id] = job
        waiting = {self.jobs[id] for id in self.jobs if id not in self.ended}
        for kind in SPECS:
            if kind not in waiting:
                self.submit(kind, self.random.randrange(len(self.stage.ports)))

    def settle(self, seconds: float = 600.0) -> None:
        """Wait for every job."""
        for id in self.jobs:
            self.ended[id] = self.client.wait_for_end(id, seconds)

    def check(self) -> None:
        """Every job ended once, and its result is that of the calm: nothing missing, doubled, half written or other."""
        for id, kind in self.jobs.items():
            job = self.ended[id]
            assert job["state"] == "succeeded", job
            events = self.events(id)
            states = [e["state"] for e in events if e["type"] == "state"]
            assert states.count("succeeded") == 1, states
            assert states[-1] == "succeeded", states
            assert [e["id"] for e in events] == list(range(1, len(events) + 1))
            self.compare(self.result(id, kind), self.calm[kind], kind, job)
        listed = [j["id"] for j in self.client.get("/jobs?limit=200").json()["jobs"]]
        assert set(self.jobs) <= set(listed) or len(listed) == 200
        assert len(set(listed)) == len(listed)

    def compare(self, found: Any, calm: Any, kind: str, job: dict[str, Any]) -> None:
        if kind in ("label", "align"):
            assert job["progress"]["done"] == job["progress"]["total"] == self.corpus["utterances"], job
            assert found == calm
            return
        assert set(found) == set(calm)
        for name, value in calm.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{job['id']} {name}")

    def result(self, id: str, kind: str) -> Any:
        answer = self.client.get(f"/jobs/{id}/result?format=jsonl")
        assert answer.status_code == 200, answer.text
        if kind == "train":
            return load(answer.content)
        rows = [json.loads(line) for line in answer.text.splitlines()]
        assert len({row["utterance"] for row in rows}) == len(rows)
        return rows

    def events(self, id: str) -> list[dict[str, Any]]:
        """All events of a job that has ended."""
        text = self.client.get(f"/jobs/{id}/events").text
        events = []
        for block in text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in lines:
                events.append({**json.loads(lines["data"]), "id": int(lines["id"]), "type": lines["event"]})
        return events


def workspace_of(stage: Stage) -> Workspace:
    """What the services of a stage keep, which lies in its folder."""
    data = stage.folder / "data"
    return Workspace(
        stage.env.get("PHONECHAIN_DATABASE") or sqlite_url(data / "phonechain.db"), str(data / "blobs"), str(data)
    )


def no_orphans(stage: Stage, seconds: float = 45.0) -> None:
    """After the end of a stage nothing of it is left, at most for a moment."""
    limit = time.monotonic() + seconds
    while left := stage.family():
        from tests.storm.stage import command_of

        assert time.monotonic() < limit, {pid: command_of(pid) for pid in left}
        time.sleep(0.2)


EMBEDDED = {"worker": 7, "service": 3}
CLUSTERED = {"worker": 6, "nanny": 1, "scheduler": 2, "service": 2}


def blow(
    folder: Path, model: Path, archive: bytes, *, clustered: bool, kills: int, seed: int, services: int = 1, **settings: Any
) -> Storm:  # fmt: skip
    """A whole storm, its checks, and the check that nothing of it is left."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = Stage(folder, model, clustered=clustered, services=services, **settings)
    try:
        with stage:
            storm = Storm(stage, archive, seed)
            storm.calmly()
            storm.rage(kills, CLUSTERED if clustered else EMBEDDED)
            storm.settle()
            storm.check()
    finally:
        no_orphans(stage)
    storm.account(quiet=True)
    return storm
