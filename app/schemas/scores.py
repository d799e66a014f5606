"""What is told of a corpus before a training, and of a model after it."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Example(BaseModel):
    """A stretch of a recording that can be heard."""

    utterance: str
    start: float = Field(description="Seconds.")
    end: float = Field(description="Seconds.")


class LabelSummary(BaseModel):
    """A label of a corpus. Times in seconds."""

    label: str
    count: int
    seconds: float = Field(description="Of all its segments.")
    median: float
    shortest: float
    longest: float
    example: Example = Field(description="Its longest segment.")


class SpeakerSummary(BaseModel):
    """A speaker of a corpus; null where none is known."""

    speaker: str | None
    utterances: int
    seconds: float


class AlikeLabels(BaseModel):
    """Labels that look like spellings of one another, the most frequent first."""

    labels: dict[str, int]
    difference: str


class CorpusSummary(BaseModel):
    """What is in a corpus."""

    seconds: float = Field(description="Of all segments.")
    unlabelled: int = Field(description="Segments without a label.")
    labels: list[LabelSummary] = Field(description="The most frequent first.")
    speakers: list[SpeakerSummary] = Field(description="Who speaks longest first.")
    alike: list[AlikeLabels]


class ScoredSegment(BaseModel):
    """A segment that was scored. Times in seconds."""

    utterance: str
    start: float
    end: float
    given: str = Field(description="Its label as the corpus spells it.")
    true: str = Field(description="The model's label that it stands for.")
    answer: str
    posterior: float = Field(description="Of the answer.")
    true_posterior: float = Field(description="Of the true label.")


class ScoredSegments(BaseModel):
    """Segments of one cell, row or column of a confusion matrix."""

    count: int = Field(description="How many there are, shown or not.")
    segments: list[ScoredSegment] = Field(description="The surest answers first.")


class PresetOut(BaseModel):
    """A system that can be trained."""

    name: str
    title: str


class PresetList(BaseModel):
    """The presets by name."""

    presets: list[PresetOut]
