"""RTTM, NIST's rich transcription: who spoke when, and words with their times.

Source: NIST, "The 2009 (RT-09) Rich Transcription Meeting Recognition Evaluation Plan", appendix A: nine or ten fields,
`type file channel start duration orthography subtype speaker confidence [slat]`, `<NA>` where there is nothing; lines that
begin with `;;` are comments. Each type becomes a tier: turns are labelled with their speaker, words with their spelling.
"""

from __future__ import annotations

from phonechain.features.annotation.base import (
    SCORE,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    is_number,
    number,
)
from phonechain.features.annotation.channels import read_each, read_one
from phonechain.features.errors import AnnotationSyntaxError
from phonechain.features.segments import Segment

_TITLES = {"SPEAKER": "speakers", "LEXEME": "words"}
_TYPES = {
    "SPEAKER",
    "LEXEME",
    "SEGMENT",
    "NON-LEX",
    "NON-SPEECH",
    "SU",
    "EDIT",
    "FILLER",
    "IP",
    "CB",
    "A/P",
    "NOSCORE",
    "SPKR-INFO",
}
_NOTHING = "<NA>"

Rows = dict[str, list[tuple[float, float, str, str, int]]]
"""By type: start, end, label, confidence, line."""


def sniff(source: Source) -> int:
    first = next((line.split() for line in source.head.split("\n") if line.strip() and not line.startswith(";;")), [])
    timed = len(first) > 4 and is_number(first[3]) and is_number(first[4])
    return 3 if 9 <= len(first) <= 10 and first[0] in _TYPES and (timed or first[0] == "SPKR-INFO") else 0


def _recordings(source: Source) -> dict[str, dict[str, Rows]]:
    recordings: dict[str, dict[str, Rows]] = {}
    count = 0
    for at, line in source.lines():
        words = line.split()
        if line.startswith(";;"):
            continue
        if len(words) < 9 or words[0] not in _TYPES:
            message = f"expected a type and at least eight fields, got {excerpt(line.strip())}"
            raise AnnotationSyntaxError(message, line=at)
        if _NOTHING in words[3:5]:  # SPKR-INFO, and what has no time
            continue
        start, length = number(words[3], at, "a start"), number(words[4], at, "a duration")
        label = words[5] if words[5] != _NOTHING and words[0] != "SPEAKER" else words[7]
        rows = recordings.setdefault(words[1], {}).setdefault(words[2], {}).setdefault(words[0], [])
        rows.append((start, round(start + length, 9), "" if label == _NOTHING else label, words[8], at))
        count += 1
        check_count(count, at)
    return recordings


def _tiers(rows: Rows) -> list[Tier]:
    tiers = []
    for kind, entries in rows.items():
        title = _TITLES.get(kind, kind.lower())
        entries.sort(key=lambda r: r[:2])
        tier = Tier(title, "interval", [Segment(a, b, label) for a, b, label, _, _ in entries])
        tier.lines = [r[4] for r in entries]
        tiers.append(tier)
        if any(is_number(r[3]) for r in entries):
            scores = [Segment(a, b, c if is_number(c) else "") for a, b, _, c, _ in entries]
            tiers.append(Tier(title + SCORE, "interval", scores))
    return tiers


def parse(source: Source) -> Annotation:
    """Read one recording of the file, and if it has several channels one of them.

    Raises:
        AnnotationSyntaxError: with the line.
        AnnotationError: the recording or channel that is meant is not there, or it is not said which is.
    """
    return read_one(source, _recordings(source), _tiers, "rttm")


def parse_all(source: Source) -> dict[str, Annotation]:
    """Every recording of the file by its name, with the channel after a blank for channels other than the first."""
    return read_each(source, _recordings(source), _tiers, "rttm")


FORMAT = Format("rttm", "NIST RTTM", (".rttm",), "text/plain", sniff, parse, parse_all=parse_all)
