"""From a recording and a segmentation to what a labeler takes, and from its labels back to a file.

The command line and the service both come through here, so both read the same files and say the same of bad ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from phonechain.app.labelling import conversion
from phonechain.app.problems.errors import TooManySegments
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, Tier, timit
from phonechain.features.annotation.base import excerpt
from phonechain.features.audio import reader as sound
from phonechain.features.audio.raw import RawFormat
from phonechain.features.audio.reader import Audio
from phonechain.features.corpora.base import channel_of
from phonechain.features.errors import (
    AnnotationError,
    NoSegments,
    Notice,
    SegmentError,
    SegmentProblem,
    TruncatedAudio,
    WordTier,
)
from phonechain.features.inputs import Inputs, extract_inputs
from phonechain.features.mfcc import FeatureSettings
from phonechain.features.phones.comparison import LabelComparison, LabelSet
from phonechain.features.phones.words import looks_like_words
from phonechain.features.segment_checks import OnBadSegment, prepare, sift
from phonechain.features.segments import ROUNDING, Segment

if TYPE_CHECKING:
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.learning.normaliser import Mode
    from phonechain.model.phone_model import Decoding, PhoneModel

LISTED = "json"
"""The format name of segments that came as a plain list."""

MAX_GAP = 0.2
"""Seconds between two segments from which on a chain may break: shorter silences belong to stops and breath."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """What is done where segments do not touch.

    `across`: the chain runs on, as if they touched. `break`: where more than `longest` seconds lie between two segments,
    what comes after is a sequence of its own: neither the chain nor the windows of a model reach across.
    """

    mode: Literal["across", "break"] = "across"
    longest: float = MAX_GAP


@dataclass(frozen=True, slots=True)
class Skipped:
    """A segment that was set aside: what a LabelledSegment says, without an answer, and the reason. Times in seconds."""

    start: float
    end: float
    reason: str
    given: str | None = None
    label: None = None
    posterior: None = None
    n_best: tuple[tuple[str, float], ...] = ()
    given_posterior: None = None
    given_rank: None = None
    compared_as: None = None
    entropy: None = None
    pronunciation: None = None
    given_support: None = None


@dataclass(slots=True)
class Prepared:
    """One utterance, ready to be labelled.

    `segments` are in order and inside the sound; `inputs` are what a model sees of them; `duration` is in seconds;
    `annotation` and `tier` are what the segments came from. `starts` are the places in `segments` where a new sequence
    begins; `indices[i]` is the place in the input of `segments[i]`, and `skipped` are the others by theirs.
    """

    annotation: Annotation
    tier: Tier
    segments: list[Segment]
    inputs: Inputs
    duration: float
    notices: tuple[Notice, ...]
    starts: tuple[int, ...] = ()
    indices: Sequence[int] = ()
    skipped: tuple[tuple[int, Skipped], ...] = ()
    gaps: Gaps = Gaps()
    rate: int | None = None
    """Samples per second of the recording."""
    normalised: Mode | None = None
    """Over what the features were normalised when it was labelled."""
    recording: str | None = None
    """Its name, where one is known."""
    comparison: LabelComparison | None = None
    """How the given labels are compared with the model's; None where they are not."""


def list_to_annotation(segments: Sequence[Segment]) -> Annotation:
    """Segments without a file, as an annotation of one tier."""
    return Annotation([Tier("phones", "interval", list(segments))], LISTED)


def check_count(count: int, limit: int | None) -> None:
    """Raises TooManySegments."""
    if limit is not None and count > limit:
        raise TooManySegments(
            f"expected at most {limit} segments, got {count}", pointer="segments", value=count, limit=limit
        )


def prepare_utterance(
    audio: bytes | Path | Audio,
    segmentation: Annotation,
    settings: FeatureSettings,
    *,
    tier: str | None = None,
    chosen: Tier | None = None,
    channel: int | Literal["mix"] = "mix",
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    gaps: Gaps = Gaps(),
    max_seconds: float = 3600.0,
    max_segments: int | None = None,
    raw: RawFormat | None = None,
    recording: str | None = None,
    known: LabelSet | None = None,
) -> Prepared:
    """Choose the tier, decode the sound if it is not decoded yet, check the segments and compute their features.

    `chosen` is a tier of the segmentation, where one has been chosen already instead of by `tier`. `raw` says what sound
    without a header holds. `recording` is the sound's name, for files that are written; left out, that of the file where
    `audio` is one. `known` are the labels of the model, with which the given ones are compared. With
    `on_bad_segment="skip"`, segments that do not fit are set aside, each with a Notice, instead of refusing all.

    Raises:
        AnnotationError, AudioError, SegmentError, TooManySegments: what came cannot be used.
    """
    chosen, tier_notices = (chosen, ()) if chosen is not None else notation.choose_tier(segmentation, tier)
    segments = notation.tier_segments(chosen)
    if not segments:
        raise NoSegments("expected at least one segment, got none", pointer="segments", value=0, limit=1)
    check_count(len(segments), max_segments)
    comparison, label_notices = (None, ()) if known is None else compare_labels(known, segmentation, chosen, segments)
    if isinstance(audio, Audio):
        decoded = audio
    else:
        if channel == "mix" and segmentation.channel is not None:
            channel, said = channel_of(segmentation, audio)
            tier_notices = (*tier_notices, *said)
        # At the model's rate at once: an hour at the highest rate that a file may claim would be 11 GB.
        decoded = sound.decode(audio, channel=channel, rate=settings.rate, max_seconds=max_seconds, raw=raw)
    rate = decoded.source_rate or decoded.rate
    if any(notice.code == "rate-assumed" for notice in segmentation.notices):
        segmentation, chosen = _change_rate(segmentation, chosen, rate)
        segments = notation.tier_segments(chosen)
    duration = decoded.duration
    checked = _check_segments(
        segments, duration, decoded.notices, fix=fix, lines=chosen.lines, skip=on_bad_segment == "skip"
    )
    return Prepared(
        segmentation,
        chosen,
        checked.segments,
        extract_inputs(decoded, checked.segments, settings),
        duration,
        (*segmentation.notices, *tier_notices, *label_notices, *decoded.notices, *checked.notices),
        starts=find_breaks(checked.segments, gaps),
        indices=checked.indices,
        skipped=checked.skipped,
        gaps=gaps,
        rate=rate,
        recording=recording or (audio.stem if isinstance(audio, Path) else None),
        comparison=comparison,
    )


