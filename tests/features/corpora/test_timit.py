"""TIMIT's layout, in a small tree of its exact containers."""

import numpy as np
import pytest
import soundfile

from phonechain.features import corpora
from phonechain.features.corpora import timit
from phonechain.features.errors import CorpusError
from phonechain.features.phones import sets as phones

PHN = "0 1600 h#\n1600 2400 sh\n2400 3000 q\n3000 4000 iy\n4000 4800 h#\n"
TREE = {
    "TRAIN/DR1/FCJF0/SI1027": PHN,
    "TRAIN/DR1/FCJF0/SA1": PHN,
    "TRAIN/DR8/MTCS0/SX262": PHN,
    "TEST/DR1/MDAB0/SI1039": PHN,  # a core test speaker
    "TEST/DR1/MDAB0/SA2": PHN,
    "TEST/DR1/FAKS0/SX43": PHN,  # a dev speaker
    "TEST/DR1/FJSJ9/SX44": PHN,  # neither
}


def make(root, *, lower=False, form="NIST", tree=None):
    for name, text in (TREE if tree is None else tree).items():
        for suffix, data in ((".PHN", text), (".WRD", "0 4800 she\n"), (".TXT", "0 4800 She.\n")):
            path = root / (name + suffix).lower() if lower else root / (name + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data)
        sound = root / (name + ".WAV").lower() if lower else root / (name + ".WAV")
        soundfile.write(sound, np.zeros(4800, dtype=np.int16), 16000, format=form)
    return root


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("form", ["NIST", "WAV"])
@pytest.mark.parametrize("above", ["", "TIMIT", "timit/data"])
def test_the_layout_in_either_case_and_container(tmp_path, lower, form, above):
    make(tmp_path / above, lower=lower, form=form)
    corpus = corpora.read(tmp_path)
    assert corpus.layout == "timit"
    assert [(u.id, u.speaker, u.split) for u in corpus.utterances] == [
        ("fcjf0_si1027", "fcjf0", "train"),
        ("mtcs0_sx262", "mtcs0", "train"),
        ("faks0_sx43", "faks0", "dev"),
        ("fjsj9_sx44", "fjsj9", "dev-rest"),
        ("mdab0_si1039", "mdab0", "test"),
    ]
    first = corpus.utterances[0]
    assert [(s.start, s.end, s.label) for s in first.segments] == [
        (0.0, 0.1, "h#"),
        (0.1, 0.15, "sh"),
        (0.1875, 0.25, "iy"),
        (0.25, 0.3, "h#"),
    ]
    assert soundfile.info(first.audio).format == ("NIST" if form == "NIST" else "WAV")
    assert [u.split for u in corpus.split("dev-full")] == ["dev", "dev-rest"]
    assert corpus.notices == []


def test_what_is_missing_is_told(tmp_path):
    messages = [p.message for p in corpora.read(make(tmp_path)).problems]
    assert messages == [
        "23 of the 24 speakers of the test set are not there: mwbt0, felc0, mtas1, mwew0, fpas0 and others",
        "49 of the 50 speakers of the dev set are not there: fdac1, fjem0, mgwt0, mjar0, mmdb1 and others",
        "expected 140173 segments in the train set (without q, as in the paper), got 8",
        "expected 50735 segments in the dev-full set (without q, as in the paper), got 8",
        "expected 7211 segments in the test set (without q, as in the paper), got 4",
    ]


def test_one_bad_file_is_one_problem(tmp_path):
    tree = {
        "TRAIN/DR1/FCJF0/SI1": PHN.replace("sh", "schwa"),
        "TRAIN/DR1/FCJF0/SI2": PHN.replace("2400 3000", "2400 x"),
        "TRAIN/DR1/FCJF0/SI3": PHN,
        "TEST/DR1/MDAB0/SI4": PHN,
    }
    make(tmp_path, tree=tree)
    (tmp_path / "TRAIN/DR1/FCJF0/SI3.WAV").unlink()
    corpus = timit.read(tmp_path)
    assert [u.id for u in corpus.utterances] == ["mdab0_si4"]
    assert [(p.file.name, p.line, p.message) for p in corpus.problems[:3]] == [
        ("SI1.PHN", 2, "expected one of TIMIT's 61 labels, got 'schwa'"),
        ("SI2.PHN", 3, "expected an end in samples as a number, got 'x'"),
        ("SI3.PHN", None, "has no sound beside it"),
    ]


def test_the_sound_with_both_suffixes(tmp_path):
    make(tmp_path)
    sound = tmp_path / "TRAIN/DR1/FCJF0/SI1027.WAV"
    sound.rename(sound.with_name("SI1027.WAV.wav"))
    assert timit.read(tmp_path).utterances[0].audio.name == "SI1027.WAV.wav"


def test_speaker_lists():
    sets = timit.speakers()
    assert list(sets.values()).count("test") == 24
    assert list(sets.values()).count("dev") == 50
    # Two men and one woman of each of the eight regions are in the core test set.
    assert sum(s.startswith("f") for s, name in sets.items() if name == "test") == 8
    assert timit.DROPPED in phones.load(timit.LABELS)


def test_another_layout(tmp_path):
    make(tmp_path, tree={"TRAIN/REGION/S/U": PHN, "TEST/REGION/S/U2": PHN})
    assert timit.find(tmp_path) is None
    assert corpora.read(tmp_path).layout == "folder"
    with pytest.raises(CorpusError, match="expected TIMIT's folders TRAIN and TEST with DR1 to DR8"):
        corpora.read(tmp_path, layout="timit")
