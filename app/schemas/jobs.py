"""What `/jobs` takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from phonechain.app.labelling.pipeline import MAX_GAP
from phonechain.app.schemas.align import MAX_DICTIONARY, OOV, Oov
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
        raise PydanticCustomError("format", "expected formats out of {names}", {"names": ", ".join(FORMATS)})
    return list(dict.fromkeys(form.name for form in found if form is not None))


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    corpus: str = Field(description="Id of the corpus.", max_length=40)
    webhook: str | None = Field(
        None, description="Address that is called when the job has ended (Standard Webhooks).", max_length=2000
    )
    resources: dict[Annotated[str, Field(max_length=40)], Annotated[float, Field(gt=0, le=1000)]] = Field(
        default_factory=dict,
        description='What a worker must offer, such as `{"GPU": 1}`; without such a worker the job waits.',
        max_length=8,
    )


class TrainJob(_Asked):
    """Train a model on a corpus; the result is a version of the model `name`."""

    kind: Literal["train"]
    name: str = Field(
        description="Name of the model that is made.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100
    )
    preset: str = Field(
        "spn-lc-crf",
        description="The system to train; `auto` lets several compete on parts of the corpus, with `base` or the shipped "
        "model as it is and a training that goes on from it; `metrics.candidates` of the result lists them.",
        max_length=100,
    )
    base: str | None = Field(
        None,
        description="A model to go on from: its settings instead of the preset's, and its weights where its labels hold "
        "the corpus's and the settings of model and features are the same; `start` in the result says which it was.",
        max_length=200,
    )
    fold: bool = Field(
        False, description="With `base`: spell the corpus's labels as that model does, by the folding that fits them."
    )
    map: LabelMap = Field(
        None,
        description="Labels of the corpus that become others before training, such as two spellings of one; null for labels "
        "that are not learnt.",
    )
    model_settings: dict[str, Any] | None = Field(None, description="Settings of the model instead of the preset's.")
    training: dict[str, Any] | None = Field(
        None, description="Changes to how the preset is trained.", examples=[{"epochs": 20, "seed": 7}]
    )
    split: str | None = Field(None, description="Split to train on; else `train`, or everything.", max_length=200)
    dev: str | None = Field(
        None, description="Split to stop and calibrate by; else `dev`, or a tenth of the speakers.", max_length=200
    )
    drop: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, description="Labels to leave out.", max_length=1000
    )
    description: Text = ""
    licence: Text = Field("", description="For the model card.")
    data: Text = Field("", description="What the data is, for the model card.")
    limits: Text = Field("", description="What the model is not good for, for the model card.")


class LabelJob(_Asked, FurtherAnswers):
    """Label every utterance of a corpus. What is asked for beside the labels is in the rows of JSON and, but for `hidden`, in
    tables of the zip.
    """

    kind: Literal["label"]
    model: str = Field("default", description="Name, `name@version` or alias of a model.", max_length=200)
    formats: list[str] = Field(
        default_factory=lambda: ["textgrid"],
        description="Annotation formats of the files in the result; rows of JSON and CSV can be had in any case.",
        max_length=len(FORMATS),
    )
    tier: str | None = Field(None, description="Tier that holds the segments; else the corpus's.", max_length=1000)
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel, or `mix`."
    )
    n_best: int = Field(1, ge=1, le=1000, description="How many labels to list for each segment.")
    decode: Literal["posterior", "viterbi"] = "posterior"
    normalise: Literal["model", "recording", "speaker"] | None = Field(
        None,
        description="Over what sound features are normalised: each speaker's recordings, each recording, or the training "
        "set alone; left out, the first of these that the model was trained for.",
    )
    fix: bool = Field(False, description="Sort the segments and remove overlaps of up to 10 ms.")
    on_bad_segment: Literal["refuse", "skip"] | None = Field(
        None,
        description="What a segment does that does not fit: `refuse` its file, or be skipped, which gives it a null label "
        "with the reason, and a warning; else what the corpus was taken in with.",
    )
    gaps: Literal["across", "break"] = Field(
        "across",
        description="Where segments do not touch: `across` lets the chain run on as if they did; `break` begins a new "
        "sequence after each gap longer than `max_gap`.",
    )
    max_gap: float = Field(
        MAX_GAP, ge=0, allow_inf_nan=False, description="Seconds; a longer gap breaks the chain with `gaps=break`."
    )
    entropy: bool = Field(False, description="Also the entropy of each segment's posterior over all labels, in nats.")
    map: LabelMap = Field(
        None,
        description="Which label of the model each given label stands for, where no folding finds it; null for labels that "
        "are not compared.",
    )

    _known = field_validator("formats")(check_formats)


class RecognizeJob(_Asked):
    """Find the phones of every recording of a corpus. Experimental: the model's card says how many are wrong."""

    kind: Literal["recognize"]
    formats: list[str] = Field(
        default_factory=lambda: ["textgrid"],
        description="Annotation formats of the files in the result; rows of JSON and CSV can be had in any case.",
        max_length=len(FORMATS),
    )
    channel: Annotated[int | Literal["mix"], BeforeValidator(parse_channel)] = Field(
        "mix", description="Channel, or `mix`."
    )
    _known = field_validator("formats")(check_formats)


