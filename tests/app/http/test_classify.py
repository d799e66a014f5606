"""`POST /classify`: what goes in, what comes out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phonechain.app.labelling import conversion
from phonechain.app.models.catalog import Registry
from phonechain.features import annotation as notation
from tests.app.conftest import AUDIO, DURATION, LAB, TEXTGRID, Client, lab, speech, wav

PHONES = [s.label for s in notation.read(LAB, name="a.lab").tiers[0].entries]


def body(**more: Any) -> dict[str, Any]:
    segments = [{"start": 0.0, "end": 0.08, "label": "IH"}, {"start": 0.08, "end": 0.14}]
    return {"audio": base64.b64encode(AUDIO).decode(), "segments": segments, **more}


def test_quiet_sound_is_answered_with_a_notice(client: Client) -> None:
    """40 dB below the sample's own level."""
    answer = client.classify(wav(0.01 * speech(), 22050)).json()
    [notice] = [w for w in answer["warnings"] if w["code"] == "audio-quiet"]
    assert notice["pointer"] == "audio"
    assert notice["value"] == pytest.approx(-46, abs=0.5)
    assert len(answer["segments"]) == 23


def test_a_textgrid_is_labelled(client: Client, registry: Registry) -> None:
    response = client.classify()
    answer = response.json()
    assert response.status_code == 200, answer
    assert answer["model"] == {"name": "default", "version": registry.get("default").version}
    assert answer["duration"] == pytest.approx(DURATION, abs=1e-3)
    assert answer["tier"] == "phones"
    assert answer["warnings"] == []
    assert set(answer["timing"]) == {"features", "queue", "model", "total"}
    assert all(v >= 0 for v in answer["timing"].values())
    segments = answer["segments"]
    assert [s["given"] for s in segments] == PHONES
    for s in segments:
        assert s["label"] in registry.get("default").labeler.labels_
        assert 0 < s["posterior"] <= 1
        assert s["n_best"] == [{"label": s["label"], "posterior": s["posterior"]}]
        assert s["given_rank"] >= 1
        assert (s["given_rank"] == 1) == (s["given"] == s["label"])
        assert s["given_posterior"] <= s["posterior"]


def test_the_sample_is_mostly_labelled_as_it_was_aligned(client: Client) -> None:
    segments = client.classify().json()["segments"]
    assert sum(s["label"] == s["given"] for s in segments) >= 12


def test_it_says_what_the_model_says(client: Client, registry: Registry) -> None:
    from phonechain.features.audio.reader import decode

    labeler = registry.get("default").labeler
    annotation = notation.read(LAB, name="a.lab")
    segments = notation.tier_segments(annotation.tiers[0])
    labelled = labeler.label(decode(AUDIO), segments, n_best=4, decode="viterbi")
    answer = client.classify(segments=LAB, n_best="4", decode="viterbi").json()
    for said, known in zip(answer["segments"], labelled, strict=True):
        assert said["label"] == known.label
        assert said["posterior"] == pytest.approx(known.posterior, rel=1e-4)
        assert [a["label"] for a in said["n_best"]] == [label for label, _ in known.n_best]


def test_n_best_lists_falling_posteriors(client: Client) -> None:
    for s in client.classify(n_best="5").json()["segments"]:
        posteriors = [a["posterior"] for a in s["n_best"]]
        assert len(posteriors) == 5
        assert posteriors == sorted(posteriors, reverse=True)
        assert sum(posteriors) <= 1 + 1e-5


@pytest.mark.parametrize(
    "segments",
    [
        LAB,
        json.dumps([{"start": 0.0, "end": 0.08, "label": "IH"}]).encode(),
        json.dumps({"segments": [{"start": 0.0, "end": 0.08}]}).encode(),
        TEXTGRID.decode().encode("utf-16"),
    ],
    ids=["lab", "list", "object", "utf-16"],
)
def test_every_kind_of_segmentation_is_read(client: Client, segments: bytes) -> None:
    answer = client.classify(segments=segments).json()
    assert answer["segments"][0]["start"] == 0.0
    assert answer["segments"][0]["end"] == 0.08


def test_segments_as_a_text_field_of_the_form(client: Client) -> None:
    field = json.dumps([{"start": 0.0, "end": 0.08, "label": "IH"}])
    response = client.post("/classify", files={"audio": AUDIO}, data={"segments": field})
    assert response.status_code == 200, response.text
    assert response.json()["segments"][0]["given"] == "IH"


def test_a_json_body_says_the_same_as_a_form(client: Client) -> None:
    by_json = client.post("/classify", json=body(n_best=3)).json()
    form = json.dumps(body()["segments"]).encode()
    by_form = client.classify(segments=form, n_best="3").json()
    assert by_json["segments"] == by_form["segments"]
    assert by_json["tier"] is None


def test_an_answer_can_be_sent_again(client: Client) -> None:
    first = client.post("/classify", json=body()).json()
    again = client.post("/classify", json=body(segments=first["segments"])).json()
    assert [s["given"] for s in again["segments"]] == [s["label"] for s in first["segments"]]
    assert all(s["given_rank"] == 1 for s in again["segments"])


