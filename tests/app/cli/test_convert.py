"""`phonechain convert`: any format to any other, what is lost, whole trees."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.app.labelling import conversion
from phonechain.features import annotation as notation
from phonechain.features.annotation import FORMATS, READABLE, Annotation, Tier
from phonechain.features.segments import Segment

convert_command = importlib.import_module("phonechain.app.cli.convert")
README = Path(__file__).parents[3] / "README.md"
TEXTGRID = samples.SEGMENTS
PHONES = notation.tier_segments(notation.read(TEXTGRID.read_bytes()).tier("phones"))  # type: ignore[arg-type]


def put(folder: Path, form: str, name: str = "a") -> Path:
    """The sample's annotation in some format."""
    file = folder / f"{name}{conversion.suffix_of(form)}"
    file.write_bytes(notation.write(notation.read(TEXTGRID.read_bytes()), form))
    return file


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("frm", FORMATS)
def test_every_format_to_every_other(frm: str, to: str) -> None:
    source = notation.read(notation.write(notation.read(TEXTGRID.read_bytes()), frm), format=frm)
    back = notation.read(conversion.convert(source, to).data, format=to)
    segments = notation.tier_segments(notation.choose_tier(back)[0])
    assert [s.label for s in segments] == [s.label for s in PHONES]
    for s, known in zip(segments, PHONES, strict=True):
        assert s.start == pytest.approx(known.start, abs=1e-3)
        assert s.end == pytest.approx(known.end, abs=1e-3)


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_on_the_command_line(to: str, tmp_path: Path) -> None:
    out = tmp_path / f"b{conversion.suffix_of(to)}"
    assert main(["convert", str(TEXTGRID), str(out), "--to", to]) == 0
    assert notation.read(out.read_bytes(), name=out.name, rate=22050).format == to


def test_the_name_says_the_format_and_what_is_lost_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b.lab"
    assert main(["convert", str(TEXTGRID), str(out)]) == 0
    assert out.read_text().startswith("0 800000 IH\n")
    err = capfd.readouterr().err
    assert "took tier" not in err  # a single tier of that name is no guess
    assert "has no room for further tiers: 'words' left out" in err
    assert f"wrote {out} (HTK label file)" in err


def test_nothing_is_said_where_nothing_is_lost(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b.json"
    assert main(["convert", str(TEXTGRID), str(out)]) == 0
    assert capfd.readouterr().err == f"wrote {out} (Phonechain JSON)\n"


def test_a_tier_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b.eaf"
    assert main(["convert", str(TEXTGRID), str(out), "--tier", "words"]) == 0
    assert [t.name for t in notation.read(out.read_bytes()).tiers] == ["words"]
    assert main(["convert", str(TEXTGRID), str(out), "--tier", "syllables", "--force"]) == 2
    assert "'words' (4 intervals)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("tiers", "to", "says"),
    [
        ([Tier("p", "interval", [Segment(0.0, 0.1234, "a")])], "eaf", "times are rounded, by up to 0.4 ms"),
        ([Tier("p", "interval", [Segment(0.1, 0.2, "a")])], "xlabel", "1 gap is written as"),
        ([Tier("p", "interval", [Segment(0.1, 0.2, "a"), Segment(0.3, 0.4, "b")])], "textgrid", "gap"),
        (
            [Tier("p", "interval", [Segment(0, 0.2, "a"), Segment(0.1, 0.4, "b")])],
            "textgrid",
            "2 labelled entries, of which 1 are kept in tier 'p'",
        ),
        (
            [Tier("p", "interval", [Segment(0, 0.2, "a")]), Tier("tones", "point", [Segment(0.1, 0.1, "H")])],
            "par",
            "no room for point tiers: 'tones' left out",
        ),
        ([Tier("my phones", "interval", [Segment(0, 0.2, "a")])], "par", "tier 'my phones' is called 'MAU'"),
    ],
)
def test_losses(tiers: list[Tier], to: str, says: str) -> None:
    made = conversion.convert(Annotation(tiers, "json"), to)
    assert any(says in notice.message for notice in made.notices), made.notices


def test_an_answer_goes_along(tmp_path: Path) -> None:
    answered, out = tmp_path / "a.TextGrid", tmp_path / "b.ctm"
    assert main(["label", str(samples.AUDIO), str(TEXTGRID), "--out", str(answered)]) == 0
    assert main(["convert", str(answered), str(out)]) == 0
    first = out.read_text().splitlines()[0].split()
    assert first[0] == "b"
    assert 0 < float(first[5]) <= 1


