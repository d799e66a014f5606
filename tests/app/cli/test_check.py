"""`phonechain check`: every problem of a corpus by file and line, and the exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain.app import samples
from phonechain.app.cli import aligners, main


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two good recordings of a second, of two speakers in two splits."""
    for place, label in (("train/amy", "a"), ("test/bob", "b")):
        folder = tmp_path / "corpus" / place
        folder.mkdir(parents=True)
        put(folder, "u" + label, f"0 5000000 {label}\n5000000 10000000 x\n")
    return tmp_path / "corpus"


def put(folder: Path, name: str, lab: str, seconds: float = 1.0) -> None:
    sound = np.random.default_rng(0).normal(0, 0.1, round(16000 * seconds))
    soundfile.write(folder / f"{name}.wav", sound, 16000, subtype="PCM_16")
    (folder / f"{name}.lab").write_text(lab)


def test_a_good_corpus(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(corpus)]) == 0
    out = capfd.readouterr().out
    words = [line.split() for line in out.splitlines()]
    assert ["problems", "0"] in [w[:2] for w in words]
    assert ["utterances", "2"] in [w[:2] for w in words]
    assert ["labels", "3", "x", "2", "b", "1", "a", "1"] in words
    assert ["split", "train", "1", "utterances,", "2", "segments"] in words


