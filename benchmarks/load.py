"""The service under load: 64 clients for five minutes, more of them than it takes, and an end in the middle.

    python benchmarks/load.py [--minutes 5] [--clients 64] [--seed 0]

The service runs as a process of its own on a free port of the loopback, this process is its clients. Clips of 1 to 10
seconds are cut from the sample utterance said over and over, as WAV, FLAC and Ogg, with their segments. What is looked
at, and what the exit code 1 means when it is missed:

- from the start of the process to ready in less than 10 s; memory before the first request;
- a client that keeps its connection waits no longer than one that opens a new one for each request;
- under load nothing but 200; requests per second and percentiles of the latency; the service's memory grows by less than
  5 % after the first minute (after the first third of a shorter run);
- with four times as many clients nothing but 200, and 503 with Retry-After;
- SIGTERM while all clients ask: whoever got a connection gets a whole answer, and the process ends with code 0.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from phonechain.app import samples  # noqa: E402
from phonechain.features.annotation import choose_tier, read, tier_segments  # noqa: E402

READY, GROWTH = 10.0, 5.0
KEPT = 1.1
"""Median latency on a kept connection over that on new ones: more than a tenth above 1 is a delay of the socket."""
FORMATS = (("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"))


@dataclass(frozen=True)
class Clip:
    """A body for `POST /classify`, and what its answer must have."""

    content: bytes
    headers: dict[str, str]
    segments: int
    seconds: float


@dataclass
class Seen:
    """Answers: seconds and statuses; what was wrong with them."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    def percentile(self, share: float) -> float:
        """Milliseconds; of the answers that are 200."""
        return float(np.percentile(self.seconds, share)) * 1e3 if self.seconds else float("nan")


def clips(count: int, seed: int) -> list[Clip]:
    """Clips of mixed lengths, drawn from the sample utterance said six times."""
    sound, rate = soundfile.read(samples.AUDIO, dtype="float32")
    once = len(sound) / rate
    known = tier_segments(choose_tier(read(samples.SEGMENTS.read_bytes()))[0])
    drawn = random.Random(seed)
    noise = np.random.default_rng(seed)
    made = []
    for number in range(count):
        seconds = drawn.uniform(1.0, 10.0)
        data = np.tile(sound, 6)[: int(seconds * rate)]
        data = np.clip(data + 0.002 * noise.standard_normal(len(data)).astype(np.float32), -1, 1)
        shifted = [(s.start + n * once, s.end + n * once, s.label) for n in range(6) for s in known]
        segments = [(a, min(b, seconds - 0.001), label) for a, b, label in shifted if a < seconds - 0.03]
        kind, subtype = FORMATS[number % len(FORMATS)]
        out = io.BytesIO()
        soundfile.write(out, data, rate, format=kind, subtype=subtype)
        lab = "".join(f"{round(a * 1e7)} {round(b * 1e7)} {label or 'sil'}\n" for a, b, label in segments)
        files: dict[str, Any] = {"audio": out.getvalue(), "segments": ("a.lab", lab.encode())}
        request = httpx.Request("POST", "http://clip/classify", files=files)
        headers = {"content-type": request.headers["content-type"]}
        made.append(Clip(request.read(), headers, len(segments), seconds))
    return made


class Service:
    """The process of the service."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "service.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PHONECHAIN_")}
        environment |= {"PHONECHAIN_DATA": str(folder / "data"), "PYTHONPATH": str(ROOT)}
        self.begun = time.perf_counter()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "phonechain.app.cli", "serve", "--port", "0"],
                stdout=subprocess.PIPE, stderr=log, cwd=ROOT, env=environment, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        found = re.match(r"listening on (http://\S+),", self.process.stdout.readline())
        if found is None:
            raise SystemExit(f"the service did not start:\n{self.log.read_text()}")
        self.address = found[1]

    def memory(self) -> float:
        """Resident memory, MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]


