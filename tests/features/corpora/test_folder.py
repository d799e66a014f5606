"""Audio beside annotations: what is paired, who speaks, which split, and what is told of the rest."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain.features import corpora
from phonechain.features.annotation import Annotation, Tier, write
from phonechain.features.audio.raw import RawFormat
from phonechain.features.corpora import table as tables
from phonechain.features.errors import CorpusError
from phonechain.features.segments import Segment

LAB = b"0 1000000 a\n1000000 3000000 b\n"
BAD = b"0 3000000 a\n2000000 4000000 b\n"  # overlapping


def make(root, files):
    """Files by path; sound is empty, since nothing here listens to it."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def messages(corpus):
    return {str(p.file.relative_to(corpus.root)): (p.line, p.message) for p in corpus.problems}


def test_pairs_by_path_without_suffix(tmp_path):
    make(tmp_path, {"b.wav": b"", "b.lab": LAB, "x/a.OGG": b"", "x/a.Lab": LAB, "x/notes.docx": b""})
    corpus = corpora.read(tmp_path)
    assert [(u.id, u.speaker, u.split) for u in corpus.utterances] == [("b", None, None), ("a", "x", None)]
    assert corpus.utterances[0].segments == [Segment(0, 0.1, "a"), Segment(0.1, 0.3, "b")]
    assert corpus.utterances[0].audio == tmp_path / "b.wav"
    assert corpus.utterances[0].annotation == tmp_path / "b.lab"
    assert corpus.problems == []
    assert corpus.labels() == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("path", "speaker", "split"),
    [
        ("train/s1/a", "s1", "train"),
        ("Valid/s1/a", "s1", "dev"),
        ("TEST/a", None, "test"),
        ("s1/a", "s1", None),
        ("region/s1/a", "s1", None),
        ("wav/train/s1/a", "s1", "train"),
        ("s1/train/a", "train", None),
        ("a", None, None),
    ],
)
def test_speaker_and_split_from_folders(tmp_path, path, speaker, split):
    make(tmp_path, {f"{path}.wav": b"", f"{path}.lab": LAB})
    (utterance,) = corpora.read(tmp_path).utterances
    assert (utterance.speaker, utterance.split) == (speaker, split)


def test_a_table_in_the_root_decides(tmp_path):
    make(tmp_path, {f"train/s1/{n}.wav": b"" for n in "abc"} | {f"train/s1/{n}.lab": LAB for n in "abc"})
    (tmp_path / "utterances.tsv").write_text(
        'utterance\tsplit\tspeaker\ttext\na\ttest\tanna\tsaid "a\nb.wav\tvalid\t\t\nzz\ttrain\tx\t\n'
    )
    corpus = corpora.read(tmp_path)
    assert [(u.id, u.speaker, u.split) for u in corpus.utterances] == [
        ("a", "anna", "test"),
        ("b", None, "dev"),
        ("c", None, None),
    ]
    assert corpus.splits() == {"test": 1, "dev": 1}
    assert corpus.speakers() == {"anna": 1}
    assert [u.id for u in corpus.split("dev")] == ["b"]
    assert [str(p) for p in corpus.problems] == [
        f"{tmp_path}/utterances.tsv:4: 1 row has no usable utterance, the first 'zz'",
        f"{tmp_path}/utterances.tsv: 1 utterance is in no row with a split and belong to none, the first 'c'",
    ]


