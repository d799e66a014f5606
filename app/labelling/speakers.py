"""The phone tiers of all speakers of one recording, labelled in one batch.

Tools that keep a tier for each speaker name them alike: "A - phones" and "B - phones" (Montreal Forced Aligner),
"phones@A" (ELAN). Each speaker's segments are sequences of their own, normalised by themselves; the chain never runs
from one speaker to another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.labelling import conversion, pipeline
from phonechain.app.labelling.pipeline import Prepared
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.annotation.base import excerpt, nfc
from phonechain.features.annotation.tiers import is_phone_tier
from phonechain.features.audio import reader as sound
from phonechain.features.audio.raw import RawFormat
from phonechain.features.errors import AnnotationError, NoSegments
from phonechain.features.phones.comparison import LabelSet

if TYPE_CHECKING:
    from phonechain.features.inputs import Inputs
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.normaliser import Mode
    from phonechain.model.phone_model import Decoding

_LEADING = re.compile(r"(?:phones?|phonetic|mau)\W", re.IGNORECASE)


def find_phone_tiers(annotation: Annotation) -> list[Tier]:
    """The tiers that are named as phones are, of every speaker, in the order of the file.

    Raises:
        NoSegments: there is none with a label.
    """
    found = [
        tier
        for tier in annotation.interval_tiers()
        if (is_phone_tier(tier.name) or _LEADING.match(nfc(tier.name).strip())) and tier.labelled()
    ]
    if not found:
        raise NoSegments(
            f"expected a tier of phones for each speaker, such as 'A - phones', got {notation.tiers.list_tiers(annotation)}",
            pointer="tiers",
        )
    return found


def number_speakers(names: Iterable[str | None]) -> list[int]:
    """Which speaker each recording is of, by number; one without a name is of a speaker of its own."""
    numbers: dict[str | int, int] = {}
    return [numbers.setdefault(name or at, len(numbers)) for at, name in enumerate(names)]


def find_normalisation(mode: Mode, speaker: str | None) -> Mode:
    """Over what a recording's features are normalised in this mode: where nothing says who speaks, over it alone."""
    return "recording" if mode == "speaker" and speaker is None else mode


def list_speaker_inputs(tiers: Sequence[Prepared], groups: Sequence[int], n: int, mode: Mode) -> list[Inputs]:
    """What tier `n` was normalised with: the others of its speaker, by `groups`; none if it knows the speaker's statistics."""
    if mode != "speaker" or tiers[n].inputs.speaker is not None:
        return []
    return [tiers[k].inputs for k, group in enumerate(groups) if group == groups[n] and k != n]


def prepare_speakers(
    labeler: PhoneLabeler,
    audio: bytes | Path,
    annotation: Annotation,
    *,
    known: LabelSet,
    channel: Any = "mix",
    max_seconds: float = 3600.0,
    raw: RawFormat | None = None,
    recording: str | None = None,
    **options: Any,
) -> list[Prepared]:
    """Every speaker's phone tier, ready to be labelled; the sound is decoded once.

    Args:
        known: the model's labels; one folding is chosen for the labels of all speakers together.
        options: as for `prepare_utterance`.

    Raises:
        PhonechainError: what came cannot be used.
    """
    tiers = find_phone_tiers(annotation)
    recording = recording or (audio.stem if isinstance(audio, Path) else None)
    decoded = sound.decode(audio, channel=channel, rate=labeler.features_.rate, max_seconds=max_seconds, raw=raw)
    together = known.compare(s.label for tier in tiers for s in notation.tier_segments(tier))
    fixed = replace(known, steps=together.steps)
    return [
        pipeline.prepare_utterance(
            decoded, annotation, labeler.features_, chosen=tier, known=fixed, recording=recording, **options
        )
        for tier in tiers
    ]


def label_speakers(
    labeler: PhoneLabeler,
    audio: bytes | Path,
    annotation: Annotation,
    *,
    n_best: int = 1,
    decode: Decoding = "posterior",
    normalise: str | None = None,
    support: bool = False,
    **options: Any,
) -> list[tuple[Prepared, list[LabelledSegment]]]:
    """Label every speaker's phone tier in one batch; `options` as for `prepare_speakers`.

    Raises:
        PhonechainError: what came cannot be used.
    """
    ready = prepare_speakers(labeler, audio, annotation, **options)
    mode = labeler.normalisation(normalise)
    answers = pipeline.label_sequences(
        labeler.model_,
        [(one.inputs, one.segments, one.starts) for one in ready],
        n_best=n_best,
        decode=decode,
        comparisons=[one.comparison for one in ready],
        mode=mode,
        support=support,
    )
    for one in ready:
        one.normalised = mode
    return list(zip(ready, answers, strict=True))


def render(labelled: Sequence[tuple[Prepared, Sequence[LabelledSegment]]], format: str) -> bytes:
    """The annotation with the answers to every tier added, in `format`.

    Raises:
        AnnotationError: the format has room for one tier, or cannot hold the labels.
    """
    if notation.FORMATS[format].flat and len(labelled) > 1:
        names = ", ".join(excerpt(ready.tier.name) for ready, _ in labelled)
        raise AnnotationError(
            f"expected a format with room for {len(labelled)} tiers ({names}), got {notation.FORMATS[format].title}",
            pointer="format",
            value=format,
        )
    first = labelled[0][0]
    answer = first.annotation
    for ready, segments in labelled:
        tier = replace(ready.tier, entries=ready.segments)
        answer = notation.add_labels(answer, tier, [s.label for s in segments], [s.posterior for s in segments])
    return conversion.render(answer, format, rate=first.rate, recording=first.recording)
