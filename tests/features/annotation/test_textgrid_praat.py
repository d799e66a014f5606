"""TextGrids against Praat's own parser: it opens what we write and agrees, and we agree on what it opens."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonechain.features.annotation import Annotation, Tier, add_labels, read, write
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError
from phonechain.features.segments import Segment

parselmouth = pytest.importorskip("parselmouth", reason="praat-parselmouth is not installed")
call = parselmouth.praat.call

DATA = Path(__file__).parents[2] / "data" / "praat"
FORMS = ("textgrid", "textgrid-short", "textgrid-binary")
SAVES = (
    "Save as text file...",
    "Save as short text file...",
    "Save as binary file...",
    "Save as chronological text file...",
)


def as_praat_sees(path):
    grid = parselmouth.read(str(path))
    tiers = []
    for i in range(1, int(call(grid, "Get number of tiers")) + 1):
        if call(grid, "Is interval tier", i):
            count = int(call(grid, "Get number of intervals", i))
            asks = "Get start time of interval", "Get end time of interval", "Get label of interval"
        else:
            count = int(call(grid, "Get number of points", i))
            asks = "Get time of point", "Get time of point", "Get label of point"
        entries = [tuple(call(grid, ask, i, k) for ask in asks) for k in range(1, count + 1)]
        tiers.append((call(grid, "Get tier name", i), "IPT"[(asks[0] == "Get time of point" and 1) or 0], entries))
    return tiers, grid


def as_we_see(data):
    return [
        (t.name, "I" if t.kind == "interval" else "P", [(s.start, s.end, s.label or "") for s in t.entries])
        for t in read(data).tiers
    ]


REAL = sorted(p.name for p in DATA.glob("*.TextGrid"))

HEADER = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'
BODY = '0\n1\n<exists>\n1\n"IntervalTier"\n"phones"\n0\n1\n2\n0\n0.5\n"a"\n0.5\n1\n"b"\n'
ODD = {
    "comments": HEADER
    + BODY.replace("<exists>\n", "<exists> ! here they are\n").replace('"a"\n', '"a" ! "not this" 7\n'),
    "a comment line with numbers": HEADER + "! 3 4 5\n" + BODY,
    "words that are no tokens": HEADER
    + 'from 0 to 1 seconds <exists> 1 tier of class "IntervalTier" called "phones" from 0 to 1 with 2 '
    + 'intervals: 0 to 0.5 says "a" and 0.5 to 1 says "b" amen',
    "one line": HEADER + BODY.replace("\n", " "),
    "old short header": '"ooTextFile"\n"TextGrid"\n' + BODY,
    "older short header": 'File type = "ooTextFile short"\n"TextGrid"\n\n' + BODY,
    "quotes and newlines": HEADER + BODY.replace('"a"', '"say ""a""\nand then ""b"""').replace('"b"', '""""'),
    "exclamation inside a text": HEADER + BODY.replace('"a"', '"a ! b"').replace('"b"', '"!"'),
    "an exclamation mark inside a word": HEADER + BODY.replace("<exists>", "tiers!? <exists>"),
    "signs and exponents": HEADER + BODY.replace("0.5", "5e-1").replace("\n1\n<", "\n+1.0E0\n<"),
    "negative times": HEADER + BODY.replace("\n0\n", "\n-1\n"),
    "tabs": HEADER + BODY.replace("\n", "\t"),
    "carriage returns": (HEADER + BODY).replace("\n", "\r"),
    "windows line ends": (HEADER + BODY).replace("\n", "\r\n"),
    "text without a blank before it": HEADER + BODY.replace("2\n0\n0.5", "2\nfrom 0\n0.5"),
    "indices in brackets": HEADER + BODY.replace("0.5\n1\n", "intervals [2]: xmin = 0.5 xmax = 1 text = "),
    "gaps between intervals": HEADER + BODY.replace('0.5\n1\n"b"', '0.6\n1\n"b"'),
    "zero length": HEADER + BODY.replace('0.5\n1\n"b"', '0.5\n0.5\n"b"'),
    "repeated tier names": HEADER + BODY.replace("<exists>\n1", "<exists>\n2") + BODY[BODY.index('"Int') :],
    "points": HEADER + '0 1 <exists> 1 "TextTier" "tones" 0 1 2 0.25 "H*" 0.75 "L%"',
    "points, old names": HEADER
    + 'xmin = 0\nxmax = 1\ntiers? <exists>\nsize = 1\nitem []:\n item [1]:\n class = "TextTier"\n name = "t"\n xmin = 0\n'
    + ' xmax = 1\n points: size = 1\n points [1]:\n  time = 0.5\n  mark = "x"\n',
    "empty name": HEADER + BODY.replace('"phones"', '""'),
    "ipa": HEADER + BODY.replace('"a"', '"t͡ʃə̃"').replace('"b"', '"𝼆ʷ"'),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files_are_read_as_praat_reads_them(name, tmp_path):
    theirs, grid = as_praat_sees(DATA / name)
    assert as_we_see((DATA / name).read_bytes()) == theirs
    for save in SAVES:
        call(grid, save, str(tmp_path / "saved.TextGrid"))
        assert as_we_see((tmp_path / "saved.TextGrid").read_bytes()) == theirs, save


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_read_as_praat_reads_them(name, tmp_path):
    path = tmp_path / "odd.TextGrid"
    path.write_bytes(ODD[name].encode())
    theirs, _ = as_praat_sees(path)
    assert as_we_see(path.read_bytes()) == theirs


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_every_encoding_that_praat_knows(encoding, tmp_path):
    path = tmp_path / "encoded.TextGrid"
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    path.write_bytes(mark + ODD["ipa"].encode(encoding))
    theirs, _ = as_praat_sees(path)
    assert as_we_see(path.read_bytes()) == theirs
    assert as_we_see(path.read_bytes().removeprefix(mark)) == theirs


BROKEN = {
    "a number where a text belongs": (HEADER + BODY.replace('"a"', "7"), 15),
    "a text where a number belongs": (HEADER + BODY.replace("\n0.5\n", '\n"half"\n', 1), 14),
    "a text of two lines before": (HEADER + BODY.replace('"a"', '"\n"').replace('"b"', "b"), 19),
    "fewer intervals than said": (HEADER + BODY.replace("\n2\n0\n", "\n3\n0\n"), 18),
    "no closing quote": (HEADER + BODY.replace('"b"', '"b'), 18),
    "another class of tier": (HEADER + BODY.replace("IntervalTier", "SpeakerTier"), 8),
    "a number that is none": (HEADER + BODY.replace("\n0.5\n", "\n1/x\n", 1), 14),
    "an infinite number": (HEADER + BODY.replace("\n0.5\n", "\n1e999\n", 1), 14),
    "Praat's undefined number": (HEADER + BODY.replace("\n0.5\n", "\n--undefined--\n", 1), 14),
    "a flag where a number belongs": (HEADER + BODY.replace("\n0.5\n", "\n<half>\n", 1), 14),
    "a count below zero": (HEADER + BODY.replace("\n2\n0\n", "\n-2\n0\n"), 12),
    "a count beyond all use": (HEADER + BODY.replace("\n2\n0\n", "\n2000000000\n0\n"), 12),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_the_line(name):
    text, line = BROKEN[name]
    with pytest.raises(AnnotationSyntaxError, match=rf"^line {line}: expected ") as caught:
        read(text.encode())
    assert caught.value.line == line
    with pytest.raises(AnnotationSyntaxError, match=rf"^line {line}: "):
        read(text.replace("\n", "\r").encode())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", REAL)
def test_praat_opens_our_copies_of_real_files_with_an_answer(name, form, tmp_path):
    ours = read((DATA / name).read_bytes())
    tier = next(t for t in ours.tiers if t.kind == "interval")
    answered = add_labels(ours, tier, ["ə"] * len(tier.entries), [0.5] * len(tier.entries))
    path = tmp_path / "answered.TextGrid"
    path.write_bytes(write(answered, form))
    theirs, _ = as_praat_sees(path)
    assert as_we_see(path.read_bytes()) == theirs
    assert [t[0] for t in theirs] == [t.name for t in ours.tiers] + [
        f"{tier.name} phonechain",
        f"{tier.name} posterior",
    ]
    kept = [[e for e in entries if e[2]] for _, _, entries in theirs]
    assert kept[: len(ours.tiers)] == [[(s.start, s.end, s.label) for s in t.entries if s.label] for t in ours.tiers]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00", exclude_categories=["Cs", "Cc"]), max_size=6)
labels = texts | st.sampled_from(['"', '""', "a\nb", "!", "<exists>", "1", "intervals [1]:"])
tiers = st.lists(
    st.tuples(labels, st.booleans(), st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40), labels), max_size=5)),
    min_size=1,
    max_size=3,
)


@settings(max_examples=40, deadline=None)
@given(drawn=tiers, form=st.sampled_from(FORMS))
def test_praat_opens_every_textgrid_that_we_write(drawn, form, tmp_path_factory):
    made = []
    for name, points, spans in drawn:
        tier = Tier(name, "point" if points else "interval")
        at = 0.0
        for gap, length, label in spans:
            start = at + gap / 1000
            at = start + length / 1000
            tier.entries.append(Segment(start, start if points else at, label))
        made.append(tier)
    path = tmp_path_factory.getbasetemp() / "drawn.TextGrid"
    path.write_bytes(write(Annotation(made, "json", end=2.0), form))
    theirs, _ = as_praat_sees(path)
    assert as_we_see(path.read_bytes()) == theirs
    for tier, (name, _, entries) in zip(made, theirs, strict=True):
        assert name == tier.name
        assert [e for e in entries if e[2]] == [(s.start, s.end, s.label) for s in tier.entries if s.label]


def test_overlapping_intervals_go_to_a_further_tier(tmp_path):
    tier = Tier("overlap", "interval", [Segment(0, 1, "a"), Segment(0.5, 1.5, "b"), Segment(1, 2, "c")])
    path = tmp_path / "overlap.TextGrid"
    path.write_bytes(write(Annotation([tier], "json"), "textgrid"))
    theirs, _ = as_praat_sees(path)
    assert [(t[0], [e for e in t[2] if e[2]]) for t in theirs] == [
        ("overlap", [(0, 1, "a"), (1, 2, "c")]),
        ("overlap (2)", [(0.5, 1.5, "b")]),
    ]


def test_no_more_tiers_are_written_than_are_read() -> None:
    """Intervals that overlap each need a tier; found by mutated HTK labels with a line repeated."""
    same = [Segment(0.0, 0.1, "a")] * 1000
    written = write(Annotation([Tier("phones", "interval", same)], "htk"), "textgrid")
    assert len(read(written).tiers) == 1000
    for tiers in (
        [Tier("phones", "interval", [*same, same[0]])],
        [Tier(str(n), "interval", same[:2]) for n in range(501)],
    ):
        for form in ("textgrid", "textgrid-short", "textgrid-binary"):
            with pytest.raises(AnnotationError, match="expected at most 1000"):
                write(Annotation(tiers, "htk"), form)
