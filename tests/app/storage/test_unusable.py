"""A database that is away, damaged or of a newer version: what still works, and what is said."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.cli import main
from phonechain.app.http import gateway
from phonechain.app.models import catalog
from phonechain.app.storage.database import Database, sqlite_url
from tests.app.conftest import AUDIO, Client

ADMIN = "admin-key-of-this-test"


def key(client: Client, scope: str) -> dict[str, str]:
    made = client.post("/keys", json={"name": scope, "scopes": [scope]}, headers={"authorization": f"Bearer {ADMIN}"})
    return {"authorization": f"Bearer {made.json()['key']}"}


def take_away(client: Client, data: Path) -> None:
    """From now on nobody can open the database."""
    client.app.state.services.workspace.db.dispose()
    for file in data.glob("phonechain.db*"):
        file.rename(file.with_name(f"gone-{file.name}"))
    (data / "phonechain.db").mkdir()


def classify(client: Client, headers: dict[str, str]) -> int:
    form = {"audio": AUDIO}
    return client.post("/classify", files=form, headers=headers).status_code


def test_known_keys_work_without_the_database(
    serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "FRESH", 0.05)
    monkeypatch.setattr(catalog, "FRESH", 0.05)
    with serve(data=tmp_path, admin_key=ADMIN) as client:
        label, read = key(client, "label"), key(client, "read")
        assert classify(client, label) == 422  # no segments came: past the door
        take_away(client, tmp_path)
        for _ in range(3):
            time.sleep(0.1)
            assert classify(client, label) == 422
        assert classify(client, {"authorization": f"Bearer {ADMIN}"}) == 422
        assert classify(client, read) == 403
        assert classify(client, {"authorization": "Bearer pc_somebody_else"}) == 401
        assert classify(client, {}) == 401
        assert client.get("/jobs", headers=label).status_code == 503
        monkeypatch.setattr(gateway, "MAX_KEY_AGE", 0.0)
        time.sleep(0.1)
        refused = client.post("/classify", headers=label)
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/database-away")
        assert classify(client, {"authorization": f"Bearer {ADMIN}"}) == 422


def damage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 1000)


def migrate(path: Path) -> None:
    database = Database(sqlite_url(path))
    database.migrate()
    database.dispose()  # the last connection moves everything into the file


def overwrite_pages(path: Path) -> None:
    """The first page is whole, what follows is not."""
    migrate(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


def from_the_future(path: Path) -> None:
    migrate(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


BROKEN = [(damage, "damaged"), (overwrite_pages, "damaged"), (from_the_future, "newer version")]


@pytest.mark.parametrize(("breaks", "says"), BROKEN)
def test_it_is_one_line_at_the_start(
    breaks: Callable[[Path], None], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    breaks(tmp_path / "phonechain.db")
    monkeypatch.setenv("PHONECHAIN_DATA", str(tmp_path))
    assert main(["serve", "--port", "0"]) not in (0, None)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line for line in err.splitlines() if says in line] == err.splitlines()[-1:]
    assert "Traceback" not in err


@pytest.mark.parametrize(("breaks", "says"), BROKEN)
def test_a_running_service_is_not_ready(
    breaks: Callable[[Path], None], says: str, serve: Callable[..., Any], tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    breaks(tmp_path / "phonechain.db")
    with serve(data=tmp_path) as client:
        ready = client.get("/health/ready")
        assert ready.status_code == 503
        assert says in ready.json()["parts"]["database"]
        for _ in range(2):
            jobs = client.get("/jobs")
            assert (jobs.status_code, jobs.json()["type"]) == (503, "/problems/database-unusable")
        time.sleep(1.2)  # the reconciler looks too
    assert not [record for record in caplog.records if record.exc_info]
