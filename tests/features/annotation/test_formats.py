"""Format by format: what real files of each look like, and how broken ones are refused."""

import json

import pytest

from phonechain.features.annotation import (
    FORMATS,
    Annotation,
    Tier,
    base,
    choose_tier,
    format_of,
    mlf,
    read,
    read_all,
    write,
)
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError, UnrecognisedAnnotation
from phonechain.features.segments import Segment


def entries(annotation, tier=None):
    return [(round(s.start, 6), round(s.end, 6), s.label) for s in choose_tier(annotation, tier)[0].entries]


def codes(annotation):
    return [n.code for n in annotation.notices]


# HTK


def test_htk_with_scores_levels_and_alternatives():
    back = read(
        b"0 1000000 s -12.5 six\n1000000 2500000 ih -3\n2500000 3000000 k\n3000000 4000000 v -1 seven\n///\n0 4000000 noise\n"
    )
    assert [t.name for t in back.tiers] == ["phones", "phones score", "words", "phones (2)"]
    assert entries(back, "phones")[:2] == [(0, 0.1, "s"), (0.1, 0.25, "ih")]
    assert [s.label for s in back.tiers[1].entries] == ["-12.5", "-3", "", "-1"]
    assert entries(back, "words") == [(0, 0.3, "six"), (0.3, 0.4, "seven")]
    assert entries(back, "phones (2)") == [(0, 0.4, "noise")]


def test_hts_full_context_is_reduced_to_the_phone():
    line = "{} {} x^sil-{}+iy=t@1_2/A:0_0_0/B:1-1-2@1-1&1-4#1-3$1-4!0-1;0-1|iy/C:1+1+4\n"
    back = read((line.format(0, 1300000, "hh") + line.format(1300000, 2050000, "pau")).encode())
    assert entries(back) == [(0, 0.13, "hh"), (0.13, 0.205, "pau")]
    assert codes(back) == ["full-context-reduced"]


def test_a_triphone_is_no_full_context():
    assert entries(read(b"0 1000000 s-ih+k\n")) == [(0, 0.1, "s-ih+k")]


def test_lab_with_seconds():
    back = read(b"0 0.13 hh\n0.13 0.2 iy\n", name="a.lab")
    assert entries(back) == [(0, 0.13, "hh"), (0.13, 0.2, "iy")]
    assert codes(back) == ["htk-seconds"]


def test_quotes_and_backslashes_that_belong_to_the_label():
    assert entries(read(b"0 1000000 \"a\n1000000 2000000 r\\\n2000000 3000000 t'\n"))[0][2] == '"a'
    assert [e[2] for e in entries(read(b'0 1000000 "\\101 b"\n1000000 2000000 r\\\n'))] == ["A b", "r\\"]


def test_htk_syntax_error_has_its_line():
    with pytest.raises(
        AnnotationSyntaxError, match="line 2: expected a start, an end and a name, got '1000000'"
    ) as caught:
        read(b"0 1000000 a\n1000000\n", format="htk")
    assert caught.value.line == 2
    with pytest.raises(AnnotationSyntaxError, match="line 1: expected an end as a number, got 'x'"):
        read(b"0 x a\n", format="htk")


@pytest.mark.parametrize("name", ["a.lab", "a.PHN", "a.ctm", "a.phones"])
def test_an_early_bad_line_is_told_by_its_number(name):
    lines = {
        "a.lab": b"0 1000000 a\n1000000 2x a\n",
        "a.PHN": b"0 1000 a\n1000 2x a\n",
        "a.ctm": b"r 1 0.0 0.1 a\nr 1 0.1 O.1 b\n",
        "a.phones": b"#\n0.1x 122 a\n0.2 122 b\n",
    }
    with pytest.raises(AnnotationSyntaxError, match="line 2: expected"):
        read(lines[name], name=name)


# MLF, CTM

MLF = b'#!MLF!#\n"*/one.lab"\n0 1000000 a\n.\n"/data/two.lab"\n0 2000000 b\n2000000 3000000 c\n.\n'
CTM = b";; a comment\none 1 0.00 0.25 a 0.9\ntwo A 0.00 0.1 b\ntwo A 0.10 0.20 <eps>\n"


