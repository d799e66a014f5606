"""What recognisers, aligners and corpus tools leave: read as each of them means it. The samples are written by hand."""

import json
from itertools import pairwise

import pytest

from phonechain.features.annotation import (
    Annotation,
    Tier,
    choose_tier,
    format_named,
    format_of,
    read,
    read_all,
    stem_of,
    write,
)
from phonechain.features.annotation import emu as emu_format
from phonechain.features.errors import AnnotationError, AnnotationSyntaxError
from phonechain.features.segments import Segment


def tiers(annotation):
    return {t.name: [(s.start, s.end, s.label) for s in t.entries] for t in annotation.tiers}


def codes(annotation):
    return [n.code for n in annotation.notices]


# ------------------------------------------------------------------------------------------------------------- Gentle

GENTLE = {
    "transcript": "in being there",
    "words": [
        {
            "alignedWord": "in", "case": "success", "start": 0.1, "end": 0.24, "word": "In",
            "phones": [{"duration": 0.08, "phone": "ih_B"}, {"duration": 0.06, "phone": "n_E"}],
        },
        {"case": "not-found-in-audio", "word": "being"},
        {"alignedWord": "<unk>", "case": "success", "start": 0.5, "end": 0.9, "word": "there",
         "phones": [{"duration": 0.4, "phone": "oov_S"}]},
    ],
}  # fmt: skip


def test_gentle():
    found = read(json.dumps(GENTLE).encode(), name="a.json")
    assert found.format == "gentle"
    assert tiers(found) == {
        "words": [(0.1, 0.24, "In"), (0.5, 0.9, "there")],
        "phones": [(0.1, 0.18, "ih_B"), (0.18, 0.24, "n_E"), (0.5, 0.9, "oov_S")],
    }
    assert [n.message for n in found.notices] == [
        "1 of 3 words were not found in the sound and have no times, the first 'being'"
    ]


@pytest.mark.parametrize(
    ("word", "pointer"),
    [
        (7, "words/0"),
        ({"case": "success", "word": "a", "start": "x", "end": 1}, "words/0/start"),
        ({"case": "success", "word": "a", "start": 0, "end": 1, "phones": 3}, "words/0/phones"),
        (
            {"case": "success", "word": "a", "start": 0, "end": 1, "phones": [{"phone": "a"}]},
            "words/0/phones/0/duration",
        ),
    ],
)
def test_gentle_that_is_damaged(word, pointer):
    data = json.dumps({"words": [word], "transcript": '"case"'}).encode()
    with pytest.raises(AnnotationSyntaxError) as caught:
        read(data, format="gentle")
    assert caught.value.pointer == pointer


# ------------------------------------------------------------------------------------------------------------ Whisper

WHISPERX = {
    "segments": [
        {
            "start": 0.0, "end": 0.41, "text": " in being",
            "words": [
                {"word": "in", "start": 0.0, "end": 0.14, "score": 0.9},
                {"word": "2014", "score": 0.1},
                {"word": "being", "start": 0.14, "end": 0.41, "score": 0.85},
            ],
            "chars": [
                {"char": "i", "start": 0.0, "end": 0.08, "score": 0.8}, {"char": "n", "start": 0.08, "end": 0.14, "score": 1},
                {"char": " "}, {"char": "b", "start": 0.14, "end": 0.2, "score": 0.5}, {"char": "?"},
            ],
        }
    ],
    "word_segments": [], "language": "en",
}  # fmt: skip


def test_whisperx_words_and_characters():
    found = read(json.dumps(WHISPERX).encode(), name="a.json")
    assert found.format == "whisper"
    assert tiers(found) == {
        "words": [(0.0, 0.14, "in"), (0.14, 0.41, "being")],
        "words score": [(0.0, 0.14, "0.9000"), (0.14, 0.41, "0.8500")],
        "characters": [(0.0, 0.08, "i"), (0.08, 0.14, "n"), (0.14, 0.2, "b")],
        "characters score": [(0.0, 0.08, "0.8000"), (0.08, 0.14, "1.0000"), (0.14, 0.2, "0.5000")],
        "utterances": [(0.0, 0.41, "in being")],
    }
    assert [n.message for n in found.notices] == ["2 words or characters have no times and were left out"]
    assert choose_tier(found)[0].name == "characters"


