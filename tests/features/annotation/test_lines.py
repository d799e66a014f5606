"""In formats with one entry per line, each entry knows its line, and so does what is said of it."""

from pathlib import Path

import pytest

from phonechain.features.annotation import choose_tier, read, read_all
from phonechain.features.corpora.base import problem_of, segments_of
from phonechain.features.errors import SegmentError

FILES = {
    "htk": (b"0 1000000 a\n\n1000000 1000000 b\n1000000 2000000 c\n", [1, 3, 4]),
    "mlf": (b'#!MLF!#\n"*/a.lab"\n0 1000000 a\n1000000 1000000 b\n1000000 2000000 c\n.\n', [3, 4, 5]),
    "timit": (b"0 1600 a\n1600 1600 b\n\n1600 3200 c\n", [1, 2, 4]),
    "ctm": (b";; of hand\na 1 0 0.1 a\na 1 0.1 0 b\na 1 0.1 0.1 c\n", [2, 3, 4]),
    "xlabel": (b"signal a\n#\n 0.1 125 a\n 0.1 125 b\n\n 0.2 125 c\n", [3, 4, 6]),
    "buckeye": (b"type 0\n#\n 0.1 122 a\n 0.1 122 b\n 0.2 122 c\n", [3, 4, 5]),
    "par": (b"LHD: Partitur 1.3\nSAM: 16000\nMAU: 0 1599 0 a\nMAU: 1600 -1 0 b\nMAU: 1600 1599 0 c\n", [3, 4, 5]),
    "csv": (b'start,end,label\n0,0.1,"a\nb"\n0.1,0.1,b\n0.1,0.2,c\n', [3, 4, 5]),
    "tsv": (b"start\tend\tlabel\n0\t0.1\ta\n\n0.1\t0.1\tb\n0.1\t0.2\tc\n", [2, 4, 5]),
}


@pytest.mark.parametrize(("form", "data", "lines"), [(f, d, n) for f, (d, n) in FILES.items()], ids=FILES)
def test_lines_of_the_entries(form, data, lines):
    back = read(data, format=form, name="a.lab")
    tier = choose_tier(back)[0]
    assert tier.lines == lines
    assert len(tier.entries) == 3
    with pytest.raises(SegmentError) as caught:
        segments_of(data, "a." + form)
    problem = problem_of(caught.value, Path("a"))
    assert problem.line == lines[1]
    assert "zero length" in problem.message
    kept = segments_of(data, "a." + form, on_bad_segment="skip", drop=["a", "a\nb"])
    assert list(kept.lines) == lines[2:]
    assert [s.label for s in kept.segments] == ["c"]


def test_audacity_parts_points_from_intervals():
    back = read(b"0.0\t0.1\ta\n\\\t10\t20\n0.1\t0.1\tp\n0.1\t0.2\tb\n", format="audacity")
    assert [(t.kind, t.lines) for t in back.tiers] == [("interval", [1, 4]), ("point", [3])]


def test_every_problem_of_a_file_has_its_line():
    data = b"".join(b"%d %d a\n" % (100_000 * n, 100_000 * n) for n in range(1200))
    with pytest.raises(SegmentError) as caught:
        segments_of(data, "a.lab")
    each = problem_of(caught.value, Path("a")).each
    assert [p.line for p in each[:1000]] == list(range(1, 1001))
    assert each[1000].message == "and 200 more. Segments of zero length can be dropped (fix, --fix)"
    assert [p.as_dict()["line"] for p in caught.value.problems] == list(range(1, 1201))


def test_repairs_keep_the_lines():
    data = b"2000000 3000000 c\n0 1000000 a\n1000000 2000000 b\n"
    assert list(segments_of(data, "a.lab", fix=True).lines) == [2, 3, 1]


def test_each_recording_of_a_file_of_many_has_its_own():
    data = b'#!MLF!#\n"*/a.lab"\n0 1000000 a\n.\n"*/b.lab"\n0 1000000 b\n1000000 2000000 c\n.\n'
    assert {name: a.tiers[0].lines for name, a in read_all(data).items()} == {"a": [3], "b": [6, 7]}


def test_formats_without_an_entry_a_line_say_nothing():
    data = b'"ooTextFile"\n"TextGrid"\n0 1 <exists> 1\n"IntervalTier" "phones" 0 1 2\n0 0 "a"\n0 1 "b"\n'
    with pytest.raises(SegmentError) as caught:
        segments_of(b"File type = " + data, "a.TextGrid")
    assert problem_of(caught.value, Path("a")).line is None
