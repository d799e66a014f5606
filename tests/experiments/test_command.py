"""`python -m experiments` on a small file of letters: cells, choice, resuming, results."""

from __future__ import annotations

import dataclasses
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments import cells, tables
from experiments.__main__ import main
from experiments.corpora import Letters
from experiments.letter_augmentation import AugmentedLetters, check_augmentation, english_spellings
from phonechain.features.corpora.letters import LABELS
from phonechain.features.errors import SettingsError
from phonechain.features.words.dictionary import english
from phonechain.model.learning.dataset import Batch, Dataset

ROOT = Path(__file__).parents[2]
TABLE = """
title = "A small table"
corpora = ["letters"]

[defaults]
factor = { segments = 1, dropout = 0.1 }
training = { learning_rate = 0.01, ngram_rate = 10, epochs = 2, batch = 8 }

[[system]]
name = "LC-CRF"
preset = "lc-crf"
paper = 14.2
choose = { l2 = [0.01, 1.0] }

[[system]]
name = "SPN"
preset = "spn-lc-crf"
augment = "shift"
cells = [{ layers = 1, products = 1, states = 2, paper = 8.35 }]

[[system]]
name = "SPN-MEMM, held-out words"
preset = "spn-memm"
split = "held-out-words"
"""
WORDS = ("acd", "bad", "cab", "dab", "cad", "add", "abba", "bcd", "dcba", "baa", "dad", "caba")


@pytest.fixture(scope="module")
def letters_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve words of four letters, ten times over, one time a fold, in the set's own layout."""
    random = np.random.default_rng(0)
    shapes = random.random((4, 128)) < 0.3
    lines, number, word_number = [], 1, 1
    for fold in range(10):
        for word in WORDS:
            for place, letter in enumerate(word):
                pixels = shapes["abcd".index(letter)] ^ (random.random(128) < 0.1)
                following = number + 1 if place + 1 < len(word) else -1
                row = [number, letter, following, word_number, place + 1, fold, *pixels.astype(int)]
                lines.append("\t".join(map(str, row)))
                number += 1
            word_number += 1
    path = tmp_path_factory.mktemp("letters") / "letter.data.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TABLE)
    return path


def stored(runs: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (runs / "small.jsonl").read_text().splitlines()]


def test_the_folds_part_the_words(letters_file: Path) -> None:
    source = Letters(letters_file)
    tested = 0
    for name in source.folds(""):
        fold = source.fold("", name)
        assert len(fold.train) + len(fold.test) == 120
        tested += len(fold.test)
        np.testing.assert_allclose(fold.train.x.mean(0), 0.0, atol=1e-5)
    assert tested == 120


def test_held_out_words_are_never_trained_on(letters_file: Path) -> None:
    source = Letters(letters_file)

    def words(data: Dataset) -> set[tuple[int, ...]]:
        return {tuple(data.labels_of(n)) for n in range(len(data))}

    tested = set()
    for name in source.folds("held-out-words"):
        fold = source.fold("held-out-words", name)
        assert not words(fold.train) & words(fold.test)
        tested |= words(fold.test)
    assert len(tested) == len(WORDS)
    choice = source.choice("held-out-words")
    first = source.fold("held-out-words", "0")
    assert not words(choice.train) & words(choice.test)
    assert not words(choice.train) & words(first.test)
    assert not words(choice.test) & words(first.test)


def test_letters_are_moved_by_at_most_a_pixel_the_same_way_for_the_same_batch(letters_file: Path) -> None:
    source = Letters(letters_file)
    fold = source.fold("", "0", augment="shift")
    assert isinstance(fold.train, AugmentedLetters)
    plain = source.fold("", "0").train
    which = np.arange(20)
    moved, again, still = fold.train.batch(which), fold.train.batch(which), plain.batch(which)
    assert np.array_equal(moved.x, again.x)
    assert np.array_equal(moved.y, still.y)
    train = fold.train
    pixels = np.rint(moved.x.numpy() * train.std + train.mean).reshape(-1, 16, 8)
    before = np.rint(still.x.numpy() * train.std + train.mean).reshape(-1, 16, 8)
    framed = np.pad(before, ((0, 0), (1, 1), (1, 1)))
    fits = [framed[:, r : r + 16, c : c + 8] for r in range(3) for c in range(3)]
    assert all(any(np.array_equal(p, f[n]) for f in fits) for n, p in enumerate(pixels))
    assert not np.array_equal(pixels, before)


def test_recombined_words_have_the_letters_of_the_batch_in_another_order(letters_file: Path) -> None:
    source = Letters(letters_file)
    train, plain = (source.fold("", "0", augment=name).train for name in ("recombine", ""))
    which = np.arange(40)
    mixed, again, own = train.batch(which), train.batch(which), plain.batch(which)
    assert np.array_equal(mixed.x, again.x)
    assert mixed.packing.lengths == own.packing.lengths
    assert (mixed.y != own.y).float().mean() > 0.4

    def pairs(batch: Batch) -> list[tuple[bytes, int]]:
        return sorted((x.tobytes(), int(y)) for x, y in zip(batch.x.numpy(), batch.y, strict=True))

    assert pairs(mixed) == pairs(own)  # each picture with its own label


def test_redrawn_words_keep_their_labels_and_have_other_pictures_of_them(letters_file: Path) -> None:
    source = Letters(letters_file)
    train, plain = (source.fold("", "0", augment=name).train for name in ("redraw", ""))
    drawn, own = train.batch(np.arange(40)), plain.batch(np.arange(40))
    assert np.array_equal(drawn.y, own.y)
    assert 0.5 < (drawn.x != own.x).any(1).float().mean() < 1.0
    pictures = {row.tobytes(): int(y) for row, y in zip(train.x, train.y, strict=True)}
    assert [pictures[row.tobytes()] for row in drawn.x.numpy()] == own.y.tolist()


