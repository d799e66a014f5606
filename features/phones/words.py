"""Recognise tiers of words, or of longer units, where phones are expected."""

from __future__ import annotations

import re
from collections.abc import Sequence

from phonechain.features.phones import notation
from phonechain.features.segments import Segment

FEWEST = 3
"""Fewest labelled intervals for a decision."""
LETTERS = 3.0
"""Least mean number of letters per label for words. ARPAbet has 1.7, the longest IPA labels of a tier 3."""
LONG_SHARE = 0.3
"""Least share of different labels with four or more letters. `tʃʰː` has two letters and two marks."""
SECONDS = 0.15
"""Least mean duration of words (s). Phones last 80 ms on average, seldom 150."""


NAMED = re.compile(r"(?:^|\W)(?:words?|orthography|ort|orth|cues)(?:$|\W)", re.IGNORECASE)
"""What a tier of words is called, `cues` being those of subtitles."""


def looks_like_words(segments: Sequence[Segment], name: str = "") -> bool:
    """Whether the labels of a tier look like words: long strings of letters, on intervals longer than phones.

    Silence, noise and unlabelled intervals are ignored. All three signs are needed: long labels on average, many different
    long ones, and long intervals. In a tier whose name says words the labels suffice, however few there are; labels of several
    words need no other sign.
    """
    spoken = [s for s in segments if s.label and notation.nonspeech(s.label) is None]
    if spoken and all(len((s.label or "").split()) > 1 for s in spoken):
        return True
    named = NAMED.search(name) is not None
    if len(spoken) < (1 if named else FEWEST):
        return False
    letters = [_letters(s.label or "") for s in spoken]
    kinds = {(s.label or "").casefold() for s in spoken}
    return (
        sum(letters) >= LETTERS * len(spoken)
        and sum(_letters(kind) >= 4 for kind in kinds) >= LONG_SHARE * len(kinds)
        and (named or sum(s.end - s.start for s in spoken) >= SECONDS * len(spoken))
    )


def _letters(label: str) -> int:
    """Letters, without diacritics, position marks and stress digits."""
    if len(label) > notation.LONGEST:
        return sum(c.isalpha() for c in label)
    bare = notation.without_stress(notation.without_position(notation.without_diacritics(notation.visible(label))))
    return sum(c.isalpha() for c in bare)
