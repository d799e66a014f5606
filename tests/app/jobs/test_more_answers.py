"""Sequences, words, hidden variables and all speakers in labelling jobs: what `/classify` answers, in rows and tables."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from phonechain.app import samples
from tests.app.conftest import Client
from tests.app.jobs.conftest import wait_for_end
from tests.app.jobs.test_segment_options import rows_of
from tests.app.labelling.test_sequences import TWO

AUDIO, TEXTGRID = samples.AUDIO.read_bytes(), samples.SEGMENTS.read_bytes()
LINE = b'{"start": 0, "end": 0.08, "label": "IH"}, {"start": 0.08, "end": 0.14, "label": "N"}'


def label(service: Client, segments: bytes, suffix: str = "TextGrid", **asked: Any) -> dict[str, Any]:
    """A job that labels the sample, when it has ended."""
    files = [("files", ("a.flac", AUDIO)), ("files", (f"a.{suffix}", segments))]
    answer = service.post("/jobs", files=files, data={"job": json.dumps({"kind": "label", **asked})})
    assert answer.status_code == 202, answer.text
    return wait_for_end(service, answer.json())


def table(service: Client, job: dict[str, Any], name: str) -> list[dict[str, str]]:
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        return list(csv.DictReader(io.StringIO(archive.read(name).decode())))


def test_rows_say_what_classify_says(service: Client) -> None:
    job = label(service, TEXTGRID, sequences=3, words=True, hidden=True, gaps="break", max_gap=0.05, normalise="model")
    assert (job["state"], job["failed_files"]) == ("succeeded", 0), job
    [row] = rows_of(service, job)
    direct = service.classify(
        sequences="3", words="true", hidden="true", gaps="break", max_gap="0.05", normalise="model"
    ).json()
    for member in ("sequences", "words", "hidden"):
        assert row[member] == direct[member], member
    assert [s["entropy"] for s in row["segments"]] == [s["entropy"] for s in direct["segments"]]

    words = table(service, job, "words.csv")
    assert [(w["label"], float(w["confidence"])) for w in words] == [
        (w["label"], w["confidence"]) for w in row["words"]
    ]
    assert {w["tier"] for w in words} == {"phones"}
    lines = table(service, job, "sequences.csv")
    assert len(lines) == sum(1 + len(chain["n_best"]) for chain in row["sequences"])
    first = row["sequences"][0]
    answered = [s["label"] for s in row["segments"][first["first"] : first["last"] + 1]]
    assert (lines[0]["rank"], lines[0]["labels"]) == ("0", " ".join(answered))
    assert float(lines[0]["log_probability"]) == first["log_probability"]
    assert (lines[1]["rank"], lines[1]["labels"]) == ("1", " ".join(first["n_best"][0]["labels"]))


def test_nothing_of_it_is_there_unless_it_is_asked_for(service: Client) -> None:
    job = label(service, TEXTGRID)
    [row] = rows_of(service, job)
    assert not {"sequences", "words", "hidden"} & set(row)
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        assert not {"words.csv", "sequences.csv"} & set(archive.namelist())


def test_each_speaker_of_a_recording_has_a_row(service: Client) -> None:
    job = label(service, TWO, all_speakers=True, sequences=2, formats=["textgrid"])
    assert (job["state"], job["failed_files"]) == ("succeeded", 0), job
    rows = rows_of(service, job)
    direct = service.classify(segments=TWO, all_speakers="true", sequences="2").json()["tiers"]
    assert [row["tier"] for row in rows] == ["A - phones", "B - phones"]
    for row, answer in zip(rows, direct, strict=True):
        assert row["sequences"] == answer["sequences"]
        assert [s["label"] for s in row["segments"]] == [s["label"] for s in answer["segments"]]
    assert [s["tier"] for s in table(service, job, "segments.csv")] == [
        row["tier"] for row in rows for _ in row["segments"]
    ]
    with zipfile.ZipFile(io.BytesIO(service.get(f"/jobs/{job['id']}/result").content)) as archive:
        assert archive.read("a.TextGrid").count(b"- phones phonechain") >= 2


def test_what_cannot_be_said_of_a_recording_is_its_error_alone(service: Client) -> None:
    """As `/classify` refuses it: there is no tier of words."""
    job = label(service, b"[" + LINE + b"]", "json", words=True)
    assert (job["state"], job["failed_files"]) == ("succeeded", 1)
    [error] = service.get(f"/jobs/{job['id']}/errors").json()["errors"]
    assert "expected a tier of words" in error["detail"]


def test_limits(own_service: Callable[..., Any]) -> None:
    with own_service(max_n_best=3) as small:
        files = [("files", ("a.flac", AUDIO)), ("files", ("a.TextGrid", TEXTGRID))]
        for asked, says in (
            ({"sequences": 4}, "sequences: expected at most 3 sequences, got 4"),
            ({"sequences": -1}, "sequences"),
            ({"all_speakers": True, "tier": "phones"}, "expected all_speakers or a tier, got both"),
        ):
            answer = small.post("/jobs", files=files, data={"job": json.dumps({"kind": "label", **asked})})
            assert answer.status_code == 422
            assert says in answer.text


def test_a_job_says_its_precision_or_takes_the_service_s(service: Client, own_service: Callable[..., Any]) -> None:
    def codes(client: Client, **asked: Any) -> list[str]:
        [row] = rows_of(client, label(client, TEXTGRID, **asked))
        return [warning["code"] for warning in row["warnings"]]

    assert "precision-reduced" not in codes(service)
    assert "precision-reduced" in codes(service, precision="bfloat16")
    with own_service(precision="bfloat16") as reduced:
        assert "precision-reduced" in codes(reduced)
        assert "precision-reduced" not in codes(reduced, precision="float32")