def test_respelled_words_are_english_ones_that_the_corpus_does_not_have(letters_file: Path) -> None:
    source = Letters(letters_file)
    train, moved = (source.fold("", "0", augment=name).train for name in ("respell", "shift+respell"))
    assert isinstance(train, AugmentedLetters)
    batch = train.batch(np.arange(60))
    assert np.array_equal(moved.batch(np.arange(60)).y, batch.y)  # they are respelled before they are moved
    spelled = ["".join(source.labels[k] for k in batch.y[batch.packing.sequence == n]) for n in range(60)]
    new = [word for word in spelled if word not in WORDS]
    assert 35 <= len(new) < 60  # others stay
    assert all(any(first + word in english().entries for first in source.labels) for word in new)
    pictures = {row.tobytes(): int(y) for row, y in zip(train.x, train.y, strict=True)}
    assert [pictures[row.tobytes()] for row in batch.x.numpy()] == batch.y.tolist()


def test_english_spellings_lack_the_first_letter_and_the_given_words() -> None:
    spellings = english_spellings(frozenset("ehougt"), frozenset({"hough"}))
    words = {"".join(LABELS[k] for k in word) for words in spellings.values() for word in words}
    assert {"hought", "he"} <= words  # thought, the
    assert not {"hough", "and"} & words


def test_unknown_augmentations_are_refused() -> None:
    for name in ("shfit", "recombine+respell", "shift+", "respell+respell", "shift+shift", "shift+redraw+respell"):
        with pytest.raises(SettingsError, match="expected augment"):
            check_augmentation(name)
    check_augmentation("shift+recombine")


def test_a_table_is_computed_once_and_written_down(
    letters_file: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        str(table), "--data", str(letters_file), "--runs", str(tmp_path / "runs"),
        "--results", str(tmp_path / "RESULTS.md"), "--folds", "0,1",
    ]  # fmt: skip
    assert main(command) == 0
    results = stored(tmp_path / "runs")
    assert len(results) == 2 + 3 * 2  # two values to choose from, and three systems on two folds
    assert all(r["error"] < 0.75 for r in results)  # type: ignore[operator]
    chosen = min((r for r in results if r["fold"] == "dev"), key=lambda r: r["error"])  # type: ignore[arg-type, return-value]
    assert all(
        r["training"]["l2"] == chosen["training"]["l2"]  # type: ignore[index]
        for r in results if r["preset"] == "lc-crf" and r["fold"] != "dev"
    )  # fmt: skip
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| LC-CRF | 14.2 | **" in text
    assert "2/10" in text
    assert "epoch 2/2" in capsys.readouterr().err
    assert main(command) == 0
    assert "0 to compute" in capsys.readouterr().err
    assert len(stored(tmp_path / "runs")) == len(results)
    assert (tmp_path / "RESULTS.md").read_text() == text


def test_a_cell_repeats_and_goes_on_from_its_checkpoint(letters_file: Path, table: Path, tmp_path: Path) -> None:
    source = Letters(letters_file)
    experiment = tables.read(str(table), "letters").experiments[1]

    def stop(line: str) -> None:
        if "epoch 1/2" in line:
            raise KeyboardInterrupt

    whole = cells.run(experiment, source, "0", tmp_path / "a", print)
    with pytest.raises(KeyboardInterrupt):
        cells.run(experiment, source, "0", tmp_path / "b", stop)
    epochs: list[str] = []
    resumed = cells.run(experiment, source, "0", tmp_path / "b", epochs.append)
    assert len(epochs) == 1
    assert (resumed["errors"], resumed["error_viterbi"]) == (whole["errors"], whole["error_viterbi"])
    assert not any((tmp_path / "b").iterdir())


def test_training_on_every_third_word_is_another_cell_with_a_third_of_the_words(
    letters_file: Path, table: Path, tmp_path: Path
) -> None:
    source = Letters(letters_file)
    whole = tables.read(str(table), "letters").experiments[1]
    part = dataclasses.replace(whole, every=3)
    assert cells.key(part, source, "0") != cells.key(whole, source, "0")
    train = source.fold("", "0").train
    thin = cells.thin(train, 3)
    assert len(thin) == 36 == len(train) / 3
    for n in range(len(thin)):
        assert np.array_equal(thin.labels_of(n), train.labels_of(3 * n))
        assert np.array_equal(
            thin.x[thin.starts[n] : thin.starts[n + 1]], train.x[train.starts[3 * n] : train.starts[3 * n + 1]]
        )
    result = cells.run(part, source, "0", tmp_path, print)
    assert result["every"] == 3
    assert cells.stored_key(result) == result["key"] == cells.key(part, source, "0")


@pytest.mark.slow
def test_two_processes_find_the_same(letters_file: Path, table: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        runs = tmp_path / str(jobs)
        command = [str(table), "--data", str(letters_file), "--only", "SPN L", "--folds", "0,1", "--jobs", str(jobs)]
        command += ["--runs", str(runs), "--results", str(tmp_path / "R.md")]
        subprocess.run([sys.executable, "-m", "experiments", *command], check=True, cwd=ROOT, timeout=300)
    one, two = ({r["key"]: r["errors"] for r in stored(tmp_path / str(jobs))} for jobs in (1, 2))
    assert one == two


def test_an_unknown_table_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nope"]) == 2
    assert capsys.readouterr().err.startswith("experiments: expected a TOML file or a table out of")


def test_data_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ocr-summary", "--data", str(tmp_path / "none.gz")]) == 2
    assert "expected the data of ocr-summary at" in capsys.readouterr().err
