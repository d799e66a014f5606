"""Operations on the segments of a file: each replaces a few neighbouring segments by others.

Nothing here knows the database or HTTP. A change is kept with what it replaced, so that the log is its own inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from phonechain.app.problems.errors import InvalidOperation
from phonechain.features.annotation.base import excerpt
from phonechain.features.segments import ROUNDING

SHORTEST = 0.001
"""Minimum length in seconds of a segment whose boundaries move."""


@dataclass(frozen=True, slots=True)
class ReviewSegment:
    """A segment under review. Times in seconds; `id` stays when it moves; `reviewed` says that a person judged it."""

    id: int
    start: float
    end: float
    label: str | None = None
    reviewed: bool = False

    def to_json(self) -> list[Any]:
        """As a row of the log and of the interface."""
        return [self.id, self.start, self.end, self.label, self.reviewed]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> ReviewSegment:
        """From a row of the log."""
        return cls(row[0], row[1], row[2], row[3], row[4])


@dataclass(frozen=True, slots=True)
class Change:
    """In file `file`, the segments `before`, which begin at index `position`, become `after`."""

    file: int
    position: int
    before: tuple[ReviewSegment, ...]
    after: tuple[ReviewSegment, ...]

    def inverse(self) -> Change:
        """The change that takes this one back."""
        return Change(self.file, self.position, self.after, self.before)


@dataclass(slots=True)
class Sheet:
    """The segments of one file in order, and the id that the next new one gets. `duration` in seconds."""

    file: int
    segments: list[ReviewSegment]
    duration: float
    next_id: int = field(default=0)

    def __post_init__(self) -> None:
        self.next_id = max(self.next_id, 1 + max((s.id for s in self.segments), default=-1))

    def apply(self, change: Change) -> None:
        """Carry out a change."""
        here = slice(change.position, change.position + len(change.before))
        assert tuple(self.segments[here]) == change.before, "the change is about other segments"
        self.segments[here] = change.after
        self.next_id = max(self.next_id, 1 + max((s.id for s in change.after), default=-1))

    def find(self, id: int) -> int:
        """The index of a segment. Raises InvalidOperation."""
        if 0 <= id < len(self.segments) and self.segments[id].id == id:  # nothing was split or merged before it
            return id
        for index, segment in enumerate(self.segments):
            if segment.id == id:
                return index
        raise InvalidOperation(f"file {self.file} has no segment {id}", pointer="operations", value=id)


def plan_label(sheet: Sheet, id: int, label: str | None) -> Change:
    """Give the segment a label; a person has judged it then."""
    return _replace(sheet, sheet.find(id), label=label or None, reviewed=True)


def plan_accept(sheet: Sheet, id: int, reviewed: bool = True) -> Change:
    """Accept the segment's label."""
    return _replace(sheet, sheet.find(id), reviewed=reviewed)


def plan_move(sheet: Sheet, id: int, edge: Literal["start", "end"], time: float) -> Change:
    """Move a boundary of the segment to `time` (seconds). A neighbour that touches it there moves with it.

    Raises:
        InvalidOperation: the boundary would leave the sound, or a segment would be left shorter than SHORTEST.
    """
    index = sheet.find(id)
    own = sheet.segments[index]
    at = own.start if edge == "start" else own.end
    other = index - 1 if edge == "start" else index + 1
    beside = sheet.segments[other] if 0 <= other < len(sheet.segments) else None
    facing = None if beside is None else (beside.end if edge == "start" else beside.start)
    touches = facing is not None and abs(facing - at) <= ROUNDING
    low, high = _find_room(sheet, own, beside if touches else None, facing, edge)
    if not low - ROUNDING <= time <= high + ROUNDING:
        raise InvalidOperation(
            f"the boundary can move between {low:.3f} and {high:.3f} s, got {time:.3f} s",
            pointer="time",
            value=time,
            limit=low if time < low else high,
        )
    moved = replace(own, start=time) if edge == "start" else replace(own, end=time)
    if not touches or beside is None:
        return Change(sheet.file, index, (own,), (moved,))
    if edge == "start":
        return Change(sheet.file, other, (beside, own), (replace(beside, end=time), moved))
    return Change(sheet.file, index, (own, beside), (moved, replace(beside, start=time)))


