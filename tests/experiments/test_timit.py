"""The TIMIT experiment, run dry on a corpus of TIMIT's form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments import timit as experiment
from phonechain.features.corpora import timit as reader
from phonechain.model.labeler import PhoneLabeler
from tests.experiments.test_corpora import utterance


@pytest.fixture
def root(tmp_path: Path) -> Path:
    train = ["FCJF0", "MDPK0", "MRWS0", "FDAW0"]
    for n, speaker in enumerate(train):
        for sentence in ("sx9", "si11", "sa1"):
            utterance(tmp_path / "timit" / "TRAIN" / "DR1" / speaker, sentence, n, phn=True)
    by_set: dict[str, list[str]] = {}
    for speaker, name in reader.speakers().items():
        by_set.setdefault(name, []).append(speaker)
    for n, speaker in enumerate([*by_set["dev"][:2], *by_set["test"][:2]]):
        utterance(tmp_path / "timit" / "TEST" / "DR2" / speaker.upper(), "sx9", 50 + n, phn=True)
    return tmp_path / "timit"


def test_a_dry_run_trains_with_48_labels_and_scores_39(root: Path, tmp_path: Path) -> None:
    said: list[str] = []
    arguments = [str(root), "--epochs", "2", "--out", str(tmp_path / "m.safetensors")]
    assert experiment.main([*arguments, "--results", str(tmp_path / "R.md")], said.append) == 0
    labeler = PhoneLabeler.load(tmp_path / "m.safetensors")
    assert set(labeler.labels_) <= {"aa", "ao", "s", "iy"}
    assert {"aa", "ao"} <= set(labeler.labels_)  # apart among the 48, one of the 39
    text = (tmp_path / "R.md").read_text()
    assert "| core test, 24 speakers | 10 |" in text
    assert "| dev, 50 speakers | 10 |" in text


def test_labels_that_fold_together_are_no_errors(root: Path) -> None:
    class Sure:
        labels_ = ("aa", "ao", "iy", "s")

        def predict_proba(self, utterances: list[object]) -> list[np.ndarray]:
            # aa and ao share what the 39 take for one; iy is the largest by itself
            return [np.tile(np.asarray([[0.3, 0.3, 0.35, 0.05]], np.float32), (len(u.segments), 1)) for u in utterances]  # type: ignore[attr-defined]

    test = experiment.fold(reader.read(root).split("test"), "timit48")
    found = experiment.score(Sure(), test)  # type: ignore[arg-type]
    truth = [s.label for u in test for s in u.segments]
    assert found.wrong.tolist() == [label not in ("aa", "ao") for label in truth]
    assert found.confidence == pytest.approx(np.full(len(truth), 0.6))