def test_whisper_with_probabilities_of_words():
    segment = {"id": 0, "start": 0.0, "end": 1.0, "text": " Hi.", "words": [
        {"word": " Hi.", "start": 0.1, "end": 0.6, "probability": 0.75}]}  # fmt: skip
    found = read(json.dumps({"text": " Hi.", "segments": [segment], "language": "en"}).encode())
    assert tiers(found)["words"] == [(0.1, 0.6, "Hi.")]
    assert tiers(found)["words score"] == [(0.1, 0.6, "0.7500")]


def test_an_answer_of_our_own_is_not_taken_for_one():
    answer = {"segments": [{"start": 0.0, "end": 0.1, "label": "words", "posterior": 0.5}], "tier": "words"}
    assert read(json.dumps(answer).encode()).format == "json"


# ------------------------------------------------------------------------------------------------------------- aeneas


def test_aeneas_levels():
    children = [
        {"begin": "0.000", "end": "0.500", "id": "f1w1", "lines": ["From"], "children": []},
        {"begin": "0.500", "end": "1.250", "id": "f1w2", "lines": ["fairest"], "children": []},
    ]
    value = {"fragments": [
        {"begin": "0.000", "end": "1.250", "id": "f1", "language": "eng", "lines": ["From", "fairest"], "children": children},
        {"begin": "1.250", "end": "2.000", "id": "f2", "language": "eng", "lines": ["creatures"], "children": []},
    ]}  # fmt: skip
    found = read(json.dumps(value).encode(), name="map.json")
    assert tiers(found) == {
        "fragments": [(0.0, 1.25, "From fairest"), (1.25, 2.0, "creatures")],
        "fragments 2": [(0.0, 0.5, "From"), (0.5, 1.25, "fairest")],
    }
    broken = json.dumps(value).replace("1.250", "late", 1).encode()
    with pytest.raises(AnnotationSyntaxError, match="expected a time at fragments/0/end as a number, got 'late'"):
        read(broken)


# ---------------------------------------------------------------------------------------------------------------- EMU

EMU = {
    "name": "s", "annotates": "s.wav", "sampleRate": 1000,
    "levels": [
        {"name": "Utterance", "type": "ITEM", "items": [{"id": 9, "labels": [{"name": "Utterance", "value": ""}]}]},
        {"name": "Word", "type": "ITEM", "items": [
            {"id": 7, "labels": [{"name": "Word", "value": "C"}, {"name": "Text", "value": "in"}]},
            {"id": 8, "labels": [{"name": "Word", "value": "C"}, {"name": "Text", "value": "lost"}]},
        ]},
        {"name": "Phonetic", "type": "SEGMENT", "items": [
            {"id": 1, "sampleStart": 100, "sampleDur": 79, "labels": [{"name": "Phonetic", "value": "I"}]},
            {"id": 2, "sampleStart": 180, "sampleDur": 59, "labels": [{"name": "Phonetic", "value": "n"}]},
        ]},
        {"name": "Tone", "type": "EVENT", "items": [{"id": 3, "samplePoint": 150, "labels": [{"name": "Tone", "value": "H*"}]}]},
    ],
    "links": [{"fromID": 9, "toID": 7}, {"fromID": 7, "toID": 1}, {"fromID": 7, "toID": 2}],
}  # fmt: skip


def test_emu_levels_and_links():
    found = read(json.dumps(EMU).encode(), name="s_annot.json")
    assert tiers(found) == {
        "Utterance": [(0.1, 0.24, "")],
        "Word": [(0.1, 0.24, "C")],
        "Word Text": [(0.1, 0.24, "in")],
        "Phonetic": [(0.1, 0.18, "I"), (0.18, 0.24, "n")],
        "Tone": [(0.15, 0.15, "H*")],
    }
    assert [t.kind for t in found.tiers] == ["interval"] * 4 + ["point"]
    assert codes(found) == ["annotations-unaligned"]
    assert choose_tier(found)[0].name == "Phonetic"


def test_links_in_a_circle_end():
    value = {**EMU, "links": [{"fromID": 7, "toID": 9}, {"fromID": 9, "toID": 7}, {"fromID": 7, "toID": 1}] * 50}
    assert "Word" in tiers(read(json.dumps(value).encode()))