@pytest.mark.parametrize("data", [MLF, CTM])
def test_a_file_of_several_recordings(data):
    assert next(e[2] for e in entries(read(data, name="two.txt"))) == "b"
    assert [e[2] for e in entries(read(data, utterance="one"))] == ["a"]
    with pytest.raises(AnnotationError, match="which of 2 recordings is meant, got 'one', 'two'"):
        read(data, name="all.ctm")
    with pytest.raises(AnnotationError, match="a recording named 'three', got 'one', 'two'"):
        read(data, utterance="three")


@pytest.mark.parametrize("data", [MLF, CTM])
def test_all_recordings_of_a_file(data):
    both = read_all(data, name="all")
    assert list(both) == ["one", "two"]
    assert entries(both["two"])[0][2] == "b"
    assert list(read_all(b"0 1000000 a\n", name="x/three.lab")) == ["three"]


def test_ctm_start_and_duration():
    back = read(CTM, utterance="two")
    assert entries(back) == [(0, 0.1, "b"), (0.1, 0.3, "")]
    assert [t.name for t in read(CTM, utterance="one").tiers] == ["labels", "labels score"]


def test_ctm_with_numeric_recordings_is_not_taken_for_htk():
    assert entries(read(b"000010011 1 0.00 0.55 SIL\n000010011 1 0.55 0.16 W\n")) == [
        (0, 0.55, "SIL"),
        (0.55, 0.71, "W"),
    ]


def test_ctm_cannot_hold_blanks():
    with pytest.raises(AnnotationError, match="without blanks"):
        write(Annotation([Tier("words", "interval", [Segment(0, 1, "two words")])], "json"), "ctm")


def test_mlf_syntax_error():
    with pytest.raises(AnnotationSyntaxError, match="line 2: expected the name of a recording in quotes"):
        read(b"#!MLF!#\n0 1000000 a\n")


# TIMIT


def test_timit_counts_samples_and_says_at_which_rate():
    phn = b"0 2260 h#\n2260 4070 sh\n4070 5265 ix\n"
    back = read(phn, name="SA1.PHN")
    assert entries(back)[1] == (0.14125, 0.254375, "sh")
    assert codes(back) == ["rate-assumed"]
    assert entries(read(phn, name="SA1.PHN", rate=8000))[1] == (0.2825, 0.50875, "sh")
    assert codes(read(phn, rate=8000)) == []


@pytest.mark.parametrize("suffix", [".lab", ".txt", ".phn"])
def test_samples_and_units_of_100_ns_are_told_apart_by_their_size(suffix):
    assert read(b"0 1120 k\n1120 3680 ao\n3680 5120 l\n", name="a" + suffix).format == "timit"
    if suffix != ".phn":
        assert read(b"0 700000 k\n700000 2300000 ao\n", name="a" + suffix).format == "htk"


# xlabel, Buckeye

FESTIVAL = b"separator ;\nnfields 1\n#\n    0.2200  125  pau ; \n    0.3000  125  k\n"
BUCKEYE = b"""signal s0101a
type 0
color 122
comment x
separator ;
nfields 1
#
    0.04  122 {B_TRANS}
    0.5  122 SIL
    0.62  122 ah; why
"""


def test_xlabel_gives_ends_only():
    back = read(FESTIVAL)
    assert back.format == "xlabel"
    assert entries(back) == [(0, 0.22, "pau"), (0.22, 0.3, "k")]
    assert [t.name for t in back.tiers] == ["phones"]
    assert entries(read(b"#\n0.342 125 pau\n0.392 125 k\n")) == [(0, 0.342, "pau"), (0.342, 0.392, "k")]


def test_buckeye():
    back = read(BUCKEYE)
    assert back.format == "buckeye"
    assert entries(back) == [(0, 0.04, "{B_TRANS}"), (0.04, 0.5, "SIL"), (0.5, 0.62, "ah")]
    assert [t.name for t in back.tiers] == ["phones", "field 2"]


def test_xlabel_errors():
    with pytest.raises(AnnotationSyntaxError, match="line 3: expected an end, a colour number and a label, got 'oops'"):
        read(b"#\n0.3 125 a\noops\n", format="xlabel")
    with pytest.raises(AnnotationSyntaxError, match="# by itself"):
        read(b"0.3 125 a\n", format="xlabel")
    with pytest.raises(AnnotationError, match="one after the other"):
        write(Annotation([Tier("t", "interval", [Segment(0, 1, "a"), Segment(0.5, 2, "b")])], "json"), "xlabel")


