"""The rules by which segments are accepted.

`validate` lists everything that is wrong, and changes nothing. `prepare` refuses what `validate` lists or, with `fix=True`,
repairs it by stated rules and says what it did. `sift` sets bad segments aside instead of refusing them all. A segment may
end up to `TOLERANCE` after the sound without being an error: annotation tools round differently from recorders.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from phonechain.features.errors import NoSegments, Notice, SegmentError, SegmentProblem
from phonechain.features.segments import ROUNDING, Segment

TOLERANCE = 0.010
"""Seconds by which a segment may overrun the sound, and (with `fix`) two segments may overlap."""

SHOWN = 3
"""Problems spelled out in an error's sentence; all of them are in `problems`."""

OnBadSegment = Literal["refuse", "skip"]
"""What happens to a segment that does not fit: all of them are refused, or it is set aside."""

COMMON_RATES = (8000, 11025, 12000, 16000, 20000, 22050, 24000, 32000, 44100, 48000, 96000)


@dataclass(frozen=True, slots=True)
class SiftedSegments:
    """The segments that `sift` kept, and its reasons for leaving out the others.

    `segments` fit the sound and one another; `indices[i]` is the index in the input of `segments[i]`; `problems` has those
    of each segment that was left out.
    """

    segments: list[Segment]
    indices: list[int]
    problems: tuple[SegmentProblem, ...]
    notices: tuple[Notice, ...]


def validate(segments: Sequence[Segment], duration: float | None) -> tuple[SegmentProblem, ...]:
    """List everything that is wrong with the segments, by index; an empty tuple if nothing is.

    Kinds: `non-finite`, `negative`, `reversed`, `zero-length`, `unsorted`, `overlap`, `past-end` (ends more than
    TOLERANCE after the sound), `after-end` (lies wholly after it).

    Args:
        segments: in the order of the input.
        duration: of the sound, seconds; None if unknown, and its end is then not checked.

    Examples:
        >>> [problem] = validate([Segment(0.0, 0.2, "HH"), Segment(0.1, 0.3, "AY")], duration=1.0)
        >>> problem.kind, problem.index
        ('overlap', 1)
        >>> validate([Segment(0.0, 0.1), Segment(0.1, 0.3)], duration=1.0)
        ()
    """
    problems: list[SegmentProblem] = []
    sound: list[int] = []  # indices of segments whose own times make sense, so that they can be compared
    latest = -math.inf
    for i, s in enumerate(segments):
        if latest <= s.start < s.end < math.inf and s.start >= 0 and (duration is None or s.end <= duration):
            sound.append(i)
            latest = s.start
            continue
        at = _name(i, s)
        if not (math.isfinite(s.start) and math.isfinite(s.end)):
            bad = s.end if math.isfinite(s.start) else s.start
            problems.append(SegmentProblem(i, "non-finite", f"{at}: expected finite times, got {bad}"))
            continue
        if s.start < -ROUNDING:
            message = f"{at}: expected a start of 0 s or later, got {_s(s.start)}"
            problems.append(SegmentProblem(i, "negative", message, s.start, 0.0))
        if s.end < s.start:
            message = f"{at}: expected an end after the start {_s(s.start)}, got {_s(s.end)} (reversed)"
            problems.append(SegmentProblem(i, "reversed", message, s.end, s.start))
        elif s.end == s.start:
            message = f"{at}: expected an end after the start {_s(s.start)}, got the same time (zero length)"
            problems.append(SegmentProblem(i, "zero-length", message, s.end, s.start))
        else:
            sound.append(i)
        if s.start < latest - ROUNDING:
            message = (
                f"{at}: expected segments in order of time, got a start of {_s(s.start)} after one of {_s(latest)}"
            )
            problems.append(SegmentProblem(i, "unsorted", message, s.start, latest))
        latest = max(latest, s.start)
        if duration is None:
            continue
        if s.start >= duration:
            message = f"{at}: lies wholly after the end of the sound at {_s(duration)}"
            problems.append(SegmentProblem(i, "after-end", message, s.start, duration))
        elif s.end > duration + TOLERANCE + ROUNDING:
            message = f"{at}: ends {_s(s.end - duration)} past the end of the sound at {_s(duration)}"
            message += f", more than the {1000 * TOLERANCE:.0f} ms tolerated"
            problems.append(SegmentProblem(i, "past-end", message, s.end, duration + TOLERANCE))
    problems += _overlaps(segments, sound)
    problems.sort(key=lambda p: p.index)  # stable: a segment's problems stay in the order above
    return tuple(problems)


