"""Aligned or recognised segments labelled by a model that takes boundaries as given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from phonechain.app.labelling import pipeline as labelling
from phonechain.features.audio.reader import Audio
from phonechain.features.errors import Notice

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.segmental.answers import Alignment, Recognition

N_BEST = 5
"""Most probable labels of each segment: as many as an alignment lists itself."""


@dataclass(frozen=True)
class Labels:
    """What a labelling model, of this name and version, says of each phone of an alignment."""

    model: str
    version: str
    segments: Sequence[LabelledSegment]
    notices: tuple[Notice, ...] = ()


def prepare(labeler: PhoneLabeler, audio: Audio, answer: Alignment | Recognition) -> Prepared:
    """The phones as a labelling model takes them. Raises AudioError, SegmentError."""
    annotation = labelling.list_to_annotation(answer.segments)
    return labelling.prepare_utterance(audio, annotation, labeler.features_, fix=True, known=labeler.label_set_)


def label(labeler: PhoneLabeler, name: str, audio: Audio, answer: Alignment | Recognition) -> Labels:
    """The labels of the phones of an alignment, all at once. Raises AudioError, SegmentError."""
    ready = prepare(labeler, audio, answer)
    mode = labeler.normalisation(None, known_speakers=False)
    [found] = labelling.label_sequences(
        labeler.model_,
        [(ready.inputs, ready.segments, ready.starts)],
        comparisons=[ready.comparison],
        n_best=N_BEST,
        mode=mode,
    )
    return Labels(name, str(labeler.card_.get("version", "")), found)