# Partitur

PAR = b"""LHD: Partitur 1.3
SAM: 16000
LBD:
ORT: 0 guten
ORT: 1 Tag
KAN: 0 gu:t@n
MAU: 0 1599 -1 <p:>
MAU: 1600 799 0 g
MAU: 2400 799 0 u:
MAU: 3200 1599 1 t
"""


def test_partitur_segments_are_one_sample_longer_than_their_duration():
    back = read(PAR)
    assert entries(back) == [(0, 0.1, "<p:>"), (0.1, 0.15, "g"), (0.15, 0.2, "u:"), (0.2, 0.3, "t")]
    assert entries(back, "ORT") == [(0.1, 0.2, "guten"), (0.2, 0.3, "Tag")]


def test_partitur_errors():
    with pytest.raises(
        AnnotationSyntaxError, match="line 8: expected a start, a duration, a link and a label, got 'x 799 0 g'"
    ):
        read(PAR.replace(b"1600 799", b"x 799"))
    with pytest.raises(AnnotationSyntaxError, match="line 2: expected a rate in Hz, got '0'"):
        read(PAR.replace(b"16000", b"0"))
    assert codes(read(PAR.replace(b"SAM: 16000\n", b""))) == ["rate-assumed"]


# Audacity


def test_audacity_with_frequencies_points_and_decimal_commas():
    back = read(b"0,000000\t0,500000\ta\n\\\t100,0\t200,0\n0,500000\t1,000000\tb c\n0,7\t0,7\tclick\n", name="a.txt")
    assert entries(back) == [(0, 0.5, "a"), (0.5, 1.0, "b c")]
    assert back.tiers[1] == Tier("points", "point", [Segment(0.7, 0.7, "click")])
    assert entries(read(b"0.0 0.5 a\n0.5 1.0 b\n")) == [(0, 0.5, "a"), (0.5, 1.0, "b")]


# Tables


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"start,end,label\n0,0.5,a\n0.5,1,b\n", ["label"]),
        (b"tmin\ttier\ttext\ttmax\n0\tphones\ta\t0.5\n0.5\tphones\tb\t1\n", ["phones"]),  # Praat, Down to Table
        (b"Begin,End,Label,Type,Speaker\n0,0.5,a,phones,S1\n0.5,1,b,phones,S1\n", ["phones"]),  # MFA
        (
            b"Begin Time - ss.msec\tEnd Time - ss.msec\tDuration - ss.msec\tphones\n0\t0.5\t0.5\ta\n0.5\t1\t0.5\tb\n",
            ["phones"],
        ),  # ELAN
        (b"start_ms;dur_ms;phone\n0;500;a\n500;500;b\n", ["phone"]),
        ("onset;offset;label\n0,0;0,5;a\n0,5;1,0;b\n".encode("utf-16"), ["label"]),  # a spreadsheet with decimal commas
        (b"0.0,0.5,a\n0.5,1.0,b\n", ["label"]),
        (b'start,end,phone,stress\n0,.5,"a",1\n.5,1,b,0\n', ["phone", "stress"]),
    ],
)
def test_tables_as_other_programs_write_them(data, expected):
    back = read(data)
    assert [t.name for t in back.tiers] == expected
    assert entries(back, expected[0]) == [(0, 0.5, "a"), (0.5, 1, "b")]


def test_tables_sorted_into_tiers():
    back = read(b"tier,start,end,label\nwords,0,1,ab\nphones,0,0.5,a\nphones,0.5,1,b\ntones,0.3,0.3,H\n")
    assert [(t.name, t.kind, len(t.entries)) for t in back.tiers] == [
        ("words", "interval", 1),
        ("phones", "interval", 2),
        ("tones", "point", 1),
    ]


def test_a_tsv_has_no_quoting():
    assert [e[2] for e in entries(read(b'start\tend\tphone\n0\t1\t"a\n1\t2\t"\n'))] == ['"a', '"']


def test_table_errors():
    with pytest.raises(
        UnrecognisedAnnotation, match="expected columns for a start and an end or a duration, got foo, bar"
    ):
        read(b"foo,bar\n1,2\n", format="csv")
    with pytest.raises(AnnotationSyntaxError, match="line 3: expected a start as a number, got 'x'"):
        read(b"start,end,label\n0,1,a\nx,2,b\n")
    with pytest.raises(AnnotationSyntaxError, match="quoted as in CSV"):
        read(b'start,end,label\n0,1,"a\n')


