"""Tiers that hold words, or longer stretches, where phones are expected."""

from __future__ import annotations

from collections.abc import Sequence

from phonechain.features.phones import notation
from phonechain.features.segments import Segment

FEWEST = 3
"""Labelled intervals below which nothing can be told."""
LETTERS = 3.0
"""Mean letters of a label from which on labels may be words. ARPAbet has 1.7, the longest IPA labels of a tier 3."""
LONG_SHARE = 0.3
"""Share of the different labels that have four letters or more. `tʃʰː` has two letters and two marks."""
SECONDS = 0.15
"""Mean duration from which on intervals may be words. Phones last 80 ms on average, seldom 150."""


def looks_like_words(segments: Sequence[Segment]) -> bool:
    """Whether the labels of a tier look like words: long strings of letters, on intervals longer than phones.

    Silence, noise and unlabelled intervals are left out. True needs every one of the three signs: long labels on average,
    many different long ones, and long intervals.
    """
    spoken = [s for s in segments if s.label and notation.nonspeech(s.label) is None]
    if len(spoken) < FEWEST:
        return False
    letters = [_letters(s.label or "") for s in spoken]
    kinds = {(s.label or "").casefold() for s in spoken}
    return (
        sum(letters) >= LETTERS * len(spoken)
        and sum(_letters(kind) >= 4 for kind in kinds) >= LONG_SHARE * len(kinds)
        and sum(s.end - s.start for s in spoken) >= SECONDS * len(spoken)
    )


def _letters(label: str) -> int:
    """Letters, without diacritics, position marks and stress digits."""
    if len(label) > notation.LONGEST:
        return sum(c.isalpha() for c in label)
    bare = notation.without_stress(notation.without_position(notation.without_diacritics(notation.visible(label))))
    return sum(c.isalpha() for c in bare)
