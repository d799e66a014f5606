"""Guessed pronunciations: letters and phones aligned, n-grams that sum to one, the shipped guesser."""

import itertools
import math

import numpy as np
import pytest

from phonechain.features.errors import CorpusError, ModelFileError
from phonechain.features.words.dictionary import Dictionary, Pronunciation
from phonechain.features.words.dictionary import english as cmudict
from phonechain.model.pronunciation import correspondence, guesser, learning, ngrams
from phonechain.model.pronunciation.letters import spell

WORDS = {
    "cat": "K AE T", "cats": "K AE T S", "tact": "T AE K T", "act": "AE K T", "tax": "T AE K S", "ax": "AE K S",
    "sat": "S AE T", "scat": "S K AE T", "tack": "T AE K", "sack": "S AE K", "stack": "S T AE K", "taxa": "T AE K S AE",
}  # fmt: skip


def toy() -> dict[str, list[tuple[str, ...]]]:
    return {word: [tuple(phones.split())] for word, phones in WORDS.items()}


def paths(letters: str, phones: tuple[str, ...]):
    """Every way to cut the phones into a chunk of nought to two for each letter."""
    for lengths in itertools.product(range(3), repeat=len(letters)):
        if sum(lengths) == len(phones):
            ends = list(itertools.accumulate(lengths))
            yield [phones[end - n : end] for n, end in zip(lengths, ends, strict=True)]


def test_expectation_maximisation_against_enumeration():
    """One step from the start: expected counts by enumerating all alignments."""
    words = [(w, tuple(p.split())) for w, p in WORDS.items()]
    kinds = len({x for _, p in words for x in p})
    counts: dict[str, dict[tuple[str, ...], float]] = {}
    for letters, phones in words:
        weighted = [
            (math.prod(correspondence.START[len(c)] / kinds ** len(c) for c in path), path)
            for path in paths(letters, phones)
        ]
        total = sum(w for w, _ in weighted)
        for weight, path in weighted:
            for letter, chunk in zip(letters, path, strict=True):
                row = counts.setdefault(letter, {})
                row[chunk] = row.get(chunk, 0.0) + weight / total
    found = correspondence.fit(words, iterations=1).table
    assert set(found) == set(counts)
    for letter, row in counts.items():
        assert set(found[letter]) == set(row)
        for chunk, number in row.items():
            assert found[letter][chunk] == pytest.approx(number / sum(row.values()), rel=1e-12)


def test_letters_get_the_chunks_that_they_stand_for():
    found = correspondence.fit([(w, tuple(p.split())) for w, p in WORDS.items()])
    assert found.align("tax", ("T", "AE", "K", "S")) == [("T",), ("AE",), ("K", "S")]
    assert (found.align("stack", ("S", "T", "AE", "K")) or [])[:3] == [("S",), ("T",), ("AE",)]
    assert found.align("a", ("AE", "K", "S")) is None
    best = max(paths("taxa", ("T", "AE", "K", "S", "AE")), key=lambda path: math.prod(
        found.table[a].get(c, 0.0) for a, c in zip("taxa", path, strict=True)))  # fmt: skip
    assert found.align("taxa", ("T", "AE", "K", "S", "AE")) == best


@pytest.mark.parametrize("size", [10_000, 60])
def test_probabilities_sum_to_one_after_every_history(size):
    random = np.random.default_rng(4)
    words = [[int(u) for u in random.integers(1, 8, random.integers(2, 7))] for _ in range(60)]
    chain = ngrams.prune(ngrams.fit(words, 4), words, size)
    assert len(chain) <= max(size * 2, 60) or size == 10_000
    units = np.arange(8, dtype=np.int64)
    for history in itertools.product(range(8), repeat=3):
        key = 0
        for u in history:
            key = key << ngrams.BITS | u
        p = np.exp(chain.log_probability(np.full(8, key, dtype=np.int64), units))
        assert p.sum() == pytest.approx(1.0, abs=1e-9 if size == 10_000 else 1e-3)


