"""A transcript to words with pronunciations: text as spoken, dictionary, and what is done about words it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from phonechain.features.errors import Notice, TranscriptError
from phonechain.features.words import text as spoken
from phonechain.features.words.dictionary import Dictionary, Pronunciation
from phonechain.model.segmental.aligner import Word

MissingWords = Literal["guess", "refuse"]
"""What is done about words that the dictionary lacks."""

SHOWN = 100
"""Missing words that an error spells out; all of them are in its details."""


class Guesser(Protocol):
    """Says how an unknown word is probably pronounced."""

    def guess(self, word: str) -> list[Pronunciation]: ...


@dataclass(frozen=True)
class Pronouncer:
    """How transcripts become words.

    Attributes:
        dictionary: looked up first.
        guesser: for words that are not there; None: they are refused.
        language: of the text.
        missing: "guess", or "refuse" in spite of a guesser.
        as_phones: the transcript is phones with blanks between them, not words.
    """

    dictionary: Dictionary
    guesser: Guesser | None = None
    language: str = "en"
    missing: MissingWords = "guess"
    as_phones: bool = False

    def words(self, text: str) -> tuple[list[Word], list[Notice]]:
        """The words of a transcript with their pronunciations.

        Raises:
            TranscriptError: no words, or words without a pronunciation, all of them.
        """
        if self.as_phones:
            phones = text.split()
            if not phones:
                raise TranscriptError("expected phones in the transcript, got none", pointer="text")
            return [Word(p, [Pronunciation((p,))]) for p in phones], []
        found: list[Word] = []
        guessed: dict[str, None] = {}
        missing: dict[str, None] = {}
        for word in spoken.words_of(text, language=self.language, known=self.dictionary.__contains__):
            variants = self.dictionary.lookup(word.word)
            if not variants and self.guesser is not None and self.missing == "guess":
                variants = self.guesser.guess(word.word)
                guessed[word.word] = None
            if not variants:
                missing[word.word] = None
                guessed.pop(word.word, None)
            found.append(Word(word.word, variants, word.written))
        if missing:
            raise self._missing(list(missing))
        if not guessed:
            return found, []
        listed = ", ".join(list(guessed)[:SHOWN])
        count = "1 word is" if len(guessed) == 1 else f"{len(guessed)} words are"
        message = f"{count} not in {self.dictionary.name}; pronunciation guessed from the letters: {listed}"
        return found, [Notice("pronunciation-guessed", message, "text", len(guessed))]

    def _missing(self, missing: Sequence[str]) -> TranscriptError:
        listed = ", ".join(missing[:SHOWN]) + (f", and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
        count = "1 word of the transcript is" if len(missing) == 1 else f"{len(missing)} words of the transcript are"
        return TranscriptError(
            f"{count} not in {self.dictionary.name}: {listed}",
            pointer="text", value=len(missing), details={"missing": list(missing)},
        )  # fmt: skip
