"""Files of a review whose boundaries the service has found: alignment and recognition through HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from phonechain.features.annotation import read, tier_segments
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
