"""Names of files that are no UTF-8: every command reads and writes them, and one bad file never stops the others."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import pytest

from phonechain.app import samples
from phonechain.app.cli import main

ODD = b"caf\xe9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    root.mkdir()
    for name in (ODD, b"fine", b"br\xe9ak"):
        path = Path(os.fsdecode(os.fsencode(root) + b"/" + name))
        shutil.copy(samples.AUDIO, path.with_suffix(".flac"))
        shutil.copy(samples.SEGMENTS, path.with_suffix(".TextGrid"))
        if name == b"br\xe9ak":
            path.with_suffix(".TextGrid").write_bytes(b"ooTextFile\nnothing\n")
    return root


def names(folder: Path) -> list[bytes]:
    return sorted(os.listdir(os.fsencode(folder)))


def test_check(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder)]) == 1
    assert f"{folder}/br\\xe9ak.TextGrid:" in capfd.readouterr().out
    assert main(["check", str(folder), "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    assert [p["file"] for p in found["problems"]] == [f"{folder}/br\\xe9ak.TextGrid"]
    assert found["summary"]["utterances"] == 2


@pytest.mark.parametrize("form", ["ctm", "mlf", "json", "csv", "textgrid"])
def test_convert(folder: Path, tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["convert", str(folder), str(out), "--to", form]) == 1
    assert [os.path.splitext(name)[0] for name in names(out)] == [ODD, b"fine"]
    error = capfd.readouterr().err
    assert "br\\xe9ak.TextGrid" in error
    assert "a bug" not in error
    if form == "ctm":
        assert (out / (os.fsdecode(ODD) + ".ctm")).read_bytes().startswith(b"caf\\xe9 1 ")


@pytest.mark.parametrize("form", ["json", "ctm", None])
def test_label(folder: Path, tmp_path: Path, form: str | None, capfd: pytest.CaptureFixture[str]) -> None:
    out, table = tmp_path / "out", tmp_path / "t.csv"
    asked = ["label", str(folder), "--out", str(out), "--table", str(table), "--doubtful", "2"]
    assert main([*asked, *(["--format", form] if form else [])]) == 1
    assert [os.path.splitext(name)[0] for name in names(out)] == [ODD, b"fine"]
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert {row["file"] for row in rows} == {f"{folder}/caf\\xe9.TextGrid", f"{folder}/fine.TextGrid"}
    assert "failed " in capfd.readouterr().err
    one = folder / os.fsdecode(ODD)
    single = ["label", f"{one}.flac", f"{one}.TextGrid", "--format", form or "textgrid"]
    assert main([*single, "--out", str(tmp_path / os.fsdecode(b"\xff.out"))]) == 0