def note_precision(model: PhoneModel) -> tuple[Notice, ...]:
    """What an answer says about the precision of its model's products, if it is not the usual one."""
    precision = model.network.precision
    if precision == "float32":
        return ()
    return (Notice("precision-reduced", f"the model multiplied in {precision}; posteriors may move by 0.01", "model"),)


def _change_rate(segmentation: Annotation, tier: Tier, rate: int) -> tuple[Annotation, Tier]:
    """An annotation that counts in samples without naming their rate, and its tier, at the rate of the recording (Hz)."""
    index = next(i for i, known in enumerate(segmentation.tiers) if known is tier)
    segmentation = conversion.change_rate(segmentation, timit.RATE, rate)
    return segmentation, segmentation.tiers[index]


@dataclass(frozen=True, slots=True)
class _Checked:
    """Segments that fit the sound; `indices` of them in the tier, and the others, where segments are skipped."""

    segments: list[Segment]
    notices: tuple[Notice, ...]
    indices: Sequence[int] = ()
    skipped: tuple[tuple[int, Skipped], ...] = ()


def _check_segments(
    segments: list[Segment], duration: float, heard: Sequence[Notice], *, fix: bool, lines: Sequence[int], skip: bool
) -> _Checked:
    """Raises SegmentError; TruncatedAudio where the sound, whose notices are `heard`, is at fault."""
    if skip:
        sifted = sift(segments, duration, fix=fix, lines=lines)
        skipped = _collect_skipped(segments, sifted.problems)
        notices = (Notice("segment-skipped", s.reason, f"segments/{i}") for i, s in skipped)
        return _Checked(sifted.segments, (*sifted.notices, *notices), sifted.indices, skipped)
    try:
        return _Checked(*prepare(segments, duration, fix=fix, lines=lines))
    except SegmentError as error:
        cut = next((n for n in heard if n.code == "audio-truncated"), None)
        if cut is None or any(p.kind not in ("past-end", "after-end") for p in error.problems):
            raise
        raise TruncatedAudio(
            f"expected sound up to the last segment's end at {max(s.end for s in segments):.3f} s, got less: {cut.message}",
            pointer="audio",
            details=error.details,
        ) from error


def compare_labels(
    known: LabelSet, annotation: Annotation, tier: Tier, segments: Sequence[Segment]
) -> tuple[LabelComparison, tuple[Notice, ...]]:
    """How the labels of a tier, which has these segments, are compared with a model's, and what to know about it.

    Raises:
        WordTier: the tier holds words, and the annotation has a tier that looks like phones.
    """
    comparison = known.compare([s.label for s in segments])
    found = sum(comparison.known.values())
    if 2 * found >= sum(1 for s in segments if s.label) or not looks_like_words(segments, tier.name):
        return comparison, comparison.notices()
    others = [t for t in annotation.interval_tiers() if t is not tier and _may_be_phones(t)]
    labels = ", ".join(excerpt(label) for label in list(comparison.unknown)[:3])
    if others:
        names = ", ".join(excerpt(t.name) for t in others)
        raise WordTier(
            f"expected a tier of phones, got {excerpt(tier.name)}, which looks like words ({labels}); choose {names}",
            pointer="tier",
            value=tier.name,
            details={"tiers": [t.name for t in others]},
        )
    message = f"tier {excerpt(tier.name)} looks like words ({labels}), and each interval is labelled as one phone"
    return comparison, (Notice("tier-of-words", message, f"tiers/{tier.name}", tier.name), *comparison.notices())


def _may_be_phones(tier: Tier) -> bool:
    """Whether a tier has labelled intervals that do not look like words."""
    segments = notation.tier_segments(tier)
    return any(s.label for s in segments) and not looks_like_words(segments, tier.name)


