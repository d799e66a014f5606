"""ESPS xlabel files, as Festival, EST and wavesurfer keep them, and the dialect of the Buckeye corpus.

Source: the ESPS manual page xlabel(1-ESPS) and the Buckeye corpus manual. After a header that ends with a `#` by itself
each line is `end colour label`, seconds; a segment begins where the one before ends. Further fields, after the header's
separator (`;`), become tiers with the same intervals; we name them in the header's comment.
"""

from __future__ import annotations

import re

from phonechain.features.annotation.base import (
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    gapless,
    is_number,
    number,
    one_line,
    seconds,
)
from phonechain.features.annotation.tiers import choose_tier, same_intervals
from phonechain.features.errors import AnnotationSyntaxError
from phonechain.features.segments import Segment

_FIELDS = "phonechain fields: "
_LINE = re.compile(r"[ \t]*(\S+)[ \t]+(-?[0-9]+)(?:[ \t]+(.*))?")


_HASH = re.compile(r"^[ \t]*#[ \t]*\n+", re.MULTILINE)


def _looks(source: Source) -> bool:
    """True if the first line after the first # by itself is one of a time, a whole number and a label."""
    hash_ = _HASH.search(source.head)
    first = _LINE.fullmatch(source.head[hash_.end() :].split("\n", 1)[0].rstrip()) if hash_ else None
    return bool(first and is_number(first[1]))


def sniff(source: Source) -> int:
    return 0 if not _looks(source) or _is_buckeye(source) else 3


def sniff_buckeye(source: Source) -> int:
    return 3 if _looks(source) and _is_buckeye(source) else 0


def _is_buckeye(source: Source) -> bool:
    return source.suffix in (".phones", ".words") or "{B_TRANS}" in source.head


def parse(source: Source) -> Annotation:
    """Read an xlabel file. Raises AnnotationSyntaxError with the line."""
    separator, names = ";", []
    rows: list[tuple[float, list[str], int]] = []
    in_header = True
    for at, line in source.lines():
        text = line.strip()
        if in_header:
            if text == "#":
                in_header = False
            elif text.startswith("separator ") and len(text.split()) == 2:
                separator = text.split()[1]
            elif text.startswith("comment " + _FIELDS):
                names = text.removeprefix("comment " + _FIELDS).split(separator)
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise AnnotationSyntaxError(f"expected an end, a colour number and a label, got {excerpt(text)}", line=at)
        rows.append((number(match[1], at, "an end"), [f.strip() for f in (match[3] or "").split(separator)], at))
        check_count(len(rows), at)
    if in_header:
        raise AnnotationSyntaxError("expected a line with a # by itself after the header, got none", line=1)
    buckeye = _is_buckeye(source)
    main = "words" if source.suffix in (".words", ".wrd") else "phones"
    width = max((len(f) for _, f, _ in rows), default=1)
    titles = names if len(names) == width else [main, *(f"field {k}" for k in range(2, width + 1))]
    tiers = [Tier(title.strip(), "interval") for title in titles]
    start = 0.0
    for end, fields, at in rows:
        for k, tier in enumerate(tiers):
            tier.entries.append(Segment(start, end, fields[k] if k < len(fields) else ""))
            tier.lines.append(at)
        start = end
    # "ah; " has an empty second field: a separator at the end of the line, not a label.
    tiers = [t for k, t in enumerate(tiers) if k == 0 or any(s.label for s in t.entries)]
    return source.annotation(tiers, "buckeye" if buckeye else "xlabel")


def _write(annotation: Annotation, header: list[str], colour: int) -> bytes:
    tier = choose_tier(annotation)[0]
    others = [t for t in annotation.tiers if t is not tier and same_intervals(t, tier) and tier.entries]
    lines = list(header)
    if others:
        names = _FIELDS + "; ".join(one_line(t.name, ";") for t in (tier, *others))
        lines += [f"comment {names}", "separator ;", f"nfields {1 + len(others)}"]
    lines.append("#")
    labels = {id(s): (s, *(t.entries[i] for t in others)) for i, s in enumerate(tier.entries)}
    for s in gapless(tier):
        fields = [one_line(part.label, ";") for part in labels.get(id(s), (s,))]
        lines.append(f"    {seconds(s.end)} {colour} {'; '.join(fields)}".rstrip())
    return ("\n".join(lines) + "\n").encode()


def write(annotation: Annotation) -> bytes:
    """The chosen tier, and every tier with the same intervals as a further field. UTF-8.

    Gaps become segments without a label, since a line says only where its segment ends.

    Raises:
        AnnotationError: overlapping intervals, or a label with a `;` or a line end in it.
    """
    return _write(annotation, [], 125)


def write_buckeye(annotation: Annotation) -> bytes:
    """As `write`, with a header like Buckeye's."""
    return _write(annotation, ["type 0", "color 122", "separator ;", "nfields 1"], 122)


FORMAT = Format(
    "xlabel",
    "Festival / ESPS xlabel",
    (".lab", ".seg"),
    "text/plain",
    sniff,
    parse,
    write,
    holds="same",
)
BUCKEYE = Format(
    "buckeye",
    "Buckeye .phones",
    (".phones", ".words"),
    "text/plain",
    sniff_buckeye,
    parse,
    write_buckeye,
    holds="same",
)
