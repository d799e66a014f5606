"""Migrations and sessions, on SQLite and, where its programs are installed, on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect, select

from phonechain.app.jobs import queries, repository
from phonechain.app.problems.errors import DatabaseAway
from phonechain.app.storage.database import Database
from phonechain.app.storage.ids import is_id, new_id
from phonechain.app.storage.migrations import migrate
from phonechain.app.storage.tables import Base, Job
from phonechain.features.errors import SettingsError


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    database = Database(
        f"sqlite:///{tmp_path / 'a.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres").fresh()
    )
    yield database
    database.dispose()


def test_up_down_and_up(database: Database) -> None:
    assert migrate.read_revision(database) is None
    migrate.upgrade(database)
    assert migrate.read_revision(database) == migrate.newest_revision()
    migrate.check(database)
    assert set(Base.metadata.tables) <= set(inspect(database.engine).get_table_names())
    migrate.downgrade(database, "base")
    assert set(inspect(database.engine).get_table_names()) == {"alembic_version"}
    migrate.upgrade(database)
    migrate.check(database)


def test_several_processes_may_upgrade_at_once(database: Database) -> None:
    errors: list[Exception] = []

    def run() -> None:
        try:
            migrate.upgrade(Database(database.url))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert migrate.read_revision(database) == migrate.newest_revision()


def _job(database: Database, kind: str = "train") -> Job:
    with database.write() as session:
        return repository.add(session, Job(id=new_id(), kind=kind, spec={"total": 10}))


def test_a_job_ends_once(database: Database) -> None:
    migrate.upgrade(database)
    job = _job(database)
    first = repository.claim(database, job.id)
    assert first is not None
    second = repository.claim(database, job.id)
    assert second is not None
    assert (first.attempt, second.attempt) == (1, 2)
    with pytest.raises(repository.Fenced):
        repository.update_progress(database, job.id, first.attempt, stage="train", done=1)
    with pytest.raises(repository.Fenced), database.write() as session:
        repository.succeed(session, job.id, first.attempt, {"by": "the first"})
    with database.write() as session:
        repository.succeed(session, job.id, second.attempt, {"by": "the second"})
    repository.fail(database, job.id, second.attempt, {"type": "x"})
    repository.cancel(database, job.id)
    assert repository.claim(database, job.id) is None
    found = repository.get(database, job.id)
    assert (found.state, found.result, found.error) == ("succeeded", {"by": "the second"}, None)
    events = queries.list_events(database, job.id, 0)
    assert [e.number for e in events] == [1, 2, 3, 4]
    assert [e.data["state"] for e in events] == ["queued", "running", "running", "succeeded"]


def test_parts_are_counted_once_however_many_finish_them(database: Database) -> None:
    migrate.upgrade(database)
    job = _job(database, "label")
    repository.begin(database, job.id, 40, "utterances")
    barrier, outcomes = threading.Barrier(8), []

    def run(number: int) -> None:
        barrier.wait()
        part = repository.Shard(job=job.id, number=number % 4, blob="0" * 64, utterances=10, segments=5, failed=1)
        error = repository.FileError(job=job.id, index=number % 4, utterance="u", type="t", detail="d")
        outcomes.append(repository.finish_shard(database, part, [error], 40, 7))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(outcomes) == [False] * 4 + [True] * 4
    found = repository.get(database, job.id)
    assert (found.done, found.failed_files) == (40, 4)
    assert len(queries.list_shards(database, job.id)) == 4
    numbers = [e.number for e in queries.list_events(database, job.id, 0)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_cancelled_job_takes_no_more_parts(database: Database) -> None:
    migrate.upgrade(database)
    job = _job(database, "label")
    repository.begin(database, job.id, 40, "utterances")
    assert repository.cancel(database, job.id).state == "cancelling"
    part = repository.Shard(job=job.id, number=0, blob="0" * 64, utterances=10, segments=5, failed=0)
    with pytest.raises(repository.Cancelled):
        repository.finish_shard(database, part, [], 40, 7)
    assert repository.close_cancelled(database, 0.0) == [job.id]
    assert repository.get(database, job.id).state == "cancelled"
    assert queries.list_shards(database, job.id) == []


def test_a_job_that_never_gets_on_fails(database: Database) -> None:
    migrate.upgrade(database)
    job = _job(database)
    for _ in range(3):
        assert repository.count_submission(database, repository.get(database, job.id), 3)
    assert not repository.count_submission(database, repository.get(database, job.id), 3)
    found = repository.get(database, job.id)
    assert found.state == "failed"
    assert found.error is not None
    assert found.error["type"] == "/problems/job-stalled"


def test_one_of_two_hands_over(database: Database) -> None:
    migrate.upgrade(database)
    seen = repository.get(database, _job(database).id)
    assert repository.count_submission(database, seen, 9)
    assert not repository.count_submission(database, seen, 9)


def test_a_write_that_raises_leaves_nothing(database: Database) -> None:
    migrate.upgrade(database)

    def broken() -> None:
        with database.write() as session:
            repository.add(session, Job(id=new_id(), kind="label", spec={}))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    with database.read() as session:
        assert list(session.scalars(select(Job))) == []


def test_a_database_that_is_away_is_said_to_be() -> None:
    away = Database("postgresql://nobody@127.0.0.1:9/nothing")
    with pytest.raises(DatabaseAway, match="the database does not respond"), away.read() as session:
        session.execute(select(1))
    nowhere = Database("sqlite:////nonexistent-folder/a.db")
    with pytest.raises(DatabaseAway), nowhere.read() as session:
        session.execute(select(1))


@pytest.mark.parametrize("url", ["mysql://a/b", "nonsense", ""])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="PHONECHAIN_DATABASE"):
        Database(url)


def test_identifiers_sort_by_time() -> None:
    made = [new_id() for _ in range(1000)]
    assert made == sorted(set(made))
    assert all(is_id(id) for id in made)