def test_segments_without_labels_have_no_given(client: Client) -> None:
    answer = client.post("/classify", json=body()).json()
    assert "given" in answer["segments"][0]
    assert not {"given", "given_rank", "given_posterior"} & set(answer["segments"][1])


def test_a_label_that_the_model_does_not_know_has_no_rank(client: Client) -> None:
    answer = client.classify(segments=lab((0.0, 0.08, "ʔ"))).json()
    assert answer["segments"][0]["given"] == "ʔ"
    assert answer["segments"][0]["given_posterior"] is None
    assert answer["segments"][0]["given_rank"] is None


def test_options_in_the_query(client: Client) -> None:
    files = {"audio": AUDIO, "segments": TEXTGRID}
    answer = client.post("/classify?n_best=2&tier=phones", files=files).json()
    assert answer["tier"] == "phones"
    assert answer["warnings"] == []  # of a tier that was guessed
    assert [len(s["n_best"]) for s in answer["segments"]] == [2] * 23
    by_json = client.post("/classify?n_best=2", json=body()).json()
    assert len(by_json["segments"][0]["n_best"]) == 2


def test_an_option_given_twice_with_one_value(client: Client) -> None:
    """Generated clients send every default in the query and in the body."""
    known = client.post("/classify", json=body(n_best=3)).json()["segments"]
    query = "n_best=3&fix=false&max_gap=0.2&channel=mix&gaps=across"
    again = client.post(f"/classify?{query}", json=body(n_best=3, fix=False, max_gap=0.2, channel="mix", gaps="across"))
    assert again.status_code == 200, again.text
    assert again.json()["segments"] == known
    assert client.post("/classify?fix=yes", json=body(fix=False)).status_code == 422


def test_channels(client: Client) -> None:
    data = speech()
    both = wav(np.stack([data, np.zeros_like(data)], axis=1), 22050, "FLOAT")
    alone = client.classify(audio=wav(data, 22050, "FLOAT")).json()["segments"]
    assert client.classify(audio=both, channel="0").json()["segments"] == alone
    assert client.classify(audio=both, channel="1").json()["segments"] != alone
    assert client.classify(audio=both, channel="mix").status_code == 200


def test_warnings_of_an_answer_that_is_a_file_are_in_a_header(client: Client) -> None:
    unusual = TEXTGRID.replace(b'"phones"', b'"sounds"')
    response = client.classify(segments=unusual, format="textgrid")
    assert response.headers["x-phonechain-warnings"] == "tier-guessed; count=1"


@pytest.mark.parametrize("format", [f for f in notation.FORMATS if f != "json"])
def test_an_annotation_file_as_answer(client: Client, format: str) -> None:
    expected = client.classify().json()["segments"]
    response = client.classify(format=format)
    assert response.status_code == 200, response.text
    known = notation.FORMATS[format]
    assert response.headers["content-type"].split(";")[0] == known.media_type.split(";")[0]
    assert response.headers["content-disposition"] == f'attachment; filename="labels{conversion.suffix_of(format)}"'
    assert response.headers["x-phonechain-warnings"] == ""
    assert response.headers["x-phonechain-model"].startswith("default; version=")
    read = notation.read(response.content, name=f"a{known.suffixes[0]}", rate=22050)  # the recording's
    tiers = {t.name.rsplit(" ", 1)[-1]: t for t in read.tiers}
    answered = tiers.get("phonechain") or notation.choose_tier(read)[0]
    assert [s.label for s in answered.entries] == [s["label"] for s in expected]
    times = [t for s in answered.entries for t in (s.start, s.end)]
    assert times == pytest.approx([t for s in expected for t in (s["start"], s["end"])], abs=1e-3)
    if "posterior" in tiers:
        posteriors = [float(s.label or "nan") for s in tiers["posterior"].entries]
        assert posteriors == pytest.approx([s["posterior"] for s in expected], abs=1e-4)


def test_a_textgrid_answer_keeps_every_tier(client: Client) -> None:
    asked = notation.read(TEXTGRID)
    read = notation.read(client.classify(format="textgrid").content)
    assert [t.name for t in read.tiers] == ["words", "phones", "phones phonechain", "phones posterior"]
    assert read.tiers[:2] == asked.tiers


def test_a_repaired_segmentation_as_a_file(client: Client) -> None:
    unsorted = lab((0.08, 0.14, "N"), (0.0, 0.085, "IH"))
    expected = client.classify(segments=unsorted, fix="true").json()["segments"]
    response = client.classify(segments=unsorted, fix="true", format="htk")
    read = notation.read(response.content, name="a.lab")
    assert [(s.start, s.end, s.label) for s in read.tiers[0].entries] == [
        (s["start"], s["end"], s["label"]) for s in expected
    ]