def test_emu_is_written_at_the_rate_of_the_sound():
    phones = Tier("phones", "interval", [Segment(0.0, 0.1, "a"), Segment(0.2, 0.3, "b")])
    tones = Tier("tones", "point", [Segment(0.25, 0.25, "H")])
    value = json.loads(write(Annotation([phones, tones], "json"), "emu", recording="s", rate=22050))
    assert (value["name"], value["annotates"], value["sampleRate"]) == ("s", "s.wav", 22050)
    items = value["levels"][0]["items"]
    assert [(i["sampleStart"], i["sampleDur"]) for i in items] == [(0, 2204), (2205, 2204), (4410, 2204)]
    assert all(a["sampleStart"] + a["sampleDur"] + 1 == b["sampleStart"] for a, b in pairwise(items))
    assert value["levels"][1]["items"] == [{"id": 4, "samplePoint": 5512, "labels": [{"name": "tones", "value": "H"}]}]
    overlapping = Tier("x", "interval", [Segment(0, 1, "a"), Segment(0.5, 2, "b")])
    with pytest.raises(AnnotationError, match="one after the other"):
        emu_format.write(Annotation([overlapping], "json"))


def test_the_suffix_of_emu():
    assert [f and f.name for f in map(format_of, ("x_annot.json", "annot.json"))] == ["emu", "json"]
    assert stem_of("a/b_annot.json") == "b"


# ---------------------------------------------------------------------------------------------------------- subtitles

SRT = """1
00:00:00,000 --> 00:00:00,140
in

2
00:00:00,140 --> 01:00:00,410 X1:40 X2:600
being
<i>there</i>

3
00:00:01,5 --> 00:00:02,000

"""
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE nothing --

intro
00:00.000 --> 00:01.400 align:start
<v Anna>fish &amp; <c.loud>chips</c>

