"""What an attack costs others: `/classify` beside it, and the memory of the service."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from benchmarks.attack.target import Check, Target
from phonechain.app import samples


def probe(url: str, key: str, over: Any, out: Any) -> None:
    """Label the sample until told to stop; the seconds of each answer, and how many were not 200."""
    files: dict[str, Any] = {
        "audio": samples.AUDIO.read_bytes(),
        "segments": (samples.SEGMENTS.name, samples.SEGMENTS.read_bytes()),
    }
    seconds: list[float] = []
    wrong = 0
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
        while not over.is_set() or len(seconds) < 5:
            begun = time.perf_counter()
            try:
                wrong += client.post("/classify", files=files).status_code != 200
            except httpx.HTTPError:
                wrong += 1
            seconds.append(time.perf_counter() - begun)
            time.sleep(0.02)
    out.put((seconds, wrong))


@dataclass(frozen=True)
class Measured:
    """Seconds of `/classify` beside an attack, answers that were not 200, memory in MiB."""

    seconds: list[float]
    wrong: int
    before: float
    peak: float

    def quantile(self, q: float) -> float:
        """A quantile of the seconds."""
        return float(np.quantile(self.seconds, q))


def beside(target: Target, attack: Callable[[Target], list[Check]]) -> tuple[Measured, list[Check], float]:
    """(what was measured, what was checked, seconds) while an attack runs, and `target.seconds` at least."""
    context = multiprocessing.get_context("fork")
    over, out = context.Event(), context.Queue()
    process = context.Process(target=probe, args=(target.url, target.keys["label"], over, out), daemon=True)
    before, peak, watching = target.resident(), [0.0], threading.Event()

    def watch() -> None:
        while not watching.wait(0.02):
            with contextlib.suppress(OSError):
                peak[0] = max(peak[0], target.resident())

    watcher = threading.Thread(target=watch)
    process.start()
    watcher.start()
    begun = time.monotonic()
    try:
        checks = attack(target)
    except Exception as error:  # an attack that fails by itself shows nothing
        checks = [(f"the attack itself failed: {type(error).__name__}: {error}"[:200], False)]
    while time.monotonic() - begun < target.seconds:
        time.sleep(0.05)
    spent = time.monotonic() - begun
    over.set()
    seconds, wrong = out.get(timeout=300)
    process.join()
    watching.set()
    watcher.join()
    return Measured(seconds, wrong, before, peak[0]), checks, spent
