"""`phonechain recognize FOLDER`: what a single recording gets, for each of a tree, by one process and by several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from phonechain.app import samples
from phonechain.app.cli import aligners, main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two sounds of one name, one in a folder, and a file that is no sound."""
    root = tmp_path / "in"
    (root / "deep").mkdir(parents=True)
    shutil.copy(samples.AUDIO, root / "deep" / "u.flac")
    found = sorted((samples.FOLDER / "reader").glob("*.ogg"))
    shutil.copy(found[0], root / "u.ogg")
    shutil.copy(samples.AUDIO, root / "u.flac")
    (root / "broken.wav").write_bytes(b"RIFF no sound")
    return root


@pytest.mark.parametrize("many", [2, 1000])
def test_each_recording_has_the_answer_that_it_gets_alone(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(aligners, "MANY", many)
    monkeypatch.setattr("phonechain.app.settings.cores", lambda: 2)
    out = tmp_path / "out"
    code, _, err = run(capsys, "recognize", root, "-o", out, "-f", "json", "--label-with", "default")
    assert code == 1
    [failure] = [line for line in err.splitlines() if line.startswith("failed ")]
    assert "broken.wav" in failure
    assert "in 3 recordings" in err
    assert "1 file could not be used" in err
    files = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}
    assert sorted(files) == ["deep/u.json", "u.flac.json", "u.ogg.json"]
    code, alone, _ = run(capsys, "recognize", samples.AUDIO, "-f", "json", "--label-with", "default")
    assert code == 0
    assert json.loads(files["deep/u.json"]) == json.loads(files["u.flac.json"]) == json.loads(alone)


def test_annotations_are_the_default(capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path) -> None:
    (root / "broken.wav").unlink()
    (root / "u.ogg").unlink()
    code, _, err = run(capsys, "recognize", root, "-o", tmp_path / "out")
    assert code == 0, err
    found = [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.TextGrid")]
    assert sorted(found) == ["deep/u.TextGrid", "u.TextGrid"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "a folder needs --out DIR"),
        (["-o", "{root}/deep"], "expected a folder outside"),
        (["-o", "{root}/../out", "-f", "table"], "expected json or one of"),
    ],
)
def test_what_goes_nowhere_is_refused(
    capsys: pytest.CaptureFixture[str], root: Path, more: list[str], said: str
) -> None:
    code, _, err = run(capsys, "recognize", root, *(one.format(root=root) for one in more))
    assert code == 2
    assert said in err


def test_a_folder_without_sound(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    code, _, err = run(capsys, "recognize", tmp_path / "in", "-o", tmp_path / "out")
    assert code == 2
    assert "expected recordings below" in err