def _collect_skipped(
    segments: Sequence[Segment], problems: Sequence[SegmentProblem]
) -> tuple[tuple[int, Skipped], ...]:
    """The bad segments by their places, each with all that is wrong with it as one reason."""
    reasons: dict[int, list[str]] = {}
    for problem in problems:
        _, _, rest = problem.message.partition(": ")
        reasons.setdefault(problem.index, []).append(rest if problem.index in reasons else problem.message)
    return tuple(
        (i, Skipped(segments[i].start, segments[i].end, "; ".join(texts), segments[i].label))
        for i, texts in sorted(reasons.items())
    )


def find_breaks(segments: Sequence[Segment], gaps: Gaps) -> tuple[int, ...]:
    """The places at which a new sequence begins: none where the chain runs across gaps."""
    if gaps.mode == "across":
        return ()
    return tuple(i for i, (a, b) in enumerate(pairwise(segments), 1) if b.start - a.end > gaps.longest + ROUNDING)


def label_sequences(
    model: PhoneModel,
    items: Sequence[tuple[Inputs, Sequence[Segment], Sequence[int]]],
    *,
    mode: Mode,
    n_best: int = 1,
    decode: Decoding = "posterior",
    groups: Sequence[int] | None = None,
    comparisons: Sequence[LabelComparison | None] | None = None,
    support: bool = False,
) -> list[list[LabelledSegment]]:
    """Label several utterances, each (inputs, segments, starts), in one batch.

    `mode` says over what features are normalised (see `PhoneLabeler.normalisation`), `groups` which speaker each is of.

    An utterance with `starts` goes to the model as several sequences of one speaker, and comes back as one. `comparisons`
    say how the given labels of each are compared; None chooses the folding that fits the utterance. `support` says whether
    given labels get the probability that they are right in view of the others.
    """
    ready = [None] * len(items) if comparisons is None else comparisons
    how = [
        model.label_set.compare([s.label for s in own]) if comparison is None else comparison
        for (_, own, _), comparison in zip(items, ready, strict=True)
    ]
    inputs: list[Inputs] = []
    segments: list[Sequence[Segment]] = []
    owners: list[int] = []
    for n, (own_inputs, own, starts) in enumerate(items):
        inputs += own_inputs.split(starts) if starts else [own_inputs]
        segments += [own[begin:end] for begin, end in pairwise((0, *starts, len(own)))]
        owners += [n] * (len(starts) + 1)
    answers = model.label(
        inputs,
        segments,
        n_best=n_best,
        decode=decode,
        groups=[groups[n] for n in owners] if mode == "speaker" and groups is not None else owners,
        mode=mode,
        comparisons=[how[n] for n in owners],
        support=support,
    )
    whole: list[list[LabelledSegment]] = [[] for _ in items]
    for n, part in zip(owners, answers, strict=True):
        whole[n] += part
    return whole


def insert_skipped(prepared: Prepared, labelled: Sequence[LabelledSegment]) -> list[LabelledSegment | Skipped]:
    """The answer with the segments that were set aside, at the places where the input had them."""
    if not prepared.skipped:
        return list(labelled)
    out: list[LabelledSegment | Skipped] = []
    waiting = list(prepared.skipped)
    for index, segment in zip(prepared.indices, labelled, strict=True):
        while waiting and waiting[0][0] < index:
            out.append(waiting.pop(0)[1])
        out.append(segment)
    return [*out, *(skipped for _, skipped in waiting)]


def render_annotation(prepared: Prepared, labelled: Sequence[LabelledSegment], format: str) -> bytes:
    """The annotation with the labels and the posteriors added, in `format`; the input's tiers stay as they are.

    Where segments were repaired, the added tiers hold the times that were labelled; they have no entry for a segment
    that was set aside. A format with room for one tier gets the labelled tier with those times.

    Raises:
        AnnotationError: the format cannot hold it.
    """
    try:
        return _render(prepared, labelled, format)
    except AnnotationError:
        if not prepared.skipped:
            raise
    # A tier with, say, a reversed interval cannot be written; without those that were set aside it can.
    bad = {index for index, _ in prepared.skipped}
    kept = replace(prepared.tier, entries=[s for i, s in enumerate(prepared.tier.entries) if i not in bad])
    tiers = [kept if tier is prepared.tier else tier for tier in prepared.annotation.tiers]
    source = replace(prepared.annotation, tiers=tiers)
    return _render(replace(prepared, annotation=source, tier=kept), labelled, format)


def _render(prepared: Prepared, labelled: Sequence[LabelledSegment], format: str) -> bytes:
    source, tier = prepared.annotation, replace(prepared.tier, entries=prepared.segments)
    if notation.FORMATS[format].flat:
        source = replace(source, tiers=[tier if kept is prepared.tier else kept for kept in source.tiers])
    answer = notation.add_labels(
        source, tier, [segment.label for segment in labelled], [segment.posterior for segment in labelled]
    )
    return conversion.render(answer, format, rate=prepared.rate, recording=prepared.recording)
