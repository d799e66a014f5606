"""A transcript to words with pronunciations: text as spoken, looked up in a dictionary, guessed where that lacks a word."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from phonechain.features.errors import Notice, SettingsError, TranscriptError
from phonechain.features.words import dictionary as dictionaries
from phonechain.features.words import text as spoken
from phonechain.features.words.dictionary import Dictionary, Pronunciation
from phonechain.model.segmental.aligner import Word

SHOWN = 100
"""Missing words that an error spells out; all of them are in its details."""

NAMED = 20
"""Guessed words that a notice spells out."""

OutOfVocabulary = Literal["guess", "refuse"]


@dataclass(frozen=True)
class Pronouncer:
    """How transcripts become words.

    Attributes:
        dictionary: where words are looked up.
        language: of the text, in which numbers are read out.
        as_phones: the transcript is phones with blanks between them, not words.
        oov: what becomes of a word that the dictionary lacks: its English pronunciation is guessed, or it is refused.
    """

    dictionary: Dictionary
    language: str = "en"
    as_phones: bool = False
    oov: OutOfVocabulary = "refuse"

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
        guesses: dict[str, list[Pronunciation]] = {}
        found = []
        for w in known:
            variants = self.dictionary.lookup(w.word)
            guessed = not variants and self.oov == "guess"
            if guessed:
                variants = guesses[w.word] = guesses.get(w.word) or _guess(w.word)
            found.append(Word(w.word, variants, w.written, guessed))
        if missing := list(dict.fromkeys(w.word for w in found if not w.pronunciations)):
            raise self._missing_error(missing)
        return found

    def _missing_error(self, missing: Sequence[str]) -> TranscriptError:
        listed = _join_words(missing, SHOWN)
        count = "1 word of the transcript is" if len(missing) == 1 else f"{len(missing)} words of the transcript are"
        it, them = ("it", "it") if len(missing) == 1 else ("they", "them")
        if (script := _foreign_script(missing)) is not None and self.dictionary.name == dictionaries.CMUDICT:
            way = (
                f"{it} {'is' if len(missing) == 1 else 'are'} written in {script} letters, and {self.dictionary.name} is "
                "English: for another language give a dictionary and a model of that language"
            )
        elif self.oov == "guess":
            way = f"{it} cannot be guessed from English letters: give a dictionary that has {them}, or spell {them} differently"
        elif self.dictionary.name == dictionaries.CMUDICT:
            way = f"give a dictionary that has {them}, or let {them} be guessed (oov=guess)"
        else:
            way = f"give a dictionary that has {them}"
        return TranscriptError(
            f"{count} not in {self.dictionary.name}: {listed}; {way}",
            pointer="text", value=len(missing), details={"missing": list(missing)},
        )  # fmt: skip


def _foreign_script(words: Sequence[str]) -> str | None:
    """The script in which all of these words are written, unless it is Latin: "Cyrillic"; None where they differ."""
    names = {unicodedata.name(c, "").split(" ")[0] for w in words for c in w if c.isalpha()}
    return names.pop().capitalize() if len(names) == 1 and "LATIN" not in names else None


def pronouncer_of(
    dictionary: Dictionary | None = None,
    *,
    language: str = "en",
    phones: bool = False,
    oov: OutOfVocabulary | None = None,
) -> Pronouncer:
    """How transcripts become words, by the options of a request.

    Args:
        dictionary: one's own; None for CMUdict.
        language: of the text.
        phones: transcripts are phones.
        oov: None guesses what CMUdict lacks, and refuses what one's own dictionary lacks.

    Raises:
        SettingsError: a language without a dictionary, or guesses in one that is not English.
    """
    english = language.split("-")[0].casefold() == "en"
    if phones:
        return Pronouncer(Dictionary({}), language, as_phones=True)
    if oov == "guess" and not english:
        raise SettingsError(
            f"pronunciations can be guessed only in English, got the language {language[:20]!r}",
            pointer="oov",
            value=language,
        )
    if dictionary is not None:
        return Pronouncer(dictionary, language, oov=oov or "refuse")
    if not english:
        raise SettingsError(
            f"expected a dictionary or phones for the language {language[:20]!r}: only English has a built-in dictionary",
            pointer="language", value=language[:20],
        )  # fmt: skip
    return Pronouncer(dictionaries.english(), language, oov=oov or "guess")


def list_guesses(words: Sequence[Word]) -> tuple[Notice, ...]:
    """Which words were guessed, where any were."""
    guessed = list(dict.fromkeys(w.written or w.word for w in words if w.guessed))
    if not guessed:
        return ()
    count = "1 word is" if len(guessed) == 1 else f"{len(guessed)} words are"
    its = "its pronunciation was" if len(guessed) == 1 else "their pronunciations were"
    message = f"{count} not in the dictionary, and {its} guessed from the letters: {_join_words(guessed, NAMED)}"
    return (Notice("words-guessed", message, "text", float(len(guessed))),)


def _join_words(words: Sequence[str], most: int) -> str:
    return ", ".join(w[:60] for w in words[:most]) + (f", and {len(words) - most} more" if len(words) > most else "")


def _guess(word: str) -> list[Pronunciation]:
    from phonechain.model.pronunciation import guesser, letters

    if letters.spell(word) is None:
        return []
    return guesser.english().guess(word)
