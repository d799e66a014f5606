"""The tables, as SQLAlchemy 2 classes. Times are seconds since 1970 (UTC); sizes are bytes.

The row of a job is authoritative: what Dask knows can be lost at any time, and is restored from here.
"""

from __future__ import annotations

import time
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

QUEUED: Final = "queued"
RUNNING: Final = "running"
CANCELLING: Final = "cancelling"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

STATES: Final = (QUEUED, RUNNING, CANCELLING, SUCCEEDED, FAILED, CANCELLED)
UNFINISHED: Final = (QUEUED, RUNNING, CANCELLING)
TERMINAL: Final = (SUCCEEDED, FAILED, CANCELLED)

SPLIT: Final = ("label", "align", "recognize")
"""Kinds whose work is split over the utterances of a corpus, with a result as far as they have come."""

SPEC_BLOBS: Final = ("model", "base", "teacher", "labelling", "dictionary")
"""Members of a job's spec whose `blob` it needs until it has ended."""

RESULT_BLOBS: Final = ("blob", "evaluation", "segments_blob")
"""Members of a job's result that name blobs: what it made, the figures of its evaluation, the segments behind them."""


class Base(DeclarativeBase):
    """Constraints have names by rule, so that migrations can speak of them on every database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Corpus(Base):
    """Recordings with their segmentations: uploaded, in a folder of the server, or under a URL.

    `location` is the digest of the archive, the folder or the URL. `manifest` is the digest of the list of utterances
    (app/corpora.py). `segments` is None where they were not counted.
    """

    __tablename__ = "corpora"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    source: Mapped[str] = mapped_column(String(16))
    location: Mapped[str] = mapped_column(Text)
    manifest: Mapped[str] = mapped_column(String(64))
    options: Mapped[dict[str, Any]] = mapped_column(JSON)
    utterances: Mapped[int] = mapped_column(Integer)
    segments: Mapped[int | None] = mapped_column(BigInteger)
    labels: Mapped[dict[str, int]] = mapped_column(JSON)
    speakers: Mapped[int] = mapped_column(Integer)
    splits: Mapped[dict[str, int]] = mapped_column(JSON)
    problems: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    problem_count: Mapped[int] = mapped_column(Integer)
    notices: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    hidden: Mapped[bool] = mapped_column(Boolean, default=False)
    """Made from the files uploaded with one job; not listed."""
    owner: Mapped[str] = mapped_column(String(40), default="")
    """The API key that brought it; empty where no keys were in use."""
    bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """What its files take: the archive, what was unpacked or fetched, the list of utterances."""
    created: Mapped[float] = mapped_column(Double, default=time.time)

    __table_args__ = (Index(None, "owner", "id"),)


class ModelVersion(Base):
    """One model file under a name. Never changed once written: another file is another version."""

    __tablename__ = "models"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    version: Mapped[str] = mapped_column(String(64), primary_key=True)
    blob: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    card: Mapped[dict[str, Any]] = mapped_column(JSON)
    job: Mapped[str | None] = mapped_column(String(40))
    owner: Mapped[str] = mapped_column(String(40), default="")
    """The API key that uploaded or trained it; empty where no keys were in use."""
    created: Mapped[float] = mapped_column(Double, default=time.time)


class Alias(Base):
    """Another name for one version of a model, such as `default`."""

    __tablename__ = "aliases"

    alias: Mapped[str] = mapped_column(String(200), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[str] = mapped_column(String(64))
    changed: Mapped[float] = mapped_column(Double, default=time.time)


class Job(Base):
    """A training, labelling or evaluation run.

    `attempt` counts the executions that took the job up: a writer gives its number, and an older one is refused.
    `submissions` counts submissions to Dask, and `stalls` those since something was last finished: a job that only ever
    kills its workers ends.
    """

    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16), default=QUEUED)
    spec: Mapped[dict[str, Any]] = mapped_column(JSON)
    owner: Mapped[str] = mapped_column(String(40), default="")
    """The API key that submitted it; empty where no keys were in use."""
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    submissions: Mapped[int] = mapped_column(Integer, default=0)
    stalls: Mapped[int] = mapped_column(Integer, default=0)
    stage: Mapped[str] = mapped_column(String(40), default="")
    done: Mapped[int] = mapped_column(BigInteger, default=0)
    total: Mapped[int] = mapped_column(BigInteger, default=0)
    unit: Mapped[str] = mapped_column(String(40), default="")
    message: Mapped[str] = mapped_column(Text, default="")
    metrics: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    failed_files: Mapped[int] = mapped_column(Integer, default=0)
    bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """What its answers take; a model that it makes counts for itself."""
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    event: Mapped[int] = mapped_column(Integer, default=0)
    created: Mapped[float] = mapped_column(Double, default=time.time)
    started: Mapped[float | None] = mapped_column(Double)
    ended: Mapped[float | None] = mapped_column(Double)
    cancelled: Mapped[float | None] = mapped_column(Double)
    """When it was asked to end."""
    webhook: Mapped[str | None] = mapped_column(Text)
    webhook_tries: Mapped[int] = mapped_column(Integer, default=0)
    webhook_next: Mapped[float | None] = mapped_column(Double)
    """When it is to be called next; None where there is nothing left to do."""

    __table_args__ = (
        Index(None, "state", "id"), Index(None, "kind", "id"), Index(None, "owner", "id"), Index(None, "webhook_next"),
    )  # fmt: skip


class Event(Base):
    """What happened to a job, in order; the number is the `id` of the server-sent event."""

    __tablename__ = "events"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    type: Mapped[str] = mapped_column(String(16))
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    at: Mapped[float] = mapped_column(Double, default=time.time)


class Shard(Base):
    """A finished part of a labelling job. `blob` is its file of answers."""

    __tablename__ = "shards"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    blob: Mapped[str] = mapped_column(String(64))
    utterances: Mapped[int] = mapped_column(Integer)
    segments: Mapped[int] = mapped_column(BigInteger)
    failed: Mapped[int] = mapped_column(Integer)
    at: Mapped[float] = mapped_column(Double, default=time.time)


class FileError(Base):
    """A file of a job that could not be used. `index` is the utterance's number in the corpus."""

    __tablename__ = "file_errors"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    index: Mapped[int] = mapped_column("place", Integer, primary_key=True)
    utterance: Mapped[str] = mapped_column(Text)
    type: Mapped[str] = mapped_column(String(80))
    detail: Mapped[str] = mapped_column(Text)


class Replay(Base):
    """The first answer to an Idempotency-Key."""

    __tablename__ = "replays"

    scope: Mapped[str] = mapped_column(String(80), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body: Mapped[str] = mapped_column(String(64))
    status: Mapped[int] = mapped_column(Integer)
    location: Mapped[str] = mapped_column(Text)
    answer: Mapped[dict[str, Any]] = mapped_column(JSON)
    at: Mapped[float] = mapped_column(Double, default=time.time)


class ApiKey(Base):
    """A key that was given out; only its SHA-256 is kept (the key has 256 random bits, so that is enough)."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(JSON)
    created: Mapped[float] = mapped_column(Double, default=time.time)
    revoked: Mapped[float | None] = mapped_column(Double)


class Hold(Base):
    """A blob that somebody is about to name in a row: until then, or until the hold expires, it is not removed."""

    __tablename__ = "holds"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    holder: Mapped[str] = mapped_column(String(40), primary_key=True)
    expires: Mapped[float] = mapped_column(Double)


class Lease(Base):
    """Who does what only one service may do at a time, and until when; the holder renews it."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    holder: Mapped[str] = mapped_column(String(200))
    expires: Mapped[float] = mapped_column(Double)
