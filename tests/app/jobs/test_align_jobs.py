"""Jobs of kinds align and recognize, over HTTP: corpora with transcripts, annotations to refine, sound alone."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phonechain.features import annotation as notation
from tests.app.conftest import Client
from tests.app.jobs import conftest, speech
from tests.app.jobs.conftest import started

TEXT = "In being comparatively modern."
COUNT = 6


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six recordings by two speakers, with text beside them; one says a word of no language, one has none."""
    root = tmp_path_factory.mktemp("recordings")
    for n in range(COUNT):
        wav, _ = speech.utterance(n)
        place = root / f"s{n % 2}"
        place.mkdir(exist_ok=True)
        (place / f"u{n}.wav").write_bytes(wav)
        (place / f"u{n}.{'lab' if n % 3 else 'txt'}").write_text(TEXT if n != 4 else "in 読書 modern")
    (root / "s0" / "alone.wav").write_bytes(speech.utterance(9)[0])
    return root


@pytest.fixture(scope="module")
def transcribed(service: Client, recordings: Path) -> dict[str, Any]:
    answer = service.post(
        "/corpora?name=spoken&holds=transcripts",
        content=speech.zip_folder(recordings),
        headers={"content-type": "application/zip"},
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def wait_for_end(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job when it has ended; workers load torch and two models before the first part."""
    return conftest.wait_for_end(client, job, 1200)


def rows_of(service: Client, job: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in service.get(f"/jobs/{job['id']}/result?format=jsonl").text.splitlines()]


def table_of(service: Client, job: dict[str, Any], sort: str) -> list[dict[str, str]]:
    text = service.get(f"/jobs/{job['id']}/result?format=csv&sort={sort}").text
    return list(csv.DictReader(io.StringIO(text)))


def test_a_corpus_with_transcripts_is_aligned(service: Client, transcribed: dict[str, Any]) -> None:
    assert transcribed["utterances"] == COUNT
    assert transcribed["segments"] is None
    assert transcribed["speakers"] == 2
    assert transcribed["options"]["holds"] == "transcripts"
    assert [(p["file"], p["message"]) for p in transcribed["problems"]] == [
        ("s0/alone.wav", "this audio file has no annotation beside it")
    ]
    job = wait_for_end(service, started(service, kind="align", corpus=transcribed["id"], formats=["textgrid", "htk"]))
    assert job["state"] == "succeeded", job
    assert job["progress"]["stage"] == "align"
    assert job["progress"]["done"] == job["progress"]["total"] == COUNT
    assert job["request"]["model"]["name"] == "english-alignment"
    assert job["result"]["utterances"] == COUNT
    assert job["result"]["failed"] == job["failed_files"] == 1
    [error] = service.get(f"/jobs/{job['id']}/errors").json()["errors"]
    assert error["utterance"] == "u4"
    assert error["type"] == "/problems/transcript"
    assert "読書" in error["detail"]

    rows = rows_of(service, job)
    assert [r["utterance"] for r in rows] == ["u0", "u2", "u1", "u3", "u5"]
    wav, _ = speech.utterance(3)
    direct = service.post("/align", files={"audio": wav}, data={"text": TEXT}).json()
    row = next(r for r in rows if r["utterance"] == "u3")
    assert row["segments"] == direct["segments"]
    assert row["words"] == direct["words"]
    assert row["transcript"] == direct["transcript"]
    assert row["speaker"] == "s1"

    lines = table_of(service, job, "doubt")
    assert len(lines) == job["result"]["segments"] == sum(len(r["segments"]) for r in rows)
    certainties = [float(line["within_20_ms"]) for line in lines]
    assert certainties == sorted(certainties)
    assert certainties[0] < 1.0
    assert {line["word"] for line in lines} >= {"In", "being", "comparatively", "modern"}
    borne_out = [float(line["posterior"]) for line in table_of(service, job, "given")]
    assert borne_out == sorted(borne_out)

    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        read = notation.read(archive.read("textgrid/s1/u3.TextGrid"))
        assert [t.name for t in read.tiers] == [
            "words", "phones", "phones posterior", "phones certainty", "phones interval", "transcript posterior",
        ]  # fmt: skip
        assert [s.label for s in read.tiers[0].entries if s.label] == ["In", "being", "comparatively", "modern"]
        assert len([n for n in names if n.startswith("htk/")]) == COUNT - 1
        errors = list(csv.DictReader(io.StringIO(archive.read("errors.csv").decode())))
        assert [e["utterance"] for e in errors] == ["u4"]


def test_boundaries_of_a_corpus_are_refined(service: Client, corpus: dict[str, Any]) -> None:
    job = wait_for_end(service, started(service, kind="align", corpus=corpus["id"], refine=True, spread=0.02))
    assert job["state"] == "succeeded", job
    rows = rows_of(service, job)
    assert len(rows) == corpus["utterances"]
    assert all(row["input"] == "refine" for row in rows)
    assert all("given_start" in s for row in rows for s in row["segments"])
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        read = notation.read(archive.read("train/s0/u0000.TextGrid"))
        kept = [s for s in read.tiers[0].entries if s.label]
        assert len(kept) == speech.SEGMENTS  # the tier that came


def test_sound_alone_is_recognised(service: Client) -> None:
    files = [("files", (f"a{n}.wav", speech.utterance(n)[0])) for n in (1, 2)]
    asked = {"kind": "recognize", "label_with": "default"}
    answer = service.post("/jobs", files=files, data={"job": json.dumps(asked)})
    assert answer.status_code == 202, answer.text
    assert set(answer.json()["request"]["labelling"]) == {"name", "version"}
    job = wait_for_end(service, answer.json())
    assert job["result"]["utterances"] == 2, job
    rows = rows_of(service, job)
    direct = service.post("/recognize?label_with=default", files={"audio": speech.utterance(1)[0]}).json()
    assert rows[0]["segments"] == direct["segments"]
    assert rows[0]["labelling_model"] == direct["labelling_model"]
    first = table_of(service, job, "corpus")[0]
    labelled = direct["segments"][0]["labelled"]
    assert (first["labelled"], float(first["labelled_posterior"])) == (labelled["label"], labelled["posterior"])
    assert table_of(service, job, "doubt")[0]["label"]


def test_ones_own_dictionary_goes_with_the_job(service: Client, transcribed: dict[str, Any]) -> None:
    words = "in IH N\nbeing B IY IH NG\ncomparatively K AH M P EH R AH T IH V L IY\n"
    words += "modern 0.7 M AA D ER N\nmodern 0.3 M AO D ER N\n"
    job = wait_for_end(service, started(service, kind="align", corpus=transcribed["id"], dictionary=words))
    assert job["state"] == "succeeded", job
    assert job["request"]["dictionary"] == {"words": 4}
    row = rows_of(service, job)[0]
    assert row["words"][-1]["pronunciation"] in (["M", "AA", "D", "ER", "N"], ["M", "AO", "D", "ER", "N"])
    assert row["words"][-1]["posterior"] < 1.0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"kind": "label"},
            "a job of kind label needs a corpus of segments; this one was added with holds=transcripts",
        ),
        ({"kind": "evaluate"}, "align or recognise it first"),
        ({"kind": "train", "name": "x"}, "align or recognise it first"),
        ({"kind": "align", "refine": True}, "expected a corpus of segments to align"),
        ({"kind": "align", "language": "de"}, "expected a dictionary or phones for the language 'de'"),
        ({"kind": "align", "dictionary": "word\n"}, "expected phones after 'word'"),
        ({"kind": "align", "formats": ["word"]}, "expected formats among"),
        ({"kind": "align", "spread": 0}, "spread"),
        ({"kind": "recognize", "refine": True}, "refine"),
    ],
)
def test_a_job_that_cannot_be_done_is_refused(
    service: Client, transcribed: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    answer = service.post("/jobs", json={"corpus": transcribed["id"], **asked})
    assert answer.status_code == 422, answer.text
    assert message in answer.text


def test_a_cancelled_job_keeps_what_it_has(own_service: Any, recordings: Path, tmp_path: Path) -> None:
    with own_service(workers=1, shard_files=1) as client:
        corpus = client.post(
            "/corpora?holds=transcripts",
            content=speech.zip_folder(recordings),
            headers={"content-type": "application/zip"},
        ).json()
        job = started(client, kind="align", corpus=corpus["id"])
        while client.get(f"/jobs/{job['id']}").json()["progress"]["done"] < 2:
            assert client.get(f"/jobs/{job['id']}").json()["state"] in ("queued", "running")
        assert client.post(f"/jobs/{job['id']}/cancel").status_code == 202
        done = wait_for_end(client, job)
        assert done["state"] == "cancelled", done
        rows = rows_of(client, job)
        assert 0 < len(rows) + done["failed_files"] == done["progress"]["done"] < COUNT


def test_limits_and_parts_are_those_of_labelling(own_service: Any, corpus_folder: Path) -> None:
    """Too long recordings fail one by one and alike whatever the kind, in as many parts; the others are answered."""
    with own_service(workers=1, shard_files=4, max_audio_seconds=1.9) as client:
        zipped = {"content": speech.zip_folder(corpus_folder), "headers": {"content-type": "application/zip"}}
        corpus = client.post("/corpora", **zipped).json()
        found = {}
        for kind, more in {"label": {}, "align": {"refine": True}, "recognize": {}}.items():
            done = wait_for_end(client, started(client, kind=kind, corpus=corpus["id"], **more))
            assert done["state"] == "succeeded", done
            errors = client.get(f"/jobs/{done['id']}/errors").json()["errors"]
            progress = done["progress"]
            found[kind] = (progress["done"], progress["total"], {e["utterance"]: e["type"] for e in errors})
        assert found["label"] == found["align"] == found["recognize"]
        assert set(found["label"][2].values()) == {"/problems/audio-too-long"}
        assert 0 < len(found["label"][2]) < 20


def workers() -> set[int]:
    """The processes of this one that run tasks."""
    found = set()
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                command = (place / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue
            if parent == os.getpid() and b"spawn_main" in command:
                found.add(int(place.name))
    return found


def test_a_killed_worker_loses_nothing(own_service: Any, recordings: Path) -> None:
    before = workers()
    with own_service(workers=1, shard_files=1) as client:
        corpus = client.post(
            "/corpora?holds=transcripts",
            content=speech.zip_folder(recordings),
            headers={"content-type": "application/zip"},
        ).json()
        job = started(client, kind="align", corpus=corpus["id"])
        while (now := client.get(f"/jobs/{job['id']}").json())["progress"]["done"] < 2:
            assert now["state"] in ("queued", "running"), now
        killed = workers() - before
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        done = wait_for_end(client, job)
        assert done["state"] == "succeeded", done
        assert done["progress"]["done"] == COUNT
        assert done["failed_files"] == 1
        calm = wait_for_end(client, started(client, kind="align", corpus=corpus["id"]))
        assert rows_of(client, job) == rows_of(client, calm)


def test_a_model_that_labels_segments_aligns_nothing(
    service: Client, transcribed: dict[str, Any], tiny_model: Path
) -> None:
    kind = {"content-type": "application/octet-stream"}
    stored = service.post("/models?name=labels-only", content=tiny_model.read_bytes(), headers=kind)
    assert stored.status_code == 201, stored.text
    asked = {"kind": "align", "corpus": transcribed["id"]}
    refused = service.post("/jobs", json=asked | {"model": "labels-only"})
    assert refused.status_code == 422
    assert "which labels given segments" in refused.json()["detail"]
    assert service.post("/jobs", json=asked | {"model": "nothing"}).status_code == 404


@pytest.mark.parametrize(
    "asked", [{"kind": "label"}, {"kind": "evaluate"}, {"kind": "train", "name": "x", "base": "it"}]
)
def test_an_alignment_model_labels_nothing(service: Client, corpus: dict[str, Any], asked: dict[str, Any]) -> None:
    model = {"base": "english-alignment"} if "base" in asked else {"model": "english-alignment"}
    refused = service.post("/jobs", json={"corpus": corpus["id"], **asked, **model})
    assert refused.status_code == 422, refused.text
    assert "expected a model that labels given segments, got english-alignment" in refused.json()["detail"]
