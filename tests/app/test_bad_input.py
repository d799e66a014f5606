"""Every kind of bad input, by the service and by the command line: one sentence, a stable type, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phonechain.app.cli import main
from phonechain.app.problems.documents import problem_type
from tests.app.conftest import BAD, LAB, TEXTGRID, Bad, Client, lab

cases = pytest.mark.parametrize("bad", BAD.values(), ids=BAD)


@cases
def test_the_service_answers_a_problem_document(client: Client, bad: Bad) -> None:
    files = {"audio": ("a.wav", bad.audio), "segments": (f"a{bad.suffix}", bad.segments)}
    response = client.post("/classify", files=files, data=dict(bad.options))
    problem = response.json()
    assert response.status_code == problem["status"], problem
    assert problem["status"] == (bad.status or problem_type(problem["type"].rsplit("/", 1)[1]).status)
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["type"].startswith(f"/problems/{bad.slug}")
    assert bad.says in problem["detail"]
    assert problem["title"]
    assert "\n" not in problem["detail"]
    assert "Traceback" not in response.text


@cases
def test_the_command_line_says_one_line(bad: Bad, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    audio, segments = tmp_path / "a.wav", tmp_path / f"a{bad.suffix}"
    audio.write_bytes(bad.audio)
    segments.write_bytes(bad.segments)
    options = [word for name, value in bad.options for word in (f"--{name}", value)]
    assert main(["label", str(audio), str(segments), *options]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("phonechain: ")
    assert err.count("\n") == 1
    assert bad.says in err


def test_both_say_the_same(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bad = BAD["overlap"]
    (tmp_path / "a.lab").write_bytes(bad.segments)
    (tmp_path / "a.flac").write_bytes(bad.audio)
    assert main(["label", str(tmp_path / "a.flac"), str(tmp_path / "a.lab")]) == 2
    said = capfd.readouterr().err.strip().removeprefix("phonechain: ")
    files = {"audio": bad.audio, "segments": ("a.lab", bad.segments)}
    assert client.post("/classify", files=files).json()["detail"] == said


def test_every_wrong_segment_has_its_place(client: Client) -> None:
    segments = b'[{"start": 0.2, "end": 0.1}, {"start": 0.3, "end": 0.4}, {"start": 0.5, "end": 0.5}]'
    problem = client.classify(segments=segments).json()
    assert [(e["pointer"], e["kind"]) for e in problem["errors"]] == [
        ("#/segments/0", "reversed"),
        ("#/segments/2", "zero-length"),
    ]
    assert problem["errors"][0]["value"] == 0.1
    assert problem["errors"][0]["limit"] == 0.2


def test_a_time_beyond_all_recordings_is_a_short_number(client: Client) -> None:
    for segment in ({"start": -1e308, "end": 1}, {"start": 0, "end": 1e308}, {"start": 1e300, "end": 1e308}):
        problem = client.classify(segments=json.dumps([segment]).encode()).json()
        assert "e+30" in problem["detail"]
        assert len(problem["detail"]) < 400
        assert all(len(error["detail"]) < 400 for error in problem.get("errors", []))


def test_a_broken_annotation_names_its_line(client: Client) -> None:
    problem = client.classify(segments=BAD["TextGrid syntax"].segments).json()
    assert problem["pointer"] == "#/segments"
    assert problem["detail"].startswith(f"line {problem['line']}: ")
    assert 28 <= problem["line"] <= 31


def test_an_overrun_within_tolerance_is_clipped_with_a_warning(
    client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    segments = lab((1.7, 1.905, "N"))
    answer = client.classify(segments=segments).json()
    assert answer["segments"][0]["end"] == pytest.approx(answer["duration"], abs=1e-6)
    assert [w["code"] for w in answer["warnings"]] == ["segment-clipped"]
    (tmp_path / "a.lab").write_bytes(segments)
    (tmp_path / "a.flac").write_bytes(BAD["overlap"].audio)
    assert main(["label", str(tmp_path / "a.flac"), str(tmp_path / "a.lab")]) == 0
    assert f"warning: {answer['warnings'][0]['message']}" in capfd.readouterr().err


def test_fix_repairs_what_is_refused_without_it(client: Client) -> None:
    unsorted = lab((0.08, 0.14, "N"), (0.0, 0.085, "IH"))
    assert client.classify(segments=unsorted).status_code == 422
    answer = client.classify(segments=unsorted, fix="true").json()
    assert [(s["start"], s["end"]) for s in answer["segments"]] == [(0.0, 0.08), (0.08, 0.14)]
    assert [w["code"] for w in answer["warnings"]] == ["segments-sorted", "segment-trimmed"]


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95nonsense.", b"PK\x03\x04rest", b"not a model"], ids=repr)
@pytest.mark.parametrize("command", ["label", "evaluate", "models", "serve"])
def test_what_is_not_a_model_is_refused(
    command: str, content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m.safetensors"
    model.write_bytes(content)
    (tmp_path / "a.TextGrid").write_bytes(TEXTGRID)
    (tmp_path / "a.lab").write_bytes(LAB)
    arguments = {
        "label": ["label", str(tmp_path / "a.lab"), str(tmp_path / "a.TextGrid"), "--model", str(model)],
        "evaluate": ["evaluate", str(model), str(tmp_path)],
        "models": ["models", str(model)],
        "serve": ["serve", "--port", "0", "--model", str(model)],
    }[command]
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "model" in err
