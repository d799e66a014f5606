"""Corpora as they lie about: which annotation belongs to which sound, and what stands in the way is said."""

import unicodedata

import pytest

from phonechain.features import corpora
from phonechain.features.annotation import Annotation, Tier, write
from phonechain.features.corpora.check import FEW_SEGMENTS, scarcity
from phonechain.features.errors import CorpusError
from phonechain.features.segments import Segment, Utterance
from tests.features.corpora.test_folder import LAB, make, messages

WORDS = b"the words that were said\n"


def tier(name, *labels, step=0.1):
    return Tier(name, "interval", [Segment(i * step, (i + 1) * step, label) for i, label in enumerate(labels)])


def grid(*tiers):
    return write(Annotation(list(tiers), "json"), "textgrid")


PHONES = grid(tier("phones", "a", "b", "c"))


def pairs(corpus):
    root = corpus.root
    return {u.audio.relative_to(root).as_posix(): u.annotation.relative_to(root).as_posix() for u in corpus.utterances}


@pytest.mark.parametrize("texts", [".lab", ".txt", None])
def test_the_layout_of_aligners(tmp_path, texts):
    """corpus/SPEAKER/u.wav with its words beside it, and the aligner's output in a tree of its own."""
    files = {}
    for speaker in "AB":
        files[f"corpus/{speaker}/u1.wav"] = b""
        files[f"aligned/{speaker}/u1.TextGrid"] = PHONES
        if texts:
            files[f"corpus/{speaker}/u1{texts}"] = WORDS
    corpus = corpora.read(make(tmp_path, files))
    assert pairs(corpus) == {
        "corpus/A/u1.wav": "aligned/A/u1.TextGrid",
        "corpus/B/u1.wav": "aligned/B/u1.TextGrid",
    }
    assert [(u.id, u.speaker) for u in corpus.utterances] == [("corpus/A/u1", "A"), ("corpus/B/u1", "B")]
    assert corpus.problems == []


@pytest.mark.parametrize(
    ("audio", "annotation"),
    [
        ("S1/raw/u.wav", "S1/marks/u.TextGrid"),
        ("raw16/S1/u.wav", "marks by hand/S1/u.TextGrid"),
        ("in/deep/S1/u.wav", "out/S1/u.TextGrid"),
        ("S1/u.wav", "out/v2/S1/u.TextGrid"),
        ("x/S1/day one/u.wav", "y/S1/day one/u.TextGrid"),
    ],
)
def test_the_longest_common_tail_pairs_whatever_the_folders_are_called(tmp_path, audio, annotation):
    files = {}
    for speaker in ("S1", "S2"):
        files[audio.replace("S1", speaker)] = b""
        files[annotation.replace("S1", speaker)] = PHONES
    corpus = corpora.read(make(tmp_path, files))
    assert pairs(corpus) == {audio: annotation, audio.replace("S1", "S2"): annotation.replace("S1", "S2")}


def test_an_annotation_of_a_lost_recording_is_not_given_to_another_speaker(tmp_path):
    files = {f"corpus/{s}/{u}.wav": b"" for s, u in ("A1", "A2", "B1")}
    files |= {f"aligned/{s}/{u}.TextGrid": PHONES for s, u in ("A1", "B1", "B2")}
    corpus = corpora.read(make(tmp_path, files))
    assert sorted(pairs(corpus)) == ["corpus/A/1.wav", "corpus/B/1.wav"]
    assert messages(corpus) == {
        "corpus/A/2.wav": (None, "this audio file has no annotation beside it"),
        "aligned/B/2.TextGrid": (None, "this annotation file has no audio beside it"),
    }


def test_an_annotation_that_fits_two_recordings_is_said(tmp_path):
    make(tmp_path, {"a/u.wav": b"", "b/u.wav": b"", "c/u.TextGrid": PHONES, "a/v.wav": b"", "a/v.lab": LAB})
    corpus = corpora.read(tmp_path)
    assert pairs(corpus) == {"a/v.wav": "a/v.lab"}
    assert messages(corpus)["c/u.TextGrid"][1].startswith(
        "this annotation file fits 2 recordings equally well (a/u.wav, b/u.wav) and was left out"
    )


