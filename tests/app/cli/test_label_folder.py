"""`phonechain label FOLDER`: every recording labelled, the least certain segments first."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import soundfile

from phonechain.app import samples
from phonechain.app.cli import label_folder as folders
from phonechain.app.cli import main
from phonechain.app.labelling import conversion
from phonechain.features import annotation as notation
from phonechain.features.corpora.folder import Pair
from phonechain.features.corpora.folder import pairs as pair_folder
from tests.app.labelling.test_sequences import TWO

TEXTGRID = notation.read(samples.SEGMENTS.read_bytes())
COUNT = 23


def put(folder: Path, name: str, form: str = "textgrid") -> Path:
    """The sample under some name, with its annotation in some format."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(samples.AUDIO, folder / f"{name}.flac")
    file = folder / f"{name}{conversion.suffix_of(form)}"
    file.write_bytes(conversion.render(TEXTGRID, form, rate=22050))
    return file


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_every_pair_in_its_own_format_and_place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    put(root / "amy", "a")
    put(root / "amy", "b", "htk")
    put(root / "bob", "c", "timit")
    put(root / "bob", "d", "eaf")
    # each by itself, as a lone file is: by default a folder's recordings are normalised by speaker
    assert main(["label", str(root), "--out", str(out), "--normalise", "recording"]) == 0
    assert names(out) == ["amy/a.TextGrid", "amy/b.lab", "bob/c.phn", "bob/d.eaf"]
    assert f"labelled {4 * COUNT} segments of 4 recordings to {out}" in capfd.readouterr().err
    assert main(["label", str(samples.AUDIO), str(samples.SEGMENTS), "--out", str(tmp_path / "one.TextGrid")]) == 0
    assert (out / "amy/a.TextGrid").read_bytes() == (tmp_path / "one.TextGrid").read_bytes()
    known = [s.label for s in notation.read((tmp_path / "one.TextGrid").read_bytes()).tiers[-2].entries]
    for name in ("amy/b.lab", "bob/c.phn"):
        read = notation.read((out / name).read_bytes(), name=name, rate=22050)
        assert [s.label for s in read.tiers[0].entries] == known
        assert read.tiers[0].entries[-1].end == pytest.approx(1.89, abs=1e-3)


def test_products_in_bfloat16_move_posteriors_a_little_and_answers_say_so(tmp_path: Path) -> None:
    put(tmp_path / "in", "a")
    found = {}
    for precision in ("float32", "bfloat16"):
        out = tmp_path / precision
        options = ["--format", "json", "--normalise", "recording", "--precision", precision]
        assert main(["label", str(tmp_path / "in"), "--out", str(out), *options]) == 0
        found[precision] = json.loads((out / "a.json").read_text())
        one = tmp_path / f"{precision}.json"
        assert main(["label", str(samples.AUDIO), str(samples.SEGMENTS), *options[2:], "--out", str(one)]) == 0
        assert json.loads(one.read_text())["segments"] == found[precision]["segments"]
    codes = {name: [w["code"] for w in answer["warnings"]] for name, answer in found.items()}
    assert codes["bfloat16"] == [*codes["float32"], "precision-reduced"]
    whole, reduced = ([s["posterior"] for s in found[name]["segments"]] for name in ("float32", "bfloat16"))
    assert whole != reduced
    assert reduced == pytest.approx(whole, abs=0.02)


