from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from phonechain.features.errors import PhoneSetError
from phonechain.features.phones import mapping, sets, twins, words
from phonechain.features.phones.comparison import LabelComparison, LabelSet, describe_steps
from phonechain.features.segments import Segment

ARPABET = tuple(sorted(sets.load("arpabet").labels))
TIMIT39 = tuple(sorted(sets.load("timit39").labels))
TIMIT61 = tuple(sorted(sets.load("timit61").labels))


def compare(given: str, labels: tuple[str, ...] = ARPABET, **more: Any) -> LabelComparison:
    return LabelSet(labels, **more).compare(given.split())


def as_text(found: LabelComparison, given: str) -> str:
    return " ".join(found.name_of(label) or "?" for label in given.split())


@pytest.mark.parametrize(
    ("given", "expected", "steps"),
    [
        ("IH N B IY", "IH N B IY", ()),
        ("IH1 N B IY0 AH0", "IH N B IY AH", ("stress",)),
        ("IH1_B N_I B_E SIL_S", "IH N B SIL", ("position", "stress")),
        ("ih n b iy", "IH N B IY", ("case",)),
        ("IH N sp B", "IH N SIL B", ("silence",)),
        ("IH1 N sp B spn", "IH N SIL B ?", ("stress", "silence")),
        ("ih n h# pau [SIL] <eps>", "IH N SIL SIL SIL SIL", ("case", "silence")),
        ("ɪ n tʃ əʊ ɾ", "IH N CH OW ?", ("ipa to arpabet",)),
        ("I n tS @U { D S", "IH N CH OW AE DH SH", ("xsampa to arpabet",)),
        ("ih n bcl b ix ax-h q h#", "IH N ? B IH AH ? SIL", ("timit to arpabet",)),
    ],
)
def test_the_folding_that_fits_the_file(given: str, expected: str, steps: tuple[str, ...]) -> None:
    found = compare(given)
    assert found.steps == steps
    assert as_text(found, given) == expected
    assert not found.merges
    assert found.unknown == {}


def test_every_spelling_of_all_39_phones_is_the_right_one() -> None:
    """A file with all of CMUdict's phones, in each of the sets, against a model of ARPAbet."""
    phones = [label for label in ARPABET if label != "SIL"]
    for spell in (
        lambda label: label + "1" if label[0] in "AEIOU" else label,
        lambda label: label + "_I",
        str.lower,
        lambda label: str(sets.fold(label, "arpabet", "ipa")),
    ):
        given = [spell(label) for label in phones]
        found = LabelSet(ARPABET).compare(given)
        assert [found.name_of(label) for label in given] == phones


def test_one_folding_serves_the_whole_file() -> None:
    """`S` in a file of X-SAMPA is SH, though a model of ARPAbet has an S."""
    assert compare("S i: t").name_of("S") == "SH"
    assert compare("S IY T").name_of("S") == "S"


@pytest.mark.parametrize(
    ("labels", "given", "expected"),
    [
        (("a", "b", "tʰ", "ʃ"), "a t_h S", "a tʰ ʃ"),
        (("a", "b", "t_h", "S"), "a tʰ ʃ", "a t_h S"),
        (("AH0", "AH1", "B"), "AH B", "AH0/AH1 B"),
        (("N_B", "N_I", "A_B"), "N A", "N_B/N_I A_B"),
        (("а", "б", "pau"), "а б sil", "а б pau"),
        (("k'", "g"), "kʼ ɡ", "k' g"),
        (TIMIT39, "AO1 ZH IY0 AH0 sp", "aa sh iy ah sil"),
        (TIMIT61, "ɪ iː ə", "ih/ix iy ah/ax/ax-h"),
        (TIMIT61, "IH1 sp", "ih h#/pau"),
    ],
)
def test_other_models(labels: tuple[str, ...], given: str, expected: str) -> None:
    assert as_text(compare(given, labels), given) == expected


def test_a_difference_that_the_model_makes_is_kept() -> None:
    """One `eː` is not worth the length of all the others; nor one `S` the case of the rest."""
    found = compare("a a aː aː eː", ("a", "aː", "e"))
    assert found.steps == ()
    assert found.unknown == {"eː": 1}
    assert compare("s s S S z Z", ("s", "S", "z")).unknown == {"Z": 1}


