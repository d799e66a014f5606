"""Seeds of every annotation format, and seeded mutations of them: for the fuzz tests, short and long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from phonechain.features.annotation import FORMATS, Annotation, Tier, add_labels, write
from phonechain.features.segments import Segment
from tests.features.fuzz import mutated

_PIECES = [
    *(
        b'"',
        b'""',
        b"<",
        b">",
        b"!",
        b"\\",
        b"#",
        b"///",
        b"-",
        b"+",
        b".",
        b",",
        b";",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\0",
        b"\xff",
    ),
    *(
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xfe\xff",
        b"nan",
        b"inf",
        b"-inf",
        b"1e999",
        b"-1",
        b"0",
        b"1_0",
    ),
    *(
        b"99999999999999999999",
        b"2147483647",
        b"0x10",
        b"\xd9\xa1",
        b"\xe2\x80\xa8",
        b"null",
        b"true",
        b"<eps>",
        b"<!ENTITY a 'b'>",
    ),
    *(
        b"<!DOCTYPE x>",
        b"<![CDATA[",
        b"TIME_SLOT_REF1",
        b"TIER_ID",
        b"ANNOTATION_REF",
        b"size = ",
        b"xmin",
        b'"start":',
        b"\\u0000",
        b"\\ud800",
    ),
    *(
        b"#!MLF!#",
        b"SAM: 0",
        b"ORT: 0 a",
        b"MAU:",
        b"tier",
        b"duration",
        b"intervals [",
        b"ooTextFile",
        b"ooBinaryFile",
        b"IntervalTier",
    ),
]


def seeds() -> list[bytes]:
    """One small file a format, with an answer and without, and the real TextGrids of the test data."""
    words = Tier("words", "interval", [Segment(0.0, 0.3, "hi"), Segment(0.3, 0.5, "")])
    phones = Tier("phones", "interval", [Segment(0.0, 0.1, "h"), Segment(0.1, 0.3, "aɪ"), Segment(0.3, 0.5, None)])
    tones = Tier("tones", "point", [Segment(0.2, 0.2, "H*")])
    plain = Annotation([words, phones, tones], "json", end=0.6)
    answered = add_labels(plain, "phones", ["h", "a", None], [0.5, 0.75, None])
    out = [write(a, name) for name in FORMATS for a in (plain, answered)]
    real = sorted((Path(__file__).parents[2] / "data" / "praat").glob("*.TextGrid"))
    out += [p.read_bytes()[:4000] for p in real]
    out += [write(plain, "textgrid").decode().encode(e) for e in ("utf-16", "utf-16-be", "mac-roman")[:2]]
    return out


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """`count` mutated files, the same for the same seed."""
    draw = random.Random(seed)
    pool = seeds()
    for _ in range(count):
        yield mutated(draw, pool, _PIECES)