# ELAN


def eaf(body, slots="", media=""):
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<ANNOTATION_DOCUMENT><HEADER>{media}</HEADER>'
    return f"{head}<TIME_ORDER>{slots}</TIME_ORDER>{body}</ANNOTATION_DOCUMENT>"


def slot(i, value=None):
    return f'<TIME_SLOT TIME_SLOT_ID="ts{i}"' + (f' TIME_VALUE="{value}"' if value is not None else "") + "/>"


def aligned_annotation(i, a, b, text):
    attributes = f'ANNOTATION_ID="a{i}" TIME_SLOT_REF1="ts{a}" TIME_SLOT_REF2="ts{b}"'
    value = f"<ANNOTATION_VALUE>{text}</ANNOTATION_VALUE>"
    return f"<ANNOTATION><ALIGNABLE_ANNOTATION {attributes}>{value}</ALIGNABLE_ANNOTATION></ANNOTATION>"


def referring(i, parent, text):
    value = f"<ANNOTATION_VALUE>{text}</ANNOTATION_VALUE>"
    attributes = f'ANNOTATION_ID="a{i}" ANNOTATION_REF="a{parent}"'
    return f"<ANNOTATION><REF_ANNOTATION {attributes}>{value}</REF_ANNOTATION></ANNOTATION>"


def tier(name, *annotations):
    return f'<TIER TIER_ID="{name}" LINGUISTIC_TYPE_REF="t">{"".join(annotations)}</TIER>'


def test_eaf_slots_without_a_value_lie_evenly_between_their_neighbours():
    slots = slot(1, 0) + slot(2) + slot(3) + slot(4, 900)
    back = read(
        eaf(
            tier(
                "phones",
                aligned_annotation(1, 1, 2, "a"),
                aligned_annotation(2, 2, 3, "b &amp; c"),
                aligned_annotation(3, 3, 4, ""),
            ),
            slots,
        ).encode()
    )
    assert entries(back) == [(0, 0.3, "a"), (0.3, 0.6, "b & c"), (0.6, 0.9, "")]
    assert codes(back) == ["slots-interpolated"]


def test_eaf_annotations_that_refer_to_others():
    words = tier("words", aligned_annotation(1, 1, 2, "ab"), aligned_annotation(2, 2, 3, "c"))
    phones = tier("segs", referring(3, 1, "a"), referring(4, 1, "b"), referring(5, 2, "c"))
    gloss = tier("gloss", referring(6, 4, "B"), referring(7, 99, "lost"), referring(8, 8, "circle"))
    back = read(eaf(gloss + phones + words, slot(1, 100) + slot(2, 300) + slot(3, 400)).encode())
    assert entries(back, "segs") == [(0.1, 0.2, "a"), (0.2, 0.3, "b"), (0.3, 0.4, "c")]
    assert entries(back, "gloss") == [(0.2, 0.3, "B")]
    assert codes(back) == ["annotations-unaligned"]


def test_eaf_time_origin_is_added():
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="a.mpg" MIME_TYPE="video/mpeg" TIME_ORIGIN="7"/>'
    media += '<MEDIA_DESCRIPTOR MEDIA_URL="a.wav" MIME_TYPE="audio/x-wav" TIME_ORIGIN="2500"/>'
    back = read(eaf(tier("phones", aligned_annotation(1, 1, 2, "a")), slot(1, 0) + slot(2, 500), media).encode())
    assert entries(back) == [(2.5, 3.0, "a")]
    assert codes(back) == ["time-origin"]
    assert "2500 ms" in back.notices[0].message


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE a SYSTEM "http://localhost/a.dtd">',
    ],
)
def test_eaf_with_a_document_type_is_refused(doctype):
    data = eaf(tier("phones", aligned_annotation(1, 1, 2, "&x;")), slot(1, 0) + slot(2, 500)).replace(
        "<ANN", doctype + "<ANN", 1
    )
    with pytest.raises(AnnotationSyntaxError, match="line 2: expected XML without a document type"):
        read(data.encode())


