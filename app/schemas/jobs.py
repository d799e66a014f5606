"""Schemas of `/jobs`: requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from phonechain.app.labelling.pipeline import MAX_GAP
from phonechain.app.schemas.align import ALIGNMENT_MODEL, LABEL_WITH, MAX_DICTIONARY, OOV, Oov
from phonechain.app.schemas.classify import FurtherAnswers, LabelMap, parse_channel
from phonechain.features.annotation import FORMATS, format_named

State = Literal["queued", "running", "cancelling", "succeeded", "failed", "cancelled"]
Kind = Literal["train", "label", "evaluate", "align", "recognize"]
Text = Annotated[str, Field(max_length=10_000, pattern="^[^\x00]*$")]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern="^[^\x00]*$")]


def check_formats(value: list[str]) -> list[str]:
    """The names of annotation formats, each once. Raises PydanticCustomError."""
    found = [format_named(name) for name in value]
    if None in found:
        raise PydanticCustomError("format", "expected formats among {names}", {"names": ", ".join(FORMATS)})
    return list(dict.fromkeys(form.name for form in found if form is not None))


class _JobOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    corpus: str = Field(description="Id of the corpus.", max_length=40)
    webhook: str | None = Field(
        None, description="Address to call when the job has ended (Standard Webhooks).", max_length=2000
    )
    resources: dict[Annotated[str, Field(max_length=40)], Annotated[float, Field(gt=0, le=1000)]] = Field(
        default_factory=dict,
        description='Resources that a worker must offer, such as `{"GPU": 1}`; without such a worker the job waits.',
        max_length=8,
    )


class TrainJob(_JobOptions):
    """Train a model on a corpus; the result is a version of the model `name`."""

    kind: Literal["train"]
    name: str = Field(description="Name of the new model.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
    preset: str = Field(
        "spn-lc-crf",
        description="The system to train. `auto` compares several on parts of the corpus, among them `base` or the shipped "
        "model, unchanged and as a start; `metrics.candidates` in the result lists them.",
        max_length=100,
    )
    base: str | None = Field(
        None,
        description="A model to start from. Its settings replace the preset's, and its weights are kept if it has all labels of "
        "the corpus and the same settings of model and features; `start` in the result says what was used.",
        max_length=200,
    )
    teacher: str | None = Field(
        None,
        description="A model from whose answers to learn as well, with the share `teacher_weight` of `training`. It must have "
        "the corpus's labels and the same feature settings. Not with `base`, nor with the preset `auto`.",
        max_length=200,
    )
    fold: bool = Field(
        False,
        description="With `base`: spell the corpus's labels as that model does, through the folding that fits best.",
    )
    map: LabelMap = Field(
        None,
        description="Labels of the corpus to replace before training, such as one of two spellings; null for labels not to "
        "learn.",
    )
    model_settings: dict[str, Any] | None = Field(None, description="Settings of the model that replace the preset's.")
    training: dict[str, Any] | None = Field(
        None, description="Changes to the preset's training settings.", examples=[{"epochs": 20, "seed": 7}]
    )
    split: str | None = Field(None, description="Split to train on. Default: `train`, or everything.", max_length=200)
    dev: str | None = Field(
        None,
        description="Split for early stopping and calibration. Default: `dev`, or a tenth of the speakers.",
        max_length=200,
    )
    drop: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, description="Labels to exclude.", max_length=1000
    )
    description: Text = ""
    licence: Text = Field("", description="For the model card.")
    data: Text = Field("", description="The training data, for the model card.")
    limits: Text = Field("", description="Limitations, for the model card.")


class LabelJob(_JobOptions, FurtherAnswers):
    """Label every utterance of a corpus. Answers beyond the labels are in the JSON rows and, except `hidden`, in tables in
    the zip.
    """

    kind: Literal["label"]
    model: str = Field("default", description="Name, `name@version` or alias of a model.", max_length=200)
    formats: list[str] = Field(
        default_factory=lambda: ["textgrid"],
        description="Annotation formats of the files in the result; JSON and CSV rows are always available.",
        max_length=len(FORMATS),
    )
    tier: str | None = Field(None, description="Tier with the segments. Default: that of the corpus.", max_length=1000)
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel index from 0, or `mix`."
    )
    n_best: int = Field(1, ge=1, le=1000, description="Number of labels to list for each segment.")
    decode: Literal["posterior", "viterbi"] = "posterior"
    precision: Literal["float32", "bfloat16"] | None = Field(
        None,
        description="Precision in which the model multiplies. With `bfloat16`, posteriors change by up to 0.01, and each answer "
        "says so. Default: the service's setting (`PHONECHAIN_PRECISION`).",
    )
    normalise: Literal["model", "recording", "speaker"] | None = Field(
        None,
        description="How to normalise features: over each `speaker`'s recordings (each recording where the corpus names no "
        "speaker), over each `recording`, or by the training set alone (`model`). Default: the first of these that the model "
        "was trained for.",
    )
    fix: bool = Field(False, description="Sort the segments and remove overlaps up to 10 ms.")
    on_bad_segment: Literal["refuse", "skip"] | None = Field(
        None,
        description="For an invalid segment: `refuse` its file, or `skip` the segment, which then has a null label, a reason "
        "and a warning. Default: as for the corpus.",
    )
    gaps: Literal["across", "break"] = Field(
        "across",
        description="Where segments do not touch: `across` continues the chain as if they did; `break` starts a new sequence "
        "after each gap longer than `max_gap`.",
    )
    max_gap: float = Field(
        MAX_GAP, ge=0, allow_inf_nan=False, description="Longest gap (seconds) within a chain, with `gaps=break`."
    )
    entropy: bool = Field(False, description="Add the entropy of each segment's posterior over all labels, in nats.")
    map: LabelMap = Field(
        None,
        description="Maps given labels that no folding covers to the model's labels; null for labels not to be compared.",
    )

    _known = field_validator("formats")(check_formats)


class RecognizeJob(_JobOptions):
    """Find the phones of every recording of a corpus. Experimental: the model's card says how many are wrong."""

    kind: Literal["recognize"]
    model: str = Field("default", description=ALIGNMENT_MODEL, max_length=200)
    label_with: str | None = Field(None, description=LABEL_WITH, max_length=200)
    formats: list[str] = Field(
        default_factory=lambda: ["textgrid"],
        description="Annotation formats of the files in the result; JSON and CSV rows are always available.",
        max_length=len(FORMATS),
    )
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel index from 0, or `mix`."
    )
    _known = field_validator("formats")(check_formats)


