"""What is in a corpus, and the segments behind an evaluation, through HTTP: figures, cells of the matrix, sound."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from phonechain.features.corpora import read
from tests.app.conftest import Client
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end

BROKEN = b"no annotation"


@pytest.fixture(scope="module")
def files(corpus_folder: Path) -> list[tuple[str, tuple[str, bytes]]]:
    """The corpus as a browser sends it: each file under its path; one annotation broken, one label spelled in two ways."""
    out = []
    for path in sorted(corpus_folder.rglob("*.*")):
        data = path.read_bytes()
        if path.name == "u0001.lab":
            data = BROKEN
        if path.name == "u0002.lab":
            data = data.replace(b" IY", " ɪy".encode()).replace(b" IH", b" ih")
        if path.name == "u0003.lab":
            data = data.replace(b" IH", "IH\u200b".join((" ", "")).encode())
        out.append(("files", (path.relative_to(corpus_folder).as_posix(), data)))
    return out


@pytest.fixture(scope="module")
def sent(service: Client, files: list[Any]) -> dict[str, Any]:
    answer = service.post("/corpora?name=dropped", files=files)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def test_dropped_files_are_a_corpus_with_their_folders(service: Client, sent: dict[str, Any]) -> None:
    assert (sent["name"], sent["utterances"], sent["speakers"]) == ("dropped", 19, 5)
    assert set(sent["splits"]) == {"train", "test"}
    assert [Path(p["file"]).name for p in sent["problems"]] == ["u0001.lab"]
    again = service.get("/corpora").json()["corpora"]
    assert sent["id"] in [c["id"] for c in again]


@pytest.mark.parametrize(
    ("names", "says"),
    [(["a.wav", "a.wav"], "different names"), (["../..", "b.wav"], "different names"), ([""], "archive")],
)
def test_names_that_cannot_be_used_are_refused(service: Client, names: list[str], says: str) -> None:
    refused = service.post("/corpora", files=[("files", (name, b"x")) for name in names])
    assert (refused.status_code, says in refused.text) == (422, True), refused.text


def test_no_name_leaves_the_archive(service: Client) -> None:
    wav, lab = speech.utterance(1)
    files = [("files", (f"../../../../tmp/evil/../s1/u{s}", data)) for s, data in ((".wav", wav), (".lab", lab))]
    answer = service.post("/corpora", files=files)
    assert answer.status_code == 201, answer.text
    assert not Path("/tmp/evil").exists()


def test_a_summary_counts_and_measures(service: Client, sent: dict[str, Any], corpus_folder: Path) -> None:
    found = service.get(f"/corpora/{sent['id']}/summary").json()
    truth = [s for u in read(corpus_folder).utterances if u.id.rsplit("/")[-1] != "u0001" for s in u.segments]
    assert found["seconds"] == pytest.approx(sum(s.end - s.start for s in truth), abs=0.01)
    own = [s.end - s.start for s in truth if s.label == "N"]
    row = next(row for row in found["labels"] if row["label"] == "N")
    assert row["count"] == len(own)
    assert row["median"] == pytest.approx(np.median(own), abs=1e-3)
    assert (row["shortest"], row["longest"]) == pytest.approx((min(own), max(own)), abs=1e-3)
    assert len(found["speakers"]) == 5
    assert sum(s["utterances"] for s in found["speakers"]) == 19
    spelled = [set(alike["labels"]) for alike in found["alike"]]
    assert {"IH", "IH\u200b"} in spelled or {"IH", "IH\u200b", "ih"} in spelled, spelled


def test_sound_is_heard_by_utterance_and_by_problem(service: Client, sent: dict[str, Any]) -> None:
    row = next(r for r in service.get(f"/corpora/{sent['id']}/summary").json()["labels"] if r["label"] == "N")
    path = f"/corpora/{sent['id']}/sound"
    part = service.get(path, params=row["example"])
    assert (part.status_code, part.headers["content-type"]) == (200, "audio/wav")
    samples, rate = soundfile.read(io.BytesIO(part.content))
    assert rate == 16000
    assert len(samples) / rate == pytest.approx(row["longest"], abs=2e-4)
    whole = soundfile.read(io.BytesIO(service.get(path, params={"utterance": row["example"]["utterance"]}).content))[0]
    first = round(row["example"]["start"] * rate)
    assert np.array_equal(samples, whole[first : first + len(samples)])
    problem = service.get(path, params={"utterance": sent["problems"][0]["file"]})
    assert problem.status_code == 200  # the annotation is broken, its recording can be heard
    assert len(soundfile.read(io.BytesIO(problem.content))[0]) > rate


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", "train/s1/u0001.wav/..", "u9999"])
def test_only_names_of_the_corpus_are_heard(service: Client, sent: dict[str, Any], name: str) -> None:
    assert service.get(f"/corpora/{sent['id']}/sound", params={"utterance": name}).status_code == 404
    assert service.get(f"/corpora/{sent['id']}x/sound", params={"utterance": name}).status_code == 404


def test_an_end_before_the_start_is_refused(service: Client, sent: dict[str, Any]) -> None:
    refused = service.get(f"/corpora/{sent['id']}/sound", params={"utterance": "u", "start": 2, "end": 1})
    assert (refused.status_code, refused.json()["parameter"]) == (422, "end")


def cells(service: Client, job: dict[str, Any]) -> dict[str, Any]:
    """The evaluation of a job; every cell of its matrix has as many segments behind it as it counts."""
    found = service.get(f"/jobs/{job['id']}/evaluation")
    assert found.status_code == 200, found.text
    body = dict(found.json())
    labels, matrix = body["labels"], body["confusion_matrix"]
    counted = [(labels[i], labels[j], n) for i, row in enumerate(matrix) for j, n in enumerate(row) if n]
    assert sum(n for _, _, n in counted) == body["segments"]
    for true, answer, count in counted[:6]:
        behind = service.get(f"/jobs/{job['id']}/segments", params={"true": true, "answer": answer, "limit": 2}).json()
        assert behind["count"] == count
        assert all((s["true"], s["answer"]) == (true, answer) for s in behind["segments"])
        assert [s["posterior"] for s in behind["segments"]] == sorted(
            (s["posterior"] for s in behind["segments"]), reverse=True
        )
    return body


def test_the_segments_behind_an_evaluation(service: Client, corpus: dict[str, Any], corpus_folder: Path) -> None:
    job = wait_for_end(service, started(service, kind="evaluate", corpus=corpus["id"], model="default"))
    body = cells(service, job)
    assert body["per"] == job["result"]["per"]
    assert not {"blob", "evaluation", "segments_blob"} & set(job["result"])
    behind = service.get(f"/jobs/{job['id']}/segments", params={"limit": 1000}).json()
    assert behind["count"] == body["segments"]
    truth = {u.id: u for u in read(corpus_folder).utterances}
    for s in behind["segments"]:  # each is a segment of the corpus, with its own label
        own = [t for t in truth[s["utterance"]].segments if abs(t.start - s["start"]) < 1e-6]
        assert [(t.label, pytest.approx(s["end"], abs=1e-6)) for t in own] == [(s["given"], own[0].end)]


def test_a_training_scores_what_it_held_out_and_takes_a_map(service: Client, sent: dict[str, Any]) -> None:
    asked = {"kind": "train", "corpus": sent["id"], "name": "mapped", "training": {"epochs": 2}}
    mapping = {"ɪy": "IY", "ih": "IH", "IH\u200b": "IH", "V": None}
    job = wait_for_end(service, started(service, **asked, map=mapping))
    assert job["state"] == "succeeded", job
    body = cells(service, job)
    assert body["corpus"]["split"] == "held out"
    assert body["per"] == pytest.approx(job["result"]["metrics"]["dev_error"], abs=0.03)
    labels = service.get("/models/mapped").json()["label_set"]
    assert not {"ɪy", "ih", "IH\u200b", "V"} & set(labels)
    assert {"IY", "IH"} <= set(labels)
    # Deleting the job takes its figures along, and nothing else.
    assert service.request("DELETE", f"/jobs/{job['id']}").status_code == 204
    assert service.get(f"/jobs/{job['id']}/evaluation").status_code == 404


def test_a_job_without_scores_says_its_state(service: Client, corpus: dict[str, Any]) -> None:
    job = wait_for_end(service, started(service, kind="label", corpus=corpus["id"]))
    for what in ("evaluation", "segments"):
        refused = service.get(f"/jobs/{job['id']}/{what}")
        assert (refused.status_code, refused.json()["detail"]) == (409, "no evaluation: the job is succeeded")
