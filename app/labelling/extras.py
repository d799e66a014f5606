"""What a request may ask for in addition to the labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extras:
    """The answers requested in addition to the labels.

    Attributes:
        sequences: how many of the most probable label sequences; 0 for none.
        words: the confidence of each word.
        hidden: the posteriors of the hidden variables.
    """

    sequences: int = 0
    words: bool = False
    hidden: bool = False

    def __bool__(self) -> bool:
        return bool(self.sequences or self.words or self.hidden)


NOTHING = Extras()
"""The labels alone."""
