"""Labels of a corpus that look like two spellings of one label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phonechain.features.errors import Notice
from phonechain.features.phones import notation

_KINDS = (
    ("invisible characters, or other Unicode for the same letters", notation.visible),
    ("characters that look alike", notation.plain),
    ("upper and lower case", lambda label: notation.plain(label).casefold()),
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
    then case. Labels that differ in case are reported only if one of the two is rare beside the other (a tenth): in X-SAMPA
    and many practical spellings `s` and `S` are different sounds.

    Args:
        labels: how often each occurs.
    """
    found: list[Twins] = []
    told: set[str] = set()
    for difference, fold in _KINDS:
        groups: dict[str, list[str]] = {}
        for label in labels:
            groups.setdefault(fold(label), []).append(label)
        for members in groups.values():
            fresh = [label for label in members if label not in told]
            if len(members) < 2 or not fresh:
                continue
            counts = dict(sorted(((m, labels[m]) for m in members), key=lambda item: (-item[1], item[0])))
            if fold is _KINDS[-1][1] and 10 * min(counts.values()) > max(counts.values()):
                continue
            told.update(members)
            found.append(Twins(counts, difference))
    return found


def _with_code_points(label: str) -> str:
    """The label, followed by its code points if it is not plain ASCII."""
    if label.isascii() and label.isprintable():
        return label
    return f"{label} [{' '.join(f'U+{ord(c):04X}' for c in label)}]"
