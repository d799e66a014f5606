"""HTK label files: `start end name [score] {name [score]}`, times in units of 100 ns.

Source: the HTK Book, section "Label files". Further names on a line are further levels (a word beside its first phone);
`///` begins an alternative transcription; both become tiers of their own. HTS full-context names are reduced to the
phone in their middle. Decimal times are taken as seconds, which other tools write into `.lab` files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phonechain.features.annotation.base import (
    MAX_TIERS,
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
from phonechain.features.annotation.tiers import main_tier, same_intervals
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment

UNIT = 1e7
"""HTK units per second."""

_FULL_CONTEXT = re.compile(r"[^\s^]+\^[^\s^]+?-(?P<phone>[^\s]+?)\+[^\s=]+=\S+")
_STATE = re.compile(r"\[[0-9]+\]$")
_WORD = re.compile(r""""(?:\\.|[^"\\])*+"(?!\S)|'(?:\\.|[^'\\])*+'(?!\S)|\S+""")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")

Row = tuple[float, float, str, str | None, list[tuple[str, str | None]]]
"""start, end, name, score, further levels"""


def sniff(source: Source) -> int:
    """2 for lines of `int int name` whose typical length suits 100 ns, 1 where it does not or times are decimals."""
    length = source.typical_length
    if length is not None:
        # 10 to 500 ms are 100 000 to 5 000 000 of these units, and 80 to 24 000 samples at usual rates.
        return 2 if length >= 30_000 and source.suffix not in (".phn", ".wrd") else 1
    words = next((w for line in source.head.split("\n") if (w := line.split())), [])
    decimal = len(words) >= 3 and is_number(words[0]) and is_number(words[1])
    return 1 if decimal and source.suffix in (".lab", ".rec") else 0


def parse(source: Source) -> Annotation:
    """Read a label file. Raises AnnotationSyntaxError with the line."""
    tiers, notices = parse_lines(source.lines())
    return source.annotation(tiers, "htk", notices=notices)


def parse_lines(lines: Iterable[tuple[int, str]]) -> tuple[list[Tier], list[Notice]]:
    """Tiers from the numbered lines of one transcription, with notices."""
    blocks: list[list[Row]] = [[]]
    places: list[list[int]] = [[]]
    decimals = False
    count = 0
    for at, line in lines:
        words = line.split() if '"' not in line and "'" not in line else _WORD.findall(line)
        if words[0] == "///":
            blocks.append([])
            places.append([])
            continue
        if len(words) < 3:
            raise AnnotationSyntaxError(f"expected a start, an end and a name, got {excerpt(line.strip())}", line=at)
        decimals = decimals or "." in words[0] or "." in words[1]
        start, end = number(words[0], at, "a start", UNIT), number(words[1], at, "an end", UNIT)
        count += 1
        if count % 100_000 == 0:
            check_count(count, at)
        if len(words) > 2 + 2 * MAX_TIERS:  # a name and a score a level; before anything is built of them
            raise AnnotationSyntaxError(
                f"expected at most {MAX_TIERS} levels, got {len(words) - 2} names and scores", line=at, limit=MAX_TIERS
            )
        places[-1].append(at)
        blocks[-1].append(
            (start, end, _plain(words[2]), None, []) if len(words) == 3 else (start, end, *_levels(words[2:]))
        )
    check_count(count)
    notices = []
    if decimals:
        message = "expected times in units of 100 ns, got decimals; they were taken as seconds"
        notices.append(Notice("htk-seconds", message))
    tiers: list[Tier] = []
    for k, (block, numbers) in enumerate(zip(blocks, places, strict=True), 1):
        more, reduced = _tiers(block, numbers, 1.0 if decimals else UNIT, "" if k == 1 else f" ({k})")
        tiers += more
        if reduced:
            message = f"{reduced} full-context names were reduced to the phone in their middle"
            notices.append(Notice("full-context-reduced", message, None, float(reduced)))
    return tiers, notices