class Clients:
    """Those who ask, all in this process."""

    def __init__(self, address: str, clips: list[Clip], seed: int) -> None:
        self.clips, self.drawn = clips, random.Random(seed)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.http = httpx.AsyncClient(base_url=address, timeout=120, limits=limits)

    async def ask(self, seen: Seen) -> httpx.Response:
        """One request, checked and counted. Raises httpx.TransportError."""
        clip = self.drawn.choice(self.clips)
        begun = time.perf_counter()
        answer = await self.http.post("/classify", content=clip.content, headers=clip.headers)
        seen.statuses[answer.status_code] += 1
        if answer.status_code == 200:
            seen.seconds.append(time.perf_counter() - begun)
            if answer.content.count(b'"posterior"') < clip.segments or not answer.content.endswith(b"}"):
                seen.wrong["an answer with too few segments"] += 1
        elif answer.status_code != 503:
            seen.wrong[f"status {answer.status_code}: {answer.text[:200]}"] += 1
        elif not answer.headers.get("retry-after", "").isdecimal() or "/problems/overloaded" not in answer.text:
            seen.wrong["503 without Retry-After"] += 1
        return answer

    async def until(self, end: float, seen: Seen, pause: Callable[[], float]) -> None:
        """Ask again and again; after a refusal wait for `pause()` seconds."""
        while time.perf_counter() < end:
            try:
                answer = await self.ask(seen)
            except httpx.TransportError as error:
                seen.wrong[f"{type(error).__name__}: {error}"] += 1
                continue
            if answer.status_code == 503:
                await asyncio.sleep(pause())

    async def wait_until_gone(self, seen: Seen) -> None:
        """Ask until nobody listens any more."""
        while True:
            try:
                answer = await self.ask(seen)
            except httpx.ConnectError:
                seen.refused += 1
                return
            except httpx.TransportError as error:
                seen.wrong[f"lost: {type(error).__name__}: {error}"] += 1
                return
            if answer.status_code == 503:
                await asyncio.sleep(0.05)


async def phase(name: str, seconds: float, work: list[Awaitable[None]], seen: Seen, tell: Callable[[], str]) -> None:
    """Wait for the clients, with a line every ten seconds."""
    begun = time.perf_counter()
    pending = {asyncio.ensure_future(one) for one in work}
    while pending:
        _, pending = await asyncio.wait(pending, timeout=10)
        spent = time.perf_counter() - begun
        if pending:
            print(
                f"  {name}: {spent:4.0f} of {seconds:.0f} s, {sum(seen.statuses.values())} answers, {tell()}",
                flush=True,
            )


