"""Reviews in the database: files with the model's answer, and the log of operations.

The log is the truth; the segments as they stand are worked out from it and kept in memory, to be brought up to date
with what other processes have added.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from phonechain.app.problems.errors import InvalidOperation, ReviewConflict, UnknownReview
from phonechain.app.reviews import edits, intake
from phonechain.app.reviews.edits import Change, ReviewSegment, Sheet
from phonechain.app.reviews.tables import Review, ReviewFile, ReviewOperation
from phonechain.app.settings import Settings
from phonechain.app.storage import quotas, references
from phonechain.app.storage.ids import new_id
from phonechain.app.storage.tables import ApiKey
from phonechain.app.storage.workspace import Workspace

CACHED = 64
"""Files whose segments are kept in memory."""
MAX_FILES = 2000
"""Files of one review."""


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log stands: its revision, and whether something can be undone or redone."""

    revision: int
    can_undo: bool
    can_redo: bool

    def to_json(self) -> dict[str, Any]:
        """As members of an answer."""
        return {"revision": self.revision, "can_undo": self.can_undo, "can_redo": self.can_redo}


class Reviews:
    """The reviews of a workspace. Every method goes to the database: call them in a thread."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._sheets: OrderedDict[tuple[str, int], tuple[int, Sheet]] = OrderedDict()
        self._lock = threading.Lock()

    def create(self, name: str, owner: str = "") -> Review:
        """A review without files, of the key `owner`."""
        row = Review(id=new_id(), name=name, owner=owner, revision=0, created=time.time(), changed=time.time())
        with self.workspace.db.write() as session:
            session.add(row)
        return row

    def check_owner(self, id: str, owner: str) -> None:
        """Raises UnknownReview where the review is not the key's: the same answer, so that who asks learns nothing."""
        with self.workspace.db.read() as session:
            if _get_review(session, id).owner != owner:
                raise _unknown_review(id)

    def page(self, limit: int, before: str | None, owner: str | None = None) -> list[tuple[Review, int, int]]:
        """Up to `limit` reviews, of the key `owner` if given, the newest first, each with the number of its files and of
        their segments."""
        query = (
            select(Review, func.count(ReviewFile.number), func.coalesce(func.sum(ReviewFile.segments), 0))
            .outerjoin(ReviewFile, ReviewFile.review == Review.id)
            .group_by(Review.id)
            .order_by(Review.id.desc())
            .limit(limit)
        )
        if owner is not None:
            query = query.where(Review.owner == owner)
        with self.workspace.db.read() as session:
            found = session.execute(query if before is None else query.where(Review.id < before))
            return [(row, int(files), int(segments)) for row, files, segments in found]

    def get(self, id: str) -> tuple[Review, list[ReviewFile], LogState]:
        """A review with its files. Raises UnknownReview."""
        with self.workspace.db.read() as session:
            review = _get_review(session, id)
            files = session.scalars(select(ReviewFile).where(ReviewFile.review == id).order_by(ReviewFile.number))
            return review, list(files), _log_state(session, review)

    def file(self, id: str, number: int) -> ReviewFile:
        """One file of a review. Raises UnknownReview."""
        with self.workspace.db.read() as session:
            return _get_file(session, id, number)

    def add_file(self, id: str, row: ReviewFile, settings: Settings | None = None) -> ReviewFile:
        """Add a file; it gets the next number. Raises UnknownReview, InvalidOperation, QuotaExceeded."""
        row.bytes = sum(self.workspace.store.size(digest) for digest in set(blobs_of(row)))
        with self.workspace.db.write() as session:
            review = _get_review(session, id)
            if settings is not None:
                quotas.check_bytes(session, settings, review.owner, row.bytes)
            last = session.scalar(select(func.max(ReviewFile.number)).where(ReviewFile.review == id))
            row.review, row.number = id, 0 if last is None else last + 1
            if row.number >= MAX_FILES:
                raise InvalidOperation(
                    f"a review holds at most {MAX_FILES} files; create another review",
                    value=row.number,
                    limit=MAX_FILES,
                )
            review.changed = row.created = time.time()
            session.add(row)
        return row

    def rename(self, id: str, name: str) -> Review:
        """Give a review another name. Raises UnknownReview."""
        with self.workspace.db.write() as session:
            review = _get_review(session, id)
            review.name, review.changed = name, time.time()
        return review

    def delete(self, id: str) -> None:
        """Forget a review with its files and its log. Raises UnknownReview."""
        with self.workspace.db.write() as session:
            _get_review(session, id)
            files = list(session.scalars(select(ReviewFile).where(ReviewFile.review == id)))
            for table in (ReviewOperation, ReviewFile):
                session.execute(delete(table).where(table.review == id))
            session.execute(delete(Review).where(Review.id == id))
        references.drop(self.workspace, *{digest for file in files for digest in blobs_of(file)})

    def segments(self, id: str, number: int) -> tuple[int, list[ReviewSegment]]:
        """(the log's revision, the segments of a file as they stand). Raises UnknownReview."""
        with self._lock, self.workspace.db.read() as session:
            review = _get_review(session, id)
            return review.revision, list(self._load_sheet(session, review, number).segments)

    def operations(self, id: str, after: int, limit: int) -> tuple[LogState, list[ReviewOperation]]:
        """The log from the operation after number `after` on. Raises UnknownReview."""
        query = (
            select(ReviewOperation)
            .where(ReviewOperation.review == id, ReviewOperation.number > after)
            .order_by(ReviewOperation.number)
            .limit(limit)
        )
        with self.workspace.db.read() as session:
            review = _get_review(session, id)
            return _log_state(session, review), list(session.scalars(query))

    def key_names(self, rows: Sequence[ReviewOperation]) -> dict[str, str]:
        """The names of the API keys that sent these operations, by their ids, revoked ones too."""
        if not (ids := {row.key for row in rows if row.key}):
            return {}
        with self.workspace.db.read() as session:
            return {key.id: key.name for key in session.scalars(select(ApiKey).where(ApiKey.id.in_(ids)))}

    def append(
        self, id: str, revision: int, operations: Sequence[Any], key: str = ""
    ) -> tuple[LogState, list[ReviewOperation]]:
        """Carry out operations, all or none, on the review as it was at `revision`.

        Raises:
            UnknownReview.
            ReviewConflict: the review has changed since.
            InvalidOperation: the segments do not allow one of them.
        """
        with self._lock:
            try:
                with self.workspace.db.write() as session:
                    return self._append(session, id, revision, operations, key)
            except BaseException:
                self._drop_sheets(id)  # what was changed in memory is not in the log
                raise

    def _append(
        self, session: Session, id: str, revision: int, operations: Sequence[Any], key: str
    ) -> tuple[LogState, list[ReviewOperation]]:
        review = session.scalars(select(Review).where(Review.id == id).with_for_update()).first()
        if review is None:
            raise _unknown_review(id)
        if review.revision != revision:
            raise ReviewConflict(
                f"the review is at revision {review.revision}, but the operations are for revision {revision}",
                pointer="revision",
                value=revision,
                limit=review.revision,
            )
        # The sheets are brought up to date before the revision moves on.
        undo, redo = edits.build_stacks(_read_log(session, id))
        rows = []
        for operation in operations:
            kind, target = operation.op, None
            if kind in ("undo", "redo"):
                target, change = self._find_target(session, id, kind, undo if kind == "undo" else redo)
            elif kind == "fill":
                sheet = self._load_sheet(session, review, operation.file)
                change = edits.plan_fill(sheet, self._read_answers(session, id, operation.file))
            else:
                change = edits.plan(self._load_sheet(session, review, operation.file), operation)
            self._load_sheet(session, review, change.file).apply(change)
            row = _operation_row(id, review.revision + 1, kind, change, target, key)
            session.add(row)
            session.flush()
            review.revision += 1
            self._sheets[id, change.file] = (review.revision, self._sheets[id, change.file][1])
            _push(undo, redo, kind, row.number)
            rows.append(row)
        review.changed = time.time()
        return LogState(review.revision, bool(undo), bool(redo)), rows

    def _read_answers(self, session: Session, id: str, number: int) -> list[str | None]:
        """The model's label of each segment of a file as it came, None where it was not asked."""
        answer = intake.read_answer(self.workspace, _get_file(session, id, number).answer)
        return [answer["labels"][best[0]] if best else None for best in answer["n_best"]]

    def _find_target(self, session: Session, id: str, kind: str, stack: list[int]) -> tuple[int, Change]:
        """The operation that an undo or a redo is about, and its change."""
        if not stack:
            raise InvalidOperation(f"there is nothing to {kind}", pointer="operations")
        row = session.get(ReviewOperation, (id, stack[-1]))
        assert row is not None
        change = change_of(row)
        return row.number, change.inverse() if kind == "undo" else change

    def _load_sheet(self, session: Session, review: Review, number: int) -> Sheet:
        """The segments of a file, brought up to date with the log."""
        key = (review.id, number)
        known = self._sheets.get(key)
        if known is None or known[0] > review.revision:
            file = _get_file(session, review.id, number)
            answer = intake.read_answer(self.workspace, file.answer)
            columns = zip(answer["start"], answer["end"], answer["given"], strict=True)
            rows = [ReviewSegment(i, start, end, given) for i, (start, end, given) in enumerate(columns)]
            known = (0, Sheet(number, rows, file.duration))
        at, sheet = known
        if at < review.revision:
            query = select(ReviewOperation).where(
                ReviewOperation.review == review.id,
                ReviewOperation.file == number,
                ReviewOperation.number > at,
                ReviewOperation.number <= review.revision,
            )
            for row in session.scalars(query.order_by(ReviewOperation.number)):
                sheet.apply(change_of(row))
        self._sheets[key] = (review.revision, sheet)
        self._sheets.move_to_end(key)
        while len(self._sheets) > CACHED:
            self._sheets.popitem(last=False)
        return sheet

    def _drop_sheets(self, id: str) -> None:
        for key in [key for key in self._sheets if key[0] == id]:
            del self._sheets[key]


