"""What `POST /align` and `POST /recognize` take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError

from phonechain.app.schemas.classify import (
    Alternative,
    ModelReference,
    NoticeOut,
    _parse_base64,
    answer_formats,
    parse_channel,
)

MAX_DICTIONARY = 16 * 2**20
"""Characters of a dictionary that comes with a request."""

Oov = Literal["guess", "refuse"] | None
OOV = (
    "What becomes of words that the dictionary lacks: `guess` their pronunciation from their letters, and mark it as "
    "guessed, or `refuse` the transcript, naming all of them. Left out: `guess` with the English dictionary, `refuse` "
    "with one's own."
)


class RecognizeOptions(BaseModel):
    """The options of `POST /recognize`, by the same names in the query, in a form and in a JSON body."""

    model_config = ConfigDict(extra="forbid")

    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel of the sound: an index from 0, or `mix` for the mean of all."
    )
    format: str = Field("json", description="`json`, or the name of an annotation format, which gives a file.")

    @field_validator("format")
    @classmethod
    def _check_format(cls, value: str) -> str:
        known = answer_formats()
        if value not in known:
            raise PydanticCustomError("format", "expected one of {names}", {"names": ", ".join(known)})
        return value


class AlignOptions(RecognizeOptions):
    """The options of `POST /align`."""

    text: str | None = Field(None, description="The transcript.", max_length=200_000)
    phones: bool = Field(False, description="The transcript is phones with blanks between them, not words.")
    language: str = Field("en", description="Language in which numbers are read out.", max_length=20)
    tier: str | None = Field(None, description="Tier of an annotation that holds the words or phones.")
    refine: bool = Field(False, description="Move the boundaries of an annotation to where they fit best nearby.")
    spread: float = Field(
        0.03, gt=0, le=1, description="Seconds by which given boundaries are thought to be off, with `refine`."
    )
    dictionary: str | None = Field(
        None,
        description="Pronunciations that are used instead of the English ones, in MFA's format.",
        max_length=MAX_DICTIONARY,
    )
    oov: Oov = Field(None, description=OOV)


class AlignBody(AlignOptions):
    """One request as JSON."""

    audio: Annotated[bytes, BeforeValidator(_parse_base64, json_schema_input_type=str)] = Field(
        description="A whole sound file, in base64.", json_schema_extra={"contentEncoding": "base64"}
    )


class RecognizeBody(RecognizeOptions):
    """One request as JSON."""

    audio: Annotated[bytes, BeforeValidator(_parse_base64, json_schema_input_type=str)] = Field(
        description="A whole sound file, in base64.", json_schema_extra={"contentEncoding": "base64"}
    )


class AlignedSegmentOut(BaseModel):
    """A phone and how certain it is."""

    start: float = Field(description="Seconds.")
    end: float = Field(description="Seconds.")
    label: str
    start_interval: list[float] = Field(description="The central interval that holds 90 % of the start's posterior.")
    within_20_ms: float = Field(description="Probability that the start is within 20 ms of where it is put.")
    posterior: float = Field(description="Probability of the label by the sound alone, over the segment.")
    n_best: list[Alternative] = Field(description="What is heard there, the most probable first.")
    word: int | None = Field(description="Index of its word; null for a silence.")
    given_start: float | None = Field(None, description="Where the start was before refining.")
    given_within_20_ms: float | None = Field(
        None, description="Probability that the start is within 20 ms of where it was before refining."
    )


class AlignedWordOut(BaseModel):
    """A word with the pronunciation that fits best."""

    word: str
    written: str = Field(description="The transcript's token that the word comes from.")
    start: float
    end: float
    pronunciation: list[str]
    guessed: bool = Field(False, description="Whether no dictionary has the word: its phones were guessed.")
    posterior: float = Field(description="Of this pronunciation among the word's, given the transcript.")
    segments: list[int] = Field(description="Indices of its phones.")


class TranscriptOut(BaseModel):
    """How well the sound bears the transcript out."""

    log_posterior: float = Field(description="Log of its posterior among everything that could have been said, nats.")
    log_posterior_per_phone: float


class AlignAnswer(BaseModel):
    """An alignment."""

    model: ModelReference
    duration: float
    input: Literal["words", "phones", "refine"] = Field(description="What the transcript was taken for.")
    tier: str | None
    transcript: TranscriptOut
    words: list[AlignedWordOut]
    segments: list[AlignedSegmentOut]
    warnings: list[NoticeOut]


class RecognizeAnswer(BaseModel):
    """Phones heard in sound alone."""

    model: ModelReference
    duration: float
    segments: list[AlignedSegmentOut]
    warnings: list[NoticeOut]


_REF = "#/components/schemas/{model}"


def describe(
    answer: type[BaseModel], body: type[BaseModel], options: type[BaseModel], files: dict[str, str]
) -> dict[str, Any]:
    """What the interface's description says of a route that reads its body itself; models by reference, see `models`."""
    form = options.model_json_schema(ref_template=_REF)["properties"] | {
        name: {"type": "string", "format": "binary", "description": text} for name, text in files.items()
    }
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": {"type": "object", "properties": form, "required": ["audio"]}},
                "application/json": {"schema": {"$ref": _REF.format(model=body.__name__)}},
            },
        },
        "responses": {
            "200": {
                "description": "Successful Response",
                "content": {"application/json": {"schema": {"$ref": _REF.format(model=answer.__name__)}}},
            }
        },
    }


def models() -> dict[str, Any]:
    """The schemas that `describe` refers to, by name."""
    _, bodies = models_json_schema([(AlignBody, "validation"), (RecognizeBody, "validation")], ref_template=_REF)
    _, answers = models_json_schema(
        [(AlignAnswer, "serialization"), (RecognizeAnswer, "serialization")], ref_template=_REF
    )
    return {**bodies["$defs"], **answers["$defs"]}
