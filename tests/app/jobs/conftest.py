"""A service with a tiny model and a data folder of its own, and small corpora."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.main import create_app
from phonechain.app.settings import Settings
from tests.app.conftest import Client, serving
from tests.app.jobs import speech
from tests.app.jobs.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.folder(tmp_path_factory.mktemp("corpus"), 20, splits=True)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, corpus_folder: Path) -> Path:
    return speech.model(tmp_path_factory.mktemp("model") / "tiny.safetensors", corpus_folder)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Client]:
    """The service with two worker processes of its own."""
    data = tmp_path_factory.mktemp("data")
    settings = Settings(data=data, model=tiny_model, workers=2, shard_files=4, corpus_roots=str(data))
    with serving(create_app(settings)) as client:
        yield client


@pytest.fixture(scope="session")
def own_service(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Callable[..., Any]:
    """A service with other settings, and its own data folder unless one is given."""

    def start(**settings: Any) -> Any:
        settings.setdefault("data", tmp_path_factory.mktemp("data"))
        return serving(create_app(Settings(**{"model": tiny_model, "workers": 1, "shard_files": 4, **settings})))

    return start


@pytest.fixture(scope="session")
def corpus(service: Client, corpus_folder: Path) -> dict[str, Any]:
    """The corpus, uploaded."""
    answer = service.post(
        "/corpora?name=small", content=speech.zip_folder(corpus_folder), headers={"content-type": "application/zip"}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def wait_for_end(client: Client, job: dict[str, Any], seconds: float = 400.0) -> dict[str, Any]:
    """The job when it has ended."""
    limit = time.monotonic() + seconds
    while True:
        now = client.get(f"/jobs/{job['id']}").json()
        if now["state"] in ("succeeded", "failed", "cancelled"):
            return now
        assert time.monotonic() < limit, now
        time.sleep(0.1)


def started(client: Client, **asked: Any) -> dict[str, Any]:
    """A job that was taken."""
    answer = client.post("/jobs", json=asked)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/jobs/{answer.json()['id']}"
    return answer.json()
