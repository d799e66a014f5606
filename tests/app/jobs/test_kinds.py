"""A job of a kind that this version does not know, such as one of a newer version, fails and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from phonechain.app.corpora.contents import Files
from phonechain.app.jobs import repository, sharding, tasks
from phonechain.app.jobs.outage import Throttle
from phonechain.app.storage.database import sqlite_url
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import Job
from phonechain.app.storage.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(sqlite_url(tmp_path / "jobs.db"), str(tmp_path / "blobs"), str(tmp_path))
    found.db.migrate()
    return found


def _add(workspace: Workspace) -> Job:
    with workspace.db.write() as session:
        return repository.add(session, Job(id=new_id(), kind="summarise", spec={"total": 1, "part": 1}))


def test_it_is_not_taken_for_an_evaluation(workspace: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    job = _add(workspace)
    assert tasks.run_job(workspace.as_dict(), job.id) == "failed"
    found = repository.get(workspace.db, job.id)
    assert found.state == "failed"
    assert found.error is not None
    assert found.error["detail"] == "unexpected error: ValueError"
    assert "unknown kind of job: 'summarise'" in caplog.text


def test_its_parts_are_not_taken_for_an_alignment(workspace: Workspace) -> None:
    with pytest.raises(ValueError, match="unknown kind of job: 'summarise'"):
        sharding._work(workspace, _add(workspace), [], Files(None, Path()), Throttle(lambda: None), {})