def _levels(words: list[str]) -> tuple[str, str | None, list[tuple[str, str | None]]]:
    """(name, score, further levels) from the words after the times: names, each with an optional score."""
    levels: list[tuple[str, str | None]] = []
    for word in words:
        if levels and levels[-1][1] is None and is_number(word):
            levels[-1] = (levels[-1][0], word)
        else:
            levels.append((_plain(word), None))
    return levels[0][0], levels[0][1], levels[1:]


def _tiers(rows: list[Row], lines: list[int], unit: float, mark: str) -> tuple[list[Tier], int]:
    """One tier per level, one of the scores if there are any, and the number of full-context names."""
    context = [_FULL_CONTEXT.fullmatch(r[2]) for r in rows] if rows and "^" in rows[0][2] else []
    reduced = len(context) if context and all(context) else 0
    names = [m["phone"] for m in context if m] if reduced else [r[2] for r in rows]
    further = max((len(r[4]) for r in rows), default=0)
    states = further and all(_STATE.search(r[2]) for r in rows)
    every = sum(bool(r[4]) for r in rows) == len(rows)  # a name on every line is no level above the first
    titles = [
        ("states" if states else "phones") + mark,
        ("phones" if states else "level 2" if every else "words") + mark,
    ]
    titles += [f"level {k}{mark}" for k in range(3, further + 2)]
    entries = [Segment(r[0] / unit, r[1] / unit, n) for r, n in zip(rows, names, strict=True)]
    first = Tier(titles[0], "interval", entries, lines)
    tiers = [first]
    if any(r[3] is not None for r in rows):
        scores = [Segment(s.start, s.end, r[3] or "") for r, s in zip(rows, first.entries, strict=True)]
        tiers.append(Tier(titles[0] + SCORE, "interval", scores))
    for level in range(further):
        # A higher level's name is at its first phone and lasts until the next name.
        marks = [(i, r[4][level][0]) for i, r in enumerate(rows) if len(r[4]) > level]
        tier = Tier(titles[level + 1], "interval")
        for (i, name), (following, _) in zip(marks, [*marks[1:], (len(rows), "")], strict=True):
            tier.entries.append(Segment(rows[i][0] / unit, rows[following - 1][1] / unit, name))
            tier.lines.append(lines[i])
        tiers.append(tier)
    return tiers, reduced


def _plain(word: str) -> str:
    """A name without HTK's quotes and escapes; elsewhere both are part of the name, as often in X-SAMPA."""
    if len(word) < 2 or word[0] not in "\"'" or word[-1] != word[0]:
        return word
    return _ESCAPE.sub(lambda m: chr(int(m[1], 8)) if len(m[1]) == 3 else m[1], word[1:-1])


def write(annotation: Annotation) -> bytes:
    """One tier; an answer has its posterior as the score, and the given name as a second level. UTF-8."""
    return "".join(f"{line}\n" for line in rows(annotation)).encode()


def rows(annotation: Annotation) -> list[str]:
    """The lines of one transcription. Times are rounded to 100 ns."""
    tier, numbers = main_tier(annotation)
    source = annotation.tier(tier.name)
    given = (
        [s.label for s in source.entries]
        if source and source.entries is not tier.entries and same_intervals(source, tier)
        else []
    )
    if not any(given):
        given = [None] * len(numbers)
    return [
        f"{round(s.start * UNIT)} {round(s.end * UNIT)} {_quote(s.label or '')}"
        + (f" {n}" if n else "")
        + (f" {_quote(g)}" if g else "")
        for s, n, g in zip(tier.entries, numbers, given, strict=True)
    ]


def _quote(name: str) -> str:
    """The name as it is if it reads back unchanged, else in quotes with escapes."""
    if (
        name
        and name != "///"
        and name[0] not in "\"'"
        and not is_number(name)
        and not re.search(r"\s|[\x00-\x1f\x7f-\x9f]", name)
    ):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda m: f"\\{ord(m[0]):03o}", escaped) + '"'


FORMAT = Format("htk", "HTK label file", (".lab", ".rec"), "text/plain", sniff, parse, write, holds="one")