def test_nothing_is_overwritten_unless_forced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b.eaf"
    out.write_text("mine")
    assert main(["convert", str(TEXTGRID), str(out)]) == 2
    assert "--force" in capfd.readouterr().err
    assert out.read_text() == "mine"
    assert main(["convert", str(TEXTGRID), str(out), "--force"]) == 0
    assert out.read_text().startswith("<?xml")


# ------------------------------------------------------------------------------------------------------ samples


def test_timit_counts_at_the_rate_of_the_recording_beside_it(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 8000)
    (tmp_path / "a.PHN").write_text("0 4000 h#\n4000 8000 aa\n")
    assert main(["convert", str(tmp_path / "a.PHN"), str(tmp_path / "b.lab")]) == 0
    assert (tmp_path / "b.lab").read_text() == "0 5000000 h#\n5000000 10000000 aa\n"
    assert main(["convert", str(tmp_path / "b.lab"), str(tmp_path / "c.phn"), "--rate", "44100"]) == 0
    assert (tmp_path / "c.phn").read_text() == "0 22050 h#\n22050 44100 aa\n"
    assert main(["convert", str(tmp_path / "c.phn"), str(tmp_path / "d.phn"), "--rate", "44100"]) == 0
    assert (tmp_path / "d.phn").read_bytes() == (tmp_path / "c.phn").read_bytes()


def test_an_assumed_rate_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = put(tmp_path, "textgrid")
    assert main(["convert", str(source), str(tmp_path / "b.phn")]) == 0
    assert "in samples at 16000 Hz" in capfd.readouterr().err
    assert main(["convert", str(tmp_path / "b.phn"), str(tmp_path / "c.eaf")]) == 0
    assert "taken as 16000 Hz" in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------------ many at once