def test_a_table_elsewhere_without_splits_leaves_them_to_the_folders(tmp_path):
    make(tmp_path / "c", {"train/a.wav": b"", "train/a.lab": LAB})
    table = tmp_path / "who.csv"
    table.write_text('file,Speaker\n"train/a.wav","Weiß, Anna"\n')
    (utterance,) = corpora.read(tmp_path / "c", table=table).utterances
    assert (utterance.speaker, utterance.split) == ("Weiß, Anna", "train")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name?,speaker\na,b\n", "a column 'utterance', 'id' or 'file', got name?, speaker"),
        ("", "got nothing"),
        ("\0\1\2", "binary data"),
    ],
)
def test_tables_that_are_none(tmp_path, text, message):
    make(tmp_path, {"a.wav": b"", "a.lab": LAB, "t.csv": text.encode()})
    with pytest.raises(CorpusError) as caught:
        corpora.read(tmp_path, table=tmp_path / "t.csv")
    assert message in str(caught.value)
    with pytest.raises(CorpusError, match="No such file"):
        tables.read(tmp_path / "none.tsv")


def test_one_bad_file_is_one_problem(tmp_path):
    good = write(Annotation([Tier("phones", "interval", [Segment(0, 1, "a")])], "json"), "textgrid")
    files = {f"{n}.wav": b"" for n in "abcdef"}
    files |= {
        "a.TextGrid": good,
        "b.TextGrid": good[:-30],
        "c.lab": BAD,
        "d.lab": b"",
        "e.lab": b"just some words\n",
        "f.lab": LAB,
    }
    corpus = corpora.read(make(tmp_path, files))
    assert [u.id for u in corpus.utterances] == ["a", "f"]
    problems = messages(corpus)
    assert problems["b.TextGrid"][0] == 17
    assert problems["b.TextGrid"][1].startswith("expected ")
    assert "segments[1] 'b': overlaps segments[0] 'a' by 0.100 s" in problems["c.lab"][1]
    assert "empty file" in problems["d.lab"][1]
    assert "text without times" in problems["e.lab"][1]


def test_fix_repairs_by_the_stated_rules(tmp_path):
    make(tmp_path, {"a.wav": b"", "a.lab": b"0 1050000 a\n1000000 3000000 b\n"})
    assert corpora.read(tmp_path).utterances == []
    corpus = corpora.read(tmp_path, fix=True)
    assert corpus.utterances[0].segments == [Segment(0, 0.1, "a"), Segment(0.1, 0.3, "b")]
    assert [n.code for n in corpus.notices] == ["segment-trimmed"]


def test_lone_files_are_counted_not_listed(tmp_path):
    files = {f"extra/{n}.flac": b"" for n in range(200)} | {f"more/{n}.lab": LAB for n in range(300, 350)}
    make(tmp_path, files | {"a.wav": b"", "a.lab": LAB, "one.mp3": b""})
    assert messages(corpora.read(tmp_path)) == {
        ".": (None, "201 audio files have no annotation beside it, the first extra/0.flac"),
        "more": (None, "50 annotation files have no audio beside it, the first more/300.lab"),
    }


def test_sound_and_annotations_in_trees_of_their_own(tmp_path):
    files = {f"wav/s{s}/one.wav": b"" for s in (1, 2)} | {f"TextGrid/s{s}/one.lab": LAB for s in (1, 2)}
    corpus = corpora.read(make(tmp_path, files | {"speech/late.wav": b"", "marks/late.lab": LAB}))
    found = [
        (u.id, u.speaker, u.annotation and u.annotation.relative_to(tmp_path).as_posix()) for u in corpus.utterances
    ]
    assert found == [
        ("late", "speech", "marks/late.lab"),
        ("wav/s1/one", "s1", "TextGrid/s1/one.lab"),
        ("wav/s2/one", "s2", "TextGrid/s2/one.lab"),
    ]
    assert corpus.problems == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("all.mlf", b'#!MLF!#\n"*/one.lab"\n0 1000000 a\n.\n"*/two.lab"\n0 2000000 b\n.\n"*/gone.lab"\n0 2000000 b\n.\n'),
        ("all.ctm", b"one 1 0.0 0.1 a\ntwo 1 0.0 0.2 b\n"),
        ("export.json", b'[{"audio": "/d/one.wav", "label": [{"start": 0, "end": 0.1, "labels": ["a"]}]},'
         b'{"audio": "/d/two.wav", "label": [{"start": 0, "end": 0.2, "labels": ["b"]}]}]'),
    ],
)  # fmt: skip
def test_one_file_that_annotates_many(tmp_path, name, data):
    corpus = corpora.read(make(tmp_path, {"s1/one.wav": b"", "s2/two.wav": b"", "three.wav": b"", name: data}))
    assert [(u.id, u.speaker, [s.label for s in u.segments]) for u in corpus.utterances] == [
        ("one", "s1", ["a"]),
        ("two", "s2", ["b"]),
    ]
    assert [p.file.name for p in corpus.problems] == ["three.wav"]