def prepare(
    segments: Sequence[Segment], duration: float | None, *, fix: bool = False, lines: Sequence[int] = ()
) -> tuple[list[Segment], tuple[Notice, ...]]:
    """Check the segments and return them ready for use, with a Notice for each change.

    An overrun of the sound by up to TOLERANCE is always clipped. With `fix`, segments of zero length are also dropped, the
    others are sorted by time, and where two overlap by up to TOLERANCE the earlier one is cut at the start of the later one.

    Args:
        segments: in the order of the input.
        duration: of the sound, seconds; None if unknown.
        fix: repair by the rules above instead of refusing.
        lines: of their file, for the problems; empty if unknown.

    Raises:
        NoSegments: there are none.
        SegmentError: with every problem at once, and a hint if the times look like another unit or recording.

    Examples:
        >>> segments, notices = prepare([Segment(0.1, 0.3, "AY"), Segment(0.0, 0.1, "HH")], duration=0.295, fix=True)
        >>> segments
        [Segment(start=0.0, end=0.1, label='HH'), Segment(start=0.1, end=0.295, label='AY')]
        >>> [notice.code for notice in notices]
        ['segments-sorted', 'segment-clipped']
    """
    kept = settle(segments, duration, fix=fix, lines=lines)
    return kept.segments, kept.notices


def settle(
    segments: Sequence[Segment],
    duration: float | None,
    *,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    lines: Sequence[int] = (),
) -> SiftedSegments:
    """As `prepare` or, with `on_bad_segment="skip"`, as `sift`; in either case with the indices of the segments kept.

    Raises:
        NoSegments: as `prepare`.
        SegmentError: as `prepare`.
    """
    if on_bad_segment == "skip":
        return sift(segments, duration, fix=fix, lines=lines)
    if not segments:
        raise NoSegments("expected at least one segment, got none", pointer="segments")
    indexed, notices = _repair(segments, duration, fix=fix)
    repaired = [s for _, s in indexed]
    # Problems refer to the times and indices of the input; what a repair has removed is no longer a problem.
    if problems := validate(repaired, duration):
        raise refusal(_relocate(problems, indexed, segments), segments, duration, lines)
    return SiftedSegments(repaired, [i for i, _ in indexed], (), (*notices, *_doubts(repaired, duration)))


def sift(
    segments: Sequence[Segment], duration: float | None, *, fix: bool = False, lines: Sequence[int] = ()
) -> SiftedSegments:
    """As `prepare`, but set bad segments aside with the reasons instead of refusing them all.

    Of two segments that overlap or are out of order the later one in the list is set aside.

    Raises:
        NoSegments: there are none.
        SegmentError: no segment fits: the units are wrong, or it is another recording's annotation.

    Examples:
        >>> kept = sift([Segment(0.0, 0.1, "HH"), Segment(0.3, 0.3, "T"), Segment(0.3, 0.4, "AY")], duration=1.0)
        >>> kept.indices, [problem.kind for problem in kept.problems]
        ([0, 2], ['zero-length'])
    """
    if not segments:
        raise NoSegments("expected at least one segment, got none", pointer="segments")
    indexed, notices = _repair(segments, duration, fix=fix)
    aside: list[SegmentProblem] = []
    while problems := validate([s for _, s in indexed], duration):
        # Segments with bad times of their own go first: they say nothing about the order of the others.
        problems = tuple(p for p in problems if p.kind not in ("unsorted", "overlap")) or problems
        aside += _relocate(problems, indexed, segments)
        bad = {p.index for p in problems}
        indexed = [pair for i, pair in enumerate(indexed) if i not in bad]
    aside.sort(key=lambda p: p.index)
    if not indexed:
        raise refusal(aside, segments, duration, lines)
    kept = [s for _, s in indexed]
    return SiftedSegments(kept, [i for i, _ in indexed], tuple(aside), (*notices, *_doubts(kept, duration)))


