"""Given labels that are spelled otherwise, in jobs: compared, counted and respelled as `/classify` and the commands do."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from tests.app.conftest import Client
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end


def respell(lab: bytes) -> bytes:
    """Stress on vowels, and one label under a name that no folding knows."""
    lines = []
    for line in lab.decode().splitlines():
        start, end, label = line.split()
        label = "PT" if label == "P" else label + "1" if label[0] in "AEIOU" else label
        lines.append(f"{start} {end} {label}\n")
    return "".join(lines).encode()


@pytest.fixture(scope="module")
def stressed(service: Client) -> dict[str, Any]:
    """A corpus of six utterances with stressed labels, taken in."""
    files = []
    for n in range(6):
        wav, lab = speech.utterance(n)
        files += [("files", (f"u{n}.wav", wav)), ("files", (f"u{n}.lab", respell(lab)))]
    answer = service.post("/jobs", files=files, data={"job": json.dumps({"kind": "evaluate"})})
    assert answer.status_code == 202, answer.text
    job = wait_for_end(service, answer.json())
    assert job["state"] == "succeeded", job
    return job


def evaluation(service: Client, job: dict[str, Any]) -> dict[str, Any]:
    return service.get(f"/jobs/{job['id']}/result").json()


def test_an_evaluation_scores_through_the_folding(service: Client, stressed: dict[str, Any]) -> None:
    found = evaluation(service, stressed)
    assert found["folding"] == ["stress"]
    assert list(found["unknown"]) == ["PT"]
    assert found["segments"] == 6 * speech.SEGMENTS - found["unknown"]["PT"]


def test_a_map_says_the_rest(service: Client, stressed: dict[str, Any]) -> None:
    corpus = stressed["request"]["corpus"]
    job = wait_for_end(service, started(service, kind="evaluate", corpus=corpus, map={"PT": "P"}))
    found = evaluation(service, job)
    assert (found["unknown"], found["segments"]) == ({}, 6 * speech.SEGMENTS)
    wrong = wait_for_end(service, started(service, kind="evaluate", corpus=corpus, map={"PT": "ZZ"}))
    assert (wrong["state"], wrong["error"]["type"]) == ("failed", "/problems/phone-set")


def test_labelled_rows_say_what_labels_were_compared_as(service: Client, stressed: dict[str, Any]) -> None:
    job = started(service, kind="label", corpus=stressed["request"]["corpus"], map={"PT": "P"})
    assert wait_for_end(service, job)["state"] == "succeeded"
    text = service.get(f"/jobs/{job['id']}/result?format=jsonl").text
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(row["folding"]["steps"] == ["stress"] for row in rows)
    lines = list(csv.DictReader(io.StringIO(service.get(f"/jobs/{job['id']}/result?format=csv").text)))
    assert {line["compared_as"] for line in lines if line["given"] == "PT"} == {"P"}
    assert {line["compared_as"] for line in lines if line["given"] == "IH1"} == {"IH"}
    assert all(line["given_posterior"] for line in lines)


def test_a_training_goes_on_from_a_base_with_its_spelling(service: Client, stressed: dict[str, Any]) -> None:
    corpus = stressed["request"]["corpus"]
    asked = {"kind": "train", "corpus": corpus, "base": "default", "training": {"epochs": 1}}
    joined = wait_for_end(service, started(service, name="joined", fold=True, **asked))
    apart = wait_for_end(service, started(service, name="apart", **asked))
    # PT is no label of the base, however it is folded: it alone keeps the weights from being the start
    assert "the label PT" in joined["result"]["start"]
    assert "labels" in apart["result"]["start"]
    assert apart["result"]["start"] != joined["result"]["start"]
