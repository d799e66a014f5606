"""Seeds of every annotation format, and seeded mutations of them: for the fuzz tests, short and long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from features.annotation import FORMATS, Annotation, Tier, add_labels, write
from features.segments import Segment

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
        data = bytearray(draw.choice(pool))
        for _ in range(draw.choice((1, 1, 2, 3, 8))):
            a = draw.randrange(len(data) + 1)
            b = min(len(data), a + draw.choice((1, 2, 8, 64)))
            kind = draw.randrange(8)
            if kind == 0:
                data[a:b] = b""
            elif kind == 1:
                data[a:a] = draw.choice(_PIECES)
            elif kind == 2:
                data[a:b] = draw.choice(_PIECES)
            elif kind == 3 and a < len(data):
                data[a] ^= 1 << draw.randrange(8)
            elif kind == 4:
                data[a:a] = data[a:b] * draw.choice((1, 3, 50))
            elif kind == 5:
                del data[a:]
            elif kind == 6:
                other = draw.choice(pool)
                c = draw.randrange(len(other))
                data[a:b] = other[c : c + draw.choice((4, 40, 400))]
            else:
                lines = bytes(data).split(b"\n")
                draw.shuffle(lines)
                data[:] = b"\n".join(lines)
        yield bytes(data)