def refusal(
    problems: Iterable[SegmentProblem], segments: Sequence[Segment], duration: float | None, lines: Sequence[int] = ()
) -> SegmentError:
    """One error for all problems: the first few in full, the number of the others, and what may be the cause."""
    found = tuple(problems)
    if len(lines) == len(segments):
        found = tuple(replace(p, line=lines[p.index]) for p in found)
    text = "; ".join(p.message for p in found[:SHOWN])
    if len(found) > SHOWN:
        text += f"; and {len(found) - SHOWN} more"
    hint = explain(segments, duration)
    if hint is None and any(p.kind == "zero-length" for p in found):
        hint = "Segments of zero length can be dropped (fix, --fix)"
    count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    details: dict[str, object] = {"problems": [p.as_dict() for p in found]}
    if hint:
        details["hint"] = hint
    return SegmentError(
        f"{count} in {len(segments)} segments: {text}" + (f". {hint}" if hint else ""),
        problems=found,
        pointer=f"segments/{found[0].index}" if found else "segments",
        value=found[0].value if found else None,
        limit=found[0].limit if found else None,
        details=details,
    )


def explain(segments: Sequence[Segment], duration: float | None) -> str | None:
    """A likely cause of segments that do not fit the sound: another unit, or another recording. None if they fit."""
    times = [(s.start, s.end) for s in segments if math.isfinite(s.start) and math.isfinite(s.end)]
    if duration is None or duration <= 0 or not times:
        return None
    last = max(end for _, end in times)
    if last <= duration + TOLERANCE:
        return None
    if unit := _unit(last / duration):
        return (
            f"These times look like {unit}, not seconds: the last segment ends at {last:g}, the sound at {_s(duration)}"
        )
    first = min(start for start, _ in times)
    if first > TOLERANCE and 0.5 * duration <= last - first <= duration + TOLERANCE + ROUNDING:
        return (
            f"This looks like a part that was cut out of a longer recording and kept its times: from {_s(first)} to "
            f"{_s(last)}, where the sound lasts {_s(duration)}; with a shift of -{_s(first)} they fit (shift, --shift)"
        )
    if any(start >= duration for start, _ in times):
        return (
            "This looks like another recording's annotation: "
            f"its segments end at {_s(last)}, the sound ends at {_s(duration)}"
        )
    return None


def _unit(ratio: float) -> str | None:
    """Name of the unit in which the last segment would end in the second half of the sound; None if there is none."""
    fits = [
        (rate, unit)
        for rate, unit in (
            (1000.0, "milliseconds"),
            (1e6, "microseconds"),
            (1e7, "units of 100 ns (HTK)"),
            *((float(r), f"samples at {r} Hz") for r in COMMON_RATES),
        )
        if 0.5 <= ratio / rate <= 1.02
    ]
    return min(fits, key=lambda f: abs(ratio / f[0] - 1))[1] if fits else None


def _doubts(segments: Sequence[Segment], duration: float | None) -> tuple[Notice, ...]:
    """Notices about segments that are usable, but whose times are probably not in seconds."""
    last = segments[-1].end
    if duration is not None and len(segments) > 1 and last < duration / 50:
        message = (
            f"the segments end at {_s(last)}, which is {100 * last / duration:.2g} % of the sound ({_s(duration)}): "
            "are their times in another unit?"
        )
        return (Notice("segments-cover-little", message, "segments", last, duration),)
    if duration is None and len(segments) > 1:
        typical = median(s.end - s.start for s in segments)
        if typical >= 20 and all(s.start == int(s.start) and s.end == int(s.end) for s in segments):
            message = f"whole numbers and a typical segment of {typical:g} s: are these times samples or milliseconds?"
            return (Notice("segments-long", message, "segments", typical, 20.0),)
    return ()


