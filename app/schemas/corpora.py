"""Schemas of `/corpora`: requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

PLAIN = "^[^\x00]*$"


class CorpusOptions(BaseModel):
    """How a corpus is read."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("corpus", description="A name for people.", min_length=1, max_length=200, pattern=PLAIN)
    tier: str | None = Field(
        None, description="Tier with the phones in the annotations.", max_length=1000, pattern=PLAIN
    )
    holds: Literal["segments", "transcripts", "sound"] = Field(
        "segments",
        description="What the files beside the recordings contain: `segments` (annotations), `transcripts` (text or "
        "annotations, for align jobs), or `sound` (they are ignored, for recognize jobs).",
    )
    layout: str | None = Field(None, description="Layout. Default: recognised.", max_length=40, pattern=PLAIN)
    table: str | None = Field(
        None, description="Table of speakers and splits in the corpus. Default: utterances.tsv.", max_length=1000,
        pattern=PLAIN,
    )  # fmt: skip
    fix: bool = Field(False, description="Sort segments and remove overlaps up to 10 ms.")
    on_bad_segment: Literal["refuse", "skip"] = Field(
        "refuse",
        description="For an invalid segment: `refuse` its file, or `skip` only the segment; labelling jobs then give it a null "
        "label with the reason.",
    )
    drop: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, description="Labels whose segments to exclude.", max_length=1000
    )


class RegisterCorpus(CorpusOptions):
    """A folder or URL of the server, below one that the service allows."""

    folder: str | None = Field(None, description="Absolute path of a folder.", max_length=4096, pattern=PLAIN)
    url: str | None = Field(
        None, description="URL in a form that fsspec opens, such as s3://BUCKET/PREFIX.", max_length=4096
    )

    @model_validator(mode="after")
    def _one(self) -> RegisterCorpus:
        if (self.folder is None) == (self.url is None):
            raise PydanticCustomError("place", "expected either folder or url")
        return self


class CorpusProblemOut(BaseModel):
    """A problem with one file."""

    file: str
    line: int | None = None
    message: str


class CorpusOut(BaseModel):
    """A corpus and its contents."""

    id: str
    name: str
    source: str = Field(description="`upload`, `folder`, `url` or `list`.")
    utterances: int
    segments: int | None = Field(description="null for a corpus by reference, whose segments are not counted.")
    labels: dict[str, int] = Field(description="Count of each label, most frequent first.")
    speakers: int
    splits: dict[str, int] = Field(description="Number of utterances in each split.")
    problems: list[CorpusProblemOut] = Field(description="Files that could not be used; at most 1000.")
    problem_count: int
    warnings: list[dict[str, Any]]
    options: dict[str, Any]
    created: str


class CorpusPage(BaseModel):
    """Corpora, newest first."""

    corpora: list[CorpusOut]
    next: str | None = Field(None, description="`cursor` of the next page; null on the last one.")
