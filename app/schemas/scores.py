"""Schemas of a corpus's summary and of a job's scored segments."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Example(BaseModel):
    """A stretch of a recording to play."""

    utterance: str
    start: float = Field(description="Seconds.")
    end: float = Field(description="Seconds.")


class LabelSummary(BaseModel):
    """A label of a corpus. Times in seconds."""

    label: str
    count: int
    seconds: float = Field(description="Total duration of its segments.")
    median: float
    shortest: float
    longest: float
    example: Example = Field(description="Its longest segment.")


class SpeakerSummary(BaseModel):
    """A speaker in a corpus; null if unknown."""

    speaker: str | None
    utterances: int
    seconds: float


class AlikeLabels(BaseModel):
    """Labels that look like spellings of the same label, most frequent first."""

    labels: dict[str, int]
    difference: str


class CorpusSummary(BaseModel):
    """The contents of a corpus."""

    seconds: float = Field(description="Total duration of all segments.")
    unlabelled: int = Field(description="Segments without a label.")
    labels: list[LabelSummary] = Field(description="Most frequent first.")
    speakers: list[SpeakerSummary] = Field(description="Longest total duration first.")
    alike: list[AlikeLabels]


class ScoredSegment(BaseModel):
    """A segment that was scored. Times in seconds."""

    utterance: str
    start: float
    end: float
    given: str = Field(description="Its label, as spelled in the corpus.")
    true: str = Field(description="The corresponding label of the model.")
    answer: str
    posterior: float = Field(description="Posterior of the answer.")
    true_posterior: float = Field(description="Posterior of the true label.")


class ScoredSegments(BaseModel):
    """Segments of one cell, row or column of a confusion matrix."""

    count: int = Field(description="Total number, whether listed or not.")
    segments: list[ScoredSegment] = Field(description="Most certain answers first.")


class PresetOut(BaseModel):
    """A system that can be trained."""

    name: str
    title: str


class PresetList(BaseModel):
    """The presets by name."""

    presets: list[PresetOut]
