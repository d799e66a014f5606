"""Which of our files one warm request runs through, and how often it moves between them.

    python scripts/trace_request.py [--all | --json]

Two requests are traced in every thread of the service: `POST /classify` of the sample, and `POST /jobs` for a labelling
job, each after one like it. A file counts where one of its functions is entered; a move is a call from one of our files
into another, whatever libraries lie between. `--all` lists them. tests/app/test_trips.py holds the bars.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import sys
import tempfile
import threading
import zipfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from phonechain.app import samples  # noqa: E402
from phonechain.app.main import create_app  # noqa: E402
from phonechain.app.settings import Settings  # noqa: E402

LAYERS = ("app", "model", "features")


class Trace:
    """Calls into our files, in every thread that starts after `install`, between `start` and `stop`."""

    def __init__(self) -> None:
        self.recording = False
        self.files: Counter[str] = Counter()
        self.moves: Counter[tuple[str, str]] = Counter()
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
            self.moves[there, here] += 1

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


def corpus_archive() -> bytes:
    """The sample as a corpus of one utterance."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in (samples.AUDIO, samples.SEGMENTS):
            archive.write(path, path.name)
    return out.getvalue()


async def trace_requests() -> dict[str, tuple[Counter[str], Counter[tuple[str, str]]]]:
    """(files, moves) of each request."""
    found = {}
    trace = Trace()
    trace.install()
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        app = create_app(Settings(data=Path(folder), workers=1))
        try:
            async with app.router.lifespan_context(app):
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(transport=transport, base_url="http://trace", timeout=120) as client:
                    files: dict[str, Any] = {
                        "audio": samples.AUDIO.read_bytes(),
                        "segments": ("a.TextGrid", samples.SEGMENTS.read_bytes()),
                    }
                    answer = await client.post(
                        "/corpora", content=corpus_archive(), headers={"content-type": "application/zip"}
                    )
                    body = {"kind": "label", "corpus": answer.json()["id"]}
                    requests: dict[str, tuple[Callable[[], Awaitable[httpx.Response]], int]] = {
                        "POST /classify": (lambda: client.post("/classify", files=files), 200),
                        "POST /jobs": (lambda: client.post("/jobs", json=body), 202),
                    }
                    for name, (ask, status) in requests.items():
                        for _ in range(2):
                            trace.start()
                            answer = await ask()
                            trace.recording = False
                            assert answer.status_code == status, answer.text
                        found[name] = (Counter(trace.files), Counter(trace.moves))
        finally:
            trace.uninstall()
    return found


def main() -> None:
    """Print a line for each request; with `--all` also the files and the moves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="list files and moves")
    parser.add_argument("--json", action="store_true", help="print them as one JSON object")
    asked = parser.parse_args()
    if asked.json:
        trips = {
            name: {"files": dict(files), "moves": {f"{a} -> {b}": count for (a, b), count in moves.items()}}
            for name, (files, moves) in asyncio.run(trace_requests()).items()
        }
        print(json.dumps(trips))
        return
    for name, (files, moves) in asyncio.run(trace_requests()).items():
        print(f"{name}: {len(files)} files, {sum(moves.values())} moves")
        if asked.all:
            for file, count in files.most_common():
                print(f"  {count:6} {file}")
            for (source, target), count in moves.most_common():
                print(f"  {count:6} {source} -> {target}")


if __name__ == "__main__":
    main()