def _overlaps(segments: Sequence[Segment], sound: list[int]) -> list[SegmentProblem]:
    problems = []
    order = sorted(sound, key=lambda i: (segments[i].start, segments[i].end))
    reach = -1  # the segment that reaches furthest so far
    for i in order:
        s = segments[i]
        if reach >= 0 and s.start < segments[reach].end - ROUNDING:
            # The later one in the list is reported, so that setting it aside is enough.
            late, early = max(i, reach), min(i, reach)
            over = min(segments[reach].end, s.end) - s.start
            message = f"{_name(late, segments[late])}: overlaps {_name(early, segments[early])} by {_s(over)}"
            problems.append(SegmentProblem(late, "overlap", message, over, 0.0))
        if reach < 0 or s.end > segments[reach].end:
            reach = i
    return problems


def _repair(
    segments: Sequence[Segment], duration: float | None, *, fix: bool
) -> tuple[list[tuple[int, Segment]], list[Notice]]:
    """(index in the input, segment) after the repairs, and a Notice for each."""
    indexed = list(enumerate(segments))
    notices: list[Notice] = []
    if fix and all(math.isfinite(s.start) and math.isfinite(s.end) for s in segments):
        long = [(i, s) for i, s in indexed if s.start != s.end]
        if long and (dropped := len(indexed) - len(long)):
            i, s = next((i, s) for i, s in indexed if s.start == s.end)
            count = "1 segment of zero length was" if dropped == 1 else f"{dropped} segments of zero length were"
            message = f"{count} dropped, the first {_name(i, s)} at {_s(s.start)}"
            notices.append(Notice("segments-dropped", message, f"segments/{i}", float(dropped)))
            indexed = long
        ordered = sorted(indexed, key=lambda pair: (pair[1].start, pair[1].end))
        if moved := sum(a is not b for a, b in zip(indexed, ordered, strict=True)):
            message = f"{moved} of {len(indexed)} segments were not in order of time; they were sorted"
            notices.append(Notice("segments-sorted", message, "segments", float(moved)))
        indexed = ordered
        for k in range(len(indexed) - 1):
            (i, s), (j, following) = indexed[k], indexed[k + 1]
            over = s.end - following.start
            # Only the end is cut; a segment inside another, or one that would become empty, is no rounding error.
            if ROUNDING < over <= TOLERANCE + ROUNDING and s.start < following.start and s.end <= following.end:
                indexed[k] = (i, replace(s, end=following.start))
                message = (
                    f"{_name(i, s)}: overlapped {_name(j, following)} by {_s(over)}; its end was cut "
                    f"to {_s(following.start)}"
                )
                notices.append(Notice("segment-trimmed", message, f"segments/{i}/end", s.end, following.start))
    if duration is not None:
        for k, (i, s) in enumerate(indexed):
            if s.start < duration < s.end <= duration + TOLERANCE + ROUNDING:
                indexed[k] = (i, replace(s, end=duration))
                if s.end - duration > ROUNDING:
                    message = f"{_name(i, s)}: ended {_s(s.end - duration)} past the end of the sound; it was clipped"
                    notices.append(
                        Notice("segment-clipped", f"{message} to {_s(duration)}", f"segments/{i}/end", s.end, duration)
                    )
    return indexed, notices


def _relocate(
    problems: Sequence[SegmentProblem], indexed: Sequence[tuple[int, Segment]], segments: Sequence[Segment]
) -> list[SegmentProblem]:
    """The problems of a repaired or filtered list, with the indices of the input."""
    if all(k == i for k, (i, _) in enumerate(indexed)):
        return list(problems)
    place = {k: i for k, (i, _) in enumerate(indexed)}
    moved = []
    for p in problems:
        _, colon, rest = p.message.partition(": ")
        i = place[p.index]
        if p.kind == "overlap":
            over = _s(p.value or 0.0)
            rest = f"overlaps another segment by {over}"
        moved.append(replace(p, index=i, message=_name(i, segments[i]) + colon + rest))
    return sorted(moved, key=lambda p: p.index)


def _name(index: int, s: Segment) -> str:
    return f"segments[{index}]" + (f" '{s.label[:40]}'" if s.label else "")


def _s(seconds: float) -> str:
    """Seconds for a person: to the millisecond, with more digits only where needed."""
    if abs(seconds) >= 1e9:  # nothing is that long: with all its digits nobody would see that
        return f"{seconds:g} s"
    short = f"{seconds:.3f}"
    return (short if abs(float(short) - seconds) < 5e-6 else f"{seconds:.6f}") + " s"
