"""Dictionaries in the formats that people have."""

import pytest

from phonechain.features.errors import AnnotationSyntaxError, SettingsError
from phonechain.features.words import dictionary


def phones(found):
    return [" ".join(p.phones) for p in found]


def test_cmudict_is_there_with_its_variants_and_its_notice():
    english = dictionary.english()
    assert len(english) > 125_000
    assert phones(english.lookup("Tomato")) == ["T AH0 M EY1 T OW2", "T AH0 M AA1 T OW2"]
    assert "don’t" in english
    assert "xyzzyq" not in english
    assert english.lookup("xyzzyq") == []
    assert len(english.phones()) == 69
    notice = (dictionary.resources.files("phonechain.features") / "words" / "cmudict.LICENSE").read_text()
    assert "Carnegie Mellon University. All rights reserved" in notice


def test_all_layouts_of_a_line():
    text = (
        "\ufeffhello h @ l o\nHELLO\t0.8\th e l o\n;;; a comment\nworld 0.9 0.2 1.1 0.95 w 3: l d\n"
        "world(2) w o l d\n\ncafé k a f e\n"
    )
    found = dictionary.read(text.encode())
    assert phones(found.lookup("Hello")) == ["h @ l o", "h e l o"]
    assert [p.probability for p in found.lookup("hello")] == [1.0, 0.8]
    assert phones(found.lookup("world")) == ["w 3: l d", "w o l d"]
    assert [p.probability for p in found.lookup("world")] == [0.9, 1.0]
    assert phones(found.lookup("cafe\u0301")) == ["k a f e"]
    assert found.phones() >= {"3:", "@"}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("word\n", AnnotationSyntaxError, "line 1: expected phones after 'word'"),
        ("a b\nword 0.5\n", AnnotationSyntaxError, "line 2: expected phones after 'word'"),
        ("word 3 a b\n", AnnotationSyntaxError, "probability above 0 and up to 1 for 'word', got 3"),
        ("\n# nothing\n", SettingsError, "expected words and their phones, got none"),
    ],
)
def test_what_is_no_dictionary_is_refused_with_its_line(text, error, message):
    with pytest.raises(error, match=message):
        dictionary.read(text.encode(), name="mine.dict")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match=r"expected a dictionary file, got mine\.dict: No such file"):
        dictionary.read(tmp_path / "mine.dict")
