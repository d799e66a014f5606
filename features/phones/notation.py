"""Spellings of a label: look-alike characters, marks of stress and position, X-SAMPA, and labels that are not phones.

Every function takes a label and gives a label. Nothing here knows a model: which of these foldings are used, and on
what, `comparison` decides.

Sources:
    xsampa.tsv         J. C. Wells, "Computer-coding the IPA: a proposed extension of SAMPA" (1995), University College
                       London. A diacritic's IPA stands after a dotted circle.
    ipa-variants.tsv   spellings of General American that differ from the set `ipa`: the glides and the allophones of
                       the Montreal Forced Aligner's English dictionaries, the length marks of British ones. `-`: a
                       sound that CMUdict's phones leave out.
    nonspeech.tsv      silence and noise as written by HTK (sil, sp), Kaldi (SIL, SPN, NSN, LAU), MFA (sil, sp, spn),
                       Sphinx (+SPN+), TIMIT and Festival (h#, pau), Penn's aligner ({NS}, {LG}), WebMAUS (<p:>, <usb>)
                       and the Buckeye corpus (VOCNOISE, IVER, LAUGH); compared without case and brackets.
    lookalikes.tsv     characters that look like others, ligatures, and typographic apostrophes and colons.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Literal

from phonechain.features.phones.sets import DROPPED, rows_of

INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
"""Characters without width: a soft hyphen, joiners, marks of direction, a byte-order mark."""

LONGEST = 40
"""Most characters of a phone's spelling; longer labels are not analysed."""

_TIES = dict.fromkeys(map(ord, "\u0361\u035c"))
_RHOTIC = {"ə˞": "ɚ", "ɜ˞": "ɝ"}
_POSITION = re.compile(r"(?<=.)_[BIES]\Z")
_STRESS_DIGIT = re.compile(r"\A([A-Za-z]{2})[0-2]\Z")
_STRESS_MARKS = str.maketrans("", "", "ˈˌ")
_BRACKETS = "[](){}<>+*"
_RING = "\u25cc"


def visible(label: str) -> str:
    """The label in NFC, without invisible characters and surrounding blanks."""
    if label.isascii():
        return label.strip()
    return unicodedata.normalize("NFC", label.translate(INVISIBLE)).replace("\u00a0", " ").strip()


@lru_cache(maxsize=8192)
def plain(label: str) -> str:
    """The label with look-alike characters unified, and without ties: ɡ is g, t͡ʃ and ʧ are tʃ, ː is a colon."""
    text = visible(label)
    if text.isascii():
        return text
    text = text.translate(_TIES)
    for spelling, usual in _RHOTIC.items():
        text = text.replace(spelling, usual)
    table = _lookalikes()
    return unicodedata.normalize("NFC", "".join(table.get(c, c) for c in text))


def without_position(label: str) -> str:
    """Without Kaldi's mark of the position in the word: `N_B`, `N_I`, `N_E` and `N_S` are N."""
    return _POSITION.sub("", label)


def without_stress(label: str) -> str:
    """Without CMUdict's stress digit and the IPA's stress marks."""
    return _STRESS_DIGIT.sub(r"\1", label) if label.isascii() else label.translate(_STRESS_MARKS) or label


def without_length(label: str) -> str:
    """Without marks of length, full and half."""
    return re.sub("[ːˑ:]", "", label) or label


@lru_cache(maxsize=8192)
def without_diacritics(label: str) -> str:
    """Without the IPA's diacritics: aspiration, palatalisation, nasalisation, dental and the like.

    Letters that Unicode composes stay whole where they are letters of their own: ç, and those of other scripts. The
    ejective's apostrophe stays.
    """
    if label.isascii():
        return label
    out = []
    for c in label:
        if c == "ç":
            out.append(c)
            continue
        decomposed = unicodedata.normalize("NFD", c)
        base = decomposed[0]
        if len(decomposed) > 1 and not unicodedata.name(base, "").startswith("LATIN"):
            out.append(c)
        elif unicodedata.category(base) not in ("Mn", "Lm") or base in "ːˑˈˌʼ":
            out.append(base)
    return "".join(out) or label


@lru_cache(maxsize=8192)
def xsampa_to_ipa(label: str) -> str | None:
    """The IPA for a label in X-SAMPA; None for other labels. `t_S` and `tS)` are tʃ: ties are left out."""
    symbols = _xsampa()
    out, at, text = "", 0, visible(label)
    if not text or not text.isascii():
        return None
    while at < len(text):
        found = next((text[at : at + n] for n in (4, 3, 2, 1) if text[at : at + n] in symbols), None)
        if found is not None:
            out, at = out + symbols[found], at + len(found)
        elif text[at] in "_)" and out:  # a tie
            at += 1
        else:
            return None
    return unicodedata.normalize("NFC", out)


@lru_cache(maxsize=8192)
def english_ipa(label: str) -> str | None:
    """The label of the set `ipa` for an IPA spelling of English; DROPPED, or None where it is not known.

    Tried as it stands, then without stress and length, then without diacritics.
    """
    table = _english()
    text = plain(label).translate(_STRESS_MARKS)
    for spelling in (text, without_length(text), without_diacritics(without_length(text))):
        if spelling in table:
            return table[spelling]
    return None


def nonspeech(label: str) -> Literal["silence", "noise"] | None:
    """The kind of a label that is not a phone, silence or noise; None for anything else."""
    if len(label) > LONGEST:
        return None
    table = _nonspeech()
    text = visible(label).casefold()
    if not text:
        return "silence"
    return table.get(text) or table.get(text.strip(_BRACKETS))  # type: ignore[return-value]  # the second column


@cache
def _lookalikes() -> Mapping[str, str]:
    return {row[0]: row[1] for row in rows_of("lookalikes")}


@cache
def _xsampa() -> Mapping[str, str]:
    return {symbol: ipa.removeprefix(_RING) for symbol, ipa in rows_of("xsampa")}


@cache
def _english() -> Mapping[str, str]:
    """Plain spellings of the labels of the set `ipa`."""
    own = {plain(label): label for row in rows_of("arpabet-stress") if (label := row[2]) != DROPPED}
    return {plain(variant): label for variant, label in rows_of("ipa-variants")} | own


@cache
def _nonspeech() -> Mapping[str, str]:
    return {row[0]: row[1] for row in rows_of("nonspeech")}
