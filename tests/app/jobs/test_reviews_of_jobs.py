"""Reviews of what the service has already: utterances of a corpus, and what jobs found in them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from phonechain.features.annotation import read
from tests.app.conftest import AUDIO, TEXTGRID, Client
from tests.app.jobs import conftest, speech
from tests.app.jobs.conftest import started

TEXT = "In being comparatively modern."


def add(client: Client, **asked: Any) -> httpx.Response:
    id = client.post("/reviews", json={"name": "of a job"}).json()["id"]
    return client.post(f"/reviews/{id}/files", json=asked)


@pytest.fixture(scope="module")
def aligned(service: Client) -> dict[str, Any]:
    """A job that aligned u0, u2 and u3; u1 says a word of no language."""
    files = [("files", (f"s{n % 2}/u{n}.wav", speech.utterance(n)[0])) for n in range(4)]
    files += [
        ("files", (f"s{n % 2}/u{n}.txt", text.encode())) for n, text in enumerate((TEXT, "in 読書 modern", TEXT, TEXT))
    ]
    answer = service.post("/jobs", files=files, data={"job": json.dumps({"kind": "align"})})
    assert answer.status_code == 202, answer.text
    return conftest.wait_for_end(service, answer.json(), 1200)


def test_what_an_alignment_found(service: Client, aligned: dict[str, Any]) -> None:
    rows = {
        row["utterance"]: row
        for row in map(json.loads, service.get(f"/jobs/{aligned['id']}/result?format=jsonl").text.splitlines())
    }
    added = add(service, job=aligned["id"], place=rows["u2"]["place"])
    assert added.status_code == 201, added.text
    file = added.json()
    assert (file["name"], file["annotation_name"], file["speaker"]) == ("u2.wav", "u2.TextGrid", rows["u2"]["speaker"])
    answer = service.get(f"{added.headers['location']}/answer").json()
    assert answer["start"] == [s["start"] for s in rows["u2"]["segments"]]
    assert answer["boundaries"]["within"] == pytest.approx(
        [s["within_20_ms"] for s in rows["u2"]["segments"]], abs=1e-4
    )
    assert service.get(f"{added.headers['location']}/sound").content[:4] == b"RIFF"


def test_a_refinement_keeps_the_file_that_it_refined(service: Client) -> None:
    files = [("files", ("s/a.flac", AUDIO)), ("files", ("s/a.TextGrid", TEXTGRID))]
    answer = service.post("/jobs", files=files, data={"job": json.dumps({"kind": "align", "refine": True})})
    assert answer.status_code == 202, answer.text
    added = add(service, job=conftest.wait_for_end(service, answer.json(), 1200)["id"], place=0)
    assert (added.status_code, added.json()["annotation_name"]) == (201, "a.TextGrid"), added.text
    before, after = read(TEXTGRID), read(service.get(f"{added.headers['location']}/annotation").content)
    assert [tier.name for tier in after.tiers] == ["words", "phones"]
    assert after.tiers[0] == before.tiers[0]
    assert [s.label for s in after.tiers[1].entries] == [s.label for s in before.tiers[1].entries]
    assert after.tiers[1] != before.tiers[1]


def test_an_utterance_without_a_result(service: Client, aligned: dict[str, Any]) -> None:
    lines = service.get(f"/jobs/{aligned['id']}/result?format=jsonl").text.splitlines()
    [missing] = set(range(4)) - {json.loads(line)["place"] for line in lines}
    refused = add(service, job=aligned["id"], place=missing)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/job-result")
    assert "no result for 'u1'" in refused.json()["detail"]
    beyond = add(service, job=aligned["id"], place=4)
    assert (beyond.status_code, "expected a number below 4, got 4" in beyond.text) == (422, True)


def test_a_labelling_job_brings_the_corpus_with_its_annotations(service: Client, corpus: dict[str, Any]) -> None:
    job = conftest.wait_for_end(service, started(service, kind="label", corpus=corpus["id"]), 1200)
    of_job, of_corpus = add(service, job=job["id"], place=4), add(service, corpus=corpus["id"], place=4)
    assert (of_job.status_code, of_corpus.status_code) == (201, 201), (of_job.text, of_corpus.text)
    assert of_job.json()["annotation_name"].endswith(".lab")
    assert of_job.json()["segments"] == speech.SEGMENTS
    assert {**of_corpus.json(), "number": 0} == {**of_job.json(), "number": 0}
    location = of_job.headers["location"]
    before = service.get(f"{location}/annotation").content
    assert before in {speech.utterance(n)[1] for n in range(20)}


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"place": 0}, 422, "expected the member corpus or job, got none"),
        ({"place": 0, "corpus": "a", "job": "b"}, 422, "got both"),
        ({"place": -1, "corpus": "a"}, 422, "place"),
        ({"place": 0, "corpus": "nothing"}, 404, "unknown corpus"),
        ({"place": 0, "job": "nothing"}, 404, "unknown job"),
        ({"place": 0, "corpus": "a", "path": "/etc/passwd"}, 422, "path"),
    ],
)
def test_other_requests_are_refused(service: Client, asked: dict[str, Any], status: int, says: str) -> None:
    refused = add(service, **asked)
    assert (refused.status_code, says in refused.text) == (status, True), refused.text


def test_jobs_without_segments_and_corpora_of_transcripts(service: Client, aligned: dict[str, Any]) -> None:
    refused = add(service, corpus=aligned["request"]["corpus"], place=0)
    assert (refused.status_code, "expected a corpus of segments" in refused.text) == (422, True), refused.text