def blobs_of(file: ReviewFile) -> tuple[str, ...]:
    """Digests of the blobs that a file needs."""
    return file.sound, file.annotation, file.playback, file.peaks, file.answer


def change_of(row: ReviewOperation) -> Change:
    """What an operation of the log did."""
    before, after = (tuple(ReviewSegment.from_json(s) for s in part) for part in (row.before, row.after))
    return Change(row.file, row.position, before, after)


def _operation_row(id: str, number: int, kind: str, change: Change, target: int | None, key: str) -> ReviewOperation:
    return ReviewOperation(
        review=id,
        number=number,
        kind=kind,
        file=change.file,
        position=change.position,
        before=[s.to_json() for s in change.before],
        after=[s.to_json() for s in change.after],
        target=target,
        key=key,
        at=time.time(),
    )


def _push(undo: list[int], redo: list[int], kind: str, number: int) -> None:
    if kind == "undo":
        redo.append(undo.pop())
    elif kind == "redo":
        undo.append(redo.pop())
    else:
        undo.append(number)
        redo.clear()


def _read_log(session: Session, id: str) -> list[tuple[int, str]]:
    query = select(ReviewOperation.number, ReviewOperation.kind)
    rows = session.execute(query.where(ReviewOperation.review == id).order_by(ReviewOperation.number))
    return [(number, kind) for number, kind in rows]


def _log_state(session: Session, review: Review) -> LogState:
    undo, redo = edits.build_stacks(_read_log(session, review.id))
    return LogState(review.revision, bool(undo), bool(redo))


def _get_review(session: Session, id: str) -> Review:
    review = session.get(Review, id)
    if review is None:
        raise _unknown_review(id)
    return review


def _unknown_review(id: str) -> UnknownReview:
    return UnknownReview(f"there is no review {id[:80]!r}", pointer="id", value=id[:80])


def _get_file(session: Session, id: str, number: int) -> ReviewFile:
    file = session.get(ReviewFile, (id, number)) if 0 <= number < 2**31 else None
    if file is None:
        _get_review(session, id)
        raise UnknownReview(f"the review has no file {number}", pointer="file", value=number)
    return file
