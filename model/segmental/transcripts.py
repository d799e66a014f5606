"""What is said in a recording, without times: words with pronunciations, and how corpora write silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phonechain.features.words.dictionary import Pronunciation

SILENCES = ("sil", "pau", "sp", "h#", "pause", "<p:>", "_", "#", "silence", "<sil>", "")
"""How corpora write silence, in lower case."""


@dataclass(frozen=True)
class Word:
    """A word of a transcript with its possible pronunciations.

    `written` as the transcript has it, `guessed` where no dictionary has it.
    """

    word: str
    pronunciations: Sequence[Pronunciation]
    written: str = ""
    guessed: bool = False
