"""Which of our files one warm request runs through, and how often it moves between them.

    python scripts/trace_request.py [--all | --json]

Three requests are traced in every thread of the service, each after one like it: `POST /classify` of the sample with the
paper's model and with the default one, whose encoder is more files, and `POST /jobs` for a labelling job. A file counts
where one of its functions is entered; a move is a call from one of our files into another, whatever libraries lie
between. What the interpreter reports like a call, that a generator or coroutine goes on, is counted apart: such returns
depend on how often a request waits. `--all` lists files and moves. tests/app/test_trips.py holds the bars.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import io
import json
import sys
import tempfile
import threading
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from phonechain.app import samples  # noqa: E402
from phonechain.app.http import gateway  # noqa: E402
from phonechain.app.main import create_app  # noqa: E402
from phonechain.app.models import catalog  # noqa: E402
from phonechain.app.settings import Settings  # noqa: E402
from phonechain.model import pretrained_path  # noqa: E402

LAYERS = ("app", "model", "features")

gateway.FRESH = catalog.FRESH = 3600.0  # a warm request finds keys and models looked up, however slow the machine


class Trace:
    """Calls into our files, in every thread that starts after `install`, between `start` and `stop`."""

    def __init__(self) -> None:
        self.recording = False
        self.files: Counter[str] = Counter()
        self.moves: Counter[tuple[str, str]] = Counter()
        self.returns: Counter[tuple[str, str]] = Counter()
        self._names: dict[CodeType, str | None] = {}

    def install(self) -> None:
        """Watch this thread and those to come."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def uninstall(self) -> None:
        """Watch nothing any more."""
        threading.setprofile(None)
        sys.setprofile(None)

    def start(self) -> None:
        """Forget what was seen, and record from now on."""
        self.files.clear()
        self.moves.clear()
        self.returns.clear()
        self.recording = True

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.recording or event != "call":
            return
        here = self._name(frame.f_code)
        if here is None or threading.current_thread().name in ("jobs", "webhooks"):  # what runs beside every request
            return
        self.files[here] += 1
        caller = frame.f_back
        while caller is not None and self._name(caller.f_code) is None:
            caller = caller.f_back
        there = self._name(caller.f_code) if caller is not None else None
        if there is not None and there != here:
            (self.moves if _begins(frame) else self.returns)[there, here] += 1

    def _name(self, code: CodeType) -> str | None:
        """The file of a function below the root; None where it is not one of ours."""
        if code not in self._names:
            path = Path(code.co_filename)
            name = None
            for base in (ROOT / "phonechain", ROOT):
                if path.is_relative_to(base) and path.relative_to(base).parts[0] in LAYERS:
                    name = path.relative_to(base).as_posix()
                    break
            self._names[code] = name
        return self._names[code]


def _begins(frame: FrameType) -> bool:
    """Whether a frame is at its function's beginning, not in a generator or coroutine that goes on after a pause."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return at >= 0 and code[at] == dis.opmap["RESUME"] and code[at + 1] == 0


@dataclass(frozen=True)
class Trip:
    """What a request ran through: calls by file, moves and returns by (from, to)."""

    files: dict[str, int]
    moves: dict[tuple[str, str], int]
    returns: dict[tuple[str, str], int]


def corpus_archive() -> bytes:
    """The sample as a corpus of one utterance."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in (samples.AUDIO, samples.SEGMENTS):
            archive.write(path, path.name)
    return out.getvalue()


async def trace_requests(model: str, path: str) -> Trip:
    """The second of two like requests to a service with that model: `/classify`, or `/jobs`."""
    trace = Trace()
    trace.install()
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        app = create_app(Settings(data=Path(folder), workers=1, model=pretrained_path(model)))
        try:
            async with app.router.lifespan_context(app):
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(transport=transport, base_url="http://trace", timeout=120) as client:
                    sent = httpx.Request(
                        "POST", "http://trace/classify",
                        files={"audio": samples.AUDIO.read_bytes(), "segments": ("a.TextGrid", samples.SEGMENTS.read_bytes())},
                    )  # fmt: skip
                    content, headers = sent.read(), {"content-type": sent.headers["content-type"]}
                    made = await client.post(
                        "/corpora", content=corpus_archive(), headers={"content-type": "application/zip"}
                    )
                    if path == "/jobs":
                        content = json.dumps({"kind": "label", "corpus": made.json()["id"]}).encode()
                        headers = {"content-type": "application/json"}
                    for _ in range(2):
                        trace.start()
                        answer = await client.post(path, content=content, headers=headers)
                        trace.recording = False
                        assert answer.status_code in (200, 202), answer.text
        finally:
            trace.uninstall()
    return Trip(dict(trace.files), dict(trace.moves), dict(trace.returns))


REQUESTS = (("paper", "/classify"), ("default", "/classify"), ("default", "/jobs"))


def main() -> None:
    """Print a line for each request; with `--all` also the files and the moves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="list files and moves")
    parser.add_argument("--json", action="store_true", help="print them as one JSON object")
    asked = parser.parse_args()
    trips = {f"{model} {path}": asyncio.run(trace_requests(model, path)) for model, path in REQUESTS}
    if asked.json:
        found = {
            name: {"files": trip.files, "moves": {f"{a} -> {b}": count for (a, b), count in trip.moves.items()}}
            for name, trip in trips.items()
        }
        print(json.dumps(found))
        return
    for name, trip in trips.items():
        moves, returns = sum(trip.moves.values()), sum(trip.returns.values())
        print(
            f"POST {name.split()[1]}, model {name.split()[0]}: {len(trip.files)} files, {moves} moves, {returns} returns"
        )
        if asked.all:
            for file, count in sorted(trip.files.items(), key=lambda item: -item[1]):
                print(f"  {count:6} {file}")
            for (source, target), count in sorted(trip.moves.items(), key=lambda item: -item[1]):
                print(f"  {count:6} {source} -> {target}")


if __name__ == "__main__":
    main()
