"""Files of a review whose boundaries the service has found: alignment and recognition through HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from phonechain.features.annotation import FORMATS, read, tier_segments, write
from tests.app.conftest import AUDIO, TEXTGRID, Client

WORDS = "in being comparatively modern"


@pytest.fixture(scope="module")
def aligned(client: Client) -> dict[str, Any]:
    answer = client.post("/align", files={"audio": ("a.flac", AUDIO)}, data={"text": WORDS})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def add(client: Client, alignment: bytes | None, **more: bytes) -> httpx.Response:
    id = client.post("/reviews", json={"name": "aligned"}).json()["id"]
    files = {"audio": ("my sound.flac", AUDIO), **{name: (name, data) for name, data in more.items()}}
    if alignment is not None:
        files["alignment"] = ("alignment.json", alignment)
    return client.post(f"/reviews/{id}/files", files=files)


def test_an_alignment_is_reviewed_with_the_certainty_of_its_boundaries(client: Client, aligned: dict[str, Any]) -> None:
    added = add(client, json.dumps(aligned).encode())
    assert added.status_code == 201, added.text
    assert (added.json()["annotation_name"], added.json()["tier"]) == ("my sound.TextGrid", "phones")
    path = added.headers["location"]
    answer = client.get(f"{path}/answer").json()
    found = aligned["segments"]
    assert answer["start"] == [s["start"] for s in found]
    assert answer["given"] == [s["label"] for s in found]
    assert answer["boundaries"]["within"] == pytest.approx([s["within_20_ms"] for s in found], abs=1e-4)
    assert list(zip(answer["boundaries"]["low"], answer["boundaries"]["high"], strict=True)) == [
        tuple(s["start_interval"]) for s in found
    ]
    assert [len(n) > 0 for n in answer["n_best"]] == [True] * len(found)  # and each has a posterior of the labeller's
    grid = read(client.get(f"{path}/annotation").content)
    assert [t.name for t in grid.tiers] == ["words", "phones"]
    assert [s.label for s in tier_segments(grid.tiers[0]) if s.label] == WORDS.split()


def refine_sample(client: Client, annotation: bytes, name: str) -> tuple[dict[str, Any], httpx.Response]:
    """The answer of a refinement, and the file that it became beside the annotation that was refined."""
    files = {"audio": ("a.flac", AUDIO), "transcript": (name, annotation)}
    answer = client.post("/align", files=files, data={"refine": "true", "tier": "phones"})
    assert answer.status_code == 200, answer.text
    id = client.post("/reviews", json={"name": "refined"}).json()["id"]
    files["alignment"] = ("alignment.json", answer.content)
    return answer.json(), client.post(f"/reviews/{id}/files", files=files)


def test_refined_boundaries_leave_the_rest_of_the_file_as_it_was(client: Client) -> None:
    """In UTF-16, with a tier of words, a tier of points, and spellings that the model does not have."""
    points = '\n    item [3]:\n        class = "TextTier"\n        name = "tones"\n        xmin = 0\n        xmax = 1.899546\n'
    points += '        points: size = 1\n        points [1]:\n            number = 0.5\n            mark = "H*"\n'
    text = TEXTGRID.decode().replace('"AH"', '"AH0"').replace("size = 2", "size = 3", 1).rstrip() + points
    source = text.encode("utf-16")
    found, added = refine_sample(client, source, "mine.TextGrid")
    assert (added.status_code, added.json()["annotation_name"]) == (201, "mine.TextGrid"), added.text
    out = client.get(f"{added.headers['location']}/annotation").content
    assert out[:2] == source[:2]
    before, after = read(source), read(out)
    assert [t.name for t in after.tiers] == ["words", "phones", "tones"]
    assert [t for t in after.tiers if t.name != "phones"] == [t for t in before.tiers if t.name != "phones"]
    old, new = tier_segments(before.tiers[1]), tier_segments(after.tiers[1])
    assert [s.label for s in new] == [s.label for s in old]
    moved = {s["given_start"]: s["start"] for s in found["segments"]}
    assert [s.start for s in new] == pytest.approx([moved[s.start] for s in old])
    assert sum(a.start != b.start for a, b in zip(new, old, strict=True)) > 5
    answer = client.get(f"{added.headers['location']}/answer").json()
    assert all(p is not None for p in answer["boundaries"]["within"])


@pytest.mark.parametrize("format", ["eaf", "htk", "timit", "textgrid-short"])
def test_refined_boundaries_stay_in_their_format(client: Client, format: str) -> None:
    source = write(read(TEXTGRID), format, rate=22050)
    name = f"mine{FORMATS[format].suffixes[0]}"
    files = {"audio": ("a.flac", AUDIO), "transcript": (name, source)}
    answer = client.post("/align", files=files, data={"refine": "true"})
    assert answer.status_code == 200, answer.text
    id = client.post("/reviews", json={"name": "refined"}).json()["id"]
    added = client.post(f"/reviews/{id}/files", files={**files, "alignment": ("alignment.json", answer.content)})
    assert (added.status_code, added.json()["annotation_name"], added.json()["format"]) == (201, name, format), (
        added.text
    )
    boundaries = client.get(f"{added.headers['location']}/answer").json()["boundaries"]
    assert all(p is not None for p in boundaries["within"])


def test_a_refinement_of_another_annotation_is_refused(client: Client) -> None:
    files = {"audio": ("a.flac", AUDIO), "transcript": ("a.TextGrid", TEXTGRID)}
    answer = client.post("/align", files=files, data={"refine": "true"})
    id = client.post("/reviews", json={"name": "refined"}).json()["id"]
    files["alignment"] = ("alignment.json", answer.content)
    files["transcript"] = ("b.lab", b"0 1000000 HH\n1000000 2500000 AY\n")
    refused = client.post(f"/reviews/{id}/files", files=files)
    assert refused.status_code == 422
    assert "expected the refinement of 'b.lab'" in refused.json()["detail"]


def test_words_that_were_aligned_become_tiers_of_their_file(client: Client) -> None:
    files = {"audio": ("a.flac", AUDIO), "transcript": ("mine.TextGrid", TEXTGRID)}
    answer = client.post("/align", files=files, data={"tier": "words"})
    assert answer.status_code == 200, answer.text
    id = client.post("/reviews", json={"name": "words"}).json()["id"]
    added = client.post(f"/reviews/{id}/files", files={**files, "alignment": ("alignment.json", answer.content)})
    assert added.status_code == 201, added.text
    grid = read(client.get(f"{added.headers['location']}/annotation").content)
    assert [t.name for t in grid.tiers] == ["words", "phones", "words phonechain", "phones phonechain"]
    for kept, came in zip(grid.tiers[:2], read(TEXTGRID).tiers, strict=True):
        assert kept.labelled() == came.labelled()
    assert added.json()["tier"] == "phones phonechain"


def test_a_transcript_comes_with_an_alignment_alone(client: Client) -> None:
    refused = add(client, None, segments=TEXTGRID, transcript=TEXTGRID)
    assert (refused.status_code, "beside alignment alone" in refused.text) == (422, True), refused.text


def test_what_is_recognised_can_be_reviewed(client: Client) -> None:
    heard = client.post("/recognize", files={"audio": ("a.flac", AUDIO)})
    added = add(client, heard.content)
    assert added.status_code == 201, added.text
    assert added.json()["segments"] == len(heard.json()["segments"])


def test_an_annotation_that_came_has_no_certainty_of_boundaries(client: Client) -> None:
    added = add(client, None, segments=TEXTGRID)
    assert "boundaries" not in client.get(f"{added.headers['location']}/answer").json()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"segments": []}, "alignment/segments: "),
        ({"segments": [{"start": 0, "end": 1, "label": "A", "start_interval": [0, 1], "within_20_ms": 7}]}, "within_20_ms"),
        ({"duration": "long"}, "alignment/duration: expected"),
    ],
)  # fmt: skip
def test_another_document_is_refused(
    client: Client, aligned: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    refused = add(client, json.dumps({**aligned, **change}).encode())
    assert (refused.status_code, words in refused.text) == (422, True), refused.text


def test_segments_or_an_alignment_is_needed(client: Client, aligned: dict[str, Any]) -> None:
    both = add(client, json.dumps(aligned).encode(), segments=TEXTGRID)
    assert (both.status_code, "got both" in both.json()["detail"]) == (422, True)
    neither = add(client, None)
    assert (neither.status_code, "got none" in neither.json()["detail"]) == (422, True)
    no_json = add(client, b"not json")
    assert no_json.status_code == 422
