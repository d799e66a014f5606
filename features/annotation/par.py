"""BAS Partitur files (`.par`), as WebMAUS writes them: lines `KEY: ...` for each tier, times in samples.

Source: "BAS Partitur Format", Bavarian Archive for Speech Signals. `SAM` is the rate. The tiers of segments (class 4)
have `start duration links label`, where the last sample is start + duration, so that a segment is duration + 1 samples
long; those without links (class 2) have `start duration label`. `ORT`, the words, has no times of its own and gets them
from the phones that are linked to each word.
"""

from __future__ import annotations

import re
from itertools import product

from phonechain.features.annotation.base import (
    ANSWER,
    POSTERIOR,
    Annotation,
    Format,
    Source,
    Tier,
    check_count,
    excerpt,
    is_derived,
    nfc,
    one_line,
)
from phonechain.features.annotation.tiers import choose_tier
from phonechain.features.errors import AnnotationSyntaxError, Notice
from phonechain.features.segments import Segment

RATE = 16000
"""Samples per second of files that we write, and of those that do not say."""

_LINE = re.compile(r"([A-Za-z0-9]{3}):[ \t]*(.*)")
_LINKED = re.compile(r"(-?[0-9]{1,14})[ \t]+(-?[0-9]{1,14})[ \t]+(-?[0-9]+(?:[,;]-?[0-9]+)*)(?:[ \t]+(.*))?")
_UNLINKED = re.compile(r"(-?[0-9]{1,14})[ \t]+(-?[0-9]{1,14})[ \t]+(.*)")
_WORD = re.compile(r"([0-9]+)[ \t]+(.*)")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CLASS_2 = frozenset({"IPA", "SUP", "PHN", "DAS", "NOI", "SPD"})
_CODES = {ANSWER: "PCL", POSTERIOR: "PCP"}
"""Our own keys: a key has three characters, so an answer's tiers cannot keep their names."""

Span = tuple[int, int, str, str, int]
"""first sample, samples less one, links, label, line"""


def sniff(source: Source) -> int:
    head = source.head.lstrip()
    if head.startswith("LHD:") or re.search(r"^SAM:[ \t]*[0-9]+[ \t]*$", head, re.MULTILINE):
        return 3
    return 2 if re.search(r"^(?:MAU|SAP|PHO):[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+-?[0-9]", head, re.MULTILINE) else 0


def parse(source: Source) -> Annotation:
    """Read a Partitur file. Raises AnnotationSyntaxError with the line."""
    rate: float | None = None
    spans: dict[str, list[Span]] = {}
    words: list[tuple[str, str]] = []
    count = 0
    for at, line in source.lines():
        match = _LINE.match(line)
        if match is None:
            raise AnnotationSyntaxError(
                f"expected a key of three characters and a colon, got {excerpt(line.strip())}", line=at
            )
        key, body = match[1], match[2].rstrip()
        if key == "SAM":
            if not body.isdecimal() or not 0 < int(body[:9]) < 10_000_000:
                raise AnnotationSyntaxError(f"expected a rate in Hz, got {excerpt(body)}", line=at)
            rate = float(body)
        elif key == "ORT" and (word := _WORD.fullmatch(body)):
            words.append((word[1], word[2]))
        elif linked := _LINKED.fullmatch(body):
            spans.setdefault(key, []).append((int(linked[1]), int(linked[2]), linked[3], linked[4] or "", at))
        elif key in _CLASS_2 and (span := _UNLINKED.fullmatch(body)):
            spans.setdefault(key, []).append((int(span[1]), int(span[2]), "", span[3], at))
        elif key in ("MAU", "SAP", "PHO"):
            raise AnnotationSyntaxError(
                f"expected a start, a duration, a link and a label, got {excerpt(body)}", line=at
            )
        else:
            continue
        count += 1
        check_count(count, at)
    notices = []
    if rate is None:
        rate = float(source.options.rate or RATE)
        if source.options.rate is None:
            notices.append(Notice("rate-assumed", f"no SAM line names the rate; taken as {RATE} Hz", None, rate))
    tiers = [
        Tier(
            key,
            "interval",
            [Segment(a / rate, (a + n + 1) / rate, label) for a, n, _, label, _ in rows],
            [row[4] for row in rows],
        )
        for key, rows in spans.items()
    ]
    main = next((k for k in ("MAU", "SAP", "PHO") if k in spans), None)
    if main is not None:
        for tier in tiers:
            for kind, code in _CODES.items():
                if tier.name == code:
                    tier.name = main + kind
        if words and (times := _word_times(words, spans[main], rate)):
            tiers.append(Tier("ORT", "interval", times))
    return source.annotation(tiers, "par", notices=notices)


def _word_times(words: list[tuple[str, str]], phones: list[Span], rate: float) -> list[Segment]:
    """Each word from the first to the last phone that is linked to it; words without phones are left out."""
    reach: dict[str, tuple[int, int]] = {}
    for start, length, links, _, _ in phones:
        for link in re.split("[,;]", links):
            a, b = reach.get(link, (start, start + length + 1))
            reach[link] = (min(a, start), max(b, start + length + 1))
    return [Segment(reach[n][0] / rate, reach[n][1] / rate, word) for n, word in words if n in reach]


def write(annotation: Annotation) -> bytes:
    """Every tier of intervals, in samples at 16000 Hz. UTF-8.

    The phones become MAU, an answer PCL with its posteriors PCP; other tiers keep three characters of their name.

    Raises:
        AnnotationError: a label with a line end in it.
    """
    tiers = [t for t in annotation.tiers if t.kind == "interval"]
    main = choose_tier(annotation)[0]
    lines = [
        "LHD: Partitur 1.3",
        "REP: unknown",
        "SNB: 2",
        f"SAM: {RATE}",
        "SBF: 01",
        "SSB: 16",
        "NCH: 1",
        "SPN: unknown",
        "LBD:",
    ]
    taken = {
        "LHD",
        "REP",
        "SNB",
        "SAM",
        "SBF",
        "SSB",
        "NCH",
        "SPN",
        "LBD",
        "ORT",
        "KAN",
        "TRN",
        *_CODES.values(),
        *_CLASS_2,
        "MAU",
    }
    for tier in tiers:
        if tier is main:
            key = "MAU"
        elif is_derived(tier.name) and tier.name.removesuffix(ANSWER).removesuffix(POSTERIOR) == main.name:
            key = _CODES[ANSWER if tier.name.endswith(ANSWER) else POSTERIOR]
        else:
            key = _free_key(tier.name, taken)
            taken.add(key)
        for s in tier.entries:
            # A segment has at least one sample, for the format has no way to say less.
            start = round(s.start * RATE)
            lines.append(f"{key}: {start} {max(round(s.end * RATE) - start - 1, 0)} -1 {one_line(s.label)}".rstrip())
    return ("\n".join(lines) + "\n").encode()


def _free_key(name: str, taken: set[str]) -> str:
    letters = re.sub("[^A-Z0-9]", "", nfc(name).upper())
    key = (letters + "XXX")[:3]
    others = ("".join(k) for k in product((letters + "X")[0], _DIGITS, _DIGITS))
    return key if key not in taken else next(k for k in others if k not in taken)


FORMAT = Format("par", "BAS Partitur", (".par",), "text/plain", sniff, parse, write, holds="intervals")