def test_a_tree_keeps_its_shape_and_one_bad_file_stops_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in/x/y").mkdir(parents=True)
    put(tmp_path / "in", "textgrid")
    put(tmp_path / "in/x", "htk", "b")
    put(tmp_path / "in/x/y", "csv", "c")
    (tmp_path / "in/x/notes.txt").write_text("about this corpus\n")
    (tmp_path / "in/x/bad.lab").write_text("0 100 a\n100 b\n")
    (tmp_path / "in/.hidden.lab").write_text("0 100 a\n")
    command = ["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "eaf"]
    assert main(command) == 1
    out, err = capfd.readouterr()
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*"))
    assert found == ["a.eaf", "x/b.eaf", "x/y/c.eaf"]
    assert out == f"wrote 3 files (ELAN) to {tmp_path / 'out'}, 1 failed, 1 other file skipped\n"
    assert "bad.lab:2: " in err
    assert main(command) == 2
    assert capfd.readouterr().err.count("--force") == 3
    (tmp_path / "in/x/bad.lab").unlink()
    assert main([*command, "--force"]) == 0


def test_several_processes_do_what_one_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, messages, counts and exit code, with good files, broken ones of every kind, and two of one name."""
    root = tmp_path / "in"
    root.mkdir()
    for number in range(20):
        (root / f"u{number:02d}.lab").write_text(f"0 {number + 1}00000 a\n")
    (root / "syntax.lab").write_text("0 100000 a\n100000 b\n")
    (root / "notes.txt").write_text("no annotation")
    (root / "empty.TextGrid").write_bytes(b"")
    (root / "u00.phn").write_text("0 1600 a\n")
    (root / "many.mlf").write_text('#!MLF!#\n"*/x.lab"\n0 100000 a\n.\n"*/y.lab"\n0 100000 b\n.\n')
    told = {}
    for many in (10**6, 1):
        monkeypatch.setattr(convert_command, "MANY", many)
        monkeypatch.setattr(convert_command, "CHUNK", 3)
        out = tmp_path / f"out{many}"
        assert main(["convert", str(root), str(out), "--to", "csv"]) == 1
        files = {p.name: p.read_bytes() for p in out.iterdir()}
        captured = capfd.readouterr()
        told[many] = (files, (captured.out + captured.err).replace(str(out), "OUT"))
    assert told[1] == told[10**6]
    assert len(told[1][0]) == 22


def test_warnings_of_a_tree_are_counted_or_all_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        put(tmp_path / "in", "textgrid", name)
    command = ["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "htk"]
    assert main(command) == 0
    err = capfd.readouterr().err
    assert err.count("has no room for further tiers") == 1
    assert f"2 files, the first {tmp_path / 'in/a.TextGrid'}: " in err
    assert main([*command, "--force", "--verbose"]) == 0
    assert capfd.readouterr().err.count("has no room for further tiers") == 2


def test_two_files_for_one_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "textgrid")
    put(tmp_path / "in", "htk")
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "eaf", "--force"]) == 1
    assert ", written from " in capfd.readouterr().err


MLF = '#!MLF!#\n"*/one.lab"\n0 1000000 a\n.\n"*/two.lab"\n0 2000000 b\n.\n'


def test_the_recordings_of_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "all.mlf", tmp_path / "out"
    source.write_text(MLF)
    assert main(["convert", str(source), str(tmp_path / "two.lab")]) == 0
    assert (tmp_path / "two.lab").read_text() == "0 2000000 b\n"
    assert main(["convert", str(source), str(tmp_path / "three.lab")]) == 2
    assert "give a folder" in capfd.readouterr().err
    assert main(["convert", str(source), f"{out}/", "--to", "htk"]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["one.lab", "two.lab"]


def test_names_inside_a_file_never_lead_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.ctm").write_text("../../x 1 0.0 0.1 a\n.. 1 0.0 0.1 a\n/etc/y 1 0 0.1 a\n")
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "htk"]) in (0, 1)
    assert {p.parent for p in tmp_path.rglob("*.lab")} == {tmp_path / "out"}


def test_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(TEXTGRID), "-", "--to", "htk", "--tier", "words"]) == 0
    assert capfd.readouterr().out.splitlines()[0].endswith(" in")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.lab", "b.eaf"], "missing.lab"),
        ([str(TEXTGRID), "b.xyz"], "b.xyz"),
        ([str(TEXTGRID), "b.eaf", "--to", "word"], "--to: expected one of textgrid"),
        ([str(TEXTGRID), "b.eaf", "--from", "eaf"], "phonechain: "),
        ([str(samples.AUDIO), "b.eaf"], "FLAC recording"),
        ([str(TEXTGRID.parent), "b"], "expected --to"),
    ],
)
def test_wrong_use(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["convert", *arguments]) == 2
    err = capfd.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_annotations(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(samples.AUDIO, tmp_path / "in")
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "eaf"]) == 2
    assert "no files with the suffix of any annotation format" in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------------ the README's table


def test_the_table_of_formats_is_whole_and_true() -> None:
    section = README.read_text("utf-8").split("## What is read and written\n")[1].split("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5:
            rows[cells[0]] = cells
    for form in FORMATS.values():
        _, suffixes, _, holds, _ = rows.pop(form.title)
        assert set(re.findall(r"`([^`]+)`", suffixes.lower())) <= set(form.suffixes)
        words = {"all": "every tier", "intervals": "tiers of intervals", "same": "same intervals", "one": "one tier"}
        assert words[form.holds] in holds
        assert (form.parse_all is not None and form.holds == "one") == ("per recording" in holds)
    assert list(rows) == ["annotation, read and written", "---"]
    read_only = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4:
            read_only[cells[0]] = cells[1]
    for form in READABLE.values():
        if form.write is None:
            assert set(re.findall(r"`([^`]+)`", read_only.pop(form.title))) == set(form.suffixes)
    assert set(read_only) == {"annotation, read", "---"}
    named = set(re.findall(r"`(tests/[^`]+)`", section))
    assert len(named) >= 8
    for path in named:
        assert (README.parent / path).is_file(), path


ROUNDED = ("eaf", "htk", "mlf", "par", "timit", "emu", "vtt", "srt")


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("eaf", 1e-3), ("htk", 1e-7), ("mlf", 1e-7), ("par", 1 / 16000), ("emu", 1 / 16000), ("vtt", 1e-3), ("srt", 1e-3),
    ],
)  # fmt: skip
def test_times_are_rounded_as_the_table_says(form: str, step: float) -> None:
    odd = Annotation([Tier("phones", "interval", [Segment(0.0, 0.123456789, "a"), Segment(0.123456789, 0.3, "b")])], "")
    back = notation.read(conversion.convert(odd, form).data, format=form)
    off = abs(notation.choose_tier(back)[0].entries[0].end - 0.123456789)
    assert 0 < off <= step


@pytest.mark.parametrize("form", [f for f in FORMATS if f not in ROUNDED])
def test_times_are_exact_as_the_table_says(form: str) -> None:
    odd = Annotation([Tier("phones", "interval", [Segment(0.0, 0.123456789, "a"), Segment(0.123456789, 0.3, "b")])], "")
    back = notation.read(conversion.convert(odd, form).data, format=form)
    assert [(s.start, s.end) for s in notation.choose_tier(back)[0].entries] == [(0.0, 0.123456789), (0.123456789, 0.3)]
