"""Schemas of `POST /align` and `POST /recognize`: requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError

from phonechain.app.schemas.answers import Alternative, ModelReference, NoticeOut
from phonechain.app.schemas.classify import _parse_base64, answer_formats, parse_channel

MAX_DICTIONARY = 16 * 2**20
"""Characters of a dictionary in a request."""

ALIGNMENT_MODEL = "An alignment model that was stored with `POST /models`; `default` is the English one."

LABEL_WITH = (
    "A model that labels given segments, such as `default`: it labels the segments that were found, and says how probable the "
    "aligned labels are. Each segment then has `labelled`."
)

Oov = Literal["guess", "refuse"] | None
OOV = (
    "For words missing from the dictionary: `guess` their pronunciation from the spelling and mark it as guessed, or "
    "`refuse` the transcript and list them all. Default: `guess` with the English dictionary, `refuse` with your own."
)


class RecognizeOptions(BaseModel):
    """The options of `POST /recognize`, with the same names in the query, in a form and in a JSON body."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field("default", description=ALIGNMENT_MODEL, max_length=200)
    label_with: str | None = Field(None, description=LABEL_WITH, max_length=200)
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel of the sound: an index from 0, or `mix` for the mean of all."
    )
    format: str = Field("json", description="`json`, or an annotation format, which gives a file.")

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
    phones: bool = Field(False, description="The transcript consists of phones separated by spaces, not of words.")
    language: str = Field("en", description="Language for spelling out numbers.", max_length=20)
    tier: str | None = Field(None, description="Tier of the annotation with the words or phones.")
    refine: bool = Field(False, description="Move the boundaries of an annotation to where they fit best nearby.")
    spread: float = Field(
        0.03, gt=0, le=1, description="With `refine`: expected error of the given boundaries, in seconds."
    )
    dictionary: str | None = Field(
        None,
        description="Pronunciations to use instead of the English ones, in MFA's format.",
        max_length=MAX_DICTIONARY,
    )
    oov: Oov = Field(None, description=OOV)


class AlignBody(AlignOptions):
    """A request as JSON."""

    audio: Annotated[bytes, BeforeValidator(_parse_base64, json_schema_input_type=str)] = Field(
        description="A complete sound file, in base64.", json_schema_extra={"contentEncoding": "base64"}
    )


class RecognizeBody(RecognizeOptions):
    """A request as JSON."""

    audio: Annotated[bytes, BeforeValidator(_parse_base64, json_schema_input_type=str)] = Field(
        description="A complete sound file, in base64.", json_schema_extra={"contentEncoding": "base64"}
    )


class LabelledPhoneOut(BaseModel):
    """What a model that takes boundaries as given says of an aligned phone."""

    label: str
    posterior: float
    given_posterior: float | None = Field(
        description="Posterior of the aligned label; null for one that the model does not have."
    )
    n_best: list[Alternative] = Field(description="The most probable labels, in decreasing order.")


class AlignedSegmentOut(BaseModel):
    """A phone and its certainty."""

    start: float = Field(description="Seconds.")
    end: float = Field(description="Seconds.")
    label: str
    start_interval: list[float] = Field(description="Central interval with 90 % of the posterior of the start.")
    within_20_ms: float = Field(description="Probability that the true start is within 20 ms of `start`.")
    posterior: float = Field(description="Probability of the label from the sound alone, over the segment.")
    n_best: list[Alternative] = Field(description="The most probable labels there, in decreasing order.")
    word: int | None = Field(description="Index of its word; null for silence.")
    given_start: float | None = Field(None, description="The start before refining.")
    given_within_20_ms: float | None = Field(
        None, description="Probability that the true start is within 20 ms of `given_start`."
    )
    labelled: LabelledPhoneOut | None = Field(None, description="With `label_with`.")


class AlignedWordOut(BaseModel):
    """A word with its best-fitting pronunciation."""

    word: str
    written: str = Field(description="The word as written in the transcript.")
    start: float
    end: float
    pronunciation: list[str]
    guessed: bool = Field(
        False, description="Whether the pronunciation was guessed, because no dictionary has the word."
    )
    posterior: float = Field(
        description="Posterior of this pronunciation among those of the word, given the transcript."
    )
    segments: list[int] = Field(description="Indices of its phones.")


class WorstFitOut(BaseModel):
    """The word that fits the sound worst; the phone, where the transcript has no words."""

    text: str
    start: float
    end: float
    posterior: float = Field(description="Mean over its phones of the label's probability from the sound alone.")
    segments: list[int] = Field(description="Indices of its phones.")


class TranscriptOut(BaseModel):
    """How well the transcript fits the sound."""

    log_posterior: float = Field(description="Log posterior of the transcript among all sequences of phones, nats.")
    log_posterior_per_phone: float = Field(
        description="Comparable between recordings; below -4, a warning says that the sound does not match the transcript."
    )
    worst: WorstFitOut | None = Field(description="Where it fits worst; null where only silence was aligned.")


class UnmatchedOut(BaseModel):
    """A place of a long recording where sound and transcript do not match: neither is aligned."""

    start: float
    end: float
    text: str = Field(description="What the transcript has there; empty where it has nothing.")


class AlignAnswer(BaseModel):
    """An alignment."""

    model: ModelReference
    labelling_model: ModelReference | None = Field(None, description="With `label_with`.")
    duration: float
    input: Literal["words", "phones", "refine"] = Field(description="How the transcript was interpreted.")
    tier: str | None
    transcript: TranscriptOut
    words: list[AlignedWordOut]
    segments: list[AlignedSegmentOut]
    unmatched: list[UnmatchedOut] = Field(
        default_factory=list, description="For recordings of more than a minute: what does not match."
    )
    warnings: list[NoticeOut]


class RecognizeAnswer(BaseModel):
    """Phones found from the sound alone."""

    model: ModelReference
    labelling_model: ModelReference | None = Field(None, description="With `label_with`.")
    duration: float
    segments: list[AlignedSegmentOut]
    warnings: list[NoticeOut]


_REF = "#/components/schemas/{model}"


def describe(
    answer: type[BaseModel], body: type[BaseModel], options: type[BaseModel], files: dict[str, str]
) -> dict[str, Any]:
    """The OpenAPI description of a route that reads its body itself; models by reference, see `models`."""
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
