"""What conversions must not lose or make up: order, tiers, points, neighbours; and numbers as Praat reads them."""

import math
import random
from itertools import pairwise

import pytest

from phonechain.features.annotation import FORMATS, Annotation, Tier, read, write
from phonechain.features.annotation.textgrid import praat_number
from phonechain.features.segments import Segment

parselmouth = pytest.importorskip("parselmouth", reason="praat-parselmouth is not installed")
call = parselmouth.praat.call

EAF = """<?xml version="1.0"?><ANNOTATION_DOCUMENT><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="300"/></TIME_ORDER>
<TIER TIER_ID="words"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="w" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>bit</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER><TIER TIER_ID="phones">{}</TIER>
</ANNOTATION_DOCUMENT>"""


def part(name, before, label):
    previous = f' PREVIOUS_ANNOTATION="{before}"' if before else ""
    return (
        f'<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="{name}" ANNOTATION_REF="w"{previous}>'
        f"<ANNOTATION_VALUE>{label}</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>"
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([("c", "b", "T"), ("a", "", "B"), ("b", "a", "I")], "BIT"),
        ([("b", "a", "I"), ("c", "b", "T"), ("a", "", "B")], "BIT"),
        ([("a", "", "B"), ("b", "", "I"), ("c", "", "T")], "BIT"),
        ([("a", "gone", "B"), ("b", "a", "I"), ("c", "b", "T")], "BIT"),
        ([("a", "c", "B"), ("b", "a", "I"), ("c", "b", "T")], "BIT"),  # a circle: the order of the file
    ],
)
def test_parts_of_a_word_come_in_the_order_that_elan_says(parts, expected):
    _, phones = read(EAF.format("".join(part(*p) for p in parts)).encode()).tiers
    assert "".join(s.label or "" for s in phones.entries) == expected
    assert [s.start for s in phones.entries] == pytest.approx([0, 0.1, 0.2])


@pytest.mark.parametrize("seed", range(3))
def test_elan_never_makes_neighbours_overlap(seed):
    draw = random.Random(seed)
    edges = sorted({draw.choice((0.5, 1.0, 1.5, 0.25)) / 1000 + draw.randrange(3000) / 1000 for _ in range(400)})
    # Ends and starts of one boundary as other programs leave them: a hair apart.
    entries = [
        Segment(a + draw.choice((0, -4e-7, 4e-7)), b + draw.choice((0, -4e-7, 4e-7)), "x") for a, b in pairwise(edges)
    ]
    back = read(write(Annotation([Tier("phones", "interval", entries)], "json"), "eaf"))
    (tier,) = read(write(back, "textgrid")).tiers
    assert tier.name == "phones"
    for before, after in pairwise(back.tiers[0].entries):
        assert before.end == after.start
    for mine, theirs in zip(entries, back.tiers[0].entries, strict=True):
        assert theirs.start == pytest.approx(mine.start, abs=5.1e-4)
        assert theirs.end == pytest.approx(mine.end, abs=5.1e-4)


@pytest.mark.parametrize("form", [f.name for f in FORMATS.values() if f.holds == "all"])
def test_points_and_tiers_without_labels_come_back(form):
    tiers = [
        Tier("word", "interval", [Segment(0.0, 1.0, "")]),
        Tier("phone", "interval", [Segment(0.0, 1.0, "")]),
        Tier("tones", "point", [Segment(0.4, 0.4, "H")]),
    ]
    back = read(write(Annotation(tiers, "json", end=1.0), form), format=form)
    assert [(t.name, t.kind, [(s.start, s.end) for s in t.entries]) for t in back.tiers] == [
        (t.name, t.kind, [(s.start, s.end) for s in t.entries]) for t in tiers
    ]


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_columns_without_labels_do_not_become_one(form):
    empty = [Tier(name, "interval", [Segment(0, 1, ""), Segment(1, 2, "")]) for name in ("word", "phone")]
    assert [t.name for t in read(write(Annotation(empty, "json"), form)).tiers] == ["word", "phone"]


NUMBERS = """
    0..5 0/1 200% 0x3 1/4 3e-1 1e3 0x10 1_0 +1 1,5 1. 1e 1.5abc 1/0 2/3 50%x 1e+2 0.5% 1.2.3 12x 1.5/3 3/0.5 1/2/4 1/x 3/4%
    1e1/2 5%/2 -1/-2 +1/+2 1.e1 1E2 1e+ 1/2x 1e2/1e1 3/ 200%% 1ee2 2"""
GRID = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n{}\n<exists>\n1\n"IntervalTier"\n"p"\n0\n1\n1\n0\n1\n"a"\n'


@pytest.mark.parametrize("number", NUMBERS.split())
def test_numbers_as_praat_reads_them(number, tmp_path):
    file = tmp_path / "a.TextGrid"
    file.write_text(GRID.format(number))
    theirs = call(parselmouth.read(str(file)), "Get end time")
    assert praat_number(number) == pytest.approx(theirs, nan_ok=True, rel=1e-15)


def test_an_odd_number_is_read_and_said():
    found = read(GRID.format("200%").encode())
    assert found.end == 2.0
    assert [n.message for n in found.notices] == ["line 5: '200%' was read as 2, as Praat reads it"]
    with pytest.raises(Exception, match="line 5: expected the end of the file as a number, got '1/0'"):
        read(GRID.format("1/0").encode())
    assert math.isnan(praat_number("abc"))
