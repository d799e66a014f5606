"""Converting an annotation to another format, with a notice for everything that is lost.

What is lost is not kept in a list of what formats can do: the file is read back and compared with what went in.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier, choose_tier, tier_segments, timit
from phonechain.features.annotation.base import excerpt, is_derived, nfc
from phonechain.features.annotation.tiers import main_tier
from phonechain.features.corpora.base import AUDIO_SUFFIXES, rate_of
from phonechain.features.errors import Notice
from phonechain.features.files import printable_path
from phonechain.features.segments import ROUNDING, Segment

USUAL = {".textgrid": ".TextGrid"}
"""Suffixes that people write with capitals."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The bytes of a file, and what to know about it: what was guessed, and what was lost."""

    data: bytes
    notices: tuple[Notice, ...]


def convert(
    annotation: Annotation, to: str, *, tier: str | None = None, rate: int | None = None, recording: str | None = None
) -> Conversion:
    """Write `annotation` in the format `to`.

    Args:
        tier: the one to write, with the answers to it; None writes every tier that the format has room for.
        rate: samples per second, for TIMIT, which counts in samples without naming their rate; None takes 16000.
        recording: what a file calls it that may hold several (CTM, MLF).

    Raises:
        AnnotationError: unknown format or tier, or labels that the format cannot hold.
    """
    form = notation.FORMATS[to]
    notices: list[Notice] = []
    source = annotation
    if tier is not None:
        chosen, notices[:] = choose_tier(annotation, tier)
        about = re.compile(rf"{re.escape(chosen.name)}( phonechain| posterior| score)( \(\d+\))?")
        source = replace(annotation, tiers=[t for t in annotation.tiers if t is chosen or about.fullmatch(t.name)])
    elif form.flat:
        notices += choose_tier(annotation)[1]
    lost = notation.omitted_tiers(annotation if tier is None else source, to)
    if lost:
        names = ", ".join(excerpt(name) for name in lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        kind = "point tiers" if form.holds == "intervals" else "further tiers"
        notices.append(Notice("tiers-lost", f"{form.title} has no room for {kind}: {names} left out", "tiers"))
    data = render(source, to, rate=rate, recording=recording)
    if to == "timit" and rate is None:
        message = f"times are written in samples at {timit.RATE} Hz, since no rate is known; --rate says another one"
        notices.append(Notice("rate-assumed", message, None, float(timit.RATE)))
    back = notation.read(data, format=to, rate=rate if to == "timit" else None)
    return Conversion(data, (*notices, *find_losses(source, back, lost)))


def render(annotation: Annotation, to: str, *, rate: int | None = None, recording: str | None = None) -> bytes:
    """As `phonechain.features.annotation.write`, for a recording whose name may be no text."""
    return notation.write(annotation, to, rate=rate, recording=None if recording is None else printable_path(recording))


def change_rate(annotation: Annotation, taken: float, true: float) -> Annotation:
    """The annotation with times that were counted in samples at the rate `taken`, and are at the rate `true`."""
    notices = tuple(notice for notice in annotation.notices if notice.code != "rate-assumed")
    if taken == true:
        return replace(annotation, notices=notices)
    tiers = [
        replace(t, entries=[Segment(s.start * taken / true, s.end * taken / true, s.label) for s in t.entries])
        for t in annotation.tiers
    ]
    return replace(annotation, tiers=tiers, notices=notices)


def find_losses(source: Annotation, back: Annotation, left_out: Iterable[str] = ()) -> list[Notice]:
    """What `back`, read from what was written, lacks of `source`; tiers in `left_out` are not looked for."""
    form = notation.FORMATS[back.format]
    if form.flat:
        own = main_tier(source)[0] if form.holds == "one" else choose_tier(source)[0]
        return _count_changes(own, choose_tier(back)[0], named=False)
    found: list[Notice] = []
    skipped = Counter(left_out)
    taken: set[int] = set()
    kept = []
    for tier in source.tiers:
        if skipped[tier.name]:
            skipped[tier.name] -= 1
        else:
            kept.append(tier)
    for tier in kept:
        other = _find_partner(tier, back.tiers, taken)
        if other is not None:
            taken.add(id(other))
            if other.name != tier.name:
                message = f"tier {excerpt(tier.name)} is called {excerpt(other.name)} in the file written"
                found.append(Notice("tier-renamed", message, f"tiers/{tier.name}", other.name))
            found += _count_changes(tier, other, named=len(kept) > 1)
        elif tier.entries and not is_derived(tier.name):
            message = f"tier {excerpt(tier.name)} is not found again in the file written"
            found.append(Notice("tiers-lost", message, f"tiers/{tier.name}"))
    return found


def _find_partner(tier: Tier, tiers: list[Tier], taken: set[int]) -> Tier | None:
    """The tier of that name, else one with the same labels, which no other tier has been found in yet."""
    free = [t for t in tiers if id(t) not in taken and t.kind == tier.kind]
    labels = [s.label for s in tier_segments(tier)]
    same = (t for t in free if [s.label for s in tier_segments(t)] == labels)
    return next((t for t in free if t.name == tier.name), None) or next(same, None)


def _count_changes(tier: Tier, back: Tier, *, named: bool) -> list[Notice]:
    """Times moved, labels changed, entries lost and gaps filled."""
    where = f"tier {excerpt(tier.name)}: " if named else ""
    pointer = f"tiers/{tier.name}"
    own, other = tier_segments(tier), tier_segments(back)
    found = []
    blank, blank_after = ([s.label is None for s in both] for both in (own, other))
    if blank != blank_after:
        labelled, kept = blank.count(False), blank_after.count(False)
        more = blank_after.count(True) - blank.count(True)
        if labelled > kept:
            message = f"{where}{labelled} labelled entries, of which {kept} are kept in tier {excerpt(back.name)}"
            found.append(Notice("entries-lost", message, pointer, float(labelled - kept)))
        if more < 0:
            message = f"{where}{_format_count(-more, 'entry', 'entries')} without a label not kept"
            found.append(Notice("entries-lost", message, pointer, float(-more)))
        elif more > 0:
            message = f"{where}{_format_count(more, 'gap', 'gaps')} written as intervals without a label"
            found.append(Notice("gaps-filled", message, pointer, float(more)))
        own, other = ([s for s in both if s.label is not None] for both in (own, other))
        if len(own) != len(other):
            return found
    changed = [(a.label, b.label) for a, b in zip(own, other, strict=True) if a.label != b.label]
    if changed:
        first = f"the first {excerpt(changed[0][0] or '')} to {excerpt(changed[0][1] or '')}"
        found.append(
            Notice(
                "labels-changed", f"{where}{_format_count(len(changed), 'label', 'labels')} changed, {first}", pointer
            )
        )
    pairs = zip(own, other, strict=True)
    moved = max((max(abs(a.start - b.start), abs(a.end - b.end)) for a, b in pairs), default=0.0)
    if moved > ROUNDING:
        message = f"{where}times are rounded, by up to {1000 * moved:.3g} ms"
        found.append(Notice("times-rounded", message, pointer, moved))
    return found


def _format_count(count: int, one: str, many: str) -> str:
    return f"1 {one} is" if count == 1 else f"{count} {many} are"


def find_audio(file: Path) -> Path | None:
    """The recording of the same name in the same folder; None if there is none."""
    name = nfc(file.stem)
    try:
        with os.scandir(file.parent) as beside:
            found = [e.name for e in beside if nfc(os.path.splitext(e.name)[0]) == name]
    except OSError:
        return None
    return next((file.parent / n for n in sorted(found) if os.path.splitext(n)[1].lower() in AUDIO_SUFFIXES), None)


def find_rate(file: Path) -> int | None:
    """Samples per second of that recording, as its header says."""
    audio = find_audio(file)
    return rate_of(audio) if audio is not None else None


def suffix_of(form: str) -> str:
    """The usual suffix of a format, as people spell it."""
    usual = notation.FORMATS[form].suffixes[0]
    return USUAL.get(usual, usual)


def rename_to(file: Path, form: str) -> Path:
    """The file's path with the usual suffix of a format in place of its own."""
    return file.with_name(notation.stem_of(file.name) + suffix_of(form))
