"""A transcript to words with pronunciations: text as spoken, looked up in a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phonechain.features.errors import TranscriptError
from phonechain.features.words import text as spoken
from phonechain.features.words.dictionary import Dictionary, Pronunciation
from phonechain.model.segmental.aligner import Word

SHOWN = 100
"""Missing words that an error spells out; all of them are in its details."""


@dataclass(frozen=True)
class Pronouncer:
    """How transcripts become words.

    Attributes:
        dictionary: where words are looked up; a word that is not there is refused.
        language: of the text, in which numbers are read out.
        as_phones: the transcript is phones with blanks between them, not words.
    """

    dictionary: Dictionary
    language: str = "en"
    as_phones: bool = False

    def words(self, text: str) -> list[Word]:
        """The words of a transcript with their pronunciations.

        Raises:
            TranscriptError: no words, or words without a pronunciation, all of them.
        """
        if self.as_phones:
            phones = text.split()
            if not phones:
                raise TranscriptError("expected phones in the transcript, got none", pointer="text")
            return [Word(p, [Pronunciation((p,))]) for p in phones]
        known = spoken.words_of(text, language=self.language, known=self.dictionary.__contains__)
        found = [Word(w.word, self.dictionary.lookup(w.word), w.written) for w in known]
        if missing := list(dict.fromkeys(w.word for w in found if not w.pronunciations)):
            raise self._missing(missing)
        return found

    def _missing(self, missing: Sequence[str]) -> TranscriptError:
        listed = ", ".join(missing[:SHOWN]) + (f", and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
        count = "1 word of the transcript is" if len(missing) == 1 else f"{len(missing)} words of the transcript are"
        them = "it" if len(missing) == 1 else "them"
        return TranscriptError(
            f"{count} not in {self.dictionary.name}: {listed}; give a dictionary that has {them}",
            pointer="text", value=len(missing), details={"missing": list(missing)},
        )  # fmt: skip
