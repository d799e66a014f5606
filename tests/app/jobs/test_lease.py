"""Two services on one database: one runs the jobs, the other waits, and takes over when the first has gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.jobs import lease
from phonechain.app.jobs.lease import JobLease
from phonechain.app.settings import Settings
from phonechain.app.storage.database import Database
from phonechain.app.storage.tables import Lease
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a.db'}"
    fresh: str = request.getfixturevalue("postgres").fresh()
    return fresh


@pytest.fixture
def db(url: str) -> Any:
    database = Database(url)
    database.migrate()
    yield database
    database.dispose()


def expire(db: Database) -> None:
    with db.write() as session:
        row = session.get(Lease, lease.NAME)
        assert row is not None
        row.expires = 1.0


def test_one_holds_it_until_it_is_released_or_expires(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW", 0.0)
    first, second = JobLease(Settings(), db), JobLease(Settings(), db)
    assert first.take()
    assert not second.take()
    assert first.take()
    first.release()
    assert second.take()
    assert not first.take()
    expire(db)
    assert first.take()
    assert not second.take()
    assert not second.held


def test_services_of_one_scheduler_share_it(db: Database) -> None:
    shared = Settings(scheduler="tcp://127.0.0.1:1")
    one, two, alone = JobLease(shared, db), JobLease(shared, db), JobLease(Settings(), db)
    assert one.take()
    assert two.take()
    assert not alone.take()
    one.release()
    assert not alone.take()


def test_nobody_waits_for_a_process_that_has_ended(db: Database) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone, heir = JobLease(Settings(), db), JobLease(Settings(), db)
    gone.holder = f"{lease._machine()} {ended.pid} x"
    assert gone.take()
    assert heir.take()


@pytest.mark.slow
def test_two_services_with_workers_of_their_own(
    own_service: Callable[..., Any], url: str, tmp_path: Path, corpus_folder: Path
) -> None:
    settings = {"data": tmp_path, "database": url}
    with own_service(**settings) as second:
        with own_service(**settings) as first:
            corpus = first.post(
                "/corpora", content=speech.zip_folder(corpus_folder), headers={"content-type": "application/zip"}
            ).json()["id"]
            jobs = [started(c, kind="label", corpus=corpus) for c in (first, second, first, second)]
            done = [wait_for_end(second, job) for job in jobs]
            assert [job["state"] for job in done] == ["succeeded"] * 4
            # A job that two clusters run is submitted again at every look.
            train = {"kind": "train", "corpus": corpus, "preset": "lc-crf", "name": "two", "training": {"epochs": 2}}
            trained = wait_for_end(first, started(first, **train))
            assert (trained["state"], trained["attempt"]) == ("succeeded", 1), trained
        left = started(second, kind="label", corpus=corpus)
        assert wait_for_end(second, left)["state"] == "succeeded"