def test_what_is_unknown_is_counted_and_said() -> None:
    found = compare("IH0 XX XX YY spn sil")
    assert (found.known, found.unknown, found.unscored) == (
        {"IH0": 1, "sil": 1},
        {"XX": 2, "YY": 1},
        {"spn": 1},
    )
    messages = {notice.code: notice.message for notice in found.notices()}
    assert messages["labels-unknown"] == "3 of 6 given labels are unknown to the model: XX, YY"
    assert messages["labels-folded"].endswith("without stress, silence under any of its names (IH0 as IH, sil as SIL)")
    assert found.as_dict() == {
        "steps": ["stress", "silence"], "known": 2, "unknown": {"XX": 2, "YY": 1}, "unscored": {"spn": 1},
    }  # fmt: skip


def test_noise_is_unscored_unless_the_model_has_it() -> None:
    assert compare("IH spn").unscored == {"spn": 1}
    assert compare("IH spn", ("IH", "spn")).known == {"IH": 1, "spn": 1}
    assert compare("IH sil", ("IH", "N")).unscored == {"sil": 1}  # a model without silence


def test_nothing_is_said_of_labels_as_they_stand() -> None:
    assert compare("IH N").notices() == ()
    assert LabelSet(ARPABET).compare([None, None]).notices() == ()


def test_a_map_by_hand_comes_first() -> None:
    known = LabelSet(ARPABET).with_map({"PT": "P", "IH0": None})
    found = known.compare(["IH0", "IH1", "PT"])
    assert (found.name_of("PT"), found.name_of("IH0"), found.name_of("IH1")) == ("P", None, "IH")
    assert found.unscored == {"IH0": 1}
    with pytest.raises(PhoneSetError, match=r"expected a label of the model for 'PT'.*got 'p'"):
        LabelSet(ARPABET).with_map({"PT": "p"})


def test_a_folding_can_be_fixed() -> None:
    found = LabelSet(ARPABET, steps=("stress",)).compare(["IH0", "sp"])
    assert (found.steps, found.unscored) == (("stress",), {"sp": 1})


def test_labels_of_any_length_and_number_cost_little() -> None:
    """Strangers send them: long ones are not looked into, and of many kinds the most frequent choose."""
    labels = {f"{n}" + "ʰa_S:" * 2000: 1 for n in range(2000)} | {f"x{n}": 1 for n in range(20_000)} | {"IH1": 50_000}
    begun = time.process_time()
    found = LabelSet(ARPABET).compare(labels)
    assert time.process_time() - begun < 5
    assert (found.steps, found.known) == (("stress",), {"IH1": 50_000})
    assert len(found.unknown) == 22_000
    long = "a" * 100
    assert LabelSet((*ARPABET, long)).compare([long]).known == {long: 1}


def test_the_order_of_labels_does_not_matter() -> None:
    given = Counter(["IH1", "N", "sp", "ih", "B", "iy"])
    assert compare(" ".join(given)) == LabelSet(ARPABET).compare(dict(reversed(given.items())))


def test_a_folding_in_words() -> None:
    assert describe_steps(()) == "as they are"
    assert describe_steps(("stress", "timit to arpabet")) == "without stress, read from timit to arpabet"


# ---------------------------------------------------------------------------------------------------------------- maps


@pytest.mark.parametrize(
    "text", ['{"PT": "P", "x": "-", "y": null}', "PT\tP\nx\t-\n\n# a note\ny\t-\n", "\ufeffPT\tP\r\nx\t-\r\ny\t-"]
)
def test_maps_are_read(text: str) -> None:
    assert mapping.parse(text) == {"PT": "P", "x": None, "y": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PT P", "two tab-separated columns in line 1, got 1"),
        ("a\tb\na\tc", "each label once, got 'a' again in line 2"),
        ('{"a": 1}', "for 'a', got a value of type int"),
        ('{"a": "x", "a": "y"}', "each label once, got 'a' again"),
        ('{"a": ', "expected a JSON object"),
        ("a\t", "got an empty label"),
        ("a\t" + "b" * 300, "at most 200 characters"),
        ("{" * 100_000, "expected a JSON object"),
    ],
)
def test_maps_that_are_none(text: str, message: str) -> None:
    with pytest.raises(PhoneSetError, match=message):
        mapping.parse(text)


