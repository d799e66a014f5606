"""The command line and the client against a service that runs as a process of its own."""

from __future__ import annotations

import csv
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from phonechain.app.cli import main
from phonechain.app.client import Client, RemoteError, Unreachable
from tests.app.jobs import speech
from tests.storm.stage import Patient, Stage, free_port
from tests.storm.storm import no_orphans


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[str]:
    stage = Stage(tmp_path_factory.mktemp("client"), tiny_model, clustered=False, workers=1)
    with stage:
        Patient(stage).get("/health/live")
        yield f"http://127.0.0.1:{stage.ports[0]}"
    no_orphans(stage)


def test_a_folder_is_sent_trained_on_and_labelled(
    url: str, corpus_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at = ["--url", url]
    asked = ["jobs", "train", str(corpus_folder), "--name", "mine", "--set", "epochs=2", "--wait", "--json", *at]
    assert main(asked) == 0
    out, err = capfd.readouterr()
    job = json.loads(out)
    assert job["state"] == "succeeded"
    assert job["request"]["training"] == {"epochs": "2"}
    assert "20 utterances" in err
    result = tmp_path / "labels.zip"
    assert main(["jobs", "label", str(corpus_folder), "-m", "mine", "--format", "htk", "-o", str(result), *at]) == 0
    assert result.read_bytes()[:2] == b"PK"
    labelled = capfd.readouterr().out.split()
    assert labelled[1] == "succeeded"
    assert main(["jobs", "result", labelled[0], "-o", str(tmp_path / "a.csv"), "--sort", "doubt", *at]) == 0
    assert (tmp_path / "a.csv").read_text().startswith("utterance,speaker,")
    assert main(["jobs", "list", *at]) == 0
    assert labelled[0] in capfd.readouterr().out
    assert main(["jobs", "show", "nothing", *at]) == 2
    assert capfd.readouterr().err == "phonechain: unknown job 'nothing'\n"


def test_the_client_follows_a_job(url: str, corpus_folder: Path, tmp_path: Path) -> None:
    with Client(url) as client:
        corpus = next(client.list_corpora())
        job = client.start(kind="label", corpus=corpus["id"], formats=[])
        events = list(client.events(job["id"]))
        assert events[-1]["state"] == "succeeded"
        assert [e["number"] for e in events] == list(range(1, len(events) + 1))
        assert list(client.events(job["id"], after=events[-1]["number"])) == []
        assert list(client.errors(job["id"])) == []
        assert job["id"] in [j["id"] for j in client.list_jobs(kind="label")]
        path = client.result(job["id"], tmp_path / "rows.jsonl", format="jsonl")
        assert len(path.read_text().splitlines()) == 20
        with pytest.raises(RemoteError, match="unknown corpus") as caught:
            client.start(kind="label", corpus="nothing")
        assert caught.value.problem["type"] == "/problems/corpus-unknown"


def test_nobody_there(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(Unreachable, match="no service responds at"),
        Client(f"http://127.0.0.1:{free_port()}") as client,
    ):
        client.job("x")
    assert main(["jobs", "list", "--url", f"http://127.0.0.1:{free_port()}"]) == 2
    assert capfd.readouterr().err.startswith("phonechain: no service responds at ")


def test_the_database_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHONECHAIN_DATA", str(tmp_path / "data"))
    assert main(["db", "current"]) == 1
    assert main(["db", "upgrade"]) == 0
    assert main(["db", "current"]) == 0
    assert main(["keys", "add", "me", "--scope", "read"]) == 2, "the first key has to be an admin's"
    assert "the first key needs the scope admin" in capfd.readouterr().err
    assert main(["keys", "add", "boss", "--scope", "admin"]) == 0
    capfd.readouterr()
    assert main(["keys", "add", "me", "--scope", "read"]) == 0
    out = capfd.readouterr().out.splitlines()
    assert out[-1].startswith("pc_")
    assert main(["keys", "list"]) == 0
    assert " me " in capfd.readouterr().out
    id = out[-1].split("_")[1]
    assert main(["keys", "revoke", id]) == 0
    assert main(["keys", "revoke", id]) == 2
    assert main(["db", "downgrade", "base"]) == 0
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize(
    ("command", "revision", "says"),
    [
        ("upgrade", "nonsense", "expected one of the revisions base, 0001"),
        ("downgrade", "nonsense", "expected one of the revisions base, 0001"),
        ("upgrade", "+99", "expected a revision such as 0001, head or base, got '+99'"),  # more steps than there are
    ],
)
def test_a_revision_that_does_not_exist(
    command: str, revision: str, says: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("PHONECHAIN_DATA", str(tmp_path / "data"))
    assert main(["db", command, revision]) == 2
    assert says in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "says"), [(["list"], "revoked"), (["revoke", "x"], "no active key has the id 'x'")]
)
def test_keys_before_a_service_has_made_tables(
    command: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHONECHAIN_DATA", str(tmp_path / "data"))
    assert main(["keys", *command]) == (0 if command == ["list"] else 2)
    printed = capfd.readouterr()
    assert says in printed.out + printed.err


def test_recordings_are_aligned_and_recognised(url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "spoken"
    folder.mkdir()
    for n in range(2):
        (folder / f"u{n}.wav").write_bytes(speech.utterance(n)[0])
        (folder / f"u{n}.txt").write_text("In being comparatively modern.")
    table = tmp_path / "aligned.csv"
    assert main(["jobs", "align", str(folder), "-o", str(table), "--url", url]) == 0
    assert "2 utterances\n" in capfd.readouterr().err
    words = {line["word"] for line in csv.DictReader(table.open())}
    assert words >= {"In", "being", "comparatively", "modern"}
    heard = tmp_path / "heard.zip"
    assert main(["jobs", "recognize", str(folder), "-o", str(heard), "--format", "htk", "--url", url]) == 0
    with zipfile.ZipFile(heard) as archive:
        assert sorted(n for n in archive.namelist() if n.endswith(".lab")) == ["u0.lab", "u1.lab"]
