"""The command line: what it prints, and with which exit code it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phonechain.app import samples
from phonechain.app.cli import app, main
from phonechain.app.cli.preset_settings import apply_changes, list_features, list_settings, split_features
from phonechain.features import annotation as notation
from phonechain.features.errors import SettingsError
from phonechain.features.feature_settings import FeatureSettings
from phonechain.model.presets import preset, preset_names

ROOT = Path(__file__).parents[3]
AUDIO, SEGMENTS = str(samples.AUDIO), str(samples.SEGMENTS)


def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "phonechain.app.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, **more)  # type: ignore[call-overload]


# ---------------------------------------------------------------------------------------------------- as a process


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from phonechain.app.cli import main; main(['--help']); "
        "heavy = {'torch', 'librosa', 'numpy', 'scipy', 'fastapi', 'rich', 'pydantic'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    for command in ("label", "train", "evaluate", "compare", "models", "demo", "serve"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["label", "missing.wav", SEGMENTS], "missing.wav"),
        (["label", str(ROOT), SEGMENTS], "folder"),
        (["label", AUDIO], "SEGMENTS"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("phonechain: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_a_table_goes_through_a_pipe_that_closes() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = f"{sys.executable} -m phonechain.app.cli label {AUDIO} {SEGMENTS} --format json | head -c 10"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == '{\n  "model'
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_ends_training_and_says_how_to_go_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    corpus, out = _corpus(tmp_path), tmp_path / "m.safetensors"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "phonechain.app.cli", "train", str(corpus), "--out", str(out)]
    command += ["--epochs", "100000", "--set", "patience=0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("epoch 3/"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, "".join(lines) + rest
    assert "--resume" in rest
    assert "Traceback" not in rest
    assert not out.exists()
    run_folder = tmp_path / "m.safetensors.run"
    assert run_folder.is_dir()
    assert main(command[3:]) == 2
    assert "--resume" in capfd.readouterr().err
    # The checkpoint is of those settings: other ones do not go on from it.
    assert main([*command[3:], "--epochs", "5", "--resume"]) == 2
    assert "checkpoint" in capfd.readouterr().err


# ---------------------------------------------------------------------------------------------------- in this process


def test_a_table_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["label", AUDIO, SEGMENTS, "--n-best", "2"]) == 0
    out, err = capfd.readouterr()
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert rows[0][:4] == ["start", "end", "label", "posterior"]
    assert len(rows) == 2 + 23
    assert rows[2][:2] == ["0.000", "0.080"]
    assert err == ""  # a tier of that name is no guess, so nothing is said of it


def test_json_is_what_the_service_answers(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["label", AUDIO, SEGMENTS, "--format", "json", "--tier", "phones"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["normalised"] == "recording"
    assert set(answer) - {"normalised"} == {"model", "duration", "tier", "segments", "folding", "gaps", "warnings"}
    assert len(answer["segments"]) == 23


@pytest.mark.parametrize("name", ["out.TextGrid", "out.textgrid", "out.json"])
def test_the_name_of_the_file_chooses_the_format(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    assert main(["label", AUDIO, SEGMENTS, "--out", str(out)]) == 0
    if name.endswith(".json"):
        assert "segments" in json.loads(out.read_text("utf-8"))
    else:
        read = notation.read(out.read_bytes(), name=name)
        assert [t.name for t in read.tiers] == ["words", "phones", "phones phonechain", "phones posterior"]
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["label", AUDIO, "none.TextGrid"], "none.TextGrid"),
        (["label", AUDIO, SEGMENTS, "--format", "pdf"], "textgrid"),
        (["label", AUDIO, SEGMENTS, "--n-best", "0"], "n-best"),
        (["label", AUDIO, SEGMENTS, "--out", str(ROOT)], "folder"),
        (["label", AUDIO, SEGMENTS, "--out", "/nowhere/at/all.TextGrid"], "/nowhere/at"),
        (["label", AUDIO, SEGMENTS, "--model", "none.safetensors"], "none.safetensors"),
        (["label", AUDIO, SEGMENTS, "--model", "french"], "default"),
        (["label", AUDIO, SEGMENTS, "--model", str(ROOT)], "folder"),
        (["train", "nowhere"], "nowhere"),
        (["train", AUDIO], "not a folder"),
        (["train", str(ROOT / "docs"), "--preset", "none"], "spn-lc-crf"),
        (["train", str(ROOT / "docs"), "--set", "l2"], "KEY=VALUE"),
        (["train", str(ROOT / "docs"), "--set", "weather=1"], "weather"),
        (["train", str(ROOT / "docs"), "--set", "nope=3"], "`phonechain presets spn-lc-crf` lists all of them"),
        (["train", str(ROOT / "docs"), "--set", "epoch=3"], "did you mean epochs?"),
        (["train", str(ROOT / "docs"), "--preset", "auto", "--set", "l2=1"], "chooses l2 itself"),
        (["train", str(ROOT / "docs"), "--set", "model.factors.9.states=1"], "factor"),
        (["train", str(ROOT / "docs"), "--set", "batch=many"], "many"),
        (["train", str(ROOT / "docs"), "--out", "/nowhere/at/all.safetensors"], "/nowhere/at"),
        (["train", str(ROOT / "docs"), "--resume"], "does not exist"),
        (
            ["train", str(ROOT / "docs"), "--teacher", "default", "--base", "default"],
            "--teacher: not available with --base",
        ),
        (["train", str(ROOT / "docs"), "--teacher", "default", "--preset", "auto"], "or the preset auto"),
        (
            ["train", str(ROOT / "docs"), "--teacher", "default", "--preset", "spn-semi-crf"],
            "--teacher: not available with the",
        ),
        (["evaluate", "default", "nowhere"], "nowhere"),
        (["evaluate", "default", str(ROOT / "docs"), "--decode", "guess"], "viterbi"),
        (["label", AUDIO, SEGMENTS, "-m", "english-alignment"], "labels given segments, got"),
        (["evaluate", "english-alignment", str(ROOT / "samples")], "which aligns transcripts"),
        (["serve", "--port", "99999"], "PHONECHAIN_PORT"),
        (["serve", "--port", "x"], "port"),
        (["serve", "--host", "192.0.2.1"], "192.0.2.1"),
        (["models", "none.safetensors"], "none.safetensors"),
        (
            ["convert", AUDIO, "out.TextGrid"],
            "expected an annotation to convert, got a FLAC recording; `phonechain align`",
        ),
        (["phones", AUDIO], "expected an annotation or a corpus folder, got a FLAC recording"),
        (["align", AUDIO, SEGMENTS, "--out", "out.mp3"], "--out: the name out.mp3 has no suffix of a format"),
        (["align", SEGMENTS, AUDIO], "LJ001-0002.TextGrid: expected WAV"),
        (["recognize", SEGMENTS], "LJ001-0002.TextGrid: expected WAV"),
        (["keys"], "expected a command after phonechain keys: add, list, revoke (see phonechain keys --help)"),
        (["keys", "add"], "Missing argument 'NAME' (see phonechain keys add --help)"),
        (["serve", "--port", "x"], "'--port': expected a valid integer (see phonechain serve --help)"),
        (["scheduler", "--port", "99999"], "'--port': expected at most 65535 (see phonechain scheduler --help)"),
        (["db", "downgrade", "none"], "expected one of the revisions base, 0001, 0002"),
        (["evaluate", str(ROOT / "samples"), "default"], "expected the model before the corpus, got the folder"),
        (["label", AUDIO, SEGMENTS, "--raw", "1,2"], "such as 16000,s16le,1, got '1,2'; encodings: s8"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_one_line(arguments: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("phonechain: ")
    assert err.count("\n") == 1
    assert says in err


def test_a_folder_without_a_corpus(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["train", str(tmp_path)], ["evaluate", "default", str(tmp_path)]):
        assert main(command) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("phonechain: ")


def test_a_bug_is_one_line_unless_debugged(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("phonechain.app.cli.common.load_model", broken)
    assert main(["models"]) == 1
    err = capfd.readouterr().err
    assert (
        err
        == "phonechain: unexpected error (please report it): ZeroDivisionError: two lines; --debug shows the traceback\n"
    )
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "models"])


def test_debug_shows_where_bad_input_was_found(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "none.safetensors", "--debug"]) == 2
    assert "Traceback" in capfd.readouterr().err


def test_help_and_version() -> None:
    runner = CliRunner()
    assert runner.invoke(app, []).output == runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output.startswith("phonechain ")
    for command in ("label", "train", "evaluate", "compare", "models", "demo", "serve"):
        result = runner.invoke(app, [command, "--help"])
        assert result.exit_code == 0
        assert "Usage" in result.output


SHIPPED = ["default", "paper", "small", "english-alignment"]


def test_models_and_cards(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    out = capfd.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if " 40 " in line] == SHIPPED
    assert main(["models", "default"]) == 0
    assert "licence" in capfd.readouterr().out
    assert main(["models", "--json"]) == 0
    cards = json.loads(capfd.readouterr().out)
    assert [card["file"] for card in cards] == SHIPPED
    assert [card["kind"] for card in cards] == ["labelling"] * 3 + ["alignment"]


def test_the_demo_prints_posteriors_and_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capfd.readouterr().out
    assert samples.TEXT in out
    assert "posterior" in out
    assert "curl -F audio=@" in out
    assert "/classify?n_best=3'" in out


def test_every_setting_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    """By `train --help`, and with the values of a preset by `presets NAME`."""
    result = CliRunner().invoke(app, ["train", "--help"])
    rows = [*list_settings(), *list_features()]
    assert {row.key for row in rows} >= {"training.l2", "model.bigram", "model.factors.N.dropout", "features.engine"}
    for row in rows:
        assert row.meaning, f"{row.key} is missing in the docstring of its class"
        assert f"  {row.key} ({row.type}; default {row.value})\n" in result.output

    assert main(["presets", "--json"]) == 0
    names = [preset["name"] for preset in json.loads(capfd.readouterr().out)]
    assert names == [*preset_names(), "spn-semi-crf"]
    assert main(["presets", "spn-ho-lc-crf", "--json"]) == 0
    values = {row["key"]: row["value"] for row in json.loads(capfd.readouterr().out)}
    assert values["model.factors.1.labels"] == "2"
    assert main(["presets", "spn-semi-crf", "--json"]) == 0
    assert all(row["meaning"] for row in json.loads(capfd.readouterr().out))
    assert main(["presets", "spn-ho-lc-crf"]) == 0
    assert "model.factors.1.labels" in capfd.readouterr().out


@pytest.mark.parametrize("name", preset_names())
def test_what_presets_prints_can_be_set(name: str) -> None:
    rows = list_settings(preset(name))
    assert apply_changes(name, [f"{row.key}={row.value}" for row in rows]) == preset(name)


@pytest.mark.parametrize("changes", [["optimizer=sgd", "l2=0.1"], ["l2=0.1", "training.optimizer=sgd"]])
def test_the_optimizer_brings_its_steps_unless_they_are_given(changes: list[str]) -> None:
    training = apply_changes("spn-lc-crf", changes).training
    assert (training.optimizer, training.batch, training.learning_rate, training.ngram_rate) == ("sgd", 1, 0.2, 1)
    assert training.l2 == 0.1
    assert apply_changes("spn-lc-crf", ["optimizer=adam"]) == preset("spn-lc-crf")


def test_feature_settings_can_be_set() -> None:
    changes = ["l2=0.1", "features.engine=librosa", "features.fmax=7000"]
    others, features = split_features(changes)
    assert (others, features) == (["l2=0.1"], FeatureSettings(engine="librosa", fmax=7000))
    assert split_features(others) == (others, None)
    printed = [f"{row.key}={row.value}" for row in list_features()]
    assert split_features(printed) == ([], FeatureSettings())
    for wrong, message in {
        "features.engine=numpy": "expected engine to be one of native, librosa, got 'numpy'",
        "features.rate=fast": "expected rate to be of type int, got 'fast'",
        "features.bands=40": "--set features.bands: expected one of features.rate, ",
    }.items():
        with pytest.raises(SettingsError, match=message):
            split_features([wrong])
    for start in (["--base", "default"], ["--preset", "auto"]):
        with pytest.raises(SettingsError, match="not available with --base or the preset auto"):
            CliRunner().invoke(
                app, ["train", str(ROOT / "samples"), *start, "--set", "features.lifter=22"], catch_exceptions=False
            )


# ---------------------------------------------------------------------------------------------------- training


def _corpus(folder: Path, utterances: int = 6) -> Path:
    """A small corpus: the sample under several names, of two speakers."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(utterances):
        shutil.copy(samples.AUDIO, corpus / f"u{number}.flac")
        shutil.copy(samples.SEGMENTS.with_suffix(".lab"), corpus / f"u{number}.lab")
    rows = [f"u{n}\ts{n % 2}\t{'test' if n == 0 else 'train'}" for n in range(utterances)]
    (corpus / "utterances.tsv").write_text("utterance\tspeaker\tsplit\n" + "\n".join(rows) + "\n")
    return corpus


