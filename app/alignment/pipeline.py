"""One recording and what is known of it, aligned: the same for the command line, the service and jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from phonechain.app.alignment.transcripts import Pronouncer, list_guesses
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, timit
from phonechain.features.annotation.base import ANSWER, POSTERIOR, Tier
from phonechain.features.annotation.encoding import decode as decode_text
from phonechain.features.annotation.tiers import is_phone_tier
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import Notice, TranscriptError, UnrecognisedAnnotation
from phonechain.features.segments import Segment
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import Alignment, Recognition

WORD_TIERS = (
    "words",
    "word",
    "orth",
    "ort",
    "orthography",
    "transcript",
    "transcription",
    "text",
    "utterance",
    "sentence",
)
"""Names under which words are usually kept."""


LEFT = 0.25
"""Seconds of a silence that must sound like one."""

LONG = 0.45
"""Seconds above which a phone holds more than itself."""

SHORT = 0.25
"""Share of the sound that may be speech outside the transcript before that is told."""


@dataclass(frozen=True)
class AlignedRecording:
    """An alignment with what it was made of.

    Attributes:
        annotation, tier: what came, where it was an annotation.
        kind: what the input was: words of a transcript, phones in order, phones with boundaries to refine.
    """

    alignment: Alignment
    kind: Literal["words", "phones", "refine"]
    annotation: Annotation | None = None
    tier: Tier | None = None
    notices: tuple[Notice, ...] = ()


def align(
    aligner: PhoneAligner,
    audio: Audio,
    source: str | Annotation,
    pronouncer: Pronouncer,
    *,
    tier: str | None = None,
    refine: bool = False,
    spread: float = 0.03,
) -> AlignedRecording:
    """Align a recording to a transcript, or to a tier of an annotation, whose times count with `refine` alone.

    Raises:
        PhonechainError: whatever is wrong with the sound, the words or their phones.
    """
    if isinstance(source, str):
        if refine:
            raise TranscriptError("expected an annotation with boundaries to refine, got plain text", pointer="text")
        words = pronouncer.words(source)
        answer = aligner.align(audio, words)
        notices = (*audio.notices, *list_guesses(words), *check_length(answer, aligner.silence), *answer.notices)
        return AlignedRecording(answer, "words", notices=notices)
    source = at_rate_of(source, audio.source_rate or audio.rate)
    chosen, told = choose_tier(source, aligner, tier)
    segments = notation.tier_segments(chosen)
    found: tuple[Notice, ...] = (*audio.notices, *source.notices, *told)
    if refine:
        answer = aligner.refine(audio, segments, spread=spread)
        return AlignedRecording(answer, "refine", source, chosen, (*found, *answer.notices))
    if holds_phones(aligner, chosen):
        labels = [s.label for s in segments if s.label is not None or aligner.silence is not None]
        answer = aligner.align_phones(audio, [label or str(aligner.silence) for label in labels])
        return AlignedRecording(answer, "phones", source, chosen, (*found, *answer.notices))
    words = pronouncer.words(" ".join(s.label for s in segments if s.label is not None))
    answer = aligner.align(audio, words)
    notices = (*found, *list_guesses(words), *check_length(answer, aligner.silence), *answer.notices)
    return AlignedRecording(answer, "words", source, chosen, notices)


def at_rate_of(source: Annotation, rate: int) -> Annotation:
    """The annotation with its true times, where it counts in samples without naming their rate: the sound's (Hz)."""
    from phonechain.app.labelling import conversion

    if any(notice.code == "rate-assumed" for notice in source.notices):
        return conversion.change_rate(source, timit.RATE, rate)
    return source


def check_length(answer: Alignment, silence: str | None) -> tuple[Notice, ...]:
    """That speech is left over: silences that do not sound like silence, and phones longer than phones are."""
    spans = [
        (p.end - p.start if p.label == silence else p.end - p.start - LONG, p)
        for p in answer.phones
        if (p.end - p.start > LEFT and p.posterior < 0.3 if p.label == silence else p.end - p.start > LONG)
    ]
    seconds = sum(s for s, _ in spans)
    if seconds <= max(2 * LEFT, SHORT * answer.duration):
        return ()
    _, worst = max(spans, key=lambda pair: pair[0])
    message = (
        f"the transcript is too short for the sound: {seconds:.1f} of {answer.duration:.1f} s sound like speech that is not "
        f"in the transcript, the longest at {worst.start:.2f} to {worst.end:.2f} s"
    )
    return (Notice("transcript-short", message, "text", round(seconds, 2), round(SHORT * answer.duration, 2)),)


