"""The letters of a word as the chain over letters knows them."""

from __future__ import annotations

import unicodedata

ALPHABET = "abcdefghijklmnopqrstuvwxyz'"

MAX_LETTERS = 60
"""Longest word whose pronunciation is guessed."""

_SPELLED = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ß": "ss", "ð": "th", "þ": "th", "ł": "l", "đ": "d", "ı": "i"}
)


def spell(word: str) -> str | None:
    """The word in letters of the alphabet, without accents; None where it has other letters, none, or too many.

    >>> spell("Café's"), spell("Ærøskøbing"), spell("привет")
    ("cafe's", 'aeroskobing', None)
    """
    bare = unicodedata.normalize("NFKD", word.lower().replace("’", "'").translate(_SPELLED))
    letters = "".join(c for c in bare if not unicodedata.combining(c) and c not in "-.")
    if not any(c != "'" for c in letters) or len(letters) > MAX_LETTERS:
        return None
    return letters if all(c in ALPHABET for c in letters) else None
