"""One recording and what is known of it, aligned: the same for the command line, the service and jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from phonechain.app.alignment.transcripts import Pronouncer, list_guesses
from phonechain.features import annotation as notation
from phonechain.features.annotation import Annotation, timit
from phonechain.features.annotation.base import ANSWER, POSTERIOR, Tier
from phonechain.features.annotation.encoding import decode as decode_text
from phonechain.features.annotation.tiers import is_phone_tier
from phonechain.features.audio.reader import Audio, decode
from phonechain.features.errors import Notice, PhoneSetError, TranscriptError, UnrecognisedAnnotation
from phonechain.features.segments import Segment
from phonechain.model.segmental.aligner import PhoneAligner
from phonechain.model.segmental.answers import Alignment, Recognition
from phonechain.model.segmental.progress import Progress, go_on

if TYPE_CHECKING:
    from phonechain.app.alignment.labels import Labels

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
    progress: Progress = go_on,
) -> AlignedRecording:
    """Align a recording to a transcript, or to a tier of an annotation, whose times count with `refine` alone.

    Between the windows of a long recording `progress` is called with the share of the work that is done; what it raises
    ends the work.

    Raises:
        PhonechainError: whatever is wrong with the sound, the words or their phones.
    """
    if isinstance(source, str):
        if refine:
            raise TranscriptError("expected an annotation with boundaries to refine, got plain text", pointer="text")
        answer, told = _align_words(aligner, audio, source, pronouncer, progress)
        return AlignedRecording(answer, "words", notices=(*audio.notices, *told))
    source = at_rate_of(source, audio.source_rate or audio.rate)
    chosen, told = choose_tier(source, aligner, tier)
    segments = notation.tier_segments(chosen)
    found: tuple[Notice, ...] = (*audio.notices, *source.notices, *told)
    if refine:
        answer = aligner.refine(audio, segments, spread=spread, progress=progress)
        return AlignedRecording(answer, "refine", source, chosen, (*found, *answer.notices))
    if holds_phones(aligner, chosen):
        labels = [s.label for s in segments if s.label is not None or aligner.silence is not None]
        spelled = [label or str(aligner.silence) for label in labels]
        answer = aligner.align_phones(audio, spelled, progress=progress)
        return AlignedRecording(answer, "phones", source, chosen, (*found, *answer.notices))
    text = " ".join(s.label for s in segments if s.label is not None)
    answer, told = _align_words(aligner, audio, text, pronouncer, progress)
    return AlignedRecording(answer, "words", source, chosen, (*found, *told))


def _align_words(
    aligner: PhoneAligner, audio: Audio, text: str, pronouncer: Pronouncer, progress: Progress
) -> tuple[Alignment, tuple[Notice, ...]]:
    """The alignment of a text, with what is to be said of it. Raises as `align`."""
    words = pronouncer.words(text)
    try:
        answer = aligner.align(audio, words, progress=progress)
    except PhoneSetError as error:
        if not pronouncer.as_phones:
            name = pronouncer.dictionary.name
            error.args = (f"the pronunciations of {name} are not of this model's language or phone set: {error}",)
        raise
    return answer, (*list_guesses(words), *check_length(answer, aligner.silence), *answer.notices)


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


def recognize(aligner: PhoneAligner, audio: Audio, *, progress: Progress = go_on) -> Recognition:
    """The phones of a recording and their boundaries, with the notices of its sound; `progress` as for `align`."""
    answer = aligner.recognize(audio, progress=progress)
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


NOT_IN_TRANSCRIPT = "(not in the transcript)"
"""The label of sound without text in the tier of what does not match."""


def to_annotation(done: AlignedRecording | Recognition, duration: float, labels: Labels | None = None) -> Annotation:
    """The answer as an annotation: every tier of the input, then words, those guessed, phones, and how certain they are.

    "PHONES posterior" has each label's posterior, "PHONES certainty" the probability that its start is within 20 ms, and
    "PHONES interval" the two times (s) between which that lies with 90 %. "transcript posterior" says how well the transcript
    fits, and where worst; "unmatched", what does not match at all. `labels` of another model and their posteriors are in
    "PHONES labelled" and "PHONES labelled posterior".
    """
    answer = done.alignment if isinstance(done, AlignedRecording) else done
    source = done.annotation if isinstance(done, AlignedRecording) else None
    kept = [] if source is None else list(source.tiers)
    own: list[Tier] = []

    def add(name: str, entries: list[Segment]) -> str:
        """Add a tier; its name is numbered where there is one of that name."""
        taken = {t.name for t in (*kept, *own)}
        free = next(n for k in count(1) if (n := name if k == 1 else f"{name} ({k})") not in taken)
        own.append(Tier(free, "interval", entries))
        return free

    def name_of(base: str) -> str:
        return base + ANSWER if any(t.name == base for t in kept) else base

    if isinstance(answer, Alignment) and answer.words:
        words = add(name_of("words"), [Segment(w.start, w.end, w.written) for w in answer.words])
        if any(w.guessed for w in answer.words):
            add(words + " guessed", [Segment(w.start, w.end, w.written) for w in answer.words if w.guessed])
    phones = add(name_of("phones"), answer.segments)
    for kind, texts in (
        (POSTERIOR, [f"{p.posterior:.4f}" for p in answer.phones]),
        (" certainty", [f"{p.within:.4f}" for p in answer.phones]),
        (" interval", [f"{p.start_low:.4f} {p.start_high:.4f}" for p in answer.phones]),
    ):
        add(phones + kind, [Segment(p.start, p.end, text) for p, text in zip(answer.phones, texts, strict=True)])
    if labels is not None:
        found = [Segment(p.start, p.end, s.label) for p, s in zip(answer.phones, labels.segments, strict=True)]
        name = add(phones + " labelled", found)
        shares = [f"{s.posterior:.4f}" for s in labels.segments]
        add(name + POSTERIOR, [Segment(p.start, p.end, x) for p, x in zip(answer.phones, shares, strict=True)])
    if isinstance(answer, Alignment):
        add("transcript" + POSTERIOR, [Segment(0.0, answer.duration, describe_fit(answer))])
        lost = [Segment(u.start, u.end, u.text or NOT_IN_TRANSCRIPT) for u in answer.unmatched if u.end > u.start]
        if lost:
            add("unmatched", lost)
    end = duration if source is None or source.end is None else max(duration, source.end)
    return Annotation([*kept, *own], "textgrid" if source is None else source.format, 0.0, end)


def describe_fit(answer: Alignment) -> str:
    """The transcript's own posterior, and where it fits worst, as text for people."""
    text = f"{answer.log_posterior:.1f} nats ({answer.log_posterior_per_phone:.2f} per phone)"
    if (worst := answer.worst) is None:
        return text
    return f"{text}; fits worst at '{worst.text[:40]}', {worst.start:.2f} to {worst.end:.2f} s"


def render(
    done: AlignedRecording | Recognition, format: str, *, duration: float, rate: int, recording: str | None,
    labels: Labels | None = None,
) -> bytes:  # fmt: skip
    """The annotation in a format; one with room for a single tier gets the phones alone. Raises AnnotationError."""
    from phonechain.app.labelling import conversion

    whole = to_annotation(done, duration, labels)
    if notation.FORMATS[format].flat:
        answer = done.alignment if isinstance(done, AlignedRecording) else done
        before = 0 if not isinstance(done, AlignedRecording) or done.annotation is None else len(done.annotation.tiers)
        first = next(n for n, t in enumerate(whole.tiers) if n >= before and t.entries == answer.segments)
        whole = replace(whole, tiers=whole.tiers[first : first + 2])
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
