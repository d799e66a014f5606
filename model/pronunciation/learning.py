"""Train a chain over letters on a pronunciation dictionary, and score it on held-out words."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phonechain.features.errors import CorpusError
from phonechain.features.words.dictionary import Dictionary
from phonechain.model.pronunciation import correspondence, ngrams
from phonechain.model.pronunciation.correspondence import Chunk, Correspondence
from phonechain.model.pronunciation.guesser import PronunciationGuesser
from phonechain.model.pronunciation.letters import ALPHABET
from phonechain.model.pronunciation.ngrams import BITS
from phonechain.model.scoring import edits

ORDER = 6
"""Units of the longest n-gram."""

SIZE = 320_000
"""N-grams that are kept, beside those that lie on their way: 0.95 MB, packed."""

HELD_OUT = 10
"""One word in this many is held out, by a hash of the word."""

RARE = 30
"""Fewest words in which a chunk has to occur."""

SAMPLE = 20
"""One entry in this many is enough to learn which phones the letters stand for."""

Entries = Mapping[str, Sequence[Chunk]]
"""Words in letters of the alphabet, each with its pronunciations without stress."""


@dataclass(frozen=True)
class Score:
    """Errors on words, each against the nearest of its pronunciations.

    Attributes:
        phone_error: substitutions, deletions and insertions over phones of the reference.
        word_error: share of the words with any.
    """

    words: int
    phone_error: float
    word_error: float


def entries(dictionary: Dictionary) -> dict[str, list[Chunk]]:
    """The usable entries: words in letters of the alphabet alone, with their pronunciations without stress."""
    out: dict[str, list[Chunk]] = {}
    for word in dictionary.entries:
        if word and all(c in ALPHABET for c in word):
            plain = (tuple(p.rstrip("012") for p in v.phones) for v in dictionary.lookup(word))
            out[word] = list(dict.fromkeys(plain))
    return out


def split(words: Entries) -> tuple[dict[str, Sequence[Chunk]], dict[str, Sequence[Chunk]]]:
    """(training words, held-out words), by a hash of the word."""
    held = {w: p for w, p in words.items() if zlib.crc32(w.encode()) % HELD_OUT == 0}
    return {w: p for w, p in words.items() if w not in held}, held


def without_relatives(held: Entries, training: Entries) -> dict[str, Sequence[Chunk]]:
    """The held-out words without an inflected form (plural, tense, comparative, adverb) among the training words."""
    stems = {stem(w) for w in training}
    return {w: p for w, p in held.items() if stem(w) not in stems}


def stem(word: str) -> str:
    """A word without its inflection, roughly.

    >>> [stem(w) for w in ("baked", "bakes", "baker's", "baking", "stopping", "cities", "happily")]
    ['bak', 'bak', 'bak', 'bak', 'stop', 'cit', 'hap']
    """
    word = re.sub(r"('s|s'|')$", "", word)
    bare = re.sub(r"(ness|ing|ed|ers?|est|ily|ly|ies|es|e|s|y)$", "", word)
    bare = bare if len(bare) >= 3 else word
    return bare[:-1] if len(bare) > 3 and bare[-1] == bare[-2] else bare


def train(
    training: Entries, *, order: int = ORDER, size: int = SIZE, rare: int = RARE, sample: int = SAMPLE
) -> PronunciationGuesser:
    """Align letters and phones, count n-grams of the units, smooth and prune them.

    Raises:
        CorpusError: no word whose letters and phones can be aligned.
    """
    pairs = [(w, p) for w, variants in training.items() for p in variants]
    aligned = align(pairs, rare=rare, sample=sample)
    if not aligned:
        raise CorpusError(f"expected words whose phones are at most twice their letters, got none of {len(pairs)}")
    units = Counter(unit for w, chunks in aligned for unit in zip(w, chunks, strict=True))
    known = [unit for unit, _ in units.most_common(2**BITS - 1)]
    index = {unit: n for n, unit in enumerate(known, 1)}
    words = [
        [index[u] for u in zip(w, c, strict=True)]
        for w, c in aligned
        if all(u in index for u in zip(w, c, strict=True))
    ]
    return PronunciationGuesser(known, ngrams.prune(ngrams.fit(words, order), words, size))


def align(pairs: Sequence[tuple[str, Chunk]], *, rare: int, sample: int) -> list[tuple[str, list[Chunk]]]:
    """Each word with the chunk of each of its letters; words that need a rare chunk are left out."""
    table = correspondence.fit(pairs[::sample])
    return _align_all(pairs, table.prune(Counter(c for _, own in _align_all(pairs, table) for c in own), rare))


def _align_all(pairs: Sequence[tuple[str, Chunk]], table: Correspondence) -> list[tuple[str, list[Chunk]]]:
    found = ((w, table.align(w, p)) for w, p in pairs)
    return [(w, chunks) for w, chunks in found if chunks is not None]


def score(guesser: PronunciationGuesser, words: Entries) -> Score:
    """Errors of the first guess."""
    wrong = phones = missed = 0
    for word, variants in words.items():
        guessed = guesser.guess(word, variants=1)
        guess = guessed[0].phones if guessed else ()
        distance, length = min((edits.distance(guess, own), len(own)) for own in variants)
        wrong, phones, missed = wrong + distance, phones + length, missed + (distance > 0)
    return Score(len(words), wrong / max(1, phones), missed / max(1, len(words)))
