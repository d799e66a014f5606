"""The tables of reviews. Times are seconds since 1970 (UTC)."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from phonechain.app.storage.tables import Base


class Review(Base):
    """Files that a person checks together. `revision` counts the operations of its log."""

    __tablename__ = "reviews"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    revision: Mapped[int] = mapped_column(Integer, default=0)
    owner: Mapped[str] = mapped_column(String(40), default="")
    """The API key that began it; empty where no keys were in use."""
    created: Mapped[float] = mapped_column(Double, default=time.time)
    changed: Mapped[float] = mapped_column(Double, default=time.time)

    __table_args__ = (Index(None, "owner", "id"),)


class ReviewFile(Base):
    """A recording with its annotation, both as they came, and what the model answered.

    `sound`, `annotation`, `playback`, `peaks` and `answer` are digests of blobs: the two files, the sound for the browser
    (16 kHz, 16 bits), its extremes for drawing, and the answer with the segments as they were given. `original_rate` is
    the recording's sample rate (Hz).
    """

    __tablename__ = "review_files"

    review: Mapped[str] = mapped_column(ForeignKey("reviews.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    annotation_name: Mapped[str] = mapped_column(Text)
    speaker: Mapped[str | None] = mapped_column(Text)
    sound: Mapped[str] = mapped_column(String(64))
    annotation: Mapped[str] = mapped_column(String(64))
    playback: Mapped[str] = mapped_column(String(64))
    peaks: Mapped[str] = mapped_column(String(64))
    answer: Mapped[str] = mapped_column(String(64))
    format: Mapped[str] = mapped_column(String(40))
    tier: Mapped[str] = mapped_column(Text)
    tier_index: Mapped[int] = mapped_column(Integer)
    duration: Mapped[float] = mapped_column(Double)
    original_rate: Mapped[int | None] = mapped_column(Integer)
    segments: Mapped[int] = mapped_column(Integer)
    bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    model: Mapped[dict[str, Any]] = mapped_column(JSON)
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    created: Mapped[float] = mapped_column(Double, default=time.time)


class ReviewOperation(Base):
    """One entry of a review's log, never changed: in file `file`, the segments `before` at index `position` became `after`.

    `target` is the number of the operation that an undo or a redo is about.
    """

    __tablename__ = "review_operations"

    review: Mapped[str] = mapped_column(ForeignKey("reviews.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    file: Mapped[int] = mapped_column(Integer)
    position: Mapped[int] = mapped_column(Integer)
    before: Mapped[list[Any]] = mapped_column(JSON)
    after: Mapped[list[Any]] = mapped_column(JSON)
    target: Mapped[int | None] = mapped_column(Integer)
    key: Mapped[str] = mapped_column(String(40), default="")
    """The id of the API key that sent it; empty without keys."""
    at: Mapped[float] = mapped_column(Double, default=time.time)
