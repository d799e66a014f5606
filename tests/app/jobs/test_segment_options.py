"""Segments that do not fit, and gaps, in jobs: as `/classify` and the command line treat them."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phonechain.app.cli import main
from phonechain.app.jobs.results import LABELS
from phonechain.features import annotation as notation
from phonechain.features.segments import Segment
from phonechain.model.labeler import PhoneLabeler
from tests.app.conftest import Client
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end
from tests.app.jobs.speech import SEGMENTS, utterance
from tests.app.jobs.test_api import ZIP, refusal

WAV, LAB = utterance(1)
LINES = LAB.decode().splitlines(keepends=True)
AT = LINES[4].split()[0]
BAD = "".join([*LINES[:4], f"{AT} {AT} X\n", *LINES[4:], f"{LINES[-1].split()[1]} 90000000 Z\n"]).encode()
"""With a segment of no length in the fifth place, and one that goes on after the sound."""
HOLE = "".join([*LINES[:8], *LINES[12:]]).encode()


def send(service: Client, lab: bytes, **asked: Any) -> dict[str, Any]:
    """A job that labels one recording, when it has ended."""
    files = [("files", ("a.wav", WAV)), ("files", ("a.lab", lab))]
    answer = service.post("/jobs", files=files, data={"job": json.dumps({"kind": "label", **asked})})
    assert answer.status_code == 202, answer.text
    return wait_for_end(service, answer.json())


def rows_of(service: Client, job: dict[str, Any]) -> list[dict[str, Any]]:
    text = service.get(f"/jobs/{job['id']}/result?format=jsonl").text
    return [json.loads(line) for line in text.splitlines()]


def test_skipped_ones_are_in_every_result(service: Client) -> None:
    job = send(service, BAD, on_bad_segment="skip", formats=["textgrid", "csv", "json"])
    assert (job["state"], job["failed_files"]) == ("succeeded", 0), job
    [row] = rows_of(service, job)
    direct = service.post(
        "/classify", files={"audio": WAV, "segments": ("a.lab", BAD)}, data={"on_bad_segment": "skip"}
    ).json()
    assert [(s["label"], s.get("skipped")) for s in row["segments"]] == [
        (s["label"], s.get("skipped")) for s in direct["segments"]
    ]
    assert [n for n, s in enumerate(row["segments"]) if "skipped" in s] == [4, SEGMENTS + 1]
    assert row["segments"][4]["given"] == "X"
    assert row["warnings"] == direct["warnings"]
    table = service.get(f"/jobs/{job['id']}/result?format=csv&sort=doubt").text
    lines = list(csv.DictReader(io.StringIO(table)))
    assert tuple(lines[0]) == LABELS.columns
    assert [(line["label"], line["posterior"], line["given"]) for line in lines[-2:]] == [("", "", "X"), ("", "", "Z")]
    assert "zero length" in lines[-2]["skipped"]
    assert "past the end of the sound" in lines[-1]["skipped"]
    assert all(not line["skipped"] and line["label"] for line in lines[:-2])
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        for name in ("textgrid/a.TextGrid", "csv/a.csv", "json/a.json"):
            read = notation.read(archive.read(name), name=name)
            answered = next(t for t in read.tiers if t.name.endswith(" phonechain"))
            labels = [s["label"] for s in row["segments"] if "skipped" not in s]
            assert [s.label for s in answered.entries if s.label] == labels  # a TextGrid has empty intervals between


def test_they_are_refused_unless_asked_otherwise(service: Client, tmp_path: Path) -> None:
    past = "".join([*LINES, f"{LINES[-1].split()[1]} 90000000 Z\n"]).encode()
    job = send(service, past)
    assert (job["state"], job["failed_files"]) == ("succeeded", 1)
    [error] = service.get(f"/jobs/{job['id']}/errors").json()["errors"]
    direct = service.post("/classify", files={"audio": WAV, "segments": ("a.lab", past)}).json()
    assert (error["type"], error["detail"]) == (direct["type"], direct["detail"])
    problem = refusal(
        service.post("/jobs", json={"kind": "label", "corpus": "x", "on_bad_segment": "drop"}), 422, "request-invalid"
    )
    assert "on_bad_segment" in problem["detail"]
    for wrong in (-1, "nan", "much"):
        body = {"kind": "label", "corpus": "x", "max_gap": wrong}
        refusal(service.post("/jobs", json=body), 422, "request-invalid", "max_gap")


def test_a_corpus_keeps_the_files_of_what_is_skipped(service: Client, tmp_path: Path) -> None:
    speech.folder(tmp_path, 3)
    (tmp_path / "s1" / "u0001.lab").write_bytes(BAD)
    packed = speech.zip_folder(tmp_path)
    made = service.post("/corpora", content=packed, headers=ZIP).json()
    assert (made["utterances"], made["problem_count"]) == (2, 1)
    assert made["problems"][0]["line"] == 5
    made = service.post("/corpora?on_bad_segment=skip", content=packed, headers=ZIP).json()
    assert (made["utterances"], made["problem_count"]) == (3, 0)
    assert made["options"]["on_bad_segment"] == "skip"
    assert [w["code"] for w in made["warnings"]] == ["segment-skipped"]
    job = wait_for_end(service, started(service, kind="label", corpus=made["id"]))
    assert job["failed_files"] == 0
    assert [len(r["segments"]) for r in rows_of(service, job)] == [SEGMENTS, SEGMENTS + 2, SEGMENTS]
    strict = wait_for_end(service, started(service, kind="label", corpus=made["id"], on_bad_segment="refuse"))
    assert strict["failed_files"] == 1
    scored = wait_for_end(service, started(service, kind="evaluate", corpus=made["id"]))
    found = service.get(f"/jobs/{scored['id']}/result").json()
    assert [p["utterance"] for p in found["problems"]] == ["u0001"]  # what the sound's length shows refuses the file


@pytest.mark.parametrize(("gaps", "max_gap", "sequences"), [("across", 0.2, 1), ("break", 0.1, 2), ("break", 9.0, 1)])
def test_gaps(service: Client, gaps: str, max_gap: float, sequences: int) -> None:
    [row] = rows_of(service, send(service, HOLE, gaps=gaps, max_gap=max_gap))
    assert row["gaps"] == {"mode": gaps, "max_gap": max_gap, "sequences": sequences}
    direct = service.post(
        "/classify", files={"audio": WAV, "segments": ("a.lab", HOLE)}, data={"gaps": gaps, "max_gap": str(max_gap)}
    ).json()
    assert [s["posterior"] for s in row["segments"]] == pytest.approx(
        [s["posterior"] for s in direct["segments"]], rel=1e-3
    )


def test_the_command_line_refuses_what_the_service_would(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for option, value in (("--on-bad-segment", "drop"), ("--gaps", "under"), ("--max-gap", "-1")):
        assert main(["jobs", "label", str(tmp_path), option, value, "--url", "http://127.0.0.1:9"]) == 2
        assert f"{option}: expected" in capfd.readouterr().err


def test_timit_is_read_alike_by_all(service: Client, tmp_path: Path) -> None:
    from phonechain.features import corpora
    from phonechain.features.corpora.timit import DROPPED

    folder = tmp_path / "timit" / "TRAIN" / "DR1" / "FAKS0"
    (tmp_path / "timit" / "TEST").mkdir(parents=True)
    folder.mkdir(parents=True)
    phones = [Segment(n / 20, (n + 1) / 20, "q" if n % 4 == 0 else ("aa", "s", "n")[n % 3]) for n in range(20)]
    text = "".join(f"{round(s.start * 16000)} {round(s.end * 16000)} {s.label}\n" for s in phones)
    for name in ("SX1", "SI2"):
        (folder / f"{name}.WAV").write_bytes(WAV)
        (folder / f"{name}.PHN").write_text(text)
    made = service.post("/corpora", content=speech.zip_folder(tmp_path), headers=ZIP).json()
    local = corpora.read(tmp_path)
    assert made["labels"] == local.labels()
    assert made["options"]["drop"] == [DROPPED]
    job = wait_for_end(
        service, started(service, kind="train", corpus=made["id"], name="timit", training={"epochs": 1, "patience": 0})
    )
    assert job["state"] == "succeeded", job
    assert PhoneLabeler.load(service.get(f"/jobs/{job['id']}/result").content).labels_ == ["aa", "n", "s"]


def test_files_of_many_name_the_recording(service: Client) -> None:
    job = send(service, LAB, formats=["mlf", "ctm"])
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        assert list(notation.read_all(archive.read("mlf/a.mlf"))) == ["a"]
        assert list(notation.read_all(archive.read("ctm/a.ctm"))) == ["a"]
