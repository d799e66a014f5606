"""One tier replaced in place, in both text forms, against what the reader says of the result."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from phonechain.features.annotation import Annotation, Tier, read, write
from phonechain.features.annotation.textgrid_edit import replace_tier
from phonechain.features.segments import Segment

SAMPLE = (Path(__file__).parents[3] / "app" / "samples" / "LJ001-0002.TextGrid").read_bytes()
TIERS = [
    Tier("words", "interval", [Segment(0, 0.5, 'say "x"'), Segment(0.5, 1, "")]),
    Tier("notes", "point", [Segment(0.25, 0.25, "xmin = 0.5")]),
    Tier("phones", "interval", [Segment(0, 0.1, "a"), Segment(0.1, 0.5, "ɪ"), Segment(0.5, 1, "b")]),
    Tier("empty", "interval", [Segment(0, 1, "")]),
]
NEW = [Segment(0, 0.1, "a"), Segment(0.1, 0.3, 'q"q'), Segment(0.3, 0.5, "new"), Segment(0.6, 1, "b")]


@pytest.mark.parametrize("form", ["textgrid", "textgrid-short"])
@pytest.mark.parametrize("index", [0, 2, 3])
def test_the_tier_is_new_and_the_others_are_as_they_were(form: str, index: int) -> None:
    source = write(Annotation(TIERS, form, 0, 1), form)
    out = replace_tier(source, index, NEW)
    assert out is not None
    back = read(out)
    gap = [*NEW[:3], Segment(0.5, 0.6, ""), NEW[3]]
    for i, (tier, known) in enumerate(zip(back.tiers, read(source).tiers, strict=True)):
        assert tier == (Tier(known.name, "interval", gap) if i == index else known)
    assert out == write(Annotation(back.tiers, form, 0, 1), form)  # in the manner of the rest of the file


def test_the_same_entries_give_the_same_bytes() -> None:
    tiers = read(SAMPLE).tiers
    assert [replace_tier(SAMPLE, i, tier.entries) for i, tier in enumerate(tiers)] == [SAMPLE, SAMPLE]


def test_spellings_of_times_and_comments_elsewhere_stay() -> None:
    source = SAMPLE.replace(b"xmin = 0.08 ", b"xmin = 0.080 ").replace(b"size = 2 ", b"size = 2 ! two tiers")
    source = source.replace(b"xmax = 0.08 ", b"xmax = 0.080 ")
    entries = [*read(source).tiers[1].entries]
    entries[0] = Segment(entries[0].start, entries[0].end, "new")
    out = replace_tier(source, 1, entries)
    assert out is not None
    differing = [b.strip() for a, b in zip(source.split(b"\n"), out.split(b"\n"), strict=True) if a != b]
    assert differing == [b'text = "new"']


def test_marks_and_line_ends_stay() -> None:
    text = SAMPLE.decode().replace("\n", "\r\n")
    for mark, encoding in ((codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF8, "utf-8"), (b"", "utf-16-le")):
        source = mark + text.encode(encoding)
        assert replace_tier(source, 1, read(source).tiers[1].entries) == source


def test_what_cannot_be_done_in_place_is_left_to_the_writer() -> None:
    assert replace_tier(SAMPLE, 1, [Segment(0, 1, "a"), Segment(0.5, 1.5, "b")]) is None  # they overlap
    latin = SAMPLE.replace(b'"in"', b'"\xefn"')
    assert read(latin).encoding in ("latin-1", "cp1252")
    assert replace_tier(latin, 1, [Segment(0, 1.8995, "ɪ")]) is None  # the encoding lacks it
    points = write(Annotation(TIERS, "textgrid", 0, 1), "textgrid")
    assert replace_tier(points, 1, []) is None
