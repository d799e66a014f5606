"""Every error that Phonechain raises for bad input.

    PhonechainError
    ├── AudioError                 the sound cannot be used
    │   ├── UnrecognisedAudio      no decoder knows these bytes
    │   ├── EmptyAudio             no bytes, or no samples in them
    │   ├── TruncatedAudio         the container ends before any sound does
    │   ├── NonFiniteAudio         NaN or infinity among the samples
    │   ├── AudioTooLong           more decoded seconds than the cap allows
    │   └── ChannelError           the asked channel is not there
    ├── AnnotationError            the segmentation file cannot be used
    │   ├── UnrecognisedAnnotation no format matches
    │   ├── AnnotationSyntaxError  the format's grammar is broken, with the line
    │   ├── UnknownTier            the asked tier is not there
    │   └── WordTier               the tier holds words, and another one phones
    ├── SegmentError               the segments do not fit together or the sound
    │   └── NoSegments             there are none
    ├── TranscriptError            words that cannot be aligned
    ├── PhoneSetError              a label that the phone set does not know
    ├── CorpusError                the corpus as a whole cannot be used
    ├── ModelFileError             not a model file, or one of another version
    ├── SettingsError              a setting out of range
    └── TrainingError              the training cannot continue

An error is one readable line: what was expected and what came. `pointer` says where in the input (a JSON pointer, a line,
an index), `value` and `limit` carry the numbers, so that a program need not parse the sentence. Nothing here knows HTTP;
`app/problems/documents.py` maps `slug` to a problem type.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from phonechain.features.files import printable_path


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning: the input was usable, and this is what a person should know about it.

    `code` is stable and for programs ("segment-clipped"); `message` is one sentence with its numbers; `pointer`, `value`
    and `limit` are as in PhonechainError.
    """

    code: str
    message: str
    pointer: str | None = None
    value: float | str | None = None
    limit: float | str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if v is not None}


class PhonechainError(Exception):
    """Root of the tree: `str(error)` is one line for a person, the attributes are for a program.

    Args:
        message: one sentence, "expected ..., got ...", without a trailing newline.
        pointer: where it is wrong, for example `segments/3/end`, `line 12`, `audio`.
        value: the offending value, if it is short.
        limit: the bound it broke, if there is one.
        details: further facts, JSON-serialisable.
    """

    slug = "error"

    def __init__(
        self,
        message: str,
        *,
        pointer: str | None = None,
        value: Any = None,
        limit: Any = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(printable_path(" ".join(message.split())))
        self.pointer = pointer
        self.value = value
        self.limit = limit
        self.details = details or {}


class AudioError(PhonechainError):
    slug = "audio"


class UnrecognisedAudio(AudioError):
    slug = "audio-unrecognised"


class EmptyAudio(AudioError):
    slug = "audio-empty"


class TruncatedAudio(AudioError):
    slug = "audio-truncated"


class NonFiniteAudio(AudioError):
    slug = "audio-non-finite"


class AudioTooLong(AudioError):
    slug = "audio-too-long"


class ChannelError(AudioError):
    slug = "audio-channel"


class AnnotationError(PhonechainError):
    """`part`: which part of a request the file was."""

    slug = "annotation"
    part = "segments"


class UnrecognisedAnnotation(AnnotationError):
    slug = "annotation-unrecognised"


class AnnotationSyntaxError(AnnotationError):
    """`line` counts from 1; it is part of the sentence too."""

    slug = "annotation-syntax"

    def __init__(self, message: str, *, line: int | None = None, **more: Any) -> None:
        where = f"line {line}" if line is not None else None
        super().__init__(f"{where}: {message}" if where else message, pointer=more.pop("pointer", where), **more)
        self.line = line


class UnknownTier(AnnotationError):
    slug = "annotation-tier"


class WordTier(AnnotationError):
    slug = "annotation-tier-words"


@dataclass(frozen=True, slots=True)
class SegmentProblem:
    """One thing that is wrong with one segment. `index` counts from 0; `limit` is the bound that `value` broke (seconds).

    `line` is that of its file, from 1, where it is known.
    """

    index: int
    kind: str
    message: str
    value: float | None = None
    limit: float | None = None
    line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        if self.line is None:
            del told["line"]
        return told


class SegmentError(PhonechainError):
    """Carries every problem at once: `problems`, in the order of the segments."""

    slug = "segments"

    def __init__(self, message: str, *, problems: tuple[SegmentProblem, ...] = (), **more: Any) -> None:
        details = more.pop("details", None) or {"problems": [p.as_dict() for p in problems]}
        super().__init__(message, details=details, **more)
        self.problems = problems


class NoSegments(SegmentError):
    slug = "segments-empty"


class PhoneSetError(PhonechainError):
    slug = "phone-set"


class TranscriptError(PhonechainError):
    slug = "transcript"


class CorpusError(PhonechainError):
    slug = "corpus"


class ModelFileError(PhonechainError):
    slug = "model-file"


class SettingsError(PhonechainError):
    slug = "settings"


class TrainingError(PhonechainError):
    slug = "training"
