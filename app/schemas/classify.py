"""What `POST /classify` takes: the options and the JSON body; and its answer as plain data (its schema is in `answers`)."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from phonechain.app.labelling.pipeline import MAX_GAP, Gaps, Skipped
from phonechain.app.problems.errors import InvalidRequest
from phonechain.features.annotation import FORMATS, format_named
from phonechain.features.annotation.base import MAX_SECONDS
from phonechain.features.audio.raw import ENCODINGS, RawFormat
from phonechain.features.errors import Notice, PhoneSetError, SettingsError
from phonechain.features.phones import mapping
from phonechain.features.phones.comparison import LabelComparison
from phonechain.features.segments import Segment


def parse_channel(value: Any) -> Any:
    """A channel as a number from 0, or `mix`. Raises PydanticCustomError."""
    if value == "mix" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 6:
        return int(value)
    raise PydanticCustomError("channel", "expected a channel index from 0, or mix")


def parse_shift(value: Any) -> Any:
    """A shift as a number of seconds, or "start". Raises PydanticCustomError."""
    if value == "start":
        return value
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not abs(number) < MAX_SECONDS:
        raise PydanticCustomError("shift", "expected a number of seconds, or start")
    return number


def _parse_label_map(value: Any) -> Any:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            return mapping.parse(value)
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return mapping.check(value)
    except PhoneSetError as error:
        raise PydanticCustomError("map", "{reason}", {"reason": str(error).removeprefix("map: ")}) from None
    raise PydanticCustomError("map", "expected an object of given labels and labels of the model")


LabelMap = Annotated[dict[str, str | None] | None, BeforeValidator(_parse_label_map)]
"""Given label -> label of the model, None for labels that are not compared."""


def parse_raw(value: Any) -> Any:
    """What sound without a header holds; None for nothing. Raises PydanticCustomError."""
    if value is None or value == "":
        return None
    try:
        return RawFormat.parse(value if isinstance(value, str) else str(value)[:40])
    except SettingsError as error:
        raise PydanticCustomError("raw", "{reason}", {"reason": str(error).removeprefix("raw: ")}) from None


_RAW_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "string", "maxLength": 40}, {"type": "null"}]}


MORE = ("sequences", "words", "hidden")
"""Options whose answers are computed beside the labels (labelling/sequences.py)."""


class FurtherAnswers(BaseModel):
    """Options of `POST /classify` and of labelling jobs that ask for more than the labels of one tier."""

    all_speakers: bool = Field(
        False,
        description="Label the phone tiers of all speakers in the recording (`A - phones`, `phones@B`), each as a separate "
        "chain. The answer has a member `tiers` with one answer per tier; an annotation file gets new tiers for each; a job "
        "has one row per tier.",
    )
    sequences: int = Field(
        0,
        ge=0,
        description="Add this many of the most probable label sequences with their probabilities, the probability of the "
        "answered labels as a sequence, and the entropies of the sequence and of each segment (JSON only; up to 2,000 "
        "segments, and 10,000 segments times sequences).",
    )
    words: bool = Field(
        False,
        description="Add a confidence for each word in the annotation's word tier: the probability that all of its answered "
        "labels are right (JSON only).",
    )
    hidden: bool = Field(
        False,
        description="Add the posteriors of the model's hidden variables, given the answered label of each segment (JSON "
        "only).",
    )

    @property
    def asks_more(self) -> bool:
        """Whether something is asked for that is computed beside the labels."""
        return any(getattr(self, name) for name in MORE)

    @staticmethod
    def refuse_tier(tier: str | None) -> None:
        """Raises InvalidRequest if a tier is named; for `all_speakers`, which labels every speaker's."""
        if tier is not None:
            raise InvalidRequest("expected all_speakers or a tier, got both", pointer="tier")