def test_names_in_two_forms_of_unicode(tmp_path):
    composed, apart = (unicodedata.normalize(form, "zaṭṭə é") for form in ("NFC", "NFD"))
    make(tmp_path, {f"{composed}.wav": b"", f"{apart}.TextGrid": PHONES})
    make(tmp_path, {f"w/{apart}2.wav": b"", f"t/{composed}2.TextGrid": PHONES})
    corpus = corpora.read(tmp_path)
    assert len(corpus.utterances) == 2
    assert corpus.problems == []


def test_upper_and_lower_case_in_one_folder_stay_apart(tmp_path):
    make(tmp_path, {"w/a.wav": b"", "w/A.wav": b"", "t/a.TextGrid": PHONES, "t/A.TextGrid": PHONES})
    assert pairs(corpora.read(tmp_path)) == {"w/a.wav": "t/a.TextGrid", "w/A.wav": "t/A.TextGrid"}


def test_of_several_annotations_the_one_with_phones_is_taken_and_said(tmp_path):
    """The aligner takes TextGrids of utterances as input, too."""
    spoken = grid(tier("speaker", "said this", "and that", step=2.0))
    make(tmp_path, {"corpus/u.wav": b"", "corpus/u.TextGrid": spoken, "aligned/u.TextGrid": PHONES})
    corpus = corpora.read(tmp_path)
    assert pairs(corpus) == {"corpus/u.wav": "aligned/u.TextGrid"}
    (notice,) = (n for n in corpus.notices if n.code == "annotations-several")
    assert notice.message.endswith(
        "2 annotations of u.wav: took u.TextGrid with 3 labelled intervals of at most 0.5 s, not u.TextGrid (0)"
    )


def test_a_broken_annotation_beside_a_good_one_is_said(tmp_path):
    make(tmp_path, {"u.wav": b"", "u.TextGrid": PHONES[:-40], "u.lab": LAB})
    corpus = corpora.read(tmp_path)
    assert pairs(corpus) == {"u.wav": "u.lab"}
    assert [n.code for n in corpus.notices] == ["annotation-passed-over"]
    assert "took u.lab for u.wav, since u.TextGrid cannot be used: line 2" in corpus.notices[0].message


def test_a_file_whose_tier_holds_something_else_is_a_problem(tmp_path):
    words = tier("words", "in", "being", step=0.3)
    files = {f"{n}.wav": b"" for n in "abcd"}
    files |= {f"{n}.TextGrid": grid(words, tier("phones", "a", "b", "c")) for n in "ab"}
    files |= {"c.TextGrid": grid(words), "d.TextGrid": grid(tier("segs", "a", "c", "a"))}
    corpus = corpora.read(make(tmp_path, files))
    assert sorted(corpus.labels()) == ["a", "b", "c"]
    assert messages(corpus) == {
        "c.TextGrid": (
            None,
            "left out: segments taken from tier 'words', in 2 other files from 'phones', where none of its 2 labels occur "
            "(tier, --tier to use it)",
        )
    }
    (notice,) = (n for n in corpus.notices if n.code == "tier-differs")
    assert notice.message.endswith("d.TextGrid: segments taken from tier 'segs', in 2 other files from 'phones'")
    assert len(corpora.read(tmp_path, tier="words").utterances) == 3


def test_a_corpus_with_a_tier_for_each_speaker_is_whole(tmp_path):
    names = ("Ann", "Bob", "Cem")
    make(tmp_path, {f"{n}.wav": b"" for n in names} | {f"{n}.TextGrid": grid(tier(n, "a", n)) for n in names})
    corpus = corpora.read(tmp_path)
    assert (len(corpus.utterances), corpus.problems) == (3, [])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"u.wav": b"", "u.lab": WORDS, "v.wav": b"", "v.lab": WORDS},
            None,
        ),
        (
            {"u.wav": b"", "u.txt": WORDS, "v.wav": b"", "v.txt": WORDS},
            "; of 2 recordings with a file of the same name none has an annotation, u.txt: expected labels with their times",
        ),
        (
            {"a/u.wav": b"", "b/u.wav": b"", "c/u.lab": LAB},
            "; c/u.lab: this annotation file fits 2 recordings equally well",
        ),
    ],
)
def test_what_stood_in_the_way_is_said(tmp_path, files, message):
    make(tmp_path, files)
    if message is None:
        corpus = corpora.read(tmp_path)
        assert [p.message[:37] for p in corpus.problems] == ["expected labels with their times, got"] * 2
        return
    with pytest.raises(CorpusError) as caught:
        corpora.read(tmp_path)
    assert message in str(caught.value)
    assert "equal up to the suffix" not in str(caught.value)


