"""Labels of a corpus that look like two spellings of one label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from phonechain.features.errors import Notice
from phonechain.features.phones import notation, readings, sets

RARE = 0.1
"""Most occurrences of one label per occurrence of the other for a difference in case to be a slip."""

_KINDS = (
    ("invisible characters, or other Unicode for the same letters", notation.visible),
    ("characters that look alike", notation.plain),
)


@dataclass(frozen=True, slots=True)
class Twins:
    """Labels that differ only in `difference`, with their counts, the most frequent first."""

    labels: Mapping[str, int]
    difference: str

    def notice(self) -> Notice:
        """A warning that shows the difference."""
        spelled = " and ".join(f"{_with_code_points(label)} ({count})" for label, count in self.labels.items())
        message = f"labels that may be one: {spelled} differ in {self.difference}"
        return Notice("labels-alike", message, "labels", " ".join(self.labels)[:200])


def twins(labels: Mapping[str, int]) -> list[Twins]:
    """The groups of labels that look like spellings of one another.

    Each label is in one group, by the smallest difference: Unicode, look-alikes (`g` and `ɡ`, `k'` and `kʼ`, tied affricates),
    then case. In ARPAbet labels that differ in case are always reported, with or without stress (`ih` and `IH1`); labels that
    differ in stress alone never are. Elsewhere only if one of the two is rare beside the other (a tenth): in X-SAMPA and many
    practical spellings `s` and `S` are different sounds.

    Args:
        labels: how often each occurs.
    """
    found: list[Twins] = []
    told: set[str] = set()
    for difference, fold in _KINDS:
        for members in _groups(labels, fold):
            if not told.issuperset(members):
                told.update(members)
                found.append(Twins(members, difference))
    arpabet = _is_arpabet(labels)
    for members in _groups(labels, _bare_caseless if arpabet else _caseless):
        cases = {notation.without_stress(notation.plain(label)) if arpabet else label for label in members}
        if told.issuperset(members) or len(cases) < 2:
            continue
        if not arpabet and min(members.values()) > RARE * max(members.values()):
            continue
        stress = arpabet and len(set(map(_caseless, members))) > 1
        found.append(Twins(members, "upper and lower case" + (", and in stress" if stress else "")))
    return found


def _groups(labels: Mapping[str, int], fold: Callable[[str], str]) -> list[dict[str, int]]:
    """Labels that fold to the same text, where there are several, with their counts, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(fold(label), []).append(label)
    frequent = sorted(labels, key=lambda label: (-labels[label], label))
    ranked = [[label for label in frequent if label in members] for members in groups.values() if len(members) > 1]
    return [{label: labels[label] for label in members} for members in ranked]


def _caseless(label: str) -> str:
    return notation.plain(label).casefold()


def _bare_caseless(label: str) -> str:
    return notation.without_stress(notation.plain(label)).casefold()


def _is_arpabet(labels: Mapping[str, int]) -> bool:
    """Whether the labels are ARPAbet in any case: vowels with stress, or nearly all of them its phones, one of two letters."""
    spoken = [label.upper() for label in labels if notation.nonspeech(label) is None and len(label) <= notation.LONGEST]
    stressed = sets.load("arpabet-stress")
    if any(label in stressed and label != notation.without_stress(label) for label in spoken):
        return True
    phones = [label for label in spoken if label in sets.load("arpabet")]
    return any(len(label) > 1 for label in phones) and len(phones) >= readings.ENOUGH * len(spoken)


def _with_code_points(label: str) -> str:
    """The label, followed by its code points if it is not plain ASCII."""
    if label.isascii() and label.isprintable():
        return label
    return f"{label} [{' '.join(f'U+{ord(c):04X}' for c in label)}]"
