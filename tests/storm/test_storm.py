"""A short storm: `make storm` has the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.jobs import speech
from tests.storm import storm
from tests.storm.stage import Patient, Stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """(a model, a corpus)."""
    root = tmp_path_factory.mktemp("storm")
    corpus = speech.folder(root / "corpus", 24)
    return speech.model(root / "tiny.safetensors", corpus), speech.zip_folder(corpus)


@pytest.mark.parametrize(
    ("clustered", "services"), [(False, 1), (True, 1), (False, 2)], ids=["embedded", "clustered", "twins"]
)
def test_kills_lose_nothing(material: tuple[Path, bytes], tmp_path: Path, clustered: bool, services: int) -> None:
    found = storm.blow(tmp_path, *material, clustered=clustered, kills=4, seed=1 + clustered, services=services)
    assert sum(found.kills.values()) == 4
    assert found.uploads == 1
    assert len(found.accounts) == 2


def test_no_worker_outlives_a_killed_service(material: tuple[Path, bytes], tmp_path: Path) -> None:
    stage = Stage(tmp_path, material[0], clustered=False)
    with stage:
        started = storm.Storm(stage, material[1], seed=3)
        job = started.submit("label")
        client = Patient(stage)
        while client.get(f"/jobs/{job}").json()["state"] == "queued":
            pass
        assert stage.workers()
        stage.kill_everything()
    storm.no_orphans(stage)
