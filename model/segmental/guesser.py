"""How a word that no dictionary has is probably pronounced."""

from __future__ import annotations

from phonechain.features.words.dictionary import Pronunciation


class Guesser:
    """Pronunciations from letters."""

    def guess(self, word: str) -> list[Pronunciation]:
        """Nothing as yet."""
        return []


def english_guesser() -> Guesser | None:
    """None as long as there is no model for it."""
    return None
