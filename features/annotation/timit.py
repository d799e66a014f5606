"""TIMIT's `.PHN` and `.WRD`: `start end name`, times in samples.

Source: TIMIT's own `readme.doc`. The files do not name the rate; it is the recording's, 16000 Hz in TIMIT. The sentence
files, `.TXT`, have one line for all that was said.
"""

from __future__ import annotations

from phonechain.features.annotation.base import (
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    is_number,
    number,
    one_line,
)
from phonechain.features.annotation.tiers import main_tier
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment

RATE = 16000
"""Samples per second if unknown."""

_OWN = (".phn", ".wrd")


def sniff(source: Source) -> int:
    """2 by its suffix, or if the typical length suits samples; 1 if the lines fit but the lengths do not."""
    if is_sentence(source):
        return 3
    length = source.typical_length
    if length is None:
        return 0
    return 2 if source.suffix in _OWN or length < 30_000 else 1


def is_sentence(source: Source) -> bool:
    """True for a file of one line, from sample 0 on, that ends with several words, none of which is a score."""
    if source.suffix not in ("", ".txt") or len(source.data) > 2000 or source.typical_length is None:
        return False
    words = source.text.split()
    return "\n" not in source.text.strip() and words[0] == "0" and len(words) > 3 and not any(map(is_number, words[2:]))


def parse(source: Source) -> Annotation:
    """Read samples at `source.options.rate`, else 16000 Hz and a Notice. Raises AnnotationSyntaxError with the line."""
    rate = source.options.rate or RATE
    tier = Tier("sentence" if is_sentence(source) else "words" if source.suffix == ".wrd" else "phones", "interval")
    for at, line in source.lines():
        words = line.split(None, 2)
        if len(words) < 2:
            raise AnnotationSyntaxError(f"expected a start, an end and a name, got {excerpt(line.strip())}", line=at)
        start = number(words[0], at, "a start in samples", rate)
        end = number(words[1], at, "an end in samples", rate)
        tier.entries.append(Segment(start / rate, end / rate, words[2].rstrip() if len(words) == 3 else ""))
        tier.lines.append(at)
        check_count(len(tier.entries), at)
    notices = []
    if source.options.rate is None:
        message = f"times are in samples, and the file does not name their rate; taken as {RATE} Hz"
        notices.append(Notice("rate-assumed", message, None, float(RATE)))
    return source.annotation([tier], "timit", notices=notices)


def write(annotation: Annotation, recording: str | None = None, rate: int | None = None) -> bytes:
    """One tier, the answer where there is one, in samples at `rate`, else at 16000 Hz. UTF-8."""
    tier, _ = main_tier(annotation)
    hertz = rate or RATE
    lines = [f"{round(s.start * hertz)} {round(s.end * hertz)} {one_line(s.label)}".rstrip() for s in tier.entries]
    return "".join(f"{line}\n" for line in lines).encode()


FORMAT = Format("timit", "TIMIT .PHN", _OWN, "text/plain", sniff, parse, write, holds="one", names_sound=True)
