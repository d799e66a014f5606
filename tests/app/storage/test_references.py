"""Files and rows stay together: uploads of one archive at a time, refusals, deletions, what is left over."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from phonechain.app.storage import references
from phonechain.app.storage.tables import Corpus, Hold
from phonechain.app.storage.workspace import Workspace
from tests.app.conftest import AUDIO, TEXTGRID, Client

ZIP = {"content-type": "application/zip"}


def archive(mark: object = "") -> bytes:
    """One utterance, and a file that makes the bytes of this archive its own."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in (("u.flac", AUDIO), ("u.TextGrid", TEXTGRID), ("README.md", str(mark).encode())):
            file.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


@pytest.fixture
def stored(serve: Callable[..., Any], tmp_path: Path) -> Iterator[Client]:
    """A service with a data folder of its own."""
    with serve(data=tmp_path) as client:
        yield client


def workspace(client: Client) -> Workspace:
    found: Workspace = client.app.state.services.workspace
    return found


def missing(client: Client) -> list[str]:
    """What the rows of corpora name and the disk does not have."""
    here = workspace(client)
    with here.db.read() as session:
        rows = list(session.scalars(select(Corpus)))
    lost = [digest for row in rows for digest in (row.location, row.manifest) if not here.store.has(digest)]
    return lost + [row.location for row in rows if not (here.corpus_folder(row.location) / "u.flac").is_file()]


def stored_digests(client: Client) -> set[str]:
    """What lies on the disk."""
    here = workspace(client)
    return {*here.store.digests(), *(p.name for p in here.corpus_folder("x").parent.glob("*") if p.is_dir())}


def upload(client: Client, data: bytes, query: str = "name=a") -> httpx.Response:
    return client.post(f"/corpora?{query}", content=data, headers=ZIP)


def test_an_accepted_upload_keeps_its_files_beside_refused_ones(stored: Client) -> None:
    queries = ("name=a", "tier=none-such", "name=b", "tier=none-such")
    with ThreadPoolExecutor(len(queries)) as pool:
        for n in range(12):
            data = archive(n)
            answers = list(pool.map(lambda query, data=data: upload(stored, data, query).status_code, queries))
            assert answers == [201, 422, 201, 422]
            assert missing(stored) == []


def test_a_deletion_beside_an_upload_of_the_same_files(stored: Client) -> None:
    data = archive("deleted")
    with ThreadPoolExecutor(2) as pool:
        for _ in range(12):
            first = upload(stored, data).json()["id"]
            gone = pool.submit(stored.request, "DELETE", f"/corpora/{first}")
            second = pool.submit(upload, stored, data).result()
            assert (gone.result().status_code, second.status_code) == (204, 201)
            assert missing(stored) == []
            assert stored.request("DELETE", f"/corpora/{second.json()['id']}").status_code == 204
    assert stored_digests(stored) == set()


def test_a_refused_request_leaves_nothing(stored: Client) -> None:
    assert upload(stored, archive(), "tier=none-such").status_code == 422
    assert upload(stored, archive()[:-40]).status_code == 422
    assert stored.post("/models", content=b"no model", headers={"content-type": "application/octet-stream"}).is_error
    job = {"job": '{"kind": "label", "n_best": 1000000}'}
    assert stored.post("/jobs", data=job, files=[("files", ("a.zip", archive(), ZIP["content-type"]))]).is_error
    assert stored_digests(stored) == set()
    with workspace(stored).db.read() as session:
        assert list(session.scalars(select(Hold))) == []


def test_what_a_killed_process_held_is_collected_when_the_hold_has_expired(stored: Client) -> None:
    corpus = upload(stored, archive()).json()
    here, rows = workspace(stored), stored_digests(stored)
    lost = references.BlobHolds(here)
    digest = lost.workspace.store.put(b"written, and then the process was killed")
    assert references.collect(here) == 0
    assert here.store.has(digest)
    with here.db.write() as session:
        for hold in session.scalars(select(Hold)):
            hold.expires = 0.0
    assert references.collect(here) == 1
    assert stored_digests(stored) == rows
    assert stored.get(f"/corpora/{corpus['id']}").status_code == 200


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_one_who_holds_and_one_who_removes(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}" if kind == "sqlite" else request.getfixturevalue("postgres").fresh()
    here = Workspace(url, str(tmp_path / "blobs"), str(tmp_path))
    here.db.migrate()
    digest = here.store.put(b"bytes")

    def hold() -> bool:
        with references.hold_blobs(here) as holds:
            holds.workspace.store.put(b"bytes")
            return here.store.has(digest)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(25):
            held = [pool.submit(hold) for _ in range(2)]
            for _ in range(2):
                pool.submit(references.drop, here, digest)
            assert all(one.result() for one in held)
    here.db.dispose()