def test_a_transcript_or_table_beside_the_sound_is_passed_over(tmp_path):
    make(tmp_path, {"a.wav": b"", "a.lab": LAB, "a.txt": b"what was said\n", "b.wav": b"", "b.txt": b"what was said\n"})
    corpus = corpora.read(tmp_path)
    assert [u.id for u in corpus.utterances] == ["a"]
    assert corpus.problems == []


def test_the_better_of_two_annotations_is_taken(tmp_path):
    audacity = b"0.0\t0.5\tx\n"
    make(tmp_path, {"a.wav": b"", "a.txt": audacity, "a.lab": LAB, "b.wav": b"", "b.txt": audacity})
    corpus = corpora.read(tmp_path)
    assert [[s.label for s in u.segments] for u in corpus.utterances] == [["a", "b"], ["x"]]


def test_hidden_files_are_no_files(tmp_path):
    make(
        tmp_path,
        {"a.wav": b"", "a.lab": LAB, "._a.wav": b"", "._a.lab": b"\0\5\x16\7", ".git/b.wav": b"", ".git/b.lab": LAB},
    )
    corpus = corpora.read(tmp_path)
    assert len(corpus.utterances) == 1
    assert corpus.problems == []


def test_dropped_labels_and_one_spelling(tmp_path):
    def lab(label):
        return f"0 1000000 {label}\n1000000 3000000 +NSN+\n".encode()

    corpus = corpora.read(
        make(tmp_path, {"a.wav": b"", "a.lab": lab("\u00e3"), "b.wav": b"", "b.lab": lab("a\u0303")}), drop=["+NSN+"]
    )
    assert corpus.labels() == {"\u00e3": 2}


def test_samples_are_counted_at_the_rate_of_the_sound(tmp_path):
    make(tmp_path, {"a.phn": b"0 800 a\n800 1600 b\n", "b.phn": b"0 800 a\n800 1600 b\n", "b.wav": b"no sound"})
    soundfile.write(tmp_path / "a.wav", np.zeros(1600, dtype=np.float32), 8000)
    corpus = corpora.read(tmp_path)
    assert [u.segments[-1].end for u in corpus.utterances] == [0.2, 0.1]
    assert [n.code for n in corpus.notices] == ["rate-assumed"]
    assert corpus.notices[0].message.startswith(f"{tmp_path / 'b.phn'}: ")


def test_the_tier_can_be_said_and_a_guess_is_told_once(tmp_path):
    grid = Annotation(
        [Tier("words", "interval", [Segment(0, 1, "w")]), Tier("sounds", "interval", [Segment(0, 0.1, "p")])], "json"
    )
    make(tmp_path, {f"{n}.wav": b"" for n in "abc"} | {f"{n}.TextGrid": write(grid, "textgrid") for n in "abc"})
    corpus = corpora.read(tmp_path)
    assert corpus.labels() == {"p": 3}
    assert [n.message.split(",")[0] for n in corpus.notices] == ["3 files"]
    assert corpora.read(tmp_path, tier="words").labels() == {"w": 3}
    wrong = corpora.read(tmp_path, tier="wrods")
    assert wrong.utterances == []
    assert "is it 'words'?" in wrong.problems[0].message


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "got no audio file, no annotation file"),
        (
            {"a.wav": b"", "b.wav": b"", "c.docx": b""},
            "got 2 audio files (.wav), no annotation file, 1 other files (.docx)",
        ),
        ({"a.lab": LAB}, "got no audio file, 1 possible annotation files (.lab)"),
        (
            {"a.wav": b"", "b.lab": LAB},
            "names must be equal up to the suffix, as a.wav and a.TextGrid, not as a.wav and b.lab",
        ),
        ({"a.wav": b"", "a.txt": b"words"}, "got 1 audio files (.wav), 1 possible annotation files (.txt)"),
    ],
)
def test_a_folder_without_pairs_says_what_was_looked_for_and_found(tmp_path, files, message):
    make(tmp_path, files)
    with pytest.raises(CorpusError) as caught:
        corpora.read(tmp_path)
    assert "expected audio files beside annotation files of the same name" in str(caught.value)
    assert message in str(caught.value)