def test_names_that_are_no_utf_8_are_read_and_told_in_ascii(tmp_path):
    for name in (b"caf\xe9", b"fine", b"br\xe9ak"):
        path = bytes(tmp_path) + b"/" + name
        with open(path + b".wav", "wb"), open(path + b".lab", "wb") as file:
            file.write(LAB if name != b"br\xe9ak" else b"0 1 a\n0 1 b\n")
    corpus = corpora.read(tmp_path)
    assert [u.id for u in corpus.utterances] == ["caf\\xe9", "fine"]
    assert all(u.audio.exists() for u in corpus.utterances)
    assert str(corpus.problems[0]).encode().startswith(bytes(tmp_path) + b"/br\\xe9ak.lab:2: ")


def test_zero_lengths_are_dropped_by_fix_and_said(tmp_path):
    make(tmp_path, {"u.wav": b"", "u.TextGrid": grid(Tier("phones", "interval", [
        Segment(0, 0.3, "a"), Segment(0.3, 0.3, "b"), Segment(0.3, 1, "a")]))})  # fmt: skip
    refused = corpora.read(tmp_path)
    assert refused.utterances == []
    (problem,) = refused.problems
    assert problem.message.endswith("Segments of zero length can be dropped (fix, --fix)")
    assert problem.each == ()
    fixed = corpora.read(tmp_path, fix=True)
    assert fixed.utterances[0].segments == [Segment(0, 0.3, "a"), Segment(0.3, 1, "a")]
    assert [n.message.partition(": ")[2] for n in fixed.notices if n.code == "segments-dropped"] == [
        "1 segment of zero length was dropped, the first segments[1] 'b' at 0.300 s"
    ]


def test_very_little_to_train_on_is_said(tmp_path):
    few = [Utterance("u", tmp_path / "u.wav", [Segment(i, i + 1, label) for i, label in enumerate("aaaaab")])]
    notice = scarcity(few)
    assert notice is not None
    assert "6 labelled segments in 1 recording, 1 of 2 labels fewer than 5 times" in notice.message
    assert scarcity(few * (FEW_SEGMENTS // 6 + 1)) is None


def test_of_several_files_of_many_recordings_the_one_with_phones_is_taken(tmp_path):
    make(tmp_path, {f"wav/{n}.wav": b"" for n in "ab"} | {
        "ali/words.ctm": b"a 1 0 .4 hey\nb 1 0 .4 you\n",
        "ali/phones.ctm": b"a 1 0 .1 x\na 1 .1 .1 y\nb 1 0 .1 z\nb 1 .1 .2 y\n"})  # fmt: skip
    corpus = corpora.read(tmp_path)
    assert corpus.labels() == {"y": 2, "x": 1, "z": 1}
    assert [n.code for n in corpus.notices] == ["annotations-several"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("all.rttm", b"LEXEME u 1 0 0.4 hey lex s1 <NA> <NA>\n"),
        ("all.jsonl", b'{"id": "1", "recording_id": "u", "start": 0, "duration": 0.4, "text": "hey"}\n'),
    ],
)
def test_lists_of_recordings_that_are_read_only(tmp_path, name, data):
    assert corpora.read(make(tmp_path, {"u.wav": b"", name: data})).labels() == {"hey": 1}


def test_a_name_that_keeps_the_suffix_of_the_sound(tmp_path):
    assert pairs(corpora.read(make(tmp_path, {"u.wav": b"", "u.wav.TextGrid": PHONES}))) == {"u.wav": "u.wav.TextGrid"}