class AlignJob(RecognizeJob):
    """Align every recording of a corpus with its transcript, or with the words or phones of its annotation."""

    kind: Literal["align"]  # type: ignore[assignment]
    tier: str | None = Field(
        None, description="Tier of annotations that holds the words or phones; else the corpus's.", max_length=1000
    )
    refine: bool = Field(
        False, description="Move the boundaries of annotations to where they fit best nearby; for corpora of segments."
    )
    spread: float = Field(
        0.03, gt=0, le=1, description="Seconds by which given boundaries are thought to be off, with `refine`."
    )
    phones: bool = Field(False, description="Transcripts are phones with blanks between them, not words.")
    language: str = Field("en", description="Language in which numbers are read out.", max_length=20)
    dictionary: str | None = Field(
        None,
        description="Pronunciations that are used instead of the English ones, in MFA's format.",
        max_length=MAX_DICTIONARY,
    )
    oov: Oov = Field(None, description=OOV)


class EvaluateJob(_Asked):
    """Score a model on a labelled corpus."""

    kind: Literal["evaluate"]
    model: str = Field("default", description="Name, `name@version` or alias of a model.", max_length=200)
    split: str | None = Field(None, description="Split to score; else `test`, or everything.", max_length=200)
    drop: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, description="Labels to leave out.", max_length=1000
    )
    decode: Literal["posterior", "viterbi"] = "posterior"
    map: LabelMap = Field(
        None,
        description="Which label of the model each given label stands for, where no folding finds it; null for labels that "
        "are not compared.",
    )


JobRequest = Annotated[TrainJob | LabelJob | EvaluateJob | AlignJob | RecognizeJob, Field(discriminator="kind")]


class Progress(BaseModel):
    """How far a job is: `done` of `total` `unit`s of a stage."""

    stage: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    message: str = ""
    metrics: dict[str, float | None] = Field(
        default_factory=dict, description="While training: epoch, loss, dev_error and others."
    )


class JobOut(BaseModel):
    """A job."""

    id: str
    kind: Kind
    state: State
    progress: Progress
    failed_files: int = Field(description="Files that could not be used; `/jobs/{id}/errors` lists them.")
    attempt: int = Field(description="Executions so far: more than one where workers were lost.")
    request: dict[str, Any] = Field(description="What was asked for, with names made definite.")
    error: dict[str, Any] | None = Field(None, description="Why it failed, as a problem document.")
    result: dict[str, Any] | None = Field(None, description="A summary; `/jobs/{id}/result` has the whole.")
    created: str
    started: str | None = None
    ended: str | None = None
    links: dict[str, str]


class JobPage(BaseModel):
    """Jobs, the newest first."""

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
