"""What is said about requests that are wrong: where, what would be right, and before anything runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import update

from phonechain.app.storage.tables import Job
from tests.app.conftest import AUDIO, TEXTGRID, Client
from tests.app.storage.test_references import archive, upload

TRAIN = {"kind": "train", "name": "m"}


@pytest.fixture(scope="module")
def stored(serve: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service whose jobs wait for a scheduler that is not there."""
    with serve(data=tmp_path_factory.mktemp("wrong"), scheduler="tcp://127.0.0.1:9") as client:
        yield client


@pytest.fixture(scope="module")
def corpus(stored: Client) -> str:
    return str(upload(stored, archive("wrong")).json()["id"])


def submit(client: Client, corpus: str, headers: dict[str, str] | None = None, **asked: Any) -> Any:
    client.app.state.services.cluster.away = None  # the reconciler has found out by now
    return client.post("/jobs", json={"corpus": corpus, **asked}, headers=headers or {})


@pytest.mark.parametrize(
    ("asked", "pointer", "says"),
    [
        ({**TRAIN, "training": {"epochs": 0}}, "#/training/epochs", "training: expected epochs between 1"),
        ({**TRAIN, "training": {"epochs": "many"}}, "#/training/epochs", "got 'many'"),
        ({**TRAIN, "training": {"epoch": 3}}, "#/training/epoch", "epochs"),
        (
            {**TRAIN, "model_settings": {"factors": [{"kind": "spn"}, {"kind": "spn", "states": 99}]}},
            "#/model_settings/factors/1/states", "between 1 and 64",
        ),
        ({**TRAIN, "model_settings": {"factors": [{"kind": "guess"}]}}, "#/model_settings/factors/0/kind", "spn"),
        ({**TRAIN, "preset": "nothing"}, "#/preset", "spn-lc-crf"),
        ({**TRAIN, "fold": True}, "#/fold", "expected base, the model whose spelling to use"),
        ({**TRAIN, "epochs": 3}, "#/epochs", "expected one of corpus, webhook"),
        ({"kind": "label", "n_bst": 3}, "#/n_bst", "did you mean n_best?"),
        ({"kind": "guess"}, "#", "'train', 'label', 'evaluate'"),
        ({**TRAIN, "split": "tarin"}, "#/split", "split: no split named 'tarin'; the corpus has no splits"),
        ({**TRAIN, "dev": "x"}, "#/dev", "dev: no split named 'x'"),
        ({"kind": "evaluate", "split": "test"}, "#/split", "no split named 'test'"),
        ({"kind": "label", "model": "nothing"}, "#/model", "unknown model"),
    ],
)  # fmt: skip
def test_a_wrong_job_says_where(stored: Client, corpus: str, asked: dict[str, Any], pointer: str, says: str) -> None:
    answer = submit(stored, corpus, **asked)
    problem = answer.json()
    assert answer.status_code in (404, 422), problem
    finding = problem if "pointer" in problem else problem["errors"][0]
    assert finding["pointer"] == pointer
    assert says in problem["detail"]
    assert stored.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("method", "url", "more", "says"),
    [
        ("GET", "/jobs?stat=queued", {}, "stat: expected one of limit, cursor, state, kind; did you mean state?"),
        ("GET", "/jobs/x?limit=3", {}, "limit: expected no query"),
        ("GET", "/corpora?owner=me", {}, "owner: expected one of limit, cursor"),
        ("POST", "/corpora?tire=phones", {"content": b"x", "headers": {"content-type": "application/zip"}}, "tier"),
        ("POST", "/models?nam=x", {"content": b"x"}, "nam: expected one of name; did you mean name?"),
        ("POST", "/keys", {"json": {"nam": "x", "scopes": ["read"]}}, "nam: expected one of name, scopes"),
        ("POST", "/corpora", {"json": {"foldr": "/x"}}, "foldr: expected one of name, tier"),
        ("POST", "/classify?n_bets=2", {"files": {"audio": AUDIO, "segments": TEXTGRID}}, "n_best"),
        ("POST", "/classify", {"json": {"audio": "", "segments": [], "formt": "json"}}, "did you mean format?"),
    ],
)  # fmt: skip
def test_a_wrong_name_lists_the_right_ones(
    stored: Client, method: str, url: str, more: dict[str, Any], says: str
) -> None:
    answer = stored.request(method, url, **more)
    assert answer.status_code == 422, answer.text
    assert any(says in finding["detail"] for finding in answer.json()["errors"]), answer.text


def test_what_came_in_query_or_path_is_a_parameter(stored: Client) -> None:
    for url, parameter in (
        ("/jobs/nope", "id"),
        ("/corpora/nope", "id"),
        ("/models/nope", "name"),
        ("/jobs?cursor=%20", "cursor"),
    ):
        problem = stored.get(url).json()
        finding = problem["errors"][0] if "errors" in problem else problem
        assert (finding.get("parameter"), "pointer" in finding) == (parameter, False), problem


def test_a_key_whose_job_is_gone_says_so(stored: Client, corpus: str) -> None:
    key = {"idempotency-key": "once"}
    first = submit(stored, corpus, key, kind="label").json()
    assert submit(stored, corpus, key, kind="label").json()["id"] == first["id"]
    with stored.app.state.services.workspace.db.write() as session:
        session.execute(update(Job).values(state="failed", ended=time.time()))
    assert stored.request("DELETE", f"/jobs/{first['id']}").status_code == 204
    again = submit(stored, corpus, key, kind="label")
    assert (again.status_code, again.json()["type"], again.json()["value"]) == (410, "/problems/job-gone", first["id"])
