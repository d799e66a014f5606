"""Phone sets and the foldings between them, read from the tables in `phones/`.

A table is a text file of tab-separated columns, one phone set per column, named in the first row. The labels in a row are the
same sound, distinguished more or less finely; `-` means that a set omits the sound. One set folds to another if each of its
labels is beside only one label of the other, in one table or through several: TIMIT's 61 labels fold to 39 by rows 61 -> 39,
and nothing folds 39 to 61.

    timit61, timit48, timit39    the folding of Lee and Hon (1989); 61 has the glottal stop `q`, the others drop it. In
                                 ARPAbet a flap and the closure of a stop have no label of their own
    arpabet-stress               CMUdict's symbols, a vowel with its stress digit or without, and what aligners add: SIL
                                 and SP for silence; SPN, NSN, +SPN+, +NSN+ for noise, which the other sets drop
    arpabet                      the 39 phones without stress, and SIL
    ipa                          General American: AH0 is ə and ER0 ɚ, any other AH and ER ʌ and ɝ; no silence

A label may be spelled as in the table, or else in any mixture of upper and lower case (no set has two labels that differ only
in case). Letters are compared in Unicode NFC.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType

from phonechain.features.errors import PhoneSetError

DROPPED = "-"
"""Entry of a table for a sound that a set omits."""

_TABLES = ("timit", "arpabet", "arpabet-stress")

ABOUT = {
    "timit61": "TIMIT's labels, with closures apart from releases (Garofolo et al. 1993)",
    "timit48": "TIMIT's 61 folded for training (Lee and Hon 1989)",
    "timit39": "TIMIT's 61 folded for scoring (Lee and Hon 1989)",
    "arpabet": "CMUdict's 39 phones without stress, and SIL",
    "arpabet-stress": "CMUdict's phones with stress digits, and what aligners add",
    "ipa": "General American in the International Phonetic Alphabet",
}
"""What each set is, in a line."""


@dataclass(frozen=True, slots=True)
class PhoneSet:
    """A named set of labels, in the order of its table."""

    name: str
    labels: tuple[str, ...]

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and _find(self.name, label) is not None

    def __len__(self) -> int:
        return len(self.labels)

    def spell(self, label: str) -> str:
        """The label as the table spells it.

        Raises:
            PhoneSetError: the set has no such label.
        """
        found = _find(self.name, label)
        if found is None:
            raise PhoneSetError(
                f"expected a label of the phone set {self.name}, got {label!r}",
                pointer="label",
                value=label,
                details={"phone_set": self.name, "labels": list(self.labels)},
            )
        return found


def names() -> tuple[str, ...]:
    """Names of all phone sets."""
    return tuple(dict.fromkeys(column for table in _TABLES for column in _table(table)[0]))


@lru_cache(maxsize=64)
def load(name: str) -> PhoneSet:
    """The phone set with that name.

    Raises:
        PhoneSetError: there is none; the message lists the names.

    Examples:
        >>> len(load("timit39"))
        39
        >>> "ix" in load("timit61"), "ix" in load("timit39")
        (True, False)
    """
    if name not in names():
        raise PhoneSetError(
            f"expected a phone set among {', '.join(names())}, got {name!r}", pointer="phone_set", value=name
        )
    tables = [_table(table) for table in _TABLES]
    named = sorted((t for t in tables if name in t[0]), key=lambda t: t[0].index(name))  # its own table first
    labels = (row[columns.index(name)] for columns, rows in named for row in rows)
    return PhoneSet(name, tuple(dict.fromkeys(label for label in labels if label != DROPPED)))


@lru_cache(maxsize=64)
def folding(frm: str, to: str) -> Mapping[str, str | None]:
    """Every label of `frm` -> its label in `to`, or None where `to` omits it; by the shortest path through the tables.

    Raises:
        PhoneSetError: no such phone set, or `frm` does not fold to `to`.

    Examples:
        >>> folding("timit61", "timit39")["ix"]
        'ih'
    """
    start = load(frm)
    load(to)
    ways: deque[tuple[str, dict[str, str | None]]] = deque([(frm, {label: label for label in start.labels})])
    seen = {frm}
    while ways:
        name, so_far = ways.popleft()
        if name == to:
            return MappingProxyType(so_far)
        for table in _TABLES:
            for column in _table(table)[0]:
                step = _step(table, name, column)
                if column not in seen and step is not None:
                    seen.add(column)
                    ways.append((column, {label: via and step[via] for label, via in so_far.items()}))
    raise PhoneSetError(
        f"expected phone sets of which the first folds to the second, got {frm} and {to}", pointer="phone_set", value=to
    )


def fold(label: str, frm: str, to: str) -> str | None:
    """The label in the set `to` for a label of the set `frm`; None where `to` omits the sound.

    Raises:
        PhoneSetError: an unknown label (the message names it and the set) or set, or sets that do not fold.

    Examples:
        >>> fold("AH0", "arpabet-stress", "ipa")
        'ə'
        >>> fold("q", "timit61", "timit39") is None  # the glottal stop is dropped
        True
    """
    return folding(frm, to)[load(frm).spell(label)]


def rows_of(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a table of `phones/`, below its heading."""
    return _table(name)[1]


@lru_cache(maxsize=16)
def _table(name: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Columns and rows of a table."""
    text = resources.files("phonechain.features").joinpath("phones", f"{name}.tsv").read_text("utf-8")
    head, *rows = (tuple(line.split("\t")) for line in unicodedata.normalize("NFC", text).splitlines() if line)
    return head, tuple(rows)


@lru_cache(maxsize=64)
def _step(table: str, frm: str, to: str) -> dict[str, str | None] | None:
    """The folding that one table gives, None unless it gives every label of `frm` one of `to`."""
    columns, rows = _table(table)
    if frm not in columns or to not in columns:
        return None
    step: dict[str, str | None] = {}
    for row in rows:
        source, target = row[columns.index(frm)], row[columns.index(to)]
        if source == DROPPED:
            continue
        image = None if target == DROPPED else target
        if step.setdefault(source, image) != image:
            return None
    return step if step.keys() >= set(load(frm).labels) else None


@lru_cache(maxsize=64)
def _spellings(name: str) -> dict[str, str]:
    """Case-folded label -> label."""
    return {label.casefold(): label for label in load(name).labels}


def _find(name: str, label: str) -> str | None:
    return _spellings(name).get(unicodedata.normalize("NFC", label).strip().casefold())