def recognize(aligner: PhoneAligner, audio: Audio) -> Recognition:
    """The phones of a recording and their boundaries, with the notices of its sound."""
    answer = aligner.recognize(audio)
    return replace(answer, notices=(*audio.notices, *answer.notices))


def choose_tier(source: Annotation, aligner: PhoneAligner, name: str | None) -> tuple[Tier, tuple[Notice, ...]]:
    """The tier that is asked for; else one of phones that the model knows; else one of words."""
    if name is not None:
        return notation.choose_tier(source, name)
    tiers = [t for t in source.tiers if t.labelled()]
    for t in tiers:
        if is_phone_tier(t.name) and holds_phones(aligner, t):
            return t, ()
    for t in tiers:
        if t.name.strip().casefold() in WORD_TIERS:
            return t, ()
    return notation.choose_tier(source)


def holds_phones(aligner: PhoneAligner, tier: Tier) -> bool:
    """Whether all of a tier's labels are phones of the model."""
    labels = [s.label for s in notation.tier_segments(tier) if s.label is not None]
    return bool(labels) and all(aligner.spell(label) is not None for label in labels)


def read_source(
    data: bytes, name: str | None, *, utterance: str | None = None, audio: str | None = None
) -> str | Annotation:
    """A file as an annotation, or, where it is none, as the text of a transcript.

    In a file of several recordings `utterance` must be there; `audio`, the stem of the sound's name, is a hint.

    Raises:
        AnnotationError: an annotation that is damaged, or bytes that are no text.
    """
    try:
        return notation.read(data, name=name, utterance=utterance, audio=audio)
    except UnrecognisedAnnotation:
        return decode_text(data)[0]


def to_annotation(done: AlignedRecording | Recognition, duration: float) -> Annotation:
    """The answer as an annotation: every tier of the input, then words, those guessed, phones, and how certain they are.

    "<phones> posterior" has each label's posterior, "<phones> certainty" the probability that its start is within 20 ms.
    """
    answer = done.alignment if isinstance(done, AlignedRecording) else done
    source = done.annotation if isinstance(done, AlignedRecording) else None
    kept = [] if source is None else list(source.tiers)
    taken = {t.name for t in kept}

    def free(name: str) -> str:
        k, found = 2, name
        while found in taken:
            found, k = f"{name} ({k})", k + 1
        taken.add(found)
        return found

    own: list[Tier] = []
    if isinstance(answer, Alignment) and answer.words:
        base = "words" if "words" not in taken else "words" + ANSWER
        own.append(Tier(free(base), "interval", [Segment(w.start, w.end, w.written) for w in answer.words]))
        if any(w.guessed for w in answer.words):
            guessed = [Segment(w.start, w.end, w.written) for w in answer.words if w.guessed]
            own.append(Tier(free(own[-1].name + " guessed"), "interval", guessed))
    phones = "phones" if "phones" not in taken else "phones" + ANSWER
    own.append(Tier(free(phones), "interval", answer.segments))
    posterior = [Segment(p.start, p.end, f"{p.posterior:.4f}") for p in answer.phones]
    certainty = [Segment(p.start, p.end, f"{p.within:.4f}") for p in answer.phones]
    own.append(Tier(free(own[-1].name + POSTERIOR), "interval", posterior))
    own.append(Tier(free(own[-2].name + " certainty"), "interval", certainty))
    end = duration if source is None or source.end is None else max(duration, source.end)
    return Annotation([*kept, *own], "textgrid" if source is None else source.format, 0.0, end)


def render(
    done: AlignedRecording | Recognition, format: str, *, duration: float, rate: int, recording: str | None
) -> bytes:
    """The annotation in a format; one with room for a single tier gets the phones alone. Raises AnnotationError."""
    from phonechain.app.labelling import conversion

    whole = to_annotation(done, duration)
    if notation.FORMATS[format].flat:
        answer = done.alignment if isinstance(done, AlignedRecording) else done
        names = {t.name for t in whole.tiers[-3:]}
        whole = replace(whole, tiers=[t for t in whole.tiers if t.name in names and not t.name.endswith("certainty")])
        assert len(whole.tiers[0].entries) == len(answer.phones)
    return conversion.render(whole, format, rate=rate, recording=recording)


def read_audio(
    source: bytes | Path,
    aligner: PhoneAligner,
    channel: int | Literal["mix"] = "mix",
    *,
    max_seconds: float | None = None,
) -> Audio:
    """Sound at the model's rate, of at most `max_seconds` or what can be aligned to words. Raises AudioError."""
    from phonechain.model.segmental.aligner import LONGEST_SECONDS

    longest = LONGEST_SECONDS if max_seconds is None else min(max_seconds, LONGEST_SECONDS)
    return decode(source, channel=channel, rate=aligner.features_.rate, max_seconds=longest)