def test_eaf_errors_have_their_line():
    good = eaf("\n" + tier("phones", aligned_annotation(1, 1, 2, "a")), "\n" + slot(1, 0) + "\n" + slot(2, 500))
    with pytest.raises(AnnotationSyntaxError, match=r"line 5: expected XML, got mismatched tag"):
        read(good.replace("</TIER>", "</TEAR>").encode())
    with pytest.raises(
        AnnotationSyntaxError, match=r"line 4: expected a TIME_SLOT with an id and a time in milliseconds"
    ):
        read(good.replace('"500"', '"half"').encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: x.replace("<HEADER>", "<HEADER><!-- <TIER> -->"),
        lambda x: x.replace(" TIME_SLOT_REF1", "  TIME_SLOT_REF1"),
    ],
)
def test_eaf_in_other_spellings_is_the_same(change):
    words = tier(
        "words",
        aligned_annotation(1, 1, 2, "ab"),
        aligned_annotation(2, 2, 3, "]]"),
        aligned_annotation(3, 3, 9, "lost"),
    )
    body = words + tier("segs", referring(4, 1, "a"), referring(5, 1, "b")) + tier("empty")
    data = eaf(body, slot(1, 100) + slot(2, 300) + slot(3, 400))
    back = read(change(data).encode())
    assert [(t.name, len(t.entries)) for t in back.tiers] == [("words", 2), ("segs", 2), ("empty", 0)]
    assert entries(back, "words") == [(0.1, 0.3, "ab"), (0.3, 0.4, "]]")]
    assert entries(back, "segs") == [(0.1, 0.2, "a"), (0.2, 0.3, "b")]


def test_eaf_inside_a_comment_is_no_annotation():
    data = eaf(
        tier("words", aligned_annotation(1, 1, 2, "a"), f"<!-- {aligned_annotation(2, 1, 2, 'b')} -->"),
        slot(1, 0) + slot(2, 300),
    )
    assert entries(read(data.encode())) == [(0, 0.3, "a")]


def test_eaf_in_utf_16():
    data = eaf(tier("phones", aligned_annotation(1, 1, 2, "ə")), slot(1, 0) + slot(2, 500)).replace("UTF-8", "UTF-16")
    assert entries(read(data.encode("utf-16"))) == [(0, 0.5, "ə")]


# JSON, Label Studio


@pytest.mark.parametrize(
    "data",
    [
        b'[{"start": 0, "end": 0.5, "label": "a"}, {"start": 0.5, "end": 1, "label": null}]',
        b'{"segments": [[0, 0.5, "a"], [0.5, 1]]}',
        b'{"tiers": [{"name": "phones", "entries": [{"start": 0.0, "end": 0.5, "label": "a"},'
        b'{"begin": 0.5, "stop": 1, "text": null}]}]}',
        b'{"start": 0, "end": 1, "tiers": {"phones": {"type": "interval", "entries": [[0, 0.5, "a"], [0.5, 1]]}}}',
    ],
)
def test_json_in_its_spellings(data):
    back = read(data)
    assert back.format == "json"
    assert entries(back) == [(0, 0.5, "a"), (0.5, 1, None)]


def test_json_of_an_answer_keeps_what_was_given():
    back = read(b'{"segments": [{"start": 0.0, "end": 0.5, "label": "a", "posterior": 0.75, "given": "e"}]}')
    assert [(t.name, t.entries[0].label) for t in back.tiers] == [
        ("segments", "e"),
        ("segments phonechain", "a"),
        ("segments posterior", "0.7500"),
    ]


@pytest.mark.parametrize(
    ("data", "pointer", "message"),
    [
        (b'{"segments": [{"start": 0}]}', "segments/0", 'expected "end", got the keys'),
        (b'{"segments": [{"start": 0, "end": "1"}]}', "segments/0/end", "a time in seconds, got '1'"),
        (b'{"segments": [{"start": 0, "end": true}]}', "segments/0/end", "a time in seconds"),
        (b'{"segments": [{"start": 0, "end": 1e999}]}', "segments/0/end", "a time in seconds"),
        (b'{"segments": [[0, 1, 5]]}', "segments/0/label", "a label as text or null, got '5'"),
        (b'{"segments": 5}', "segments", "expected \"segments\" as a list, got '5'"),
        (b'{"tiers": [{"name": "a"}]}', "tiers/0/entries", "as a list, got nothing"),
        (b'{"segments": [{"start": NaN, "end": 1}]}', None, "expected JSON, got 'NaN'"),
        (b'{"segments":\n [}', "line 2", "line 2: expected JSON"),
        (b"[" * 100_000, None, "nesting"),
        (b"[" + b"9" * 5000 + b"]", None, "expected"),
    ],
)
def test_json_errors_say_where(data, pointer, message):
    with pytest.raises(AnnotationSyntaxError, match=message) as caught:
        read(data)
    assert caught.value.pointer == pointer