class ClassifyOptions(FurtherAnswers):
    """The options of `POST /classify`, with the same names in the query, in a form and in a JSON body."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field("default", description="Name of the model; GET /models lists them.", max_length=200)
    tier: str | None = Field(
        None, description="Tier of the annotation with the segments. Default: chosen by the service, which says so."
    )
    utterance: str | None = Field(
        None,
        description="Recording to read from an annotation with several (CTM, MLF and others). Default: the one named like "
        "the sound file.",
        max_length=1000,
    )
    shift: Annotated[float | Literal["start"], BeforeValidator(parse_shift)] = Field(
        0.0,
        description="Seconds to add to every time of the annotation, or `start` to move its first time to 0: for an "
        "annotation that was cut out of a longer one and kept its times.",
    )
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix",
        description="Channel of the sound: an index from 0, or `mix` for the mean of all. An annotation may name another.",
    )
    raw: Annotated[RawFormat | None, BeforeValidator(parse_raw), WithJsonSchema(_RAW_SCHEMA)] = Field(
        None,
        description="For sound without a header: sample rate, encoding and channels, such as `16000,s16le,1`; encodings are "
        + ", ".join(f"`{name}`" for name in ENCODINGS)
        + ".",
    )
    n_best: int = Field(1, ge=1, description="Number of labels to list for each segment, most probable first.")
    decode: Literal["posterior", "viterbi"] = Field(
        "posterior",
        description="`posterior`: the most probable label of each segment; `viterbi`: the most probable label sequence.",
    )
    normalise: Literal["model", "recording"] | None = Field(
        None,
        description="How to normalise features: over this `recording`, or by the training set alone (`model`), so that no "
        "answer depends on the rest of the recording. Default: `recording` if the model was trained for it. The answer says "
        "which was used.",
    )
    fix: bool = Field(
        False,
        description="Drop segments of zero length, sort the rest and remove overlaps up to 10 ms; each repair gives a "
        "warning.",
    )
    on_bad_segment: Literal["refuse", "skip"] = Field(
        "refuse",
        description="For an invalid segment: `refuse` the request, or `skip` the segment, which then has a null label, a "
        "reason and a warning.",
    )
    gaps: Literal["across", "break"] = Field(
        "across",
        description="Where segments do not touch: `across` continues the chain as if they did; `break` starts a new sequence "
        "after each gap longer than `max_gap`, so that neither the chain nor the model's window of segments crosses it.",
    )
    max_gap: float = Field(
        MAX_GAP, ge=0, allow_inf_nan=False, description="Longest gap (seconds) within a chain, with `gaps=break`."
    )
    entropy: bool = Field(False, description="Add the entropy of each segment's posterior over all labels, in nats.")
    pronunciation: bool = Field(
        False,
        description="Add how well each segment fits its given label: log posterior, log posterior ratio, goodness of "
        "pronunciation.",
    )
    map: LabelMap = Field(
        None,
        description="Maps given labels that no folding covers to the model's labels: an object, or lines of given label, "
        "tab, model's label; null or `-` for labels not to be compared.",
    )
    format: str = Field(
        "json",
        description="Format of the answer: `json`, or an annotation format, which gives an annotation file with the labels "
        "and posteriors as new tiers.",
    )

    @property
    def gap_rule(self) -> Gaps:
        return Gaps(self.gaps, self.max_gap)

    @field_validator("n_best", "sequences")
    @classmethod
    def _within_limit(cls, value: int, info: ValidationInfo) -> int:
        limit = (info.context or {}).get("max_n_best")
        if limit is not None and value > limit:
            what = "labels" if info.field_name == "n_best" else "sequences"
            raise PydanticCustomError("less_than_equal", f"expected at most {{le}} {what}", {"le": limit})
        return value

    @field_validator("format")
    @classmethod
    def _check_format(cls, value: str, info: ValidationInfo) -> str:
        found = format_named(value)
        if found is None:
            raise PydanticCustomError("format", "expected one of {names}", {"names": ", ".join(answer_formats())})
        if found.name != "json" and (asked := [name for name in MORE if info.data.get(name)]):
            raise PydanticCustomError("format", "expected json with {options}", {"options": " and ".join(asked)})
        return found.name


def answer_formats() -> list[str]:
    """The names that `format` takes."""
    return ["json", *(name for name in FORMATS if name != "json")]


class SegmentIn(BaseModel):
    """A stretch of sound, in seconds. Other members are ignored, so the segments of an answer can be sent again."""

    start: float = Field(allow_inf_nan=False, description="Seconds from the beginning of the sound.")
    end: float = Field(allow_inf_nan=False, description="Seconds from the beginning of the sound.")
    label: str | None = Field(None, description="The expected label; the answer gives its posterior and rank.")

    def to_segment(self) -> Segment:
        return Segment(self.start, self.end, self.label or None)


def _parse_base64(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("base64", "expected the bytes of a sound file in base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise PydanticCustomError("base64", "expected base64 (RFC 4648 section 4)") from None


class ClassifyBody(ClassifyOptions):
    """A request as JSON."""

    audio: Annotated[bytes, BeforeValidator(_parse_base64, json_schema_input_type=str)] = Field(
        description="A complete sound file, in base64.", json_schema_extra={"contentEncoding": "base64"}
    )
    segments: list[SegmentIn] = Field(description="The segments, in order.")


def round_probability(probability: float | None) -> float | None:
    """Six significant digits: more than the posteriors justify."""
    return None if probability is None or not math.isfinite(probability) else float(f"{probability:.6g}")


def answer_to_json(
    *,
    name: str,
    version: str,
    duration: float,
    tier: str | None,
    labelled: Sequence[Any],
    notices: Sequence[Notice],
    gaps: Gaps,
    sequences: int,
    comparison: LabelComparison | None = None,
    entropy: bool = False,
    pronunciation: bool = False,
    normalised: str | None = None,
    more: dict[str, Any] | None = None,
    timing: dict[str, float] | None = None,
) -> dict[str, Any]:
    """A `ClassifyAnswer` as plain data. `labelled` are the model's LabelledSegment, and Skipped; `more` members are added.

    Plain data, because building and checking a model instance for each of 20 000 segments costs more than labelling.
    """
    return {
        "model": {"name": name, "version": version},
        "duration": round(duration, 6),
        "tier": tier,
        "segments": [segment_to_json(segment, entropy=entropy, pronunciation=pronunciation) for segment in labelled],
        **({} if normalised is None else {"normalised": normalised}),
        **folding_to_json(comparison),
        "gaps": gaps_to_json(gaps, sequences),
        **(more or {}),
        "warnings": [notice.as_dict() for notice in notices],
        **({"timing": {key: round(1e3 * value, 3) for key, value in timing.items()}} if timing is not None else {}),
    }


def folding_to_json(comparison: LabelComparison | None) -> dict[str, Any]:
    """A `FoldingOut` as plain data under its name; nothing where no labels were given."""
    return {"folding": comparison.as_dict()} if comparison is not None and comparison.total else {}


def _given_to_json(segment: Any) -> dict[str, Any]:
    """The members of a segment about its given label; none where it has no such label."""
    if segment.given is None:
        return {}
    about = {
        "given": segment.given,
        "given_posterior": round_probability(segment.given_posterior),
        "given_rank": segment.given_rank,
    }
    return about if segment.compared_as is None else {**about, "compared_as": segment.compared_as}


def gaps_to_json(gaps: Gaps, sequences: int) -> dict[str, Any]:
    """A `GapsOut` as plain data."""
    return {"mode": gaps.mode, "max_gap": gaps.longest, "sequences": sequences}


def segment_to_json(segment: Any, *, entropy: bool, pronunciation: bool = False, lone: bool = True) -> dict[str, Any]:
    """A `LabelledSegmentOut` as plain data, of a LabelledSegment or Skipped.

    Args:
        entropy, pronunciation: with these members.
        lone: with `n_best` even where it holds nothing but the answer.
    """
    out: dict[str, Any] = {
        "start": finite_or_none(segment.start),
        "end": finite_or_none(segment.end),
        "label": segment.label,
        "posterior": round_probability(segment.posterior),
    }
    if lone or len(segment.n_best) > 1:
        out["n_best"] = [{"label": label, "posterior": round_probability(p)} for label, p in segment.n_best]
    out |= _given_to_json(segment)
    if entropy:
        out["entropy"] = round_probability(segment.entropy)
    if pronunciation:
        scores = segment.pronunciation
        out["pronunciation"] = (
            None if scores is None else {k: round_probability(v) for k, v in scores.to_json().items()}
        )
    if isinstance(segment, Skipped):
        out["skipped"] = segment.reason
    return out


def finite_or_none(seconds: float) -> float | None:
    """A time for JSON, which cannot represent what is not finite: null."""
    return seconds if math.isfinite(seconds) else None