# --------------------------------------------------------------------------------------------------- words and twins


def tier(labels: str, seconds: float) -> list[Segment]:
    return [Segment(n * seconds, (n + 1) * seconds, label) for n, label in enumerate(labels.split())]


@pytest.mark.parametrize(
    ("labels", "seconds", "expected"),
    [
        ("being comparatively modern the earliest printed books", 0.3, True),
        ("the cat was sitting under a table yesterday", 0.25, True),
        ("wie geht es Ihnen heute Morgen", 0.3, True),
        ("IH1 N B IY1 IH0 NG K AH0 M P EH1 R", 0.3, False),  # slow, but no words
        ("being comparatively modern the earliest", 0.05, False),  # too short for words
        ("t͡ʃʰː k͡p ŋ͡m t̪ʰʲ aː ts", 0.2, False),
        ("sil sil silence pause noise", 0.4, False),
        ("hcl tcl ax-h h# axr eng bcl", 0.2, False),
        ("zh ang uang sh iang i", 0.2, False),  # initials and finals of Mandarin
        ("word", 0.4, False),  # one tells nothing
    ],
)
def test_words_are_told_from_phones(labels: str, seconds: float, expected: bool) -> None:
    assert words.looks_like_words(tier(labels, seconds)) is expected


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("words", "being in", True),
        ("A - Words", "comparatively", True),
        ("ORT-MAU", "being in", True),
        ("cues", "being in", True),
        ("swords", "being in", False),
        ("words", "IH N B IY IH NG", False),
        ("words", "sil", False),
        ("words", "", False),
    ],
)
def test_a_name_tells_where_there_are_few(name: str, labels: str, expected: bool) -> None:
    assert words.looks_like_words(tier(labels, 0.08), name) is expected


def test_a_label_of_several_words_is_no_phone() -> None:
    assert words.looks_like_words([Segment(0.0, 1.0, "in being"), Segment(1.0, 1.5, "sil")])


def test_twins() -> None:
    found = twins.twins(
        {"g": 90, "ɡ": 4, "k'": 3, "kʼ": 2, "e\u0303": 5, "ẽ": 1, "a\u200b": 1, "a": 70, "IH": 40, "ih": 2}
    )
    assert [set(t.labels) for t in found] == [
        {"e\u0303", "ẽ"},
        {"a\u200b", "a"},
        {"g", "ɡ"},
        {"k'", "kʼ"},
        {"IH", "ih"},
    ]
    assert "labels that may be one: a (70) and a\u200b [U+0061 U+200B] (1) differ in invisible characters" in (
        found[1].notice().message
    )


def test_labels_that_are_no_twins() -> None:
    assert twins.twins({"s": 50, "S": 40, "t": 3, "tʰ": 5, "a": 1, "aː": 1}) == []
    assert twins.twins({"s": 50, "S": 40, "t": 3}) == []


def test_in_arpabet_case_is_no_difference_and_stress_alone_no_slip() -> None:
    assert twins.twins({"AH0": 40, "AH1": 9, "AH2": 1, "IH1": 5, "IH": 5, "N": 20, "sil": 3}) == []
    found = twins.twins({"IH1": 30, "ih": 20, "N": 20, "n": 15, "AH0": 4, "AH1": 4, "ER0": 3, "er0": 3, "B": 1})
    assert [(set(t.labels), t.difference) for t in found] == [
        ({"IH1", "ih"}, "upper and lower case, and in stress"),
        ({"N", "n"}, "upper and lower case"),
        ({"ER0", "er0"}, "upper and lower case"),
    ]
    assert [set(t.labels) for t in twins.twins({"ih": 20, "IH": 20, "s": 9, "S": 9, "N": 3})] == [
        {"ih", "IH"},
        {"s", "S"},
    ]


def test_an_alike_spelling_is_told_once() -> None:
    found = twins.twins({"IH1": 3, "ih": 2, "IH1\u200b": 1})
    assert [t.difference[:9] for t in found] == ["invisible", "upper and"]
    assert set(found[1].labels) == {"IH1", "ih", "IH1\u200b"}