def test_problems_are_lines_with_file_and_line(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(corpus / "train/amy", "syntax", "0 5000000 a\n5000000 b\n")
    put(corpus / "train/amy", "long", "0 5000000 a\n5000000 12000000 b\n")
    put(corpus / "train/amy", "other", "0 5000000 a\n20000000 40000000 b\n")
    put(corpus / "train/amy", "silent", "0 5000000 a\n")
    (corpus / "train/amy/silent.wav").write_bytes(b"no sound at all")
    (corpus / "train/amy/lone.lab").write_text("0 5000000 a\n")
    assert main(["check", str(corpus)]) == 1
    lines = capfd.readouterr().out.splitlines()
    told: dict[str, str] = {}
    for line in lines:
        if line.startswith(str(corpus)):
            file = line.split(": ")[0]
            told[file] = told.get(file, "") + line
    amy = corpus / "train/amy"
    assert "expected" in told[f"{amy / 'syntax.lab'}:2"]
    assert "past the end of the sound at 1.000 s" in told[f"{amy / 'long.lab'}:2"]
    assert "another recording's annotation" in told[f"{amy / 'other.lab'}:2"]
    assert "sound file" in told[f"{amy / 'silent.wav'}"]
    assert "no audio beside it" in told[f"{amy / 'lone.lab'}"]
    assert ["problems", "5"] in [line.split()[:2] for line in lines]


@pytest.mark.parametrize("past", [False, True], ids=["reading", "sound"])
def test_every_bad_segment_is_told(past: bool, corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if past:
        lines = [f"{10_500_000 + 500_000 * n} {11_000_000 + 500_000 * n} x\n" for n in range(7)]
    else:
        lines = [f"{100_000 * n} {100_000 * n} x\n" for n in range(7)]
    put(corpus / "train/amy", "bad", "".join(lines))
    assert main(["check", str(corpus), "--json"]) == 1
    answer = json.loads(capfd.readouterr().out)
    told = [p["message"] for p in answer["problems"]]
    assert sum(message.startswith("segments[") for message in told) == 7
    assert any("another recording" in message for message in told) == past


def test_sound_can_be_left_out(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (corpus / "train/amy/ua.wav").write_bytes(b"no sound at all")
    assert main(["check", str(corpus), "--no-audio"]) == 0
    assert "audio not checked" in capfd.readouterr().out
    assert main(["check", str(corpus)]) == 1


def test_json(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(corpus / "train/amy", "long", "0 5000000 a\n5000000 10050000 b\n")
    assert main(["check", str(corpus), "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["problems"] == []
    assert [w["code"] for w in answer["warnings"]] == ["segment-clipped"]
    assert answer["summary"] == {
        "layout": "folder",
        "utterances": 3,
        "hours": round(3 / 3600, 4),
        "segments": 6,
        "segment_hours": round(3.005 / 3600, 4),
        "unlabelled": 0,
        "labels": {"x": 2, "b": 2, "a": 2},
        "speakers": {"bob": 1, "amy": 2},
        "splits": {"test": {"utterances": 1, "segments": 2}, "train": {"utterances": 2, "segments": 4}},
    }


def test_fix_accepts_what_it_would_repair(corpus: Path) -> None:
    put(corpus / "train/amy", "unsorted", "5000000 9000000 b\n0 5000000 a\n")
    assert main(["check", str(corpus)]) == 1
    assert main(["check", str(corpus), "--fix"]) == 0


def test_no_corpus(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "no audio file" in capfd.readouterr().err
    assert main(["check", str(tmp_path / "nothing")]) == 2


def test_times_of_a_longer_recording(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A grid cut out of a longer one: the message names the shift, and with it the corpus is good."""
    lab = "100000000 105000000 a\n105000000 110000000 x\n"
    put(corpus / "train/amy", "cut", lab)
    assert main(["check", str(corpus)]) == 1
    assert "with a shift of -10.000 s they fit (shift, --shift)" in capfd.readouterr().out
    (corpus / "train/amy/ua.lab").write_text(lab)
    (corpus / "test/bob/ub.lab").write_text(lab)
    assert main(["check", str(corpus), "--shift", "-10"]) == 0
    assert main(["check", str(corpus), "--shift", "soon"]) == 2
    assert "--shift: expected a number of seconds, or start" in capfd.readouterr().err


def test_sound_without_a_header(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    samples = (np.random.default_rng(1).normal(0, 0.1, 8000) * 32767).astype(">i2")
    (corpus / "train/amy/plain.raw").write_bytes(samples.tobytes())
    (corpus / "train/amy/plain.lab").write_text("0 5000000 a\n5000000 10000000 x\n")
    assert main(["check", str(corpus), "--json"]) == 1  # an annotation without sound
    capfd.readouterr()
    assert main(["check", str(corpus), "--json", "--raw", "8000,s16be"]) == 0
    found = json.loads(capfd.readouterr().out)["summary"]
    assert (found["utterances"], found["hours"]) == (3, round(3 / 3600, 4))
    assert main(["check", str(corpus), "--raw", "16000,s16be"]) == 1  # half as long: the segments do not fit


def test_boundaries_that_look_wrong_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A boundary of the sample moved by 60 ms is the least probable one; the place that fits better is near its own."""
    rows = [line.split() for line in samples.SEGMENTS.with_suffix(".lab").read_text().splitlines()]
    index = next(n for n in range(5, len(rows)) if int(rows[n][1]) - int(rows[n][0]) > 900_000)
    right = int(rows[index][0]) / 1e7
    moved = str(int(rows[index][0]) + 600_000)
    rows[index - 1][1] = rows[index][0] = moved
    shutil.copy(samples.AUDIO, tmp_path / "u.flac")
    (tmp_path / "u.lab").write_text("".join(" ".join(row) + "\n" for row in rows))
    assert main(["check", str(tmp_path), "--align", "--doubtful", "1", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["boundaries"]
    assert found["segment"] == index
    assert found["start"] == pytest.approx(int(moved) / 1e7)
    assert found["within_20_ms"] < 0.2 < found["better_within_20_ms"]
    assert abs(found["better_start"] - right) < 0.03
    assert main(["check", str(tmp_path), "--align", "--doubtful", "1"]) == 0
    out = capsys.readouterr().out
    assert f"u.lab:{index + 1}: the boundary at {int(moved) / 1e7:.3f} s between" in out
    assert "look wrong" in out


def test_labels_that_the_aligner_lacks_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(samples.AUDIO, tmp_path / "u.flac")
    (tmp_path / "u.lab").write_text("0 5000000 QQ\n5000000 9000000 XX\n")
    assert main(["check", str(tmp_path), "--align", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["boundaries"] == []
    assert "expected phones that the model knows" in body["boundaries_not_checked"][0]["message"]


def test_processes_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n, sound in enumerate(sorted((samples.FOLDER / "reader").glob("*.ogg"))[:4]):
        shutil.copy(sound, tmp_path)
        shutil.copy(sound.with_suffix(".TextGrid"), tmp_path)
        if n == 2:  # one whose boundaries cannot be judged
            (tmp_path / sound.name).with_suffix(".TextGrid").unlink()
            (tmp_path / sound.name).with_suffix(".lab").write_text("0 5000000 QQ\n5000000 9000000 XX\n")
    found = []
    for many in (2, 1000):
        monkeypatch.setattr(aligners, "MANY", many)
        monkeypatch.setattr("phonechain.app.settings.cores", lambda: 2)
        assert main(["check", str(tmp_path), "--align", "--doubtful", "20", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert (len(found[0]["boundaries"]), len(found[0]["boundaries_not_checked"])) == (20, 1)