REFUSED: list[tuple[str, Callable[[Client], Any], int, str, dict[str, Any]]] = [
    (
        "no audio",
        lambda c: c.post("/classify", files={"segments": TEXTGRID}),
        422,
        "request-invalid",
        {"pointer": "#/audio"},
    ),
    (
        "no segments",
        lambda c: c.post("/classify", files={"audio": AUDIO}),
        422,
        "request-invalid",
        {"pointer": "#/segments"},
    ),
    (
        "audio as text",
        lambda c: c.post("/classify", files={"segments": TEXTGRID}, data={"audio": "x"}),
        422,
        "request-invalid",
        {"pointer": "#/audio"},
    ),
    (
        "audio twice",
        lambda c: c.post("/classify", files=[("audio", AUDIO), ("audio", AUDIO)]),
        422,
        "request-invalid",
        {"pointer": "#/audio"},
    ),
    (
        "an unknown file",
        lambda c: c.post("/classify", files={"audio": AUDIO, "segments": TEXTGRID, "more": b"x"}),
        422,
        "request-invalid",
        {"pointer": "#/more"},
    ),
    ("unknown option", lambda c: c.classify(nbest="3"), 422, "request-invalid", {}),
    ("unknown in the query", lambda c: c.post("/classify?nbest=3", json=body()), 422, "request-invalid", {}),
    ("twice in the query", lambda c: c.post("/classify?n_best=3&n_best=2", json=body()), 422, "request-invalid", {}),
    (
        "in both, of different values",
        lambda c: c.post("/classify?n_best=3", json=body(n_best=2)),
        422,
        "request-invalid",
        {"pointer": "#/n_best"},
    ),
    ("too many alternatives", lambda c: c.classify(n_best="51"), 422, "request-invalid", {}),
    ("no alternatives", lambda c: c.classify(n_best="0"), 422, "request-invalid", {}),
    ("a format of no kind", lambda c: c.classify(format="pdf"), 422, "request-invalid", {}),
    (
        "unknown model",
        lambda c: c.classify(model="../x"),
        404,
        "model-unknown",
        {"pointer": "#/model", "value": "../x"},
    ),
    ("broken JSON", lambda c: _raw(c, b'{"audio": '), 400, "body-malformed", {}),
    ("a JSON list", lambda c: _raw(c, b"[1, 2]"), 400, "body-malformed", {}),
    ("no UTF-8", lambda c: _raw(c, b'{"a": "\xff"}'), 400, "body-malformed", {}),
    ("deep JSON", lambda c: _raw(c, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), 400, "body-malformed", {}),
    ("an endless number", lambda c: _raw(c, b'{"n_best": ' + b"9" * 10_000 + b"}"), 400, "body-malformed", {}),
    ("no base64", lambda c: c.post("/classify", json=body(audio="??")), 422, "request-invalid", {}),
    (
        "no number",
        lambda c: c.post("/classify", json=body(segments=[{"start": 0, "end": "x"}])),
        422,
        "request-invalid",
        {},
    ),
    (
        "infinite",
        lambda c: _raw(c, json.dumps(body(segments=[{"start": 0, "end": float("inf")}])).encode()),
        422,
        "",
        {},
    ),
    ("no body", lambda c: c.post("/classify"), 415, "media-type", {}),
    (
        "a plain body",
        lambda c: c.post("/classify", content=b"x", headers={"content-type": "text/plain"}),
        415,
        "media-type",
        {},
    ),
    (
        "multipart without boundary",
        lambda c: c.post("/classify", content=b"x", headers={"content-type": "multipart/form-data"}),
        400,
        "body-malformed",
        {},
    ),
    (
        "cut multipart",
        lambda c: c.post(
            "/classify", content=b"--x\r\nContent-Dis", headers={"content-type": "multipart/form-data; boundary=x"}
        ),
        422,
        "",
        {},
    ),
]


def _raw(client: Client, content: bytes) -> Any:
    return client.post("/classify", content=content, headers={"content-type": "application/json"})


@pytest.mark.parametrize(("ask", "status", "slug", "members"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_does_not_follow_the_interface(
    client: Client, ask: Callable[[Client], Any], status: int, slug: str, members: dict[str, Any]
) -> None:
    response = ask(client)
    problem = response.json()
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), problem
    assert problem["status"] == status
    assert problem["type"].startswith(f"/problems/{slug}")
    assert {key: problem.get(key) for key in members} == members


def test_every_finding_has_its_place(client: Client) -> None:
    asked = body(n_best=0, segments=[{"start": 0, "end": 1}, {"start": "x"}])
    problem = client.post("/classify?decode=guess", json=asked).json()
    places = {e.get("pointer") or e.get("parameter") for e in problem["errors"]}
    assert places == {"#/n_best", "#/segments/1/start", "#/segments/1/end", "decode"}
    assert problem["detail"].endswith("(and 3 more)")


def test_file_names_never_become_paths(client: Client) -> None:
    files = {"audio": ("../../etc/passwd", AUDIO), "segments": ("/etc/passwd\x00.exe", TEXTGRID)}
    response = client.post("/classify?format=textgrid", files=files)
    assert response.status_code == 200
    assert response.headers["content-disposition"] == 'attachment; filename="labels.TextGrid"'
