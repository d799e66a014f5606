"""Shared by all corpus layouts: the corpus, its problems, and the way from an annotation file to segments."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from phonechain.features import annotation
from phonechain.features.annotation import Annotation, Tier
from phonechain.features.annotation.base import nfc
from phonechain.features.audio.raw import RawFormat
from phonechain.features.errors import AnnotationSyntaxError, Notice, PhonechainError, SegmentError
from phonechain.features.files import printable_path
from phonechain.features.segment_checks import OnBadSegment, settle
from phonechain.features.segments import Segment, Utterance

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

MOST_OF_A_FILE = 1000
"""Most problems of a file that are listed one by one."""

TOLD_APART = frozenset({"labels-folded", "tier-guessed", "tier-of-words", "encoding-guessed"})
"""Codes of notices that say something else for each value, such as another folding of the labels."""

MOST_KINDS = 5
"""Most kinds of notices with one of these codes; further ones are counted together."""

_AUDIO = "wav flac ogg oga opus mp3 m4a aac amr wma aif aiff aifc au snd sph nist caf w64"
_FILMS = "mp4 webm 3gp mkv mov avi mpg mpeg mts m2ts"
AUDIO_SUFFIXES = frozenset("." + s for s in (_AUDIO + " " + _FILMS).split())
"""Suffixes of sound files; what a file really is, its first bytes say when it is decoded."""

RAW_SUFFIXES = frozenset({".raw", ".pcm"})
"""Suffixes of sound without a header, which is read only if its format is given."""


@dataclass(frozen=True, slots=True)
class CorpusProblem:
    """Something wrong with one file of a corpus or, with a folder as `file`, with several files at once.

    If the message sums up several segments, `each` has them one by one, with their own lines.
    """

    file: Path
    line: int | None
    message: str
    each: tuple[CorpusProblem, ...] = ()

    def __str__(self) -> str:
        return f"{printable_path(self.file)}{'' if self.line is None else f':{self.line}'}: {self.message}"


@dataclass(slots=True)
class Corpus:
    """Utterances with their splits. `problems` lists what could not be used, `notices` what is doubtful."""

    root: Path
    utterances: list[Utterance]
    problems: list[CorpusProblem]
    notices: list[Notice] = field(default_factory=list)
    layout: str = "folder"
    unions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Further names of splits, each for several together (TIMIT's `dev-full`)."""
    dropped: tuple[str, ...] = ()
    """Labels that the layout leaves out (TIMIT's `q`)."""

    def split(self, name: str) -> list[Utterance]:
        """The utterances of one split or union of splits, in the order of the corpus; empty if there is no such split."""
        names = self.unions.get(name, (name,))
        return [u for u in self.utterances if u.split in names]

    def splits(self) -> dict[str, int]:
        """Number of utterances in each named split."""
        return dict(Counter(u.split for u in self.utterances if u.split is not None))

    def labels(self) -> dict[str, int]:
        """How often each label occurs, the most frequent first."""
        return dict(Counter(s.label for u in self.utterances for s in u.segments if s.label is not None).most_common())

    def speakers(self) -> dict[str, int]:
        """Number of utterances of each known speaker."""
        return dict(Counter(u.speaker for u in self.utterances if u.speaker is not None))