class AlignJob(RecognizeJob):
    """Align every recording of a corpus with its transcript, or with the words or phones of its annotation."""

    kind: Literal["align"]  # type: ignore[assignment]
    tier: str | None = Field(
        None, description="Tier with the words or phones. Default: that of the corpus.", max_length=1000
    )
    refine: bool = Field(
        False, description="Move the boundaries of annotations to where they fit best nearby; for corpora of segments."
    )
    spread: float = Field(
        0.03, gt=0, le=1, description="With `refine`: expected error of the given boundaries, in seconds."
    )
    phones: bool = Field(False, description="The transcripts consist of phones separated by spaces, not of words.")
    language: str = Field("en", description="Language for spelling out numbers.", max_length=20)
    dictionary: str | None = Field(
        None,
        description="Pronunciations to use instead of the English ones, in MFA's format.",
        max_length=MAX_DICTIONARY,
    )
    oov: Oov = Field(None, description=OOV)


class EvaluateJob(_JobOptions):
    """Score a model on a labelled corpus."""

    kind: Literal["evaluate"]
    model: str = Field("default", description="Name, `name@version` or alias of a model.", max_length=200)
    split: str | None = Field(None, description="Split to score. Default: `test`, or everything.", max_length=200)
    drop: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, description="Labels to exclude.", max_length=1000
    )
    decode: Literal["posterior", "viterbi"] = "posterior"
    map: LabelMap = Field(
        None,
        description="Maps given labels that no folding covers to the model's labels; null for labels not to be compared.",
    )


JobRequest = Annotated[TrainJob | LabelJob | EvaluateJob | AlignJob | RecognizeJob, Field(discriminator="kind")]


class Progress(BaseModel):
    """The progress of a job: `done` of `total` `unit`s of a stage."""

    stage: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    message: str = ""
    metrics: dict[str, float | None] = Field(
        default_factory=dict, description="During training: epoch, loss, dev_error and others."
    )


class JobOut(BaseModel):
    """A job."""

    id: str
    kind: Kind
    state: State
    progress: Progress
    failed_files: int = Field(description="Files that could not be used; `/jobs/{id}/errors` lists them.")
    attempt: int = Field(description="Number of executions so far; more than one if workers were lost.")
    request: dict[str, Any] = Field(description="The request, with names resolved.")
    error: dict[str, Any] | None = Field(None, description="Why it failed, as a problem document.")
    result: dict[str, Any] | None = Field(None, description="A summary; `/jobs/{id}/result` has everything.")
    created: str
    started: str | None = None
    ended: str | None = None
    links: dict[str, str]


class JobPage(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobOut]
    next: str | None = Field(None, description="`cursor` of the next page; null on the last one.")


class FileErrorOut(BaseModel):
    """A file that could not be used."""

    utterance: str
    type: str = Field(description="Type of the problem, as in problem documents.")
    detail: str


class FileErrorPage(BaseModel):
    """Files of a job that could not be used, in the order of the corpus."""

    errors: list[FileErrorOut]
    next: str | None = Field(None, description="`cursor` of the next page; null on the last one.")
