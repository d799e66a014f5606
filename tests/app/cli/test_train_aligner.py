"""`phonechain train --preset spn-semi-crf`: a model file that aligns, from boundaries and from transcripts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.app.cli.train_aligner import apply_changes
from phonechain.features.audio.reader import decode
from phonechain.features.errors import SettingsError
from phonechain.model.segmental.aligner import PhoneAligner

SMALL = ["--set", "units=8", "--set", "model.states=2", "--set", "pretraining=1", "--set", "warps=1", "--epochs", "1"]
TEXT = "in being comparatively modern"


def _corpus(folder: Path, transcripts: bool) -> Path:
    corpus = folder / "corpus"
    for n in range(3):
        (corpus / f"s{n}").mkdir(parents=True)
        shutil.copy(samples.AUDIO, corpus / f"s{n}" / f"u{n}{samples.AUDIO.suffix}")
        if transcripts:
            (corpus / f"s{n}" / f"u{n}.txt").write_text(TEXT)
        else:
            shutil.copy(samples.SEGMENTS, corpus / f"s{n}" / f"u{n}{samples.SEGMENTS.suffix}")
    return corpus


@pytest.mark.parametrize("transcripts", [False, True], ids=["labels", "transcripts"])
def test_a_model_that_aligns(tmp_path: Path, capfd: pytest.CaptureFixture[str], transcripts: bool) -> None:
    out = tmp_path / "own.safetensors"
    more = ["--flat-start", "--dictionary", "english"] if transcripts else []
    command = [
        "train",
        str(_corpus(tmp_path, transcripts)),
        "--preset",
        "spn-semi-crf",
        "--out",
        str(out),
        *SMALL,
        *more,
    ]
    assert main(command) == 0
    said = capfd.readouterr()
    assert "wrote" in said.out
    assert "epoch 1/1  loss" in said.err
    aligner = PhoneAligner.load(out)
    assert aligner.model.units == 8
    assert aligner.provenance_.corpus == "corpus"
    answer = aligner.align_phones(decode(samples.AUDIO, rate=16000), ["SIL", "IH", "N", "B", "IY", "IH", "NG"])
    assert [p.label for p in answer.phones] == ["SIL", "IH", "N", "B", "IY", "IH", "NG"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--preset", "spn-semi-crf", "--dictionary", "english"], "--flat-start"),
        (["--flat-start"], "--preset spn-semi-crf"),
        (["--preset", "spn-semi-crf", "--resume"], "not available with the preset"),
        (["--preset", "spn-semi-crf", "--set", "l2=1"], "training.epochs"),
        (["--preset", "spn-semi-crf", "--set", "units=many"], "units"),
        (["--preset", "spn-semi-crf", "--flat-start", "--dictionary", "english"], "expected audio files"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["train", str(tmp_path / "empty"), "--out", str(tmp_path / "m.safetensors"), *options]) == 2
    said = capfd.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_settings_by_name() -> None:
    preset = apply_changes(["epochs=3", "training.warps=1,0.9", "model.step=0.01"])
    assert (preset.training.epochs, preset.training.warps, preset.model.step) == (3, (1.0, 0.9), 0.01)
    with pytest.raises(SettingsError, match="expected numbers with commas"):
        apply_changes(["warps=wide"])
