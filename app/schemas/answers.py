"""Schemas of the answers of `POST /classify`, and of what they share with other answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class Alternative(BaseModel):
    """A candidate label."""

    label: str
    posterior: float


class PronunciationOut(BaseModel):
    """How well a segment fits the phone that should have been spoken, in nats; higher is better."""

    log_posterior: float = Field(description="Log posterior of the given label (LPP; Hu et al. 2015).")
    log_ratio: float = Field(
        description="Log ratio to the best other label (LPR; Hu et al. 2015); above 0 if it is the answer."
    )
    goodness: float = Field(
        description="Log ratio to the best of all labels, so at most 0, per frame of 10 ms (GOP; Witt and Young 2000)."
    )


class LabelledSegmentOut(BaseModel):
    """A segment with its label. The `given...` members are present if the request gave the segment a label."""

    start: float | None = Field(description="Seconds; null where a skipped segment has no finite time.")
    end: float | None = Field(description="Seconds.")
    label: str | None = Field(description="The answered label; null for a skipped segment.")
    posterior: float | None = Field(description="Probability of that label, from 0 to 1.")
    n_best: list[Alternative] = Field(description="The most probable labels, in decreasing order.")
    given: str | None = Field(None, description="The label that the request gave.")
    given_posterior: float | None = Field(None, description="Probability of the given label.")
    given_rank: int | None = Field(None, description="Rank of the given label, 1 for the most probable.")
    compared_as: str | None = Field(
        None,
        description="The model's label that `given` was compared with; present only if its spelling differs.",
    )
    entropy: float | None = Field(
        None, description="Entropy of the posterior over all labels, nats; 0 is certainty. Present only if requested."
    )
    pronunciation: PronunciationOut | None = Field(
        None,
        description="How well the segment fits its given label; present only if requested, and null without a given label "
        "that the model knows.",
    )
    skipped: str | None = Field(None, description="Why the segment was skipped; present only if it was.")


class RankedSequenceOut(BaseModel):
    """A label sequence and its probability."""

    labels: list[str]
    probability: float
    log_probability: float = Field(description="Natural logarithm; the probability of a long sequence rounds to 0.")


class SequenceOut(BaseModel):
    """The labels of one chain as a sequence; with `gaps=break` a recording may have several."""

    first: int = Field(description="Index in `segments` of its first segment.")
    last: int = Field(description="Index of its last segment.")
    probability: float = Field(description="Probability that all answered labels are right.")
    log_probability: float
    entropy: float | None = Field(
        None, description="Entropy over all sequences, nats; null for chains that cannot compute it."
    )
    posterior_error: float = Field(
        0.0, description="Bound on the error of the posteriors: 0 if they are exact, above 0 for a beam search."
    )
    n_best: list[RankedSequenceOut] = Field(description="The most probable sequences, in decreasing order.")


class WordOut(BaseModel):
    """A word of the annotation, and the confidence of its labels."""

    start: float
    end: float
    label: str
    first: int = Field(description="Index in `segments` of its first segment.")
    last: int = Field(description="Index of its last segment.")
    confidence: float = Field(description="Probability that the answered labels of all of its segments are right.")


class GapsOut(BaseModel):
    """How gaps between segments were treated."""

    mode: Literal["across", "break"]
    max_gap: float = Field(description="Seconds; with `break`, a longer gap starts a new sequence.")
    sequences: int = Field(description="Number of sequences, each labelled as a separate chain.")


class FoldingOut(BaseModel):
    """How the given labels were compared with the model's: one folding for all of them, the one that fits most."""

    steps: list[str] = Field(
        description="Its steps, such as `stress`, `case` or `ipa to arpabet`; empty if labels were compared unchanged."
    )
    known: int = Field(description="Given labels that were compared.")
    unknown: dict[str, int] = Field(description="Given labels unknown to the model, with counts.")
    unscored: dict[str, int] = Field(description="Noise, and labels excluded on purpose, with counts.")


class ModelReference(BaseModel):
    """The model that answered."""

    name: str
    version: str


class NoticeOut(BaseModel):
    """A warning: the input was usable, but note this."""

    code: str = Field(description="A stable code, for programs.")
    message: str = Field(description="One sentence, for people.")
    pointer: str | None = None
    value: float | str | None = None
    limit: float | str | None = None


class Timing(BaseModel):
    """Where the time went, milliseconds."""

    features: float = Field(description="Decoding and features.")
    queue: float = Field(description="Waiting for the model.")
    model: float = Field(description="Inference of the batch that the request was in.")
    total: float = Field(description="From receiving the complete request to writing the answer.")


class ClassifyAnswer(BaseModel):
    """The labels of one utterance."""

    model: ModelReference
    duration: float = Field(description="Decoded sound, seconds.")
    tier: str | None = Field(None, description="The tier that the segments came from; null if the request listed them.")
    segments: list[LabelledSegmentOut]
    normalised: Literal["model", "recording", "speaker"] | None = Field(
        None, description="How the features were normalised."
    )
    folding: FoldingOut | None = Field(None, description="Present only if the request gave labels.")
    gaps: GapsOut
    sequences: list[SequenceOut] | None = Field(None, description="Present only with the option `sequences`.")
    words: list[WordOut] | None = Field(None, description="Present only with the option `words`.")
    hidden: list[Any] | None = Field(
        None,
        description="Present only with the option `hidden`. For each segment (null for a skipped one) and each factor over "
        "single labels, a list of layers with the probabilities of the states given the answered label: for every child its "
        "states, nested layer by layer; for hidden units, the probability that each is on.",
    )
    warnings: list[NoticeOut]
    timing: Timing | None = None


class SpeakersAnswer(BaseModel):
    """The labels of every speaker's tier in one recording, in the order of the annotation."""

    tiers: list[ClassifyAnswer]