def test_train_evaluate_and_use(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    corpus, out = _corpus(tmp_path), tmp_path / "mine.safetensors"
    (corpus / "u1.flac").write_bytes(b"no sound")
    options = ["--epochs", "4", "--seed", "3", "--set", "batch=2", "--set", "model.factors.0.dropout=0"]
    assert main(["train", str(corpus), "--out", str(out), "--licence", "CC0-1.0", *options]) == 0
    said, progress = capfd.readouterr()
    assert f"wrote {out}" in said
    assert [line.split()[1] for line in progress.splitlines() if line.startswith("epoch")] == [
        "1/4",
        "2/4",
        "3/4",
        "4/4",
    ]
    assert "u1" in progress
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "mine.safetensors"]

    assert main(["models", str(out), "--json"]) == 0
    card = json.loads(capfd.readouterr().out)
    assert (card["name"], card["licence"], card["seed"], card["corpus"]) == ("mine", "CC0-1.0", 3, "corpus")
    assert card["command"].startswith("phonechain train ")

    assert main(["evaluate", str(out), str(corpus), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["split"], found["segments"]) == ("test", 23)
    assert found["per"] < 0.5  # it has seen this very recording
    assert card["calibration"].startswith(("temperature ", "not fitted: dev set too small (23 segments)"))
    assert found["calibration"] == card["calibration"]
    assert {b["interval"]["reason"] for b in found["reliability"]} == {
        "not computed: one utterance or speaker, at least 3 are needed"
    }
    more = ["--per-phone", "--reliability", "--confusions", "3"]
    assert main(["evaluate", str(out), str(corpus), "--split", "train", *more]) == 0
    printed = capfd.readouterr().out
    assert "Reliability" in printed
    assert card["calibration"].split(",")[0] in printed
    assert "errors" in printed
    assert "recall" in printed
    assert main(["evaluate", str(out), str(corpus), "--split", "none"]) == 2
    assert "train" in capfd.readouterr().err

    assert main(["label", AUDIO, SEGMENTS, "--model", str(out), "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["model"]["version"] == card["version"]


def test_a_kept_run_folder_and_the_same_seed_give_the_same_model(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 4)
    versions = []
    for name in ("a", "b"):
        out, run_dir = tmp_path / f"{name}.safetensors", tmp_path / name
        more = ["--out", str(out), "--run-dir", str(run_dir), "--epochs", "2", "--name", "same"]
        assert main(["train", str(corpus), *more]) == 0
        assert [p.suffix for p in run_dir.iterdir()] == [
            ".npz",
            ".npz",
        ]  # the features; no checkpoint of a run that ended
        from safetensors import safe_open

        with safe_open(out, framework="pt") as stored:
            versions.append({key: stored.get_tensor(key) for key in stored.keys()})  # noqa: SIM118
    assert versions[0].keys() == versions[1].keys()
    assert all((versions[0][key] == versions[1][key]).all() for key in versions[0])


def test_train_learns_from_a_teacher(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    corpus = _corpus(tmp_path, 4)
    teacher, student = tmp_path / "teacher.safetensors", tmp_path / "student.safetensors"
    assert main(["train", str(corpus), "--out", str(teacher), "--epochs", "2", "--preset", "spn-lc-crf"]) == 0
    command = [
        "train",
        str(corpus),
        "--out",
        str(student),
        "--epochs",
        "2",
        "--preset",
        "lc-crf",
        "--teacher",
        str(teacher),
    ]
    assert main([*command, "--set", "training.teacher_weight=0.8"]) == 0
    assert "learns from teacher@" in (err := capfd.readouterr().err)
    assert "(80 % of the loss)" in err
    assert main(["models", str(student), "--json"]) == 0
    assert "--teacher" in json.loads(capfd.readouterr().out)["command"]
    for lab in corpus.glob("*.lab"):
        lab.write_text(lab.read_text().replace(" N\n", " ny\n"))
    assert main(command) == 2
    assert "labels that the teacher has, got 1 of" in capfd.readouterr().err


def test_train_learns_from_recordings_without_labels(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As the guide says: segments labelled `?`, which --map maps to nothing, a teacher, and gaps = sum."""
    corpus = _corpus(tmp_path, 6)
    teacher, table = tmp_path / "teacher.safetensors", tmp_path / "map.txt"
    assert main(["train", str(corpus), "--out", str(teacher), "--epochs", "1", "--preset", "lc-crf"]) == 0
    table.write_text("?\t-\n")
    for lab in sorted(corpus.glob("*.lab"))[:3]:
        lab.write_text("\n".join(" ".join([*line.split()[:2], "?"]) for line in lab.read_text().splitlines()) + "\n")
    weights = []
    for gaps in ("split", "sum"):
        out = tmp_path / f"{gaps}.safetensors"
        command = [
            "train",
            str(corpus),
            "--out",
            str(out),
            "--epochs",
            "1",
            "--preset",
            "lc-crf",
            "--teacher",
            str(teacher),
        ]
        assert main([*command, "--map", str(table), "--set", f"training.gaps={gaps}"]) == 0, capfd.readouterr().err
        from safetensors import safe_open

        with safe_open(out, framework="pt") as stored:
            weights.append({key: stored.get_tensor(key) for key in stored.keys()})  # noqa: SIM118
    assert any((weights[0][key] != weights[1][key]).any() for key in weights[0])


def test_train_goes_on_from_a_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    corpus = _corpus(tmp_path, 4)
    first, second, third = (tmp_path / f"{name}.safetensors" for name in ("first", "second", "third"))
    assert main(["train", str(corpus), "--out", str(first), "--epochs", "3", "--preset", "lc-crf"]) == 0
    assert "starts" not in capfd.readouterr().err
    assert main(["train", str(corpus), "--out", str(second), "--epochs", "1", "--base", str(first)]) == 0
    assert "starts from first@" in capfd.readouterr().err
    assert main(["models", str(second), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["preset"] == "lc-crf"
    for lab in corpus.glob("*.lab"):
        lab.write_text(lab.read_text().replace(" N\n", " ny\n"))
    assert main(["train", str(corpus), "--out", str(third), "--epochs", "1", "--base", str(first)]) == 0
    err = capfd.readouterr().err
    assert "starts from first@" in err
    assert "with new labels: " in err
    assert "the label ny is not among its" in err
    assert main(["train", str(corpus), "--base", str(tmp_path / "none"), "--out", str(tmp_path / "x.safetensors")]) == 2
