"""The service in this process, its files, and the command line as a function."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from phonechain.app import samples
from phonechain.app.environment import load
from phonechain.app.main import create_app
from phonechain.app.models.catalog import Registry
from phonechain.app.settings import Settings

AUDIO = samples.AUDIO.read_bytes()
TEXTGRID = samples.SEGMENTS.read_bytes()
LAB = samples.SEGMENTS.with_suffix(".lab").read_bytes()
DURATION = 1.8995


class Client:
    """Synchronous requests to an application in a loop of its own thread; faults become answers, as behind a server."""

    def __init__(self, app: FastAPI, portal: BlockingPortal) -> None:
        self.app = app
        self.portal = portal
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://phonechain", timeout=60)

    def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            return await self.http.request(method, url, **more)

        return self.portal.call(ask)

    def get(self, url: str, **more: Any) -> httpx.Response:
        return self.request("GET", url, **more)

    def post(self, url: str, **more: Any) -> httpx.Response:
        return self.request("POST", url, **more)

    def classify(self, audio: bytes = AUDIO, segments: bytes = TEXTGRID, **options: Any) -> httpx.Response:
        """A form, with the options as its fields."""
        name = "a.lab" if segments[:1].isdigit() else "a.TextGrid"
        return self.post("/classify", files={"audio": audio, "segments": (name, segments)}, data=options)


@contextmanager
def serving(app: FastAPI) -> Iterator[Client]:
    """A client of `app` between its start and its stop."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        yield Client(app, portal)


@pytest.fixture(scope="session", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What services of these tests keep goes here, never into a person's own folder."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHONECHAIN_DATA", str(folder))
        yield folder


@pytest.fixture(scope="session")
def registry(data: Path) -> Registry:
    return Registry.load(load())


@pytest.fixture(scope="session")
def client(registry: Registry) -> Iterator[Client]:
    """The service as it comes, with the default model."""
    with serving(create_app(load(), registry)) as client:
        yield client


@pytest.fixture(scope="session")
def serve(registry: Registry) -> Callable[..., Any]:
    """A service with other settings: `with serve(max_segments=3) as client`."""

    def start(**settings: Any) -> Any:
        return serving(create_app(Settings(**settings), registry))

    return start


def wav(samples: np.ndarray, rate: int = 16000, subtype: str = "PCM_16") -> bytes:
    """The bytes of a WAV file."""
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="WAV", subtype=subtype)
    return out.getvalue()


def speech() -> np.ndarray:
    """The samples of the sample."""
    data, _ = soundfile.read(io.BytesIO(AUDIO), dtype="float32")
    return data


def lab(*segments: tuple[float, float, str]) -> bytes:
    """An HTK label file."""
    return "".join(f"{round(a * 1e7)} {round(b * 1e7)} {label}\n" for a, b, label in segments).encode()


@dataclass(frozen=True)
class Bad:
    """Input that is refused: the type and status (0: whatever the type has) of the problem, and what the line says."""

    slug: str
    status: int
    says: str
    audio: bytes = AUDIO
    segments: bytes = TEXTGRID
    options: tuple[tuple[str, str], ...] = ()
    suffix: str = ".TextGrid"


def _broken_textgrid() -> bytes:
    return b"\n".join(TEXTGRID.split(b"\n")[:30])


def _with_a_word_for_the_last_tiers_start() -> bytes:
    head, tier, rest = TEXTGRID.rpartition(b'name = "phones"')
    return head + tier + rest.replace(b"xmin = 0", b"xmin = foo", 1)


def _not_finite() -> bytes:
    data = speech().copy()
    data[1000] = np.nan
    return wav(data, 22050, "FLOAT")


GOOD = ((0.0, 0.08, "IH"), (0.08, 0.14, "N"))

BAD = {
    "empty audio": Bad("audio-empty", 422, "no bytes", audio=b""),
    "truncated audio": Bad("audio", 0, "", audio=AUDIO[:60]),
    "audio cut in the middle": Bad("audio-truncated", 422, "expected sound up to", audio=AUDIO[: len(AUDIO) // 2]),
    "text as audio": Bad("audio-unrecognised", 415, "sound file", audio=b"this is no sound\n" * 10),
    "zip as audio": Bad("audio-unrecognised", 415, "", audio=b"PK\x03\x04" + bytes(200)),
    "zero samples": Bad("audio-empty", 422, "sample", audio=wav(np.zeros(0))),
    "non-finite samples": Bad("audio-non-finite", 422, "1000", audio=_not_finite()),
    "no segments": Bad("annotation-unrecognised", 415, "empty", segments=b"", suffix=".lab"),
    "an empty list": Bad("segments-empty", 422, "at least one segment", segments=b"[]", suffix=".json"),
    "reversed": Bad("segments", 422, "reversed", segments=lab((0.2, 0.1, "IH")), suffix=".lab"),
    "zero length": Bad("segments", 422, "zero length", segments=lab((0.1, 0.1, "IH")), suffix=".lab"),
    "overlap": Bad("segments", 422, "overlaps", segments=lab((0.0, 0.3, "IH"), (0.2, 0.4, "N")), suffix=".lab"),
    "unsorted": Bad("segments", 422, "in order", segments=lab(GOOD[1], GOOD[0]), suffix=".lab"),
    "past the end": Bad("segments", 422, "past the end", segments=lab(*GOOD, (1.8, 2.0, "N")), suffix=".lab"),
    "after the end": Bad("segments", 422, "after the end", segments=lab(*GOOD, (5.0, 6.0, "N")), suffix=".lab"),
    "unknown tier": Bad("annotation-tier", 422, "'words' (4 intervals)", options=(("tier", "nothing"),)),
    "TextGrid syntax": Bad("annotation-syntax", 422, "line ", segments=_broken_textgrid()),
    "TextGrid with a size too small": Bad(
        "annotation-syntax", 422, "the end of the file", segments=TEXTGRID.replace(b"size = 2", b"size = 1", 1)
    ),
    "TextGrid with a word for a time": Bad(
        "annotation-syntax", 422, "the end of the file", segments=_with_a_word_for_the_last_tiers_start()
    ),
    "not an annotation": Bad(
        "annotation-unrecognised", 415, "begins with", segments=b"a poem\nof two lines\n", suffix=".txt"
    ),
    "no such channel": Bad("audio-channel", 422, "channel", options=(("channel", "3"),)),
    "a wrong channel": Bad("request-invalid", 422, "channel", options=(("channel", "left"),)),
    "a wrong way to decode": Bad("request-invalid", 422, "viterbi", options=(("decode", "guess"),)),
}