01:00:00.000 --> 01:00:01.000
one<00:00:00.500><c> two</c>
"""


def test_srt():
    found = read(SRT.encode(), name="a.srt")
    assert tiers(found) == {"cues": [(0, 0.14, "in"), (0.14, 3600.41, "being there"), (1.5, 2.0, "")]}
    assert found.tiers[0].lines == [2, 6, 11]
    assert read(SRT.replace("\n", "\r\n").encode("utf-8-sig")).format == "srt"
    with pytest.raises(AnnotationSyntaxError, match="line 5: expected two times, got"):
        read(SRT.replace("\n\n2\n00:00:00,140 -->", "\n\n00:xx:00,140 -->").encode())


def test_vtt():
    found = read(VTT.encode(), name="a.vtt")
    assert found.format == "vtt"
    assert tiers(found)["Anna"] == [(0.0, 1.4, "fish & chips")]
    assert tiers(found)["cues"] == [(3600.0, 3601.0, "one two")]


def test_words_with_timestamps_inside_a_cue():
    text = "WEBVTT\n\n00:00.000 --> 00:01.000\none<00:00:00.500><c> two</c><00:00.750> three\n"
    assert tiers(read(text.encode()))["words"] == [(0.0, 0.5, "one"), (0.5, 0.75, "two"), (0.75, 1.0, "three")]


@pytest.mark.parametrize("form", ["vtt", "srt"])
def test_subtitles_are_written_as_they_are_read(form):
    odd = ["a<b", "& so", "", "3", "-->", "<i>"] if form == "vtt" else ["a<b", "& so", "", "3", "Zürich"]
    tier = Tier("cues", "interval", [Segment(i, i + 0.5, label) for i, label in enumerate(odd)])
    assert tiers(read(write(Annotation([tier], "json"), form)))["cues"] == [
        (s.start, s.end, s.label) for s in tier.entries
    ]
    with pytest.raises(AnnotationError, match="from 0 s on"):
        write(Annotation([Tier("t", "interval", [Segment(-1, 1, "a")])], "json"), form)


@pytest.mark.parametrize("label", ["-->", "<i>"])
def test_what_subrip_cannot_hold_is_refused(label):
    with pytest.raises(AnnotationError, match="can hold"):
        write(Annotation([Tier("t", "interval", [Segment(0, 1, label)])], "json"), "srt")


# --------------------------------------------------------------------------------------------------------------- RTTM

RTTM = b""";; a comment
SPKR-INFO a 1 <NA> <NA> <NA> adult_male anna <NA>
SPEAKER a 1 0.50 1.25 <NA> <NA> anna 0.9 <NA>
SPEAKER a 1 0.00 0.50 <NA> <NA> bob <NA> <NA>
LEXEME a 1 0.50 0.25 hello lex anna 0.5
SPEAKER b 2 0.00 1.00 <NA> <NA> cem <NA> <NA>
SPEAKER b 1 0.00 2.00 <NA> <NA> anna <NA> <NA>
"""


def test_rttm():
    found = read(RTTM, utterance="a")
    assert tiers(found) == {
        "speakers": [(0.0, 0.5, "bob"), (0.5, 1.75, "anna")],
        "speakers score": [(0.0, 0.5, ""), (0.5, 1.75, "0.9")],
        "words": [(0.5, 0.75, "hello")],
        "words score": [(0.5, 0.75, "0.5")],
    }
    assert found.channel is None
    second = read(RTTM, audio="b", channel=1)
    assert (tiers(second)["speakers"], second.channel) == ([(0.0, 1.0, "cem")], 1)
    assert list(read_all(RTTM)) == ["a", "b", "b 2"]
    with pytest.raises(AnnotationSyntaxError, match="line 2: expected a type"):
        read(RTTM[13:].replace(b"SPEAKER a 1 0.50", b"SPOKEN a 1 0.50"))


# ------------------------------------------------------------------------------------------------------------- lhotse

SUPERVISIONS = [
    {"id": "u1", "recording_id": "r1", "start": 0.5, "duration": 1.0, "channel": 0, "text": "in being", "speaker": "anna",
     "alignment": {"word": [["in", 0.5, 0.14, 0.9], ["being", 0.64, 0.27]], "phone": [["IH", 0.5, 0.08], ["N", 0.58, 0.06]]}},
    {"id": "u2", "recording_id": "r1", "start": 0.0, "duration": 0.25, "channel": 0, "speaker": "bob"},
    {"id": "u3", "recording_id": "r2", "start": 0.0, "duration": 1, "channel": 1, "text": "x"},
]  # fmt: skip


@pytest.mark.parametrize("lines", [True, False])
def test_lhotse_supervisions(lines):
    rows = [json.dumps(s) for s in SUPERVISIONS]
    data = ("\n".join(rows) if lines else "[" + ", ".join(rows) + "]").encode()
    found = read(data, name="supervisions.jsonl", audio="r1")
    assert tiers(found) == {
        "supervisions": [(0.0, 0.25, "bob"), (0.5, 1.5, "in being")],
        "words": [(0.5, 0.64, "in"), (0.64, 0.91, "being")],
        "words score": [(0.5, 0.64, "0.9000"), (0.64, 0.91, "")],
        "phones": [(0.5, 0.58, "IH"), (0.58, 0.64, "N")],
    }
    assert read_all(data)["r2"].channel == 1
    with pytest.raises(AnnotationError, match="which of 2 recordings"):
        read(data)


def test_a_damaged_line_of_supervisions_is_named():
    data = "\n".join([json.dumps(SUPERVISIONS[0]), '{"recording_id": "r1", ']).encode()
    with pytest.raises(AnnotationSyntaxError, match=r"^line 2: expected JSON"):
        read(data)


# ---------------------------------------------------------------------------------------- the Montreal Forced Aligner

MFA_CSV = b"Begin,End,Label,Type,Speaker\n0.0,0.14,in,words,anna\n0.0,0.08,IH0,phones,anna\n0.08,0.14,N,phones,anna\n"


def test_the_csv_of_mfa():
    assert tiers(read(MFA_CSV, name="a.csv")) == {
        "words": [(0.0, 0.14, "in")],
        "phones": [(0.0, 0.08, "IH0"), (0.08, 0.14, "N")],
    }
    two = MFA_CSV + b"0.2,0.3,AA,phones,bob\n"
    assert list(tiers(read(two, name="a.csv"))) == ["anna - words", "anna - phones", "bob - phones"]


def test_the_json_of_mfa():
    value = {"start": 0, "end": 0.14, "tiers": {
        "words": {"type": "interval", "entries": [[0.0, 0.14, "in"]]},
        "phones": {"type": "interval", "entries": [[0.0, 0.08, "IH0"], [0.08, 0.14, "N"]]},
    }}  # fmt: skip
    found = read(json.dumps(value).encode(), name="a.json")
    assert tiers(found) == {"words": [(0.0, 0.14, "in")], "phones": [(0.0, 0.08, "IH0"), (0.08, 0.14, "N")]}


@pytest.mark.parametrize(
    ("name", "form"), [("TextGrid", "textgrid"), (".EAF", "eaf"), ("phn", "timit"), ("nothing", None)]
)
def test_formats_are_found_by_the_names_that_people_give_them(name, form):
    found = format_named(name)
    assert (found.name if found else None) == form
