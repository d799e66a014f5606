"""Choose a tier, turn it into segments, and add answers as new tiers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Literal

from phonechain.features.annotation.base import (
    ANSWER,
    POSTERIOR,
    SCORE,
    Annotation,
    Format,
    Tier,
    excerpt,
    is_derived,
    nfc,
)
from phonechain.features.errors import AnnotationError, NoSegments, Notice, UnknownTier
from phonechain.features.segments import Segment

PREFERRED = ("phones", "phone", "MAU", "segments", "Phonetic")
"""Names that aligners and corpora give the tier of phones (MFA, WebMAUS, EMU), ignoring case."""

SHORT = 0.5
"""Longest interval that may be a phone (s)."""


BY_NAME = "by its name"


def choose_tier(annotation: Annotation, tier: str | None = None) -> tuple[Tier, tuple[Notice, ...]]:
    """The tier of the phones, with a Notice if it was guessed among several; a unique tier with a usual name is no guess.

    Args:
        annotation: with at least one interval tier.
        tier: its name (compared in NFC, then ignoring case), or its number from 1, for names that occur twice. None takes the
            first of PREFERRED that exists, also as the end of a name such as "speaker - phones", else the interval tier with
            the most labelled intervals of at most SHORT seconds. Among tiers of the same name, the one with the most such
            intervals is taken.

    Raises:
        UnknownTier: no tier of that name; the message lists the tiers.
        NoSegments: the file has no interval tier.

    Examples:
        >>> from phonechain.features.reading import read_annotation
        >>> tier, notices = choose_tier(read_annotation("samples/LJ001-0002.TextGrid"))
        >>> tier.name, len(tier.entries), notices
        ('phones', 23, ())
    """
    if tier is not None:
        return _find_named(annotation, tier)
    candidates = annotation.interval_tiers()
    filled = [t for t in candidates if len(t.entries) > 1 or t.labelled()]
    candidates = filled or [t for t in candidates if t.entries] or candidates
    if not candidates:
        raise NoSegments(f"expected a tier of intervals, got {list_tiers(annotation)}", pointer="tiers")
    names = [nfc(t.name) for t in candidates]
    keys = [name.casefold().strip() for name in names]
    at, why = _guess(candidates, keys)
    chosen = candidates[at]
    unfit = "" if why else _describe_unusable(annotation, candidates)
    alone = why == BY_NAME and sum(map(_is_usual, keys)) == 1
    if (len(candidates) == 1 or alone) and not unfit:
        return chosen, ()
    others = ", ".join(excerpt(t.name) for t, name in zip(candidates, names, strict=True) if name != names[at])
    message = (
        f"took tier {excerpt(chosen.name)} ({len(chosen.entries)} intervals), {why or 'which has the most short intervals'}"
        + (others and f"; not {others}")
        + unfit
    )
    notices = [Notice("tier-guessed", message, f"tiers/{chosen.name}", chosen.name)]
    if names.count(names[at]) > 1:
        same = [t for t, name in zip(candidates, names, strict=True) if name == names[at]]
        notices.append(_repeat_notice(annotation, same, chosen))
    return chosen, tuple(notices)


def _guess(candidates: list[Tier], keys: list[str]) -> tuple[int, str]:
    """Index of the tier of the phones among tiers with names `keys`, and what in its name says so; "" if its intervals do."""

    def fitness(n: int) -> tuple[int, int]:
        return _fitness(candidates[n])

    for wanted in PREFERRED:
        if found := [n for n, key in enumerate(keys) if key == wanted.casefold()]:
            return max(found, key=fitness), BY_NAME
    for wanted in PREFERRED[:2]:
        if found := [n for n, key in enumerate(keys) if re.search(rf"\W{wanted}$", key)]:
            return max(found, key=lambda n: len(candidates[n].entries)), "by the end of its name"
    return max(range(len(keys)), key=fitness), ""


def is_phone_tier(name: str) -> bool:
    """True for usual names of a tier of phones."""
    return _is_usual(nfc(name).casefold().strip())


def _is_usual(key: str) -> bool:
    return any(key == p.casefold() for p in PREFERRED) or any(re.search(rf"\W{p}$", key) for p in PREFERRED[:2])


def short_intervals(tier: Tier) -> int:
    """Labelled intervals of at most SHORT seconds."""
    return sum(0 < s.end - s.start <= SHORT for s in tier.labelled())


def _fitness(tier: Tier) -> tuple[int, int]:
    """Rank for being the tier of phones; higher is more probable."""
    return short_intervals(tier), len(tier.entries)


def _describe_unusable(annotation: Annotation, candidates: list[Tier]) -> str:
    """Describe tiers whose names suggest phones, but which are empty or hold points."""
    told = [
        f"; tier {excerpt(t.name)} {'holds points' if t.kind == 'point' and t.entries else 'is empty'}"
        for t in annotation.tiers
        if is_phone_tier(t.name) and not any(t is c for c in candidates)
    ]
    return "".join(told)


def _repeat_notice(annotation: Annotation, same: list[Tier], chosen: Tier) -> Notice:
    """A notice about several tiers of one name: which was taken, and why."""

    def place(tier: Tier) -> str:
        number = next(i for i, t in enumerate(annotation.tiers, 1) if t is tier)
        return f"tier {number} with {short_intervals(tier)}"

    others = ", ".join(place(t) for t in same if t is not chosen)
    message = (
        f"{len(same)} tiers are named {excerpt(chosen.name)}; took {place(chosen)} labelled intervals of at most "
        f"{SHORT:g} s, not {others}"
    )
    return Notice("tier-repeated", message, f"tiers/{chosen.name}", chosen.name)


def _find_named(annotation: Annotation, wanted: str) -> tuple[Tier, tuple[Notice, ...]]:
    for same in (nfc, lambda name: nfc(name).casefold().strip()):
        found = [t for t in annotation.tiers if same(t.name) == same(wanted)]
        if found:
            break
    else:
        if wanted.isdecimal() and 1 <= int(wanted) <= len(annotation.tiers):
            found = [annotation.tiers[int(wanted) - 1]]
    if not found:
        close = get_close_matches(wanted, [t.name for t in annotation.tiers], n=1)
        raise UnknownTier(
            f"expected a tier named {excerpt(wanted)}, got {list_tiers(annotation)}"
            + (f"; is it {excerpt(close[0])}?" if close else ""),
            pointer="tier",
            value=wanted,
            details={"tiers": [t.name for t in annotation.tiers]},
        )
    intervals = [t for t in found if t.kind == "interval"]
    if not intervals:
        raise UnknownTier(
            f"expected a tier of intervals, but {excerpt(wanted)} holds points; got {list_tiers(annotation)}",
            pointer="tier",
            value=wanted,
            details={"tiers": [t.name for t in annotation.tiers]},
        )
    chosen = max(intervals, key=_fitness)
    return chosen, ((_repeat_notice(annotation, intervals, chosen),) if len(intervals) > 1 else ())


def list_tiers(annotation: Annotation) -> str:
    """The tiers in words, for messages."""
    if not annotation.tiers:
        return "no tiers"
    names = [
        f"{excerpt(t.name)} ({len(t.entries)} {'intervals' if t.kind == 'interval' else 'points'})"
        for t in annotation.tiers[:20]
    ]
    more = f" and {len(annotation.tiers) - 20} more" if len(annotation.tiers) > 20 else ""
    return f"{'tier' if len(names) == 1 else 'tiers'} {', '.join(names)}{more}"


def tier_segments(tier: Tier) -> list[Segment]:
    """The entries as segments. Labels are stripped of surrounding blanks; empty ones become None.

    Examples:
        >>> tier_segments(Tier("phones", "interval", [Segment(0.0, 0.1, " HH "), Segment(0.1, 0.25, "")]))
        [Segment(start=0.0, end=0.1, label='HH'), Segment(start=0.1, end=0.25, label=None)]
    """
    out = []
    for s in tier.entries:
        label = s.label.strip() if s.label else None
        out.append(s if label == s.label and label != "" else Segment(s.start, s.end, label or None))
    return out


def add_labels(
    annotation: Annotation, tier: Tier | str, labels: Sequence[str | None], posteriors: Sequence[float | None]
) -> Annotation:
    """The annotation with two new tiers, "<tier> phonechain" and "<tier> posterior"; all tiers of the input are kept.

    Args:
        annotation: as read.
        tier: the tier that was labelled, or its name.
        labels, posteriors: one per entry of the tier; None where there is no answer.

    Raises:
        AnnotationError: the counts differ.

    Examples:
        >>> tier = Tier("phones", "interval", [Segment(0.0, 0.1, "HH"), Segment(0.1, 0.25, "AI")])
        >>> answered = add_labels(Annotation([tier], "json"), tier, ["HH", "AY"], [0.98, 0.71])
        >>> [(t.name, [entry.label for entry in t.entries]) for t in answered.tiers[1:]]
        [('phones phonechain', ['HH', 'AY']), ('phones posterior', ['0.9800', '0.7100'])]
    """
    if isinstance(tier, str):
        tier = choose_tier(annotation, tier)[0]
    if not len(tier.entries) == len(labels) == len(posteriors):
        raise AnnotationError(
            f"expected {len(tier.entries)} labels and posteriors for tier {excerpt(tier.name)}, "
            f"got {len(labels)} and {len(posteriors)}"
        )
    answer = Tier(_free_name(annotation, tier.name + ANSWER), "interval")
    certainty = Tier(_free_name(annotation, tier.name + POSTERIOR), "interval")
    for s, label, posterior in zip(tier.entries, labels, posteriors, strict=True):
        answer.entries.append(Segment(s.start, s.end, label))
        certainty.entries.append(Segment(s.start, s.end, None if posterior is None else f"{posterior:.4f}"))
    return replace(annotation, tiers=[*annotation.tiers, answer, certainty])


def shift(annotation: Annotation, by: float | Literal["start"]) -> Annotation:
    """The annotation with `by` seconds added to every time; "start" subtracts the time at which it starts.

    >>> shift(Annotation([Tier("phones", "interval", [Segment(0.5, 0.6, "a")])], "json", 0.5, 0.6), "start").tiers[0].entries
    [Segment(start=0.0, end=0.1, label='a')]

    Raises:
        AnnotationError: `by` is no finite number.
    """
    if by == "start":
        by = -annotation.extent[0]
    if not math.isfinite(by):
        raise AnnotationError(f"expected a shift in seconds, got {by}", pointer="shift")
    if by == 0:
        return annotation
    tiers = [
        # Rounding restores decimals: 0.6 - 0.5 is 0.1.
        replace(t, entries=[Segment(round(s.start + by, 9), round(s.end + by, 9), s.label) for s in t.entries])
        for t in annotation.tiers
    ]
    end = None if annotation.end is None else round(annotation.end + by, 9)
    return replace(annotation, tiers=tiers, start=round(annotation.start + by, 9), end=end)


def _free_name(annotation: Annotation, name: str) -> str:
    taken = {t.name for t in annotation.tiers}
    k = 2
    free = name
    while free in taken:
        free, k = f"{name} ({k})", k + 1
    return free


def derived_tier(annotation: Annotation, tier: Tier, kind: str, *, anywhere: bool = False) -> Tier | None:
    """The last derived tier (ANSWER, POSTERIOR or SCORE) of `tier` with the same intervals, or `anywhere`."""
    name = tier.name + kind
    for t in reversed(annotation.tiers):
        if (
            t.name.startswith(name)
            and re.fullmatch(r"( \([0-9]+\))?", t.name[len(name) :])
            and (anywhere or same_intervals(t, tier))
        ):
            return t
    return None


def same_intervals(a: Tier, b: Tier) -> bool:
    """True for tiers with identical intervals."""
    return len(a.entries) == len(b.entries) and all(
        x.start == y.start and x.end == y.end for x, y in zip(a.entries, b.entries, strict=True)
    )


def main_tier(annotation: Annotation) -> tuple[Tier, list[str | None]]:
    """What a format with room for one tier writes: (tier, a number or None per entry).

    If there is an answer, its labels and posteriors under the name of the tier that it answers; else the tier that
    `choose_tier` picks, with its scores if it has any.
    """
    for tier in reversed(annotation.tiers):
        if is_derived(tier.name):
            continue
        # The answer's times are its own where segments were clipped to the sound.
        if answer := derived_tier(annotation, tier, ANSWER, anywhere=True):
            answered = Tier(tier.name, "interval", answer.entries)
            return answered, _texts(derived_tier(annotation, answered, POSTERIOR), len(answer.entries))
    tier = choose_tier(annotation)[0]
    scores = derived_tier(annotation, tier, SCORE) or derived_tier(annotation, tier, POSTERIOR)
    return tier, _texts(scores, len(tier.entries))


def _texts(tier: Tier | None, count: int) -> list[str | None]:
    return [s.label or None for s in tier.entries] if tier else [None] * count


def omitted_tiers(annotation: Annotation, form: Format) -> list[str]:
    """Names of the tiers that a file of that format has no room for."""
    if form.holds == "all":
        return []
    if form.holds == "intervals":
        return [t.name for t in annotation.tiers if t.kind == "point"]
    if form.holds == "same":
        main = choose_tier(annotation)[0]
        return [t.name for t in annotation.tiers if t is not main and not same_intervals(t, main)]
    main = main_tier(annotation)[0]
    derived = re.compile(rf"{re.escape(main.name)}(?:{ANSWER}|{POSTERIOR}|{SCORE})?(?: \([0-9]+\))?")
    return [t.name for t in annotation.tiers if not derived.fullmatch(t.name)]