def test_an_unseen_unit_has_the_share_that_the_discounts_leave():
    chain = ngrams.fit([[1, 2], [1, 2], [1, 3]], 2)
    own = np.exp(chain.log_probability(np.array([1, 1, 1]), np.array([2, 3, 1])))
    assert own[0] > own[1] > own[2] > 0


def test_a_beam_finds_the_most_probable_chunks():
    """On short words the beam holds every path: the best is that of enumeration."""
    made = learning.train(toy(), order=3, size=10_000, rare=1, sample=1)
    for word in ("cat", "tax", "sacs"):
        units = [made._of[a] for a in word]
        scored = {}
        for path in itertools.product(*units):
            history, log = 0, 0.0
            for unit in (*path, ngrams.START):
                log += float(made.chain.log_probability(np.array([history]), np.array([unit]))[0])
                history = (history << ngrams.BITS | int(unit)) & ngrams.mask(2)
            scored[path] = log
        best = max(scored, key=scored.__getitem__)
        assert made._search(word)[0][0] == tuple(p for u in best for p in made.units[u - 1][1])


def test_a_file_holds_what_was_trained(tmp_path):
    made = learning.train(toy(), order=3, size=10_000, rare=1, sample=1)
    made.facts = {"data": "toy"}
    made.save(tmp_path / "toy.xz")
    read = guesser.PronunciationGuesser.load(tmp_path / "toy.xz")
    assert read.facts == {"data": "toy"}
    assert read.units == made.units
    for a, b in zip(read.chain.keys, made.chain.keys, strict=True):
        np.testing.assert_array_equal(a, b)
    for c, d in zip(read.chain.logs, made.chain.logs, strict=True):
        assert np.abs(c - d).max() <= ngrams.STEP / 2 + 1e-12
    assert learning.score(read, toy()).phone_error == 0.0


@pytest.mark.parametrize("data", [b"", b"no xz", b"\xfd7zXZ\x00 broken"])
def test_another_file_is_no_guesser(data):
    with pytest.raises(ModelFileError, match="expected a guesser of pronunciations"):
        guesser.PronunciationGuesser.load(data)


def test_words_are_split_by_a_hash_and_relatives_left_out():
    words = {w: [("X",)] for w in ("bake", "baked", "baking", "stone", "stones", "zebra", "quick", "quickly", "loud")}
    training, held = learning.split(words)
    assert not set(training) & set(held)
    assert set(training) | set(held) == set(words)
    assert learning.split(words) == (training, held)
    assert set(learning.without_relatives({"baked": [], "zebra": []}, {"baking": []})) == {"zebra"}


def test_nothing_to_learn_from_is_an_error():
    with pytest.raises(CorpusError, match="phones are at most twice their letters"):
        learning.train({"a": [("A", "B", "C")]}, rare=1, sample=1)


@pytest.mark.parametrize(
    ("word", "letters"),
    [("Café’s", "cafe's"), ("x-ray", "xray"), ("Straße", "strasse"), ("привет", None), ("'", None), ("a" * 61, None)],
)
def test_spelling(word, letters):
    assert spell(word) == letters


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("beeing", "B IY IH NG"),
        ("googling", "G UW G AH L IH NG"),
        ("blorping", "B L AO R P IH NG"),
        ("zuckerly", "Z AH K ER L IY"),
    ],
)
def test_the_shipped_guesser_knows_english(word, phones):
    assert tuple(phones.split()) in [p.phones for p in guesser.english().guess(word)]
    assert guesser.english().guess(word)[0].probability == 1.0


def test_the_shipped_guesser_on_held_out_words():
    """experiments/PRONUNCIATION.md has the figure on more words; these are a few of them."""
    _, held = learning.split(learning.entries(cmudict()))
    part = {w: held[w] for w in list(held)[::60]}
    assert learning.score(guesser.english(), part).phone_error < 0.10


def test_entries_are_plain_words_without_stress():
    own = Dictionary(
        {
            "a": [Pronunciation(("EY1",)), Pronunciation(("EY0",)), Pronunciation(("AH0",))],
            "a.": [Pronunciation(("EY1",))],
        }
    )
    assert learning.entries(own) == {"a": [("EY",), ("AH",)]}
