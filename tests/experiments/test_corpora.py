"""Speech as train, dev and test: speakers apart, TIMIT's labels folded, CRFsuite on the same datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from experiments import crfsuite
from experiments.corpora import Speech
from phonechain.model.learning.dataset import Dataset

RATE = 16000
TONES = {"aa": 300.0, "s": 3000.0, "ao": 320.0, "iy": 1200.0}


def sound(labels: list[str], random: np.random.Generator) -> np.ndarray:
    t = np.arange(RATE // 10) / RATE
    tones = [0.3 * np.sin(2 * np.pi * TONES[label] * t) for label in labels]
    return np.concatenate(tones) + 0.01 * random.normal(size=len(labels) * len(t))


def utterance(folder: Path, name: str, seed: int, *, phn: bool) -> None:
    random = np.random.default_rng(seed)
    labels = [str(x) for x in random.choice(list(TONES), 5)]
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / f"{name}.wav", sound(labels, random), RATE)
    edges = [(n * RATE // 10, (n + 1) * RATE // 10, label) for n, label in enumerate(labels)]
    unit = 1 if phn else 625  # TIMIT counts in samples, HTK in 100 ns
    lines = [f"{a * unit} {b * unit} {label}" for a, b, label in edges]
    (folder / f"{name}.{'phn' if phn else 'lab'}").write_text("\n".join(lines) + "\n")


@pytest.fixture
def timit(tmp_path: Path) -> Path:
    sets = (("TRAIN", "FCJF0"), ("TRAIN", "MDPK0"), ("TEST", "MDAB0"), ("TEST", "FAKS0"), ("TEST", "MSJS1"))
    for n, (part, speaker) in enumerate(sets):
        for sentence in ("sx9", "si11", "sa1"):
            utterance(tmp_path / "timit" / part / "DR1" / speaker, sentence, n, phn=True)
    return tmp_path / "timit"


def test_timit_is_folded_and_its_dev_set_is_the_rest_of_test(timit: Path, tmp_path: Path) -> None:
    source = Speech(timit, tmp_path / "cache", tell=lambda line: None)
    speakers = {
        k: {i.utterance.speaker.lower() for i in items if i.utterance.speaker} for k, items in source.items.items()
    }
    assert speakers == {"train": {"fcjf0", "mdpk0"}, "test": {"mdab0"}, "dev": {"faks0", "msjs1"}}
    fold = source.fold("", "test")
    assert len(fold.train) == 4  # two sentences each, SA1 left out
    assert set(fold.labels) <= {"aa", "s", "iy"}  # ao and aa are one label of the 39
    assert fold.train.x.shape[1] == 92
    np.testing.assert_allclose(fold.train.x.mean(0), 0.0, atol=1e-4)
    choice = source.choice("")
    assert fold.dev is not None
    assert np.array_equal(choice.test.x, fold.dev.x)


def test_a_corpus_without_a_dev_set_holds_out_speakers_of_training(tmp_path: Path) -> None:
    rows = ["utterance\tspeaker\tsplit"]
    for n in range(14):
        split = "train" if n < 12 else "test"
        utterance(tmp_path / "c" / split / f"s{n}", f"u{n}", n, phn=False)
        rows.append(f"u{n}\ts{n}\t{split}")
    (tmp_path / "c" / "utterances.tsv").write_text("\n".join(rows) + "\n")
    source = Speech(tmp_path / "c", tmp_path / "cache", drop=("s",), tell=lambda line: None)
    assert {k: len(v) for k, v in source.items.items()} == {"train": 11, "dev": 1, "test": 2}
    assert source.labels == ["aa", "ao", "iy"]
    told: list[str] = []
    again = Speech(tmp_path / "c", tmp_path / "cache", drop=("s",), tell=told.append)
    assert again.digest == source.digest
    assert not told  # the features were stored


def test_crfsuite_learns_the_same_datasets() -> None:
    pytest.importorskip("pycrfsuite")
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 600)
    x = (np.eye(3)[y] + 0.3 * random.normal(size=(600, 3))).astype(np.float32)
    data = Dataset(x, y, np.arange(0, 601, 10), np.arange(60))
    answer, weights = crfsuite.train_and_label(data, data, 3)
    assert (answer != y).mean() < 0.1
    assert weights == 3 * 4 + 9