def test_json_of_something_else():
    with pytest.raises(UnrecognisedAnnotation, match='expected "tiers" or "segments", got the keys \'pitch\''):
        read(b'{"pitch": [1, 2]}')


def test_label_studio_export():
    def region(control, kind, start, end, text):
        value = {"start": start, "end": end, "channel": 0, kind: [text]}
        return {"value": value, "from_name": control, "to_name": "audio", "original_length": 1.5}

    regions = [
        region("phones", "labels", 0.5, 1, "b"),
        region("phones", "labels", 0, 0.5, "a"),
        region("words", "text", 0, 1, "ab"),
        {"type": "choices", "value": {"choices": ["good"]}, "from_name": "quality"},
    ]
    task = {
        "data": {"audio": "/data/upload/1/0a1b2c3d-one.wav"},
        "annotations": [{"was_cancelled": True, "result": []}, {"result": regions}],
    }
    back = read(json.dumps([task]).encode(), utterance="one")
    assert back.format == "label-studio"
    assert back.end == 1.5
    assert [t.name for t in back.tiers] == ["phones", "words"]
    assert entries(back) == [(0, 0.5, "a"), (0.5, 1, "b")]


def test_label_studio_reduced():
    back = read(
        b'[{"audio": "/data/one.wav", "id": 1, "label": [{"start": 0, "end": 0.5, "channel": 0, "labels": ["a"]}]}]'
    )
    assert (back.format, entries(back)) == ("label-studio", [(0, 0.5, "a")])


# All of them


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_label_or_none_never_breaks_a_writer(name):
    tier = Tier("phones", "interval", [Segment(0.0, 0.5, None), Segment(0.5, 1.0, "")])
    back = read(write(Annotation([tier], "json"), name), format=name)
    assert all(not s.label for s in choose_tier(back)[0].entries)


def test_formats_are_named_and_titled():
    assert all(
        name == f.name and f.title and f.media_type and all(s[0] in "._" for s in f.suffixes)
        for name, f in FORMATS.items()
    )
    with pytest.raises(AnnotationError, match="one of the formats textgrid"):
        write(Annotation([], "json"), "docx")


