from __future__ import annotations

import unicodedata

import pytest

from phonechain.features.errors import PhoneSetError
from phonechain.features.phones import sets as phones


@pytest.mark.parametrize(
    ("name", "size"), [("timit61", 61), ("timit48", 48), ("timit39", 39), ("arpabet", 40), ("ipa", 41)]
)
def test_sizes(name: str, size: int) -> None:
    labels = phones.load(name).labels
    assert len(labels) == len(set(labels)) == len(phones.load(name)) == size
    assert "-" not in labels


@pytest.mark.parametrize(
    ("label", "frm", "to", "expected"),
    [  # Lee and Hon (1989), tables 1 and 2, one of each kind
        ("ao", "timit61", "timit39", "aa"),
        ("ax-h", "timit61", "timit48", "ax"),
        ("ax-h", "timit61", "timit39", "ah"),
        ("axr", "timit61", "timit39", "er"),
        ("hv", "timit61", "timit39", "hh"),
        ("ix", "timit61", "timit48", "ix"),
        ("ix", "timit48", "timit39", "ih"),
        ("el", "timit48", "timit39", "l"),
        ("en", "timit61", "timit39", "n"),
        ("eng", "timit61", "timit39", "ng"),
        ("zh", "timit48", "timit39", "sh"),
        ("ux", "timit61", "timit39", "uw"),
        ("bcl", "timit61", "timit48", "vcl"),
        ("tcl", "timit61", "timit48", "cl"),
        ("epi", "timit61", "timit48", "epi"),
        ("pau", "timit61", "timit39", "sil"),
        ("h#", "timit61", "timit39", "sil"),
        ("q", "timit61", "timit39", None),
        ("AH0", "arpabet-stress", "arpabet", "AH"),
        ("AH", "arpabet-stress", "arpabet", "AH"),
        ("OY2", "arpabet-stress", "arpabet", "OY"),
        ("SP", "arpabet-stress", "arpabet", "SIL"),
        ("+NSN+", "arpabet-stress", "arpabet", None),
        ("spn", "arpabet-stress", "arpabet", None),
        ("AH0", "arpabet-stress", "ipa", "ə"),
        ("AH1", "arpabet-stress", "ipa", "ʌ"),
        ("ER0", "arpabet-stress", "ipa", "ɚ"),
        ("CH", "arpabet", "ipa", "tʃ"),
        ("SIL", "arpabet", "ipa", None),
        ("dʒ", "ipa", "arpabet", "JH"),
        ("ə", "ipa", "arpabet", "AH"),
        ("ZH", "arpabet", "timit39", "sh"),
        ("AO1", "arpabet-stress", "timit39", "aa"),  # through arpabet
        ("ɔ", "ipa", "timit39", "aa"),
    ],
)
def test_folding(label: str, frm: str, to: str, expected: str | None) -> None:
    assert phones.fold(label, frm, to) == expected


@pytest.mark.parametrize("name", phones.names())
def test_a_set_folds_to_itself_unchanged(name: str) -> None:
    for label in phones.load(name).labels:
        assert phones.fold(label, name, name) == label


def test_61_to_39_goes_through_48() -> None:
    directly = phones.folding("timit61", "timit39")
    first, second = phones.folding("timit61", "timit48"), phones.folding("timit48", "timit39")
    for label in phones.load("timit61").labels:
        middle = first[label]
        assert directly[label] == (None if middle is None else second[middle])
    assert set(directly.values()) - {None} == set(phones.load("timit39").labels)


def test_the_folding_of_48_gives_the_usual_groups() -> None:
    groups: dict[str, set[str]] = {}
    for label, image in phones.folding("timit48", "timit39").items():
        groups.setdefault(str(image), set()).add(label)
    assert {frozenset(group) for group in groups.values() if len(group) > 1} == {
        frozenset(group)
        for group in [
            {"sil", "cl", "vcl", "epi"},
            {"el", "l"},
            {"en", "n"},
            {"sh", "zh"},
            {"ao", "aa"},
            {"ih", "ix"},
            {"ah", "ax"},
        ]
    }


@pytest.mark.parametrize(("frm", "to"), [("timit39", "timit61"), ("timit48", "timit61"), ("arpabet", "arpabet-stress")])
def test_nothing_folds_to_a_finer_set(frm: str, to: str) -> None:
    with pytest.raises(PhoneSetError, match=f"{frm} and {to}"):
        phones.folding(frm, to)


def test_spelling() -> None:
    timit, arpabet = phones.load("timit61"), phones.load("arpabet-stress")
    assert timit.spell("AX-H") == timit.spell("ax-h") == "ax-h"
    assert arpabet.spell("ah0") == arpabet.spell("Ah0") == "AH0"
    assert "H#" in timit
    assert "AH3" not in arpabet
    assert None not in timit
    for name in phones.names():
        folded = [label.casefold() for label in phones.load(name).labels]
        assert len(set(folded)) == len(folded)  # else the rule on case would be ambiguous


def test_letters_are_compared_in_nfc() -> None:
    for label in phones.load("ipa").labels:
        assert phones.load("ipa").spell(unicodedata.normalize("NFD", label)) == label


def test_an_unknown_label_is_named_with_its_set() -> None:
    with pytest.raises(PhoneSetError, match="expected a label of the phone set timit39, got 'q'") as caught:
        phones.fold("q", "timit39", "timit39")
    assert caught.value.value == "q"
    assert "aa" in caught.value.details["labels"]


def test_an_unknown_set_lists_the_known_ones() -> None:
    with pytest.raises(
        PhoneSetError, match="among timit61, timit48, timit39, arpabet, ipa, arpabet-stress, got 'xsampa'"
    ):
        phones.load("xsampa")