class NoticeCount:
    """Notices of many files, one for each kind: how many files, and the first of them.

    Notices of a code in `TOLD_APART` are of several kinds if their values differ.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, object], tuple[Notice, Path, int]] = {}

    def add(self, file: Path, notices: Collection[Notice]) -> None:
        kinds: dict[tuple[str, object], Notice] = {}
        for notice in notices:
            kinds.setdefault(self._kind(notice), notice)
        for key, notice in kinds.items():
            first, where, count = self._seen.get(key, (notice, file, 0))
            self._seen[key] = (first, where, count + 1)

    def _kind(self, notice: Notice) -> tuple[str, object]:
        if notice.code not in TOLD_APART:
            return notice.code, None
        key = notice.code, notice.value
        others = sum(code == notice.code for code, _ in self._seen)
        return key if key in self._seen or others < MOST_KINDS else (notice.code, None)

    def notices(self) -> list[Notice]:
        out = []
        for (code, _), (first, where, count) in self._seen.items():
            name = printable_path(where)
            message = f"{describe_files(count, where)}: {first.message}"
            out.append(Notice(code, message, name, first.value, first.limit))
        return out


def describe_files(count: int, first: Path) -> str:
    """The only file of a message by its name, or how many there are and the first.

    >>> describe_files(1, Path("a.lab")), describe_files(3, Path("a.lab"))
    ('a.lab', '3 files, the first a.lab')
    """
    name = printable_path(first)
    return name if count == 1 else f"{count} files, the first {name}"


class Spelling:
    """One spelling for labels that differ only in their Unicode form: the first one seen."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def apply(self, segments: list[Segment]) -> list[Segment]:
        return [s if s.label is None or s.label.isascii() else self._one(s) for s in segments]

    def _one(self, s: Segment) -> Segment:
        assert s.label is not None
        spelling = self._first.setdefault(nfc(s.label), s.label)
        return s if spelling == s.label else Segment(s.start, s.end, spelling)


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The checked segments of one annotation file. `lines` and `channel` as in Utterance."""

    segments: list[Segment]
    notices: list[Notice]
    lines: Sequence[int] = ()
    channel: int | Literal["mix"] = "mix"


def segments_of(
    data: bytes,
    name: str,
    *,
    tier: str | None = None,
    duration: float | None = None,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    drop: Collection[str] = (),
    rate: int | None = None,
    audio: Path | None = None,
) -> Segmentation:
    """Read and check the segments of one annotation file.

    Args:
        data, name: the file.
        tier, fix, on_bad_segment: as for `choose_tier` and `settle`.
        duration: of its sound, seconds, if known.
        drop: labels whose segments are left out.
        rate: of its sound, for formats that count in samples.
        audio: its sound, for the rate where one is needed, and the recording's name where the file has several.

    Raises:
        PhonechainError: the file or its segments cannot be used.
    """
    read = read_beside(data, name, audio, rate) if audio is not None else annotation.read(data, name=name, rate=rate)
    chosen, guessed = annotation.choose_tier(read, tier)
    channel, said = channel_of(read, audio) if audio is not None else ("mix", ())
    notices = [*read.notices, *guessed, *said]
    found = segments_in(chosen, notices, duration=duration, fix=fix, on_bad_segment=on_bad_segment, drop=drop)
    return replace(found, channel=channel)


def read_beside(
    data: bytes, name: str, audio: Path, rate: int | None = None, raw: RawFormat | None = None
) -> Annotation:
    """Read the annotation of a recording, which gives the name where the file has several, and the rate where one is needed.

    `raw` is the format of a recording without a header.

    Raises:
        AnnotationError: as `annotation.read`.
    """
    if raw is not None and rate is None:
        rate = raw.rate
    read = annotation.read(data, name=name, rate=rate, audio=audio.stem)
    if rate is None and any(n.code == "rate-assumed" for n in read.notices) and (known := rate_of(audio)) is not None:
        return annotation.read(data, name=name, rate=known, audio=audio.stem)
    return read


def segments_in(
    chosen: Tier,
    notices: Collection[Notice] = (),
    *,
    duration: float | None = None,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    drop: Collection[str] = (),
) -> Segmentation:
    """As `segments_of`, for a chosen tier; `notices` come first in the result's."""
    settled = settle(
        annotation.tier_segments(chosen), duration, fix=fix, on_bad_segment=on_bad_segment, lines=chosen.lines
    )
    kept = [(s, i) for s, i in zip(settled.segments, settled.indices, strict=True) if s.label not in drop]
    skipped = [Notice("segment-skipped", p.message, f"segments/{p.index}") for p in settled.problems]
    lines = array("I", [chosen.lines[i] for _, i in kept]) if len(chosen.lines) == len(chosen.entries) else ()
    return Segmentation([s for s, _ in kept], [*notices, *settled.notices, *skipped], lines)


def channel_of(
    read: Annotation, audio: Path | bytes, raw: RawFormat | None = None
) -> tuple[int | Literal["mix"], tuple[Notice, ...]]:
    """The annotation's channel of the sound, and a Notice; "mix" where the sound does not have that channel."""
    if read.channel is None:
        return "mix", ()
    from phonechain.features.audio.reader import channels_of  # heavy, and needed for few files

    wanted, there = read.channel, raw.channels if raw is not None else channels_of(audio)
    if there is None:
        return "mix", ()
    about = f"the annotation is about channel {wanted} of the sound"
    if there == 1:
        return "mix", (Notice("channel-mono", f"{about}, which has one channel alone", "channel", float(wanted)),)
    if wanted >= there:
        message = f"{about}, which has {there}; they were mixed"
        return "mix", (Notice("channel-missing", message, "channel", float(wanted), float(there)),)
    return wanted, (Notice("channel-chosen", f"{about}, so that one was taken", "channel", float(wanted)),)


def rate_of(audio: Path) -> int | None:
    """Sample rate in the header of a sound file; None where libsndfile cannot read it."""
    import soundfile  # needed for few formats, so not for every import of this module

    try:
        return int(soundfile.info(os.fsencode(audio)).samplerate)
    except (soundfile.LibsndfileError, OSError, RuntimeError):
        return None


def problem_of(error: PhonechainError, file: Path) -> CorpusProblem:
    """The error as a problem of the file, with the line number separate if there is one."""
    message = str(error)
    if isinstance(error, SegmentError) and error.problems:
        each = [CorpusProblem(file, p.line, p.message) for p in error.problems[:MOST_OF_A_FILE]]
        if more := error.problems[MOST_OF_A_FILE:]:
            each.append(CorpusProblem(file, more[0].line, f"and {len(more)} more"))
        if hint := error.details.get("hint"):  # which is no problem more
            each[-1] = replace(each[-1], message=f"{each[-1].message}. {hint}")
        return CorpusProblem(file, error.problems[0].line, message, tuple(each) if len(each) > 1 else ())
    line = error.line if isinstance(error, AnnotationSyntaxError) else None
    if line is not None:
        message = message.removeprefix(f"line {line}: ")
    return CorpusProblem(file, line, message)