def test_what_is_no_folder(tmp_path):
    with pytest.raises(CorpusError, match="got no such path"):
        corpora.read(tmp_path / "none")
    make(tmp_path, {"a.lab": LAB})
    with pytest.raises(CorpusError, match="got a file"):
        corpora.read(tmp_path / "a.lab")
    with pytest.raises(CorpusError, match="expected one of the layouts folder, timit; got 'kaldi'"):
        corpora.read(tmp_path, layout="kaldi")


def test_progress_counts_every_recording(tmp_path):
    make(tmp_path, {f"{n}.wav": b"" for n in "abc"} | {f"{n}.lab": LAB for n in "ab"} | {"c.lab": BAD})
    seen = []
    corpora.read(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


SHARED = Path(os.environ.get("PHONECHAIN_SHARED", Path(__file__).parents[4] / "shared"))


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "data" / "speechocean762").is_dir(), reason="the corpora are not beside the checkout")
def test_speechocean762():
    corpus = corpora.read(SHARED / "data" / "speechocean762")
    assert corpus.splits() == {"train": 2497, "test": 2492}
    assert len(corpus.speakers()) == 250
    assert {u.speaker for u in corpus.split("train")}.isdisjoint(u.speaker for u in corpus.split("test"))
    assert {u.audio.suffix for u in corpus.utterances} == {".ogg"}
    assert len(corpus.labels()) == 41
    assert [p.message for p in corpus.problems] == [
        "208 audio files have no annotation beside it, the first flac/000030012.flac"
    ]


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "data" / "festvox-ru").is_dir(), reason="the corpora are not beside the checkout")
def test_festvox_ru():
    corpus = corpora.read(SHARED / "data" / "festvox-ru")
    assert (len(corpus.utterances), len(corpus.labels()), corpus.problems) == (620, 51, [])


def test_times_are_shifted_as_they_are_read(tmp_path):
    make(tmp_path, {"a.wav": b"", "a.lab": b"20000000 21000000 a\n21000000 23000000 b\n", "b.wav": b"", "b.lab": LAB})
    (a, b) = corpora.read(tmp_path, shift=-2).utterances[:1] + corpora.read(tmp_path, shift="start").utterances[1:]
    assert a.segments == b.segments == [Segment(0, 0.1, "a"), Segment(0.1, 0.3, "b")]
    with pytest.raises(CorpusError, match="layout timit"):
        corpora.read(tmp_path, layout="timit", shift=1)


def test_sound_without_a_header_has_the_format_given(tmp_path):
    """A TIMIT file counts in samples of the sound, which has no header to say their rate."""
    make(tmp_path, {"a.raw": b"", "a.phn": b"0 800 a\n800 2400 b\n", "b.wav": b"", "b.lab": LAB})
    one, two = corpora.read(tmp_path, raw=RawFormat(8000, "s16le")).utterances
    assert (one.raw, two.raw) == (RawFormat(8000, "s16le"), None)
    assert one.segments == [Segment(0, 0.1, "a"), Segment(0.1, 0.3, "b")]
    assert [u.id for u in corpora.read(tmp_path).utterances] == ["b"]
