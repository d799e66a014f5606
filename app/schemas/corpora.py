"""What `/corpora` takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

PLAIN = "^[^\x00]*$"


class CorpusOptions(BaseModel):
    """How a corpus is read."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("corpus", description="For people.", min_length=1, max_length=200, pattern=PLAIN)
    tier: str | None = Field(None, description="Tier of the phones in the annotations.", max_length=1000, pattern=PLAIN)
    holds: Literal["segments", "transcripts", "sound"] = Field(
        "segments",
        description="What the files beside the recordings are: annotations with `segments`; `transcripts`, as text or in "
        "annotations, for jobs that align; or nothing that is looked at (`sound`), for jobs that recognise.",
    )
    layout: str | None = Field(None, description="Layout; left out, it is recognised.", max_length=40, pattern=PLAIN)
    table: str | None = Field(
        None, description="Table of speakers and splits inside the corpus; else utterances.tsv.", max_length=1000,
        pattern=PLAIN,
    )  # fmt: skip
    fix: bool = Field(False, description="Sort segments and remove overlaps of up to 10 ms.")
    on_bad_segment: Literal["refuse", "skip"] = Field(
        "refuse",
        description="What a segment does that does not fit: `refuse` its file, or be left out alone; jobs that label the "
        "corpus then give it a null label with the reason.",
    )
    drop: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, description="Labels whose segments are left out.", max_length=1000
    )


class RegisterCorpus(CorpusOptions):
    """A folder of the server, or a URL, under those that the service allows."""

    folder: str | None = Field(None, description="Absolute path of a folder.", max_length=4096, pattern=PLAIN)
    url: str | None = Field(None, description="URL that fsspec opens, such as s3://BUCKET/PREFIX.", max_length=4096)

    @model_validator(mode="after")
    def _one(self) -> RegisterCorpus:
        if (self.folder is None) == (self.url is None):
            raise PydanticCustomError("place", "expected either folder or url")
        return self


class CorpusProblemOut(BaseModel):
    """Something wrong with one file."""

    file: str
    line: int | None = None
    message: str


class CorpusOut(BaseModel):
    """A corpus, with what was found in it."""

    id: str
    name: str
    source: str = Field(description="`upload`, `folder`, `url` or `list`.")
    utterances: int
    segments: int | None = Field(description="null where they were not counted: in a corpus by reference.")
    labels: dict[str, int] = Field(description="How often each label occurs, the most frequent first.")
    speakers: int
    splits: dict[str, int] = Field(description="Utterances of each split.")
    problems: list[CorpusProblemOut] = Field(description="Files that could not be used; 1000 at most.")
    problem_count: int
    warnings: list[dict[str, Any]]
    options: dict[str, Any]
    created: str


class CorpusPage(BaseModel):
    """Corpora, the newest first."""

    corpora: list[CorpusOut]
    next: str | None = Field(None, description="`cursor` of the next page; null on the last one.")
