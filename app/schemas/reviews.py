"""Schemas of `/reviews`: requests and answers."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from phonechain.app.schemas.answers import ModelReference, NoticeOut
from phonechain.app.schemas.classify import parse_channel
from phonechain.app.schemas.corpora import PLAIN

MAX_OPERATIONS = 1000
"""Operations in one request."""
MAX_LABEL = 200
"""Characters of a label."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewReview(_Strict):
    """A new review, or a new name for one."""

    name: str = Field(min_length=1, max_length=200, pattern=PLAIN, description="A name for people.")


class FileOptions(_Strict):
    """Options for adding a file."""

    model: str = Field("default", max_length=200, pattern=PLAIN, description="Name of the model to label it with.")
    tier: str | None = Field(
        None, max_length=1000, pattern=PLAIN, description="Tier with the segments. Default: chosen by the service."
    )
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel of the sound: an index from 0, or `mix` for the mean of all."
    )
    speaker: str | None = Field(None, max_length=200, pattern=PLAIN, description="Name of the speaker.")


class StoredFile(_Strict):
    """A file that the service already has: an utterance of a corpus, or a job's answer to one."""

    corpus: str | None = Field(None, max_length=40, description="Id of a corpus of segments.")
    job: str | None = Field(None, max_length=40, description="Alternatively, id of a label, align or recognize job.")
    place: int = Field(ge=0, le=2**31 - 1, description="Index of the utterance in the corpus, from 0.")
    model: str = Field("default", max_length=200, pattern=PLAIN, description="Name of the model to label it with.")

    @model_validator(mode="after")
    def _one(self) -> StoredFile:
        if (self.corpus is None) == (self.job is None):
            got = "none" if self.corpus is None else "both"
            raise PydanticCustomError("source", "expected the member corpus or job, got {got}", {"got": got})
        return self