async def run(service: Service, asked: argparse.Namespace) -> bool:
    """Every phase; whether all bars were held."""
    rows: list[tuple[str, str, bool | None]] = []
    material = clips(48, asked.seed)
    clients = Clients(service.address, material, asked.seed)
    while (await clients.http.get("/health/ready")).status_code != 200:
        await asyncio.sleep(0.02)
    started = asked.started if asked.started is not None else time.perf_counter() - service.begun
    idle = service.memory()
    rows.append(("start to ready", f"{started:.1f} s (less than {READY:.0f})", started < READY))
    rows.append(("idle memory", f"{idle:.0f} MiB", None))

    lone = Seen()
    for _ in range(30):
        await clients.ask(lone)
    rows.append(("one client", f"p50 {lone.percentile(50):.0f} ms, p99 {lone.percentile(99):.0f} ms", not lone.wrong))

    kept, fresh = await compare_connections(clients, material[0])
    rows.append(("kept connection", f"p50 {kept * 1e3:.1f} ms, on new ones {fresh * 1e3:.1f}: ratio {kept / fresh:.2f} "
                 f"(at most {KEPT})", kept <= KEPT * fresh))  # fmt: skip

    seen, length = Seen(), 60 * asked.minutes
    mark = min(60.0, length / 3)
    noted: list[float] = []

    async def note() -> None:
        await asyncio.sleep(mark)
        noted.append(service.memory())

    begun = time.perf_counter()
    work: list[Awaitable[None]] = [clients.until(begun + length, seen, lambda: 1.0) for _ in range(asked.clients)]
    await phase("load", length, [*work, note()], seen, lambda: f"{service.memory():.0f} MiB")
    spent, last = time.perf_counter() - begun, service.memory()
    growth = 100 * (last / noted[0] - 1)
    total = sum(seen.statuses.values())
    mean = sum(clip.seconds for clip in material) / len(material)
    rows.append((f"{asked.clients} clients, {length:.0f} s", f"{total} answers, {total / spent:.1f} a second, "
                 f"{mean * total / spent:.0f} s of sound per second", total > 0))  # fmt: skip
    rows.append(("latency", ", ".join(f"p{p} {seen.percentile(p):.0f} ms" for p in (50, 95, 99)), None))
    rows.append(("statuses", _counts(seen), set(seen.statuses) == {200} and not seen.wrong))
    rows.append(("memory", f"{noted[0]:.0f} MiB after {mark:.0f} s, {last:.0f} MiB at the end: {growth:+.1f} % "
                 f"(less than {GROWTH:.0f})", growth < GROWTH))  # fmt: skip

    many, length = Seen(), min(15.0, 60 * asked.minutes)
    end = time.perf_counter() + length
    work = [clients.until(end, many, lambda: clients.drawn.uniform(0.05, 0.3)) for _ in range(4 * asked.clients)]
    await phase("overload", length, work, many, lambda: f"{many.statuses[503]} refused")
    held = set(many.statuses) == {200, 503} and not many.wrong
    rows.append((f"overload, {4 * asked.clients} clients", _counts(many), held))
    rows.append(("its latency", ", ".join(f"p{p} {many.percentile(p):.0f} ms" for p in (50, 95, 99)), None))

    ending = Seen()
    work = [clients.wait_until_gone(ending) for _ in range(asked.clients)]
    begun = 0.0

    async def tell() -> None:
        nonlocal begun
        while sum(ending.statuses.values()) < 2 * asked.clients:
            await asyncio.sleep(0.01)
        begun = time.perf_counter()
        service.process.send_signal(signal.SIGTERM)

    await phase("end", 2.0, [*work, tell()], ending, lambda: "")
    code = await asyncio.to_thread(service.process.wait, 90)
    rows.append(("SIGTERM in the middle", f"{_counts(ending)}; {ending.refused} clients then found nobody", not ending.wrong
                 and ending.refused == asked.clients))  # fmt: skip
    rows.append(("its end", f"exit code {code} after {time.perf_counter() - begun:.1f} s", code == 0))
    await clients.http.aclose()

    print()
    for name, text, good in rows:
        print(f"{'' if good is None else 'ok' if good else 'MISSED':7}{name:24}{text}")
    for what in (lone, seen, many, ending):
        for text, count in what.wrong.most_common(5):
            print(f"  {count} times {text}")
    return all(good is not False for _, _, good in rows)


async def compare_connections(clients: Clients, clip: Clip, rounds: int = 40) -> tuple[float, float]:
    """(median seconds of one request on a kept connection, on a new one), asked by turns."""
    kept: list[float] = []
    fresh: list[float] = []
    for _ in range(rounds):
        for seconds, headers in ((kept, {}), (fresh, {"connection": "close"})):
            begun = time.perf_counter()
            answer = await clients.http.post("/classify", content=clip.content, headers={**clip.headers, **headers})
            seconds.append(time.perf_counter() - begun)
            answer.raise_for_status()
    return float(np.median(kept[1:])), float(np.median(fresh[1:]))


def _counts(seen: Seen) -> str:
    counts = ", ".join(f"{count} times {status}" for status, count in sorted(seen.statuses.items()))
    return counts + (f", {sum(seen.wrong.values())} wrong" if seen.wrong else "")


def main() -> int:
    """Run, print a table; 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"the service starts; then {asked.clients} clients for {asked.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="load-") as name:
        service = Service(Path(name))
        try:
            asked.started = time.perf_counter() - service.begun
            good = asyncio.run(run(service, asked))
            if not good:
                print("\nthe end of the service's log:")
                print("\n".join(service.log.read_text().splitlines()[-5:]))
        finally:
            if service.process.poll() is None:
                service.process.kill()
            service.process.wait()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
