"""Labels of one phone set read in terms of another: ARPAbet, TIMIT, the IPA of English and X-SAMPA.

A hub is a set that labels of several families are translated to. A reader translates a label of its family to the hub; it
returns `DROPPED` where the hub omits the sound, and None where the label is not of its family.

    arpabet    CMUdict's 39 phones and SIL
    timit39    coarser, AO is aa and ZH is sh: for models of this set alone
    ipa        the IPA of any language, from X-SAMPA
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from phonechain.features.phones import notation, sets
from phonechain.features.phones.sets import DROPPED

Reader = Callable[[str], str | None]

ENOUGH = 0.9
"""Least share of the labels in a set for `recognise` to name it."""

_FAMILIES = {
    "arpabet": "arpabet", "arpabet-stress": "arpabet", "timit61": "timit", "timit48": "timit", "timit39": "timit",
    "ipa": "ipa", "xsampa": "xsampa",
}  # fmt: skip


def family(phone_set: str) -> str | None:
    """The family of readers for a phone set; None if there is none."""
    return _FAMILIES.get(phone_set)


def recognise(labels: Sequence[str]) -> str:
    """The phone set with most of the labels, apart from silence and noise; "" where none has enough of them.

    `ipa` and `xsampa` are recognised by their characters, for any language; `ipa` includes its English set.
    """
    labels = [label for label in labels if len(label) <= notation.LONGEST]
    spoken = [bare for label in labels if notation.nonspeech(bare := notation.without_position(label)) is None]
    if not spoken:
        return ""
    names = ("arpabet", "arpabet-stress", "timit39", "timit48", "timit61")
    held = {name: sum(label in sets.load(name) for label in spoken) for name in names}
    best = max(names, key=lambda name: held[name])  # the first of equals
    if held[best] >= ENOUGH * len(spoken):
        return best
    if any(not notation.plain(label).isascii() for label in spoken):
        return "ipa"
    if any(label != notation.without_position(label) for label in labels):
        return ""  # `N_B` is X-SAMPA too, with a tone that hardly anybody writes
    parsed = sum(notation.xsampa_to_ipa(label) is not None for label in spoken)
    beyond_letters = any(not label.isalpha() or not label.islower() for label in spoken)
    return "xsampa" if parsed >= ENOUGH * len(spoken) and beyond_letters else ""


def _first_fold(*foldings: tuple[str, str]) -> Reader:
    """A reader by the first of the foldings (from, to) whose set has the label."""

    def read(label: str) -> str | None:
        for source, target in foldings:
            if label in sets.load(source):
                return sets.fold(label, source, target) or DROPPED
        return None

    return read


def _fold_after(first: Reader, source: str, target: str) -> Reader:
    """A reader to one set, followed by a folding to another."""

    def read(label: str) -> str | None:
        found = first(label)
        return found if found is None or found == DROPPED else sets.fold(found, source, target) or DROPPED

    return read


def _xsampa(then: Reader) -> Reader:
    def read(label: str) -> str | None:
        ipa = notation.xsampa_to_ipa(label)
        return None if ipa is None else then(ipa)

    return read


_english = _fold_after(notation.english_ipa, "ipa", "arpabet")
_arpabet: Mapping[str, Reader] = {
    "arpabet": _first_fold(("arpabet-stress", "arpabet")),
    "timit": _first_fold(("timit61", "arpabet"), ("timit48", "arpabet")),
    "ipa": _english,
    "xsampa": _xsampa(_english),
}

HUBS: Mapping[str, Mapping[str, Reader]] = {
    "ipa": {"ipa": notation.plain, "xsampa": _xsampa(notation.plain)},
    "arpabet": _arpabet,
    "timit39": {
        "timit": _first_fold(("timit39", "timit39"), ("timit48", "timit39"), ("timit61", "timit39")),
        **{name: _fold_after(reader, "arpabet", "timit39") for name, reader in _arpabet.items() if name != "timit"},
    },
}
"""Hub -> family -> reader."""