def test_one_format_for_all(tmp_path: Path) -> None:
    put(tmp_path / "in", "a")
    put(tmp_path / "in", "b", "htk")
    assert main(["label", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--format", "csv"]) == 0
    assert names(tmp_path / "out") == ["a.csv", "b.csv"]
    assert main(["label", str(tmp_path / "in"), "--out", str(tmp_path / "json"), "--format", "json"]) == 0
    assert len(json.loads((tmp_path / "json/b.json").read_text())["segments"]) == COUNT


def test_bad_files_are_told_and_stop_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    put(root, "good")
    put(root, "syntax", "htk").write_text("0 800000 IH\n800000 N\n")
    put(root, "segments", "htk").write_text("0 800000 IH\n800000 80000000 N\n")
    put(root, "sound")
    (root / "sound.flac").write_bytes(b"no sound")
    (root / "alone.lab").write_text("0 800000 IH\n")
    assert main(["label", str(root), "--out", str(out)]) == 1
    err = capfd.readouterr().err
    assert names(out) == ["good.TextGrid"]
    failed = {line.split(": ")[0]: line for line in err.splitlines() if line.startswith("failed ")}
    assert set(failed) == {f"failed {root / n}" for n in ("syntax.lab:2", "segments.lab:2", "sound.flac")}
    assert f"left out {root / 'alone.lab'}: " in err
    assert "3 files could not be used" in err
    assert main(["label", str(root), "--out", str(out), "--on-bad-segment", "skip"]) == 1
    assert "segments.lab" in names(out)


def test_what_is_said_of_the_labels_of_a_folder_is_of_all_its_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    respelled = {
        "a": lambda label: label,
        "b": lambda label: label + "1" if label[0] in "AEIOU" else label,  # with stress
        "c": lambda label: "zz8" if label == "IH" else label,
        "d": lambda label: "zz9" if label == "IH" else label.lower(),
    }
    for name, respell in respelled.items():
        tier = TEXTGRID.tiers[-1]
        entries = [replace(s, label=None if s.label is None else respell(s.label)) for s in tier.entries]
        file = put(tmp_path, name)
        file.write_bytes(conversion.render(replace(TEXTGRID, tiers=[replace(tier, entries=entries)]), "textgrid"))
    labels = [s.label for s in TEXTGRID.tiers[-1].entries]
    assert main(["label", str(tmp_path), "--doubtful", "1"]) == 0
    said = capfd.readouterr().err.splitlines()
    folded = [line for line in said if "after a folding" in line]
    assert [line.split(": ")[1] for line in folded] == [str(tmp_path / f"{name}.TextGrid") for name in "bd"]
    assert ["without stress" in line for line in folded] == [True, False]
    unknown = [line for line in said if "unknown to the model" in line]
    count, each = len([label for label in labels if label is not None]), labels.count("IH")
    assert unknown == [
        f"warning: 2 files, the first {tmp_path / 'c.TextGrid'}: {2 * each} of {4 * count} given labels are unknown to "
        "the model: zz8, zz9"
    ]


def test_nothing_could_be_done(tmp_path: Path) -> None:
    put(tmp_path / "in", "a", "htk").write_text("0 800000 IH\n800000 N\n")
    assert main(["label", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["label", str(tmp_path / "empty"), "--out", str(tmp_path / "out")]) == 2


def test_files_without_a_partner_are_no_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "in", "a")
    shutil.copy(samples.AUDIO, tmp_path / "in/b.flac")
    assert main(["label", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert "no annotation beside it" in capfd.readouterr().err


def test_the_least_certain_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, table = tmp_path / "in", tmp_path / "all.csv"
    put(root, "a")
    wrong = put(root, "b", "htk")
    wrong.write_text(wrong.read_text().replace(" N\n", " ZH\n", 1).replace(" B\n", " strange\n", 1))
    assert main(["label", str(root), "--table", str(table), "--doubtful", "3"]) == 0
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 2 * COUNT
    of_given = [float(row["certainty"]) for row in rows if row["measure"] == "given"]
    assert of_given == sorted(of_given)
    # what a label's neighbours were given counts too: support is no function of the label's own posterior
    assert of_given != [float(row["given_posterior"]) for row in rows[:-1]]
    last = rows[-1]  # a label that the model does not know has no posterior; its answer's is ranked apart
    assert (last["given"], last["measure"], last["given_posterior"]) == ("strange", "answer", "")
    assert last["certainty"] == last["posterior"]
    [zh] = [n for n, row in enumerate(rows) if row["given"] == "ZH"]
    assert zh < 5
    out = capfd.readouterr().out
    lines = [line.split() for line in out.splitlines() if str(root) in line]
    assert [(line[0], float(line[1])) for line in lines] == [
        (row["file"], float(row["start"])) for row in [*rows[:3], last]
    ]
    assert "Least certain given labels" in out
    assert "Least certain answers" in out


def test_skipped_segments_come_last(tmp_path: Path) -> None:
    file = put(tmp_path / "in", "a", "htk")
    file.write_text(file.read_text() + "18900000 40000000 Z\n")
    table = tmp_path / "all.csv"
    assert main(["label", str(tmp_path / "in"), "--table", str(table), "--on-bad-segment", "skip"]) == 0
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == COUNT + 1
    assert (rows[-1]["given"], rows[-1]["label"], rows[-1]["certainty"]) == ("Z", "", "")
    assert "past the end" in rows[-1]["skipped"]


def test_one_recording_has_a_table_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    command = ["label", str(samples.AUDIO), str(samples.SEGMENTS), "--table", str(table), "--doubtful", "2"]
    assert main(command) == 0
    assert len(list(csv.DictReader(table.open()))) == COUNT
    assert "Least certain" in capfd.readouterr().out


def test_a_file_of_many_recordings(tmp_path: Path) -> None:
    root = tmp_path / "in"
    rows = put(root, "a", "htk").read_text()
    put(root, "b", "htk").unlink()
    (root / "a.lab").unlink()
    (root / "all.mlf").write_text(f'#!MLF!#\n"*/a.lab"\n{rows}.\n"*/b.lab"\n{rows}.\n')
    assert main(["label", str(root), "--out", str(tmp_path / "out")]) == 0
    assert names(tmp_path / "out") == ["a.mlf", "b.mlf"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--out"),
        (["--out", "{root}/labelled"], "outside"),
        (["--out", "{root}"], "outside"),
        (["--out", "{root}/a.flac"], "got the file"),
        (["--out", "{root}/../out", "--format", "table"], "--format"),
        (["--out", "{root}/../out", "--table", "{root}/../none/t.csv"], "t.csv"),
        (["--out", "{root}/../out", "--model", "none.safetensors"], "none.safetensors"),
    ],
)
def test_wrong_use(more: list[str], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "in"
    put(root, "a")
    assert main(["label", str(root), *(word.format(root=root) for word in more)]) == 2
    err = capfd.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert names(root) == ["a.TextGrid", "a.flac"]
    assert not (tmp_path / "out").exists()


def test_sound_without_a_header(tmp_path: Path) -> None:
    """The same answer from a headerless copy and from the file itself; the option means the headerless one alone."""
    root = tmp_path / "in"
    put(root, "flac")
    put(root, "plain")
    sound, rate = soundfile.read(root / "plain.flac", dtype="int16")
    (root / "plain.flac").unlink()
    (root / "plain.raw").write_bytes(sound.astype("<i2").tobytes())
    assert main(["label", str(root), "--out", str(tmp_path / "out"), "--raw", f"{rate},s16le"]) == 0
    assert (tmp_path / "out/plain.TextGrid").read_bytes() == (tmp_path / "out/flac.TextGrid").read_bytes()


def test_sequences_words_and_hidden_variables_are_those_of_one_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["--sequences", "2", "--words", "--hidden", "--format", "json", "--normalise", "recording"]
    root, out = tmp_path / "in", tmp_path / "out"
    put(root, "a")
    put(root, "b", "htk")  # without words
    assert main(["label", str(root), "--out", str(out), *asked]) == 1
    assert "expected a tier of words" in capfd.readouterr().err
    found = json.loads((out / "a.json").read_text())
    assert main(["label", str(samples.AUDIO), str(samples.SEGMENTS), *asked]) == 0
    alone = json.loads(capfd.readouterr().out)
    for member in ("sequences", "words", "hidden"):
        assert found[member] == alone[member], member
    assert names(out) == ["a.json"]


def test_a_speakers_recordings_are_described_as_they_were_labelled(tmp_path: Path) -> None:
    """Normalised together: of one segment, the best sequence is its answer, with the same probability."""
    root, out = tmp_path / "in", tmp_path / "out"
    for name, first in (("a", 0), ("b", 7)):
        put(root / "amy", name, "htk")
        file = root / "amy" / f"{name}.lab"
        file.write_text(file.read_text().splitlines()[first] + "\n")
    asked = ["--sequences", "1", "--format", "json", "--gaps", "break"]
    assert main(["label", str(root), "--out", str(out), *asked]) == 0
    assert main(["label", str(root), "--out", str(tmp_path / "own"), *asked, "--normalise", "recording"]) == 0
    for name in ("a", "b"):
        found, own = (json.loads((folder / f"amy/{name}.json").read_text()) for folder in (out, tmp_path / "own"))
        assert (found["normalised"], own["normalised"]) == ("speaker", "recording")
        assert found["sequences"][0]["probability"] == pytest.approx(found["segments"][0]["posterior"], rel=1e-4)
        assert found["segments"][0]["posterior"] != pytest.approx(own["segments"][0]["posterior"], rel=1e-3)


def test_all_speakers_of_every_recording(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "in"
    put(root, "a")
    put(root, "b")
    for name in ("a", "b"):
        (root / f"{name}.TextGrid").write_bytes(TWO)
    asked = ["--all-speakers", "--sequences", "2", "--format", "json"]
    table = tmp_path / "all.csv"
    assert main(["label", str(root), "--out", str(tmp_path / "out"), *asked, "--table", str(table)]) == 0
    assert main(["label", str(samples.AUDIO), str(root / "a.TextGrid"), *asked]) == 0
    alone = json.loads(capfd.readouterr().out)
    assert [tier["tier"] for tier in alone["tiers"]] == ["A - phones", "B - phones"]
    for name in ("a", "b"):
        found = json.loads((tmp_path / f"out/{name}.json").read_text())
        for tier, own in zip(found["tiers"], alone["tiers"], strict=True):
            assert (tier["tier"], tier["sequences"]) == (own["tier"], own["sequences"])
            posteriors = [s["posterior"] for s in tier["segments"]]
            assert posteriors == pytest.approx([s["posterior"] for s in own["segments"]], rel=1e-4)
    files = {row["file"] for row in csv.DictReader(table.open())}
    assert {file.rpartition("#")[2] for file in files} == {"A - phones", "B - phones"}
    assert main(["label", str(root), "--out", str(tmp_path / "grids"), "--all-speakers"]) == 0
    tiers = notation.read((tmp_path / "grids/a.TextGrid").read_bytes()).tiers
    assert sum("phonechain" in tier.name for tier in tiers) >= 2


def test_processes_give_what_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Over several processes: the same files, table and lines, whoever labelled what."""
    root = tmp_path / "in"
    for speaker in ("amy", "bob", "cid"):
        for name in ("a", "b"):
            put(root / speaker, name)
    (root / "bob" / "b.flac").write_bytes(b"no sound")
    monkeypatch.setattr(folders, "BATCH", 1)
    monkeypatch.setattr("phonechain.app.settings.cores", lambda: 2)
    answers = []
    for many in (1, 1000):
        monkeypatch.setattr(folders, "MANY", many)
        out = tmp_path / str(many)
        assert main(["label", str(root), "--out", str(out), "--table", f"{out}.csv"]) == 1
        written = {name: (out / name).read_bytes() for name in names(out)}
        answers.append((written, Path(f"{out}.csv").read_bytes(), capfd.readouterr().err.replace(str(out), "OUT")))
    assert len(answers[0][0]) == 5
    assert "failed" in answers[0][2]
    assert answers[0] == answers[1]


def test_a_speaker_stays_in_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small batches are, a speaker's recordings are normalised together, up to a bound."""
    for name in "abc":
        put(tmp_path / "amy", name)
    put(tmp_path / "bob", "d")
    pairs, _ = pair_folder(tmp_path)
    monkeypatch.setattr(folders, "BATCH", 2)

    def stems(*, by_speaker: bool) -> list[str]:
        return [
            "".join(pair.audio.stem for pair in batch) for batch in folders._make_batches(pairs, by_speaker=by_speaker)
        ]

    assert stems(by_speaker=False) == ["ab", "cd"]
    assert stems(by_speaker=True) == ["abc", "d"]
    monkeypatch.setattr(folders, "MOST_IN_BATCH", 2)
    assert stems(by_speaker=True) == ["ab", "c", "d"]


@pytest.mark.parametrize(("count", "workers"), [(600, 2), (601, 2), (75, 2), (48, 2), (130, 4), (3, 2)])
def test_workers_get_as_many_batches_of_about_the_same_size(count: int, workers: int) -> None:
    pairs = [Pair(Path(f"{n:04d}.wav"), [], speaker=f"speaker{n // 20}") for n in range(count)]
    alone = folders._make_batches(pairs, by_speaker=False, workers=workers)
    assert [pair for batch in alone for pair in batch] == pairs
    sizes = [len(batch) for batch in alone]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) % workers == 0 or count < workers * 2
    speakers = folders._make_batches(pairs, by_speaker=True, workers=workers)
    assert [pair for batch in speakers for pair in batch] == pairs
    assert all(a[-1].speaker != b[0].speaker for a, b in pairwise(speakers))


def test_recordings_of_unknown_speakers_are_normalised_alone_and_say_so(tmp_path: Path) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    put(root, "a")
    put(root, "b")
    for asked in ([], ["--normalise", "speaker"]):
        assert main(["label", str(root), "--out", str(out), "--format", "json", *asked]) == 0
        assert {json.loads((out / f"{name}.json").read_text())["normalised"] for name in "ab"} == {"recording"}
