from __future__ import annotations

import unicodedata

import pytest

from phonechain.features.phones import notation, readings, sets


@pytest.mark.parametrize(
    ("xsampa", "ipa"),
    [  # Wells (1995), one of each kind: letters, capitals, digits, backslashes, retroflexes, diacritics
        ("t", "t"),
        ("g", "ɡ"),
        ("S", "ʃ"),
        ("@", "ə"),
        ("{", "æ"),
        ("}", "ʉ"),
        ("&", "ɶ"),
        ("2", "ø"),
        ("9", "œ"),
        ("4", "ɾ"),
        ("?", "ʔ"),
        ("?\\", "ʕ"),
        ("r\\", "ɹ"),
        ("r\\`", "ɻ"),
        ("R\\", "ʀ"),
        ("X\\", "ħ"),
        ("x\\", "ɧ"),
        ("s\\", "ɕ"),
        ("t`", "ʈ"),
        ("G\\_<", "ʛ"),
        ("b_<", "ɓ"),
        ("|\\|\\", "ǁ"),
        ("|\\", "ǀ"),
        ("!\\", "ǃ"),
        ("=\\", "ǂ"),
        ("t_h", "tʰ"),
        ("t'", "tʲ"),
        ("t_j", "tʲ"),
        ("t_>", "tʼ"),
        ("t_d", "t̪"),
        ("n=", "n̩"),
        ("a~", "ã"),
        ("a:", "aː"),
        ("@`", "ɚ"),
        ("3`", "ɝ"),
        ("aI", "aɪ"),
        ("tS", "tʃ"),
        ("t_S", "tʃ"),
        ('"a', "ˈa"),
        ("N_B", "ŋ̏"),
    ],
)
def test_xsampa(xsampa: str, ipa: str) -> None:
    assert notation.xsampa_to_ipa(xsampa) == unicodedata.normalize("NFC", ipa)


@pytest.mark.parametrize("label", ["", "ʃ", "[t]", "_", "$"])
def test_what_is_no_xsampa(label: str) -> None:
    assert notation.xsampa_to_ipa(label) is None


def test_every_symbol_of_xsampa_stands_for_one_of_its_own() -> None:
    """But for those that Wells himself gives two spellings."""
    twice = {"=", "_=", "~", "_~", "'", "_j", "_\\", "_F", "_/", "_R", "v\\", "P"}
    values = [ipa for symbol, ipa in sets.rows_of("xsampa") if symbol not in twice]
    assert len(values) == len(set(values)) > 130


@pytest.mark.parametrize(
    ("spelling", "arpabet"),
    [
        ("tʰ", "T"),
        ("t͡ʃ", "CH"),
        ("ʧ", "CH"),
        ("ʤ", "JH"),
        ("g", "G"),
        ("ɡ", "G"),
        ("iː", "IY"),
        ("ˈiː", "IY"),
        ("ɑː", "AA"),
        ("əʊ", "OW"),
        ("oʊ", "OW"),
        ("ow", "OW"),
        ("aj", "AY"),
        ("ej", "EY"),
        ("ɫ", "L"),
        ("ɫ̩", "L"),
        ("n̩", "N"),
        ("ɚ", "ER"),
        ("ə˞", "ER"),
        ("ɜː", "ER"),
        ("ə", "AH"),
        ("ʌ", "AH"),
        ("r", "R"),
        ("ɹ", "R"),
        ("ʉː", "UW"),
        ("pʲ", "P"),
        ("mʲ", "M"),
        ("ɾ", "-"),
        ("ʔ", "-"),
        ("e", None),  # DRESS in one tradition and FACE in another
        ("x", None),
    ],
)
def test_spellings_of_english(spelling: str, arpabet: str | None) -> None:
    assert readings.HUBS["arpabet"]["ipa"](spelling) == arpabet
    assert readings.HUBS["arpabet"]["ipa"](unicodedata.normalize("NFD", spelling)) == arpabet


def test_every_way_from_arpabet_and_back_is_the_same_sound() -> None:
    """ARPAbet -> IPA -> X-SAMPA's reader -> ARPAbet, for all 39."""
    to_xsampa = {ipa: symbol for symbol, ipa in sets.rows_of("xsampa")}
    for label in sets.load("arpabet").labels:
        ipa = sets.fold(label, "arpabet", "ipa")
        if ipa is not None:
            assert readings.HUBS["arpabet"]["ipa"](ipa) == label
            spelled = "".join(to_xsampa[c] for c in ipa)
            assert readings.HUBS["arpabet"]["xsampa"](spelled) == label


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        *((label, "silence") for label in ("sil", "SIL", "sp", "pau", "h#", "[SIL]", "<eps>", "<p:>", "", "{SL}", "#")),
        *((label, "noise") for label in ("spn", "SPN", "+NSN+", "{NS}", "<usb>", "[noise]", "VOCNOISE", "<unk>")),
        *((label, None) for label in ("s", "IH", "ns", "br", "S", "p", "ʃ")),
    ],
)
def test_silence_and_noise(label: str, kind: str | None) -> None:
    assert notation.nonspeech(label) == kind


def test_marks() -> None:
    assert [notation.without_position(s) for s in ("N_B", "IH1_I", "SIL_S", "a_X", "_B")] == [
        "N", "IH1", "SIL", "a_X", "_B",
    ]  # fmt: skip
    assert [notation.without_stress(s) for s in ("AH0", "ah2", "T1", "AH3", "ˈa", "ˌaɪ")] == [
        "AH", "ah", "T1", "AH3", "a", "aɪ",
    ]  # fmt: skip
    assert [notation.without_length(s) for s in ("aː", "aˑ", "a:", ":")] == ["a", "a", "a", ":"]
    assert [notation.without_diacritics(s) for s in ("tʰ", "n̩", "ã", "t̪ʲ", "ç", "kʼ", "й", "aː")] == [
        "t", "n", "a", "t", "ç", "kʼ", "й", "aː",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("g", "ɡ"),
        ("k'", "kʼ"),
        ("k’", "kʼ"),
        ("t͡ʃ", "tʃ"),
        ("a:", "aː"),
        ("a\u200b", "a"),
        ("e\u0303", "ẽ"),
        ("ǝ", "ə"),
    ],
)
def test_what_looks_alike_is_plainly_the_same(a: str, b: str) -> None:
    assert a != b
    assert notation.plain(a) == notation.plain(b)


@pytest.mark.parametrize("fold", [notation.plain, notation.visible, notation.without_diacritics])
def test_folding_twice_changes_nothing(fold: object) -> None:
    assert callable(fold)
    for name in sets.names():
        for label in sets.load(name).labels:
            assert fold(fold(label)) == fold(label)


def test_sets_are_recognised() -> None:
    for name in ("arpabet", "arpabet-stress", "timit39", "timit48", "timit61", "ipa"):
        assert readings.recognise(sets.load(name).labels) == name
    assert readings.recognise(["a", "t_h", "S", "i:", "sil"]) == "xsampa"
    assert readings.recognise(["a", "b", "ts"]) == ""
    assert readings.recognise(["sil", "spn"]) == ""
