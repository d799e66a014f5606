"""The OCR letters, in a few lines of their exact form."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from phonechain.features import corpora
from phonechain.features.corpora import letters
from phonechain.features.errors import CorpusError


def lines(words):
    out = []
    number = 0
    for w, (word, fold) in enumerate(words, 1):
        for position, letter in enumerate(word, 1):
            following = number + 2 if position < len(word) else -1
            pixels = "".join("1\t" if (number + k) % 3 == 0 else "0\t" for k in range(128))
            number += 1
            out.append(f"{number}\t{letter}\t{following}\t{w}\t{position}\t{fold}\t{pixels}")
    return out


WORDS = [("ommand", 0), ("axi", 3), ("ommand", 7), ("i", 9)]


def test_words_folds_and_pixels(tmp_path):
    text = "\n".join(lines(WORDS)) + "\n"
    (tmp_path / "letter.data").write_text(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    for data in (letters.read(tmp_path), letters.read(tmp_path / "packed.gz")):
        assert data.words == ["ommand", "axi", "ommand", "i"]
        assert data.lengths.tolist() == [6, 3, 6, 1]
        assert data.folds.tolist() == [0, 3, 7, 9]
        assert data.starts.tolist() == [0, 6, 9, 15, 16]
        assert (data.x.shape, data.x.dtype) == ((16, 128), np.uint8)
        assert "".join(letters.LABELS[k] for k in data.y) == "ommandaxiommandi"
        assert data.x[2, :5].tolist() == [0, 1, 0, 0, 1]
        assert len(data) == 4
        chosen = list(data.sequences(data.folds == 3))
        assert [(x.shape, y.tolist()) for x, y in chosen] == [((3, 128), [0, 23, 8])]
        assert [len(y) for _, y in data.sequences()] == [6, 3, 6, 1]


def test_held_out_words_keep_a_spelling_together(tmp_path):
    words = [(word, k % 10) for k, word in enumerate(["ab", "cd", "ef", "gh", "ij", "kl", "mn"] * 3)]
    path = tmp_path / "letter.data"
    path.write_text("\n".join(lines(words)))
    data = letters.read(path)
    groups = data.held_out_words(3, seed=1)
    assert {len({int(g) for g, w in zip(groups, data.words, strict=True) if w == word}) for word in data.words} == {1}
    assert sorted(np.bincount(groups).tolist()) == [6, 6, 9]
    assert groups.tolist() == data.held_out_words(3, seed=1).tolist()
    assert any(groups.tolist() != data.held_out_words(3, seed=s).tolist() for s in range(2, 6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("\t1\t0\t0\t", "\t1\t0\t", 1), "line 1: expected 6 fields and 128 pixels"),
        (
            lambda t: t.replace("2\tm\t3", "2\tM\t3"),
            "line 2: expected a letter from a to z, position 2 and a fold, got 'M'",
        ),
        (
            lambda t: t.replace("2\tm\t3\t1\t2", "2\tm\t3\t1\t5"),
            "line 2: expected a letter from a to z, position 2 and a fold, got 'm', '5'",
        ),
        (lambda t: t[: t.rindex("-1")] + "17" + t[t.rindex("-1") + 2 :], "an unfinished one"),
        (lambda t: "", "got none"),
        (lambda t: "é" + t, "as ASCII text, got byte 195 at 0"),
    ],
)
def test_other_lines_are_refused(tmp_path, change, message):
    path = tmp_path / "letter.data"
    path.write_text(change("\n".join(lines(WORDS))), encoding="utf-8")
    with pytest.raises(CorpusError) as caught:
        letters.read(path)
    assert message in str(caught.value)


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(CorpusError, match=r"letter\.data\.gz or letter\.data"):
        letters.read(tmp_path)
    (tmp_path / "letter.data.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(CorpusError, match="expected the letters"):
        letters.read(tmp_path)
    with pytest.raises(CorpusError, match="which are images"):
        corpora.read(tmp_path)


SHARED = Path(os.environ.get("PHONECHAIN_SHARED", Path(__file__).parents[4] / "shared"))


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "data" / "letters").is_dir(), reason="the letters are not beside the checkout")
def test_the_set_itself():
    data = letters.read(SHARED / "data" / "letters")
    assert (len(data), len(data.y), len(set(data.words))) == (6877, 52152, 55)
    expected = [4617, 5375, 5110, 5353, 5270, 5001, 5583, 5370, 5331, 5142]
    assert np.bincount(np.repeat(data.folds, data.lengths)).tolist() == expected
