"""`phonechain compare` and `phonechain.compare`: models against models, and against answers in every form that is left."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

import phonechain
from phonechain.app import samples
from phonechain.app.cli import main


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample four times: three speakers, two recordings of the same bare name."""
    root = tmp_path_factory.mktemp("compare") / "corpus"
    for speaker, name in (("amy", "one"), ("amy", "two"), ("bob", "one"), ("cy", "three")):
        (root / speaker).mkdir(parents=True, exist_ok=True)
        shutil.copy(samples.AUDIO, root / speaker / f"{name}.flac")
        shutil.copy(samples.SEGMENTS.with_suffix(".lab"), root / speaker / f"{name}.lab")
    return root


@pytest.fixture(scope="module")
def answers(corpus: Path) -> Path:
    """What `phonechain label FOLDER` leaves: TextGrids, a table, JSON."""
    out = corpus.parent / "answers"
    for format in ("textgrid", "json", "htk"):
        more = ["--table", str(out.with_suffix(".csv"))] if format == "textgrid" else []
        arguments = ["--model", "small", "--out", str(out / format), "--format", format, *more]
        assert main(["label", str(corpus), *arguments]) == 0
    return out


def run_compare(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    found: dict = json.loads(capfd.readouterr().out)
    return found


@pytest.mark.parametrize("form", ["textgrid", "json", "htk", "csv"])
def test_a_models_answers_are_the_model(
    form: str, corpus: Path, answers: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = answers.with_suffix(".csv") if form == "csv" else answers / form
    found = run_compare(capfd, "small", given, corpus)
    assert found["tests"]["segments"] == 4 * 23
    assert found["a"]["errors"] == found["b"]["errors"] > 0
    assert (found["tests"]["only_a_wrong"], found["tests"]["only_b_wrong"]) == (0, 0)
    assert (found["over"], found["tests"]["units"], found["utterances"]) == ("speaker", 3, 4)
    assert found["a"]["name"].startswith("small (")


def test_a_jobs_results_are_answers(corpus: Path, answers: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As JSON lines, and as the unpacked zip with its `segments.csv`; skipped segments and others' labels included."""
    lines, table = corpus.parent / "rows.jsonl", corpus.parent / "zip" / "segments.csv"
    table.parent.mkdir()
    with answers.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = {"amy/one": "amy/one", "amy/two": "two", "bob/one": "bob/one", "cy/three": "three"}
    by_name: dict[str, list[dict]] = {}
    for row in rows:
        tail = "/".join(Path(row["file"]).with_suffix("").parts[-2:])
        row["utterance"] = names[tail]
        by_name.setdefault(names[tail], []).append(row)
    by_name["three"][0]["label"] = None
    lines.write_text(
        "".join(
            json.dumps({"utterance": n, "segments": [{k: r[k] for k in ("start", "end", "label")} for r in own]}) + "\n"
            for n, own in by_name.items()
        )
    )
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["utterance", "start", "end", "label"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows([{**row, "label": row["label"] or ""} for row in rows])
    found = run_compare(capfd, lines, table.parent, corpus)
    assert found["tests"]["segments"] == 4 * 23 - 1
    assert (found["a"]["missing"], found["tests"]["difference"]) == (1, 0.0)


def test_two_models_differ_and_python_says_the_same(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = run_compare(capfd, "small", "paper", corpus, "--over", "utterance")
    assert found["tests"]["difference"] > 0
    assert found["tests"]["mcnemar_exact"] < 0.05  # four times the same recording
    assert (found["over"], found["tests"]["units"]) == ("utterance", 4)
    labeler = phonechain.PhoneLabeler.load(phonechain.pretrained_path("paper"))
    read = phonechain.read_corpus(corpus)
    assert phonechain.compare("small", labeler, read, over="utterance").as_dict()["tests"] == found["tests"]
    with_path = phonechain.compare("small", labeler, corpus, over="utterance")
    assert with_path.tests.per_b == found["b"]["per"]


def test_the_table_says_errors_intervals_and_tests(
    corpus: Path, answers: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(answers / "htk"), "paper", str(corpus)]) == 0
    out = capfd.readouterr().out
    for said in ("92 segments of 4 utterances of corpus, 3 speakers", "B - A", "McNemar, exact", "matched pairs"):
        assert said in out
    assert "speakers resampled 2000 times" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.safetensors", "small", "{corpus}"], "a model file, or a file or folder of answers; nowhere"),
        (["nowhere.csv", "small", "{corpus}"], "nowhere.csv does not exist"),
        (["small", "{empty}", "{corpus}"], "answers to recordings of the corpus in"),
        (["small", "small", "{corpus}", "--over", "word"], "--over: expected speaker or utterance, got 'word'"),
        (["small", "small", "{corpus}", "--split", "test"], "test"),
        (["{bad}", "small", "{corpus}"], "line 2: expected an object with utterance and segments"),
        (["{badcsv}", "small", "{corpus}"], "line 1: expected columns utterance (or file), start, end and label"),
        (["{times}", "small", "{corpus}"], "line 2: expected start and end in seconds"),
    ],
)
def test_wrong_use_is_told(
    arguments: list[str], says: str, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text('\n{"utterance": "one"}\n')
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "times.csv").write_text("utterance,start,end,label\nthree,now,1,AH\n")
    places = {
        "corpus": corpus, "empty": tmp_path / "empty", "bad": tmp_path / "bad.jsonl", "badcsv": tmp_path / "bad.csv",
        "times": tmp_path / "times.csv",
    }  # fmt: skip
    assert main(["compare", *(word.format(**places) for word in arguments)]) == 2
    assert says in capfd.readouterr().err


def test_a_file_of_answers_that_cannot_be_read_is_named_and_left_out(
    corpus: Path, answers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = shutil.copytree(answers / "textgrid", tmp_path / "broken")
    file = next(broken.rglob("three.TextGrid"))
    file.write_text("nothing")
    assert main(["compare", str(broken), "small", str(corpus), "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["utterances"] == 3
    assert "left out" in err
    assert "three.TextGrid" in err