def _find_room(
    sheet: Sheet, own: ReviewSegment, touching: ReviewSegment | None, facing: float | None, edge: str
) -> tuple[float, float]:
    """The earliest and the latest time of a boundary: a touching neighbour gives way, a distant one does not."""
    if edge == "start":
        low = touching.start + SHORTEST if touching is not None else (facing if facing is not None else 0.0)
        return low, own.end - SHORTEST
    high = touching.end - SHORTEST if touching is not None else (facing if facing is not None else sheet.duration)
    return own.start + SHORTEST, high


def plan_split(sheet: Sheet, id: int, time: float, label: str | None = None) -> Change:
    """Cut the segment in two at `time` (seconds). The left part keeps id and label, the right one gets `label`.

    Raises:
        InvalidOperation: a part would be shorter than SHORTEST.
    """
    index = sheet.find(id)
    own = sheet.segments[index]
    low, high = own.start + SHORTEST, own.end - SHORTEST
    if not low <= time <= high:
        raise InvalidOperation(
            f"the segment can be split between {low:.3f} and {high:.3f} s, got {time:.3f} s",
            pointer="time",
            value=time,
            limit=low if time < low else high,
        )
    right = ReviewSegment(sheet.next_id, time, own.end, label or None)
    return Change(sheet.file, index, (own,), (replace(own, end=time, reviewed=False), right))


def plan_merge(sheet: Sheet, id: int, label: str | None = None) -> Change:
    """Join the segment with the one after it. It gets `label`, else its own label, else that of the other.

    Raises:
        InvalidOperation: nothing comes after it, or not at once.
    """
    index = sheet.find(id)
    own = sheet.segments[index]
    if index + 1 == len(sheet.segments):
        raise InvalidOperation("the last segment cannot be merged: none comes after it", pointer="segment", value=id)
    after = sheet.segments[index + 1]
    if abs(after.start - own.end) > ROUNDING:
        raise InvalidOperation(
            f"only touching segments can be merged; these are {after.start - own.end:.3f} s apart",
            pointer="segment",
            value=id,
        )
    joined = replace(own, end=after.end, label=label or own.label or after.label, reviewed=True)
    return Change(sheet.file, index, (own, after), (joined,))


def plan_fill(sheet: Sheet, labels: Sequence[str | None]) -> Change:
    """Give segments without a label, which nobody has judged, the label under their id; they are still to be judged.

    Raises:
        InvalidOperation: there is none.
    """
    new = [
        replace(s, label=labels[s.id]) if s.label is None and not s.reviewed and s.id < len(labels) else s
        for s in sheet.segments
    ]
    changed = [i for i, (old, now) in enumerate(zip(sheet.segments, new, strict=True)) if old != now]
    if not changed:
        raise InvalidOperation(
            f"file {sheet.file} has no unchecked segment without a label", pointer="operations", value=sheet.file
        )
    here = slice(changed[0], changed[-1] + 1)
    return Change(sheet.file, here.start, tuple(sheet.segments[here]), tuple(new[here]))


def plan(sheet: Sheet, operation: Any) -> Change:
    """The change of an operation as the interface takes it (`phonechain.app.schemas.reviews`). Raises InvalidOperation."""
    match operation.op:
        case "label":
            return plan_label(sheet, operation.segment, operation.label)
        case "accept":
            return plan_accept(sheet, operation.segment, operation.reviewed)
        case "move":
            return plan_move(sheet, operation.segment, operation.edge, operation.time)
        case "split":
            return plan_split(sheet, operation.segment, operation.time, operation.label)
        case "merge":
            return plan_merge(sheet, operation.segment, operation.label)
    raise InvalidOperation(f"expected a known operation, got {excerpt(str(operation.op))}", pointer="operations")


def build_stacks(log: Sequence[tuple[int, str]]) -> tuple[list[int], list[int]]:
    """What can be undone and what can be redone, the next one last, from (number, kind) of the log in order."""
    undo: list[int] = []
    redo: list[int] = []
    for number, kind in log:
        if kind == "undo":
            redo.append(undo.pop())
        elif kind == "redo":
            undo.append(redo.pop())
        else:
            undo.append(number)
            redo.clear()
    return undo, redo


def _replace(sheet: Sheet, index: int, **values: Any) -> Change:
    own = sheet.segments[index]
    return Change(sheet.file, index, (own,), (replace(own, **values),))
