"""Seeds of every annotation format, and seeded mutations of them: for the fuzz tests, short and long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from phonechain.features.annotation import FORMATS, Annotation, Tier, add_labels, write
from phonechain.features.segments import Segment
from tests.features.fuzz import mutate

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


READ_ONLY = (
    '{"transcript": "in", "words": [{"alignedWord": "in", "case": "success", "start": 0.1, "end": 0.24, "word": "in", '
    '"phones": [{"duration": 0.08, "phone": "ih_B"}, {"duration": 0.06, "phone": "n_E"}]}, {"case": "not-found", "word": "x"}]}',
    '{"segments": [{"start": 0.0, "end": 0.41, "text": " in", "words": [{"word": "in", "start": 0.0, "end": 0.14, '
    '"score": 0.9}, {"word": "2"}], "chars": [{"char": "i", "start": 0.0, "end": 0.08, "score": 0.8}]}], "language": "en"}',
    '{"fragments": [{"begin": "0.000", "end": "0.5", "lines": ["From"], "children": [{"begin": "0.0", "end": "0.2", '
    '"lines": ["F"], "children": []}]}]}',
    '{"name": "s", "annotates": "s.wav", "sampleRate": 1000, "levels": [{"name": "W", "type": "ITEM", "items": [{"id": 7, '
    '"labels": [{"name": "W", "value": "C"}]}]}, {"name": "P", "type": "SEGMENT", "items": [{"id": 1, "sampleStart": 100, '
    '"sampleDur": 79, "labels": [{"name": "P", "value": "I"}]}]}], "links": [{"fromID": 7, "toID": 1}]}',
    '{"id": "u", "recording_id": "r", "start": 0.5, "duration": 1.0, "channel": 0, "text": "in", "alignment": {"word": '
    '[["in", 0.5, 0.14, 0.9]]}}\n{"id": "v", "recording_id": "r", "start": 0.0, "duration": 0.25, "speaker": "b"}\n',
    "SPEAKER a 1 0.50 1.25 <NA> <NA> anna 0.9 <NA>\nLEXEME a 1 0.50 0.25 hello lex anna 0.5 <NA>\n",
    "WEBVTT\n\n00:00.000 --> 00:01.000\n<v Anna>one<00:00:00.500><c> two</c>\n",
    "0 46797 She had your dark suit.\n",
    "Begin,End,Label,Type,Speaker\n0.0,0.14,in,words,anna\n0.0,0.08,IH0,phones,bob\n",
)
"""A file of each format that is read only, and of dialects."""


def seeds() -> list[bytes]:
    """One small file per format, with an answer and without, and the real TextGrids of the test data."""
    words = Tier("words", "interval", [Segment(0.0, 0.3, "hi"), Segment(0.3, 0.5, "")])
    phones = Tier("phones", "interval", [Segment(0.0, 0.1, "h"), Segment(0.1, 0.3, "aɪ"), Segment(0.3, 0.5, None)])
    tones = Tier("tones", "point", [Segment(0.2, 0.2, "H*")])
    plain = Annotation([words, phones, tones], "json", end=0.6)
    answered = add_labels(plain, "phones", ["h", "a", None], [0.5, 0.75, None])
    out = [write(a, name) for name in FORMATS for a in (plain, answered)]
    out += [text.encode() for text in READ_ONLY]
    real = sorted((Path(__file__).parents[2] / "data" / "praat").glob("*.TextGrid"))
    out += [p.read_bytes()[:4000] for p in real]
    out += [write(plain, "textgrid").decode().encode(e) for e in ("utf-16", "utf-16-be", "mac-roman")[:2]]
    return out


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """`count` mutated files, the same for the same seed."""
    draw = random.Random(seed)
    pool = seeds()
    for _ in range(count):
        yield mutate(draw, pool, _PIECES)
