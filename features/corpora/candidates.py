"""Choose among the files that may annotate a recording: skip those that are no annotation, then take the best by content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from phonechain.features import annotation
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.annotation.base import blank
from phonechain.features.annotation.tiers import SHORT, short_intervals
from phonechain.features.corpora.base import read_beside
from phonechain.features.corpora.pairing import DOUBTFUL, Pair, read_bytes
from phonechain.features.errors import Notice, PhonechainError, UnrecognisedAnnotation
from phonechain.features.files import printable_path

COARSE = 0.25
"""Median length (s) above which labelled intervals are words or utterances."""


Failures = list[tuple[Path, PhonechainError | OSError]]
"""Files that could not be read, each with the reason."""


class Unusable(Exception):
    """No candidate can be used: `file` is the one that most likely is an annotation, `error` what is wrong with it."""

    def __init__(self, errors: Failures) -> None:
        self.file, self.error = next(
            ((f, e) for f, e in errors if not isinstance(e, UnrecognisedAnnotation)),
            next(((f, e) for f, e in errors if f.suffix.lower() not in DOUBTFUL), errors[0]),
        )
        super().__init__(str(self.error))

    @property
    def doubtful(self) -> bool:
        """True if no file is an annotation, and all are of kinds that often are not."""
        return isinstance(self.error, UnrecognisedAnnotation) and self.file.suffix.lower() in DOUBTFUL


@dataclass(frozen=True, slots=True)
class Candidate:
    """An annotation and its tier of phones. `notices` are those of reading and choosing."""

    file: Path
    annotation: Annotation
    tier: Tier
    notices: tuple[Notice, ...]

    @property
    def short(self) -> int:
        """Labelled intervals of at most SHORT seconds."""
        return short_intervals(self.tier)

    @property
    def coarse(self) -> bool:
        """True if the intervals are too long for phones."""
        lengths = [s.end - s.start for s in self.tier.entries if not blank(s.label)]
        return not lengths or median(lengths) > COARSE


def annotation_of(pair: Pair, tier: str | None = None, shift: float | Literal["start"] = 0.0) -> Candidate:
    """The annotation of a recording.

    Files that share the bare name alone are asked only where nothing nearer has intervals as short as phones.

    Args:
        pair: the recording and its candidates.
        tier: as for `choose_tier`.
        shift: as for `annotation.shift`, which each annotation passes through.

    Raises:
        Unusable: none of the files can be used.
    """
    read: list[Candidate] = []
    errors: Failures = []
    for files in (pair.annotations, pair.others):
        if not files or any(not c.coarse for c in read):
            continue
        read += _read(
            files, lambda file: read_beside(read_bytes(file), file.name, pair.audio, raw=pair.raw), tier, shift, errors
        )
    if all(c.coarse for c in read):
        parts = dict(pair.parts)
        read += _read(parts, parts.__getitem__, tier, shift, errors)
    if not read:
        raise Unusable(errors)
    best = max(read, key=lambda c: (not c.coarse, c.short))  # the first, so the nearest, of equals
    notices = list(best.notices)
    broken = [(file, e) for file, e in errors if not isinstance(e, UnrecognisedAnnotation)]
    if broken:
        file, error = broken[0]
        name = printable_path(file.name)
        message = f"took {_name(best.file)} for {_name(pair.audio)}, since {name} cannot be used: {error}"
        notices.append(Notice("annotation-passed-over", message, None, name))
    if len(read) > 1:
        others = ", ".join(f"{_name(c.file)} ({c.short})" for c in read if c is not best)
        message = (
            f"{len(read)} annotations of {_name(pair.audio)}: took {_name(best.file)} with {best.short} labelled intervals "
            f"of at most {SHORT:g} s, not {others}"
        )
        notices.append(Notice("annotations-several", message, None, float(len(read))))
    return Candidate(best.file, best.annotation, best.tier, tuple(notices))


def _read(
    files: Iterable[Path],
    read: Callable[[Path], Annotation],
    tier: str | None,
    shift: float | Literal["start"],
    errors: Failures,
) -> list[Candidate]:
    found = []
    for file in files:
        try:
            content = annotation.shift(read(file), shift)
            chosen, guessed = annotation.choose_tier(content, tier)
        except (PhonechainError, OSError) as error:
            errors.append((file, error))
        else:
            found.append(Candidate(file, content, chosen, (*content.notices, *guessed)))
    return found


def _name(file: Path) -> str:
    return printable_path(file.name)