class FoundPhone(BaseModel):
    """A phone of an alignment or a recognition; other members are ignored."""

    start: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")
    end: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")
    label: str = Field(max_length=MAX_LABEL, pattern=PLAIN)
    start_interval: tuple[float, float] = Field(
        description="Interval with 90 % of the posterior of the start, seconds."
    )
    within_20_ms: float = Field(ge=0, le=1, description="Probability that the true start is within 20 ms.")
    given_start: float | None = Field(None, allow_inf_nan=False, description="The start before refining, seconds.")

    @field_validator("start_interval")
    @classmethod
    def _finite(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not all(map(math.isfinite, value)):
            raise PydanticCustomError("finite", "expected two finite numbers")
        return value


class FoundWord(BaseModel):
    """A word of an alignment; other members are ignored."""

    start: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")
    end: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")
    written: str = Field(max_length=1000, pattern=PLAIN)


class FoundSegments(BaseModel):
    """The parts of an answer of `POST /align` or `POST /recognize` that a review needs."""

    duration: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")
    segments: list[FoundPhone] = Field(min_length=1, max_length=100_000)
    words: list[FoundWord] = Field(default_factory=list, max_length=100_000)
    input: str | None = Field(None, max_length=20, description="What was aligned: words, phones, or refine.")
    tier: str | None = Field(None, max_length=1000, description="The tier that was aligned or refined.")


class _OfSegment(_Strict):
    file: int = Field(ge=0, le=2**31 - 1, description="Number of the file in the review.")
    segment: int = Field(ge=0, le=2**31 - 1, description="Id of the segment.")


class LabelOperation(_OfSegment):
    """Give a segment a label."""

    op: Literal["label"]
    label: str | None = Field(
        max_length=MAX_LABEL, pattern=PLAIN, description="The label; null or an empty string for none."
    )


class AcceptOperation(_OfSegment):
    """Accept a segment's label."""

    op: Literal["accept"]
    reviewed: bool = Field(True, description="False withdraws the acceptance.")


class MoveOperation(_OfSegment):
    """Move a boundary; a neighbour that touches it moves too."""

    op: Literal["move"]
    edge: Literal["start", "end"]
    time: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")


class SplitOperation(_OfSegment):
    """Cut a segment in two."""

    op: Literal["split"]
    time: float = Field(ge=0, allow_inf_nan=False, description="Seconds.")
    label: str | None = Field(None, max_length=MAX_LABEL, pattern=PLAIN, description="Label of the right part.")


class MergeOperation(_OfSegment):
    """Join a segment with the one after it."""

    op: Literal["merge"]
    label: str | None = Field(
        None, max_length=MAX_LABEL, pattern=PLAIN, description="Default: the label of the first segment."
    )


class FillOperation(_Strict):
    """Give every segment of a file that has no label, and that nobody has checked, the model's label."""

    op: Literal["fill"]
    file: int = Field(ge=0, le=2**31 - 1, description="Number of the file in the review.")


class UndoOperation(_Strict):
    """Undo the last operation that has not been undone, or redo the last undone one."""

    op: Literal["undo", "redo"]


Operation = Annotated[
    LabelOperation | AcceptOperation | MoveOperation | SplitOperation | MergeOperation | FillOperation | UndoOperation,
    Field(discriminator="op"),
]


class Operations(_Strict):
    """Operations on a review; all are carried out, or none."""

    revision: int = Field(
        ge=0, description="The revision that they apply to; if it is not the current one, the answer is 409."
    )
    operations: list[Operation] = Field(min_length=1, max_length=MAX_OPERATIONS)


class ReviewSummary(BaseModel):
    """A review in a list."""

    id: str
    name: str
    revision: int
    files: int
    segments: int
    created: str
    changed: str


class ReviewPage(BaseModel):
    """Reviews, newest first."""

    reviews: list[ReviewSummary]
    next: str | None = Field(description="`cursor` of the next page; null on the last one.")


class ReviewFileOut(BaseModel):
    """A file of a review."""

    number: int
    name: str
    annotation_name: str
    speaker: str | None
    format: str = Field(description="Format of the annotation, also for downloading.")
    tier: str
    tier_index: int
    duration: float = Field(description="Seconds.")
    segments: int = Field(description="Number of segments when it was added.")
    model: ModelReference
    warnings: list[NoticeOut]
    peaks_per_second: int
    sample_rate: int = Field(description="Sample rate of the sound for playing, Hz.")


class ReviewOut(BaseModel):
    """A review with its files."""

    id: str
    name: str
    revision: int
    can_undo: bool
    can_redo: bool
    created: str
    changed: str
    files: list[ReviewFileOut]


Row = tuple[int, float, float, str | None, bool]
"""A segment: id, start, end, label, whether a person judged it."""


class SegmentsOut(BaseModel):
    """The current segments of a file."""

    revision: int
    segments: list[Row] = Field(
        description="Rows of id, start and end (seconds), label (null for none) and whether a person has reviewed it."
    )


class OperationOut(BaseModel):
    """An entry of the log: in `file`, the rows `before` at index `position` became `after`."""

    number: int
    kind: str
    file: int
    position: int
    before: list[Row]
    after: list[Row]
    target: int | None = Field(description="The operation that was undone or redone.")
    by: str | None = Field(description="The name of the API key that sent it; null where no keys were in use.")
    at: str


class OperationsOut(BaseModel):
    """Operations, and the state of the log."""

    revision: int
    can_undo: bool
    can_redo: bool
    operations: list[OperationOut]


class NextFile(BaseModel):
    """A recording with segments left to review."""

    number: int
    name: str
    speaker: str | None
    doubt: float = Field(description="Mean of 1 - posterior of the answer, over segments not yet reviewed.")
    unchecked: int
    duration: float = Field(description="Seconds.")


class ReviewCorpus(BaseModel):
    """A corpus that a review can be trained together with."""

    id: str
    name: str
    utterances: int


class NextFiles(BaseModel):
    """Recordings to label next: each speaker's most doubtful one first, then each one's second, and so on."""

    files: list[NextFile]
    trained_on: ReviewCorpus | None = Field(description="The corpus that the review's model was trained on by a job.")


class ReviewTraining(BaseModel):
    """A training on a review, with the error on its held-out part."""

    job: str
    model: str
    state: str
    created: str
    checked_seconds: float = Field(description="Total duration of the segments reviewed when it started.")
    error: float | None = Field(description="Null until it has ended.")
    low: float | None = Field(description="95 % interval of the error, if known.")
    high: float | None
    segments: int | None = Field(description="Number of held-out segments.")


class ReviewTrainings(BaseModel):
    """Trainings, newest first."""

    trainings: list[ReviewTraining]