def test_too_large_a_file_is_refused_before_it_is_read():
    with pytest.raises(AnnotationError, match=r"at most 64 MB, got 64\.0 MB"):
        read(b"0.0\t1.0\ta\n" * (64 * 2**20 // 10 + 1))


@pytest.mark.parametrize("name", FORMATS)
def test_too_many_intervals_are_refused(name, monkeypatch):
    many = Tier("phones", "interval", [Segment(i / 10, (i + 1) / 10, "a") for i in range(300)])
    data = write(Annotation([many], "json"), name)
    monkeypatch.setattr(base, "MAX_ENTRIES", 100)
    with pytest.raises(AnnotationSyntaxError, match="at most 100 intervals"):
        read(data, format=name)


def test_too_many_tiers_are_refused():
    with pytest.raises(AnnotationError, match="at most 1000 tiers, got 1001"):
        read(b"start,end" + b",x" * 1001 + b"\n0,1" + b",a" * 1001 + b"\n")
    assert len(read(b"start,end" + b",x" * 1000 + b"\n0,1" + b",a" * 1000 + b"\n").tiers) == 1000


def test_what_no_text_file_can_hold_is_replaced():
    back = read(b'{"tiers": [{"name": "a\\u0000", "entries": [[0, 1, "\\ud800"], [1, 2, "\\ud83d\\ude00"]]}]}')
    assert back.tiers == [Tier("a\ufffd", "interval", [Segment(0, 1, "\ufffd"), Segment(1, 2, "😀")])]


def test_a_line_of_more_levels_than_tiers_are_allowed_is_refused_by_its_line():
    with pytest.raises(AnnotationSyntaxError, match="line 2: expected at most 1000 levels, got 4000"):
        read(b"0 1000000 a\n1000000 2000000" + b" b 1" * 2000 + b"\n", format="htk")
    assert len(read(b"0 1000000" + b" b 1" * 900 + b"\n", format="htk").tiers) == 901


# ELAN, in what its own spelling leaves to the parser


EAF = (
    "<ANNOTATION_DOCUMENT><TIME_ORDER>{slots}</TIME_ORDER>"
    '<TIER TIER_ID="phones">{annotations}</TIER></ANNOTATION_DOCUMENT>'
)
SLOTS = '<TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="b" TIME_VALUE="100"/>'
ALIGNED = (
    '<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="x" TIME_SLOT_REF1="a" TIME_SLOT_REF2="{}">'
    "<ANNOTATION_VALUE>{}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>"
)


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        (ALIGNED.format("b", "s"), ["s"]),
        (ALIGNED.format("b", 's"&gt;'), ['s">']),
        (ALIGNED.format("b", "s") + ALIGNED.format("gone", "t"), ["s"]),
        ("<!--" + ALIGNED.format("b", "hidden") + "-->" + ALIGNED.format("b", "s"), ["s"]),
        ("<![CDATA[" + ALIGNED.format("b", "hidden") + "]]>" + ALIGNED.format("b", "s"), ["s"]),
        (ALIGNED.format("b", "<![CDATA[<s>]]>"), ["<s>"]),
    ],
)
def test_eaf_hides_nothing_and_loses_nothing(annotations, labels):
    back = read(EAF.format(slots=SLOTS, annotations=annotations).encode(), format="eaf")
    assert [s.label for s in back.tiers[0].entries] == labels


# Names


def test_a_name_means_the_format_that_is_called_so():
    names = {
        "a.json": "json",
        "a.csv": "csv",
        "a.TextGrid": "textgrid",
        "a.lab": "htk",
        "a.mlf": "mlf",
        "a.phn": "timit",
    }
    assert {name: form.name for name in names if (form := format_of(name)) is not None} == names
    assert format_of("a.pdf") is None


def test_an_mlf_names_its_recording():
    one = Annotation([Tier("phones", "interval", [Segment(0, 0.1, "a")])], "json")
    data = mlf.write(one, 'take "2".a')
    assert list(read_all(data)) == ["take _2_.a"]
    assert entries(read(data, utterance="take _2_.a")) == [(0, 0.1, "a")]
    with pytest.raises(AnnotationError, match="recording named 'b'"):
        read(data, utterance="b")
    # The name that stands for any is taken for whatever is asked for.
    assert entries(read(mlf.write(one), utterance="b")) == [(0, 0.1, "a")]


@pytest.mark.parametrize("name", ["sa1.TXT", "sa1.txt", None])
def test_a_sentence_file_of_timit_is_one_interval_in_samples(name):
    read_back = read(b"0 46797 She had your dark suit in greasy wash water all year.\n", name=name, rate=16000)
    assert read_back.format == "timit"
    assert entries(read_back) == [(0, 2.924812, "She had your dark suit in greasy wash water all year.")]
    assert [t.name for t in read_back.tiers] == ["sentence"]


@pytest.mark.parametrize("line", [b"0 1000000 a 0.5 b 0.25 c\n", b"0 46797 sil 1 2\n", b"5 46797 one two three\n"])
def test_a_line_with_levels_is_no_sentence(line):
    assert read(line, name="a.txt").tiers[0].name != "sentence"


@pytest.mark.parametrize("name", ["w\rx", "w\nx", "w\r\nx", 'a "b", c'])
@pytest.mark.parametrize("wide", [True, False])
def test_csv_quotes_every_line_end(name, wide):
    """Python's csv writes a carriage return as it is, and a reader takes it for the end of the line."""
    tiers = [Tier(name, "interval", [Segment(0, 1, name)]), Tier("z", "interval", [Segment(0, 1 if wide else 2, "b")])]
    back = read(write(Annotation(tiers, "csv"), "csv"), format="csv")
    kept = name.replace("\r\n", "\n").replace("\r", "\n")
    assert [(t.name, [s.label for s in t.entries]) for t in back.tiers] == [(kept, [kept]), ("z", ["b"])]
