"""Pair recordings with the files that may annotate them.

Names are compared without suffix, in Unicode NFC (macOS decomposes them) and ignoring case. Files in the same folder belong
together; across folders the longest common tail of their paths decides (`corpus/A/u1.wav` and `aligned/A/u1.TextGrid`), where
folders named for a kind of file (`wav`, `TextGrid`, `aligned`) do not count.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from phonechain.features import annotation
from phonechain.features.annotation import Annotation
from phonechain.features.annotation.base import MAX_BYTES, nfc
from phonechain.features.audio.raw import RawFormat
from phonechain.features.corpora.base import AUDIO_SUFFIXES, RAW_SUFFIXES, CorpusProblem, problem_of
from phonechain.features.errors import PhonechainError, UnrecognisedAnnotation

_KINDS = (
    "wav wavs audio sound sounds recordings clips textgrid textgrids annotation annotations label labels lab labs phn"
)
KIND_FOLDERS = frozenset(_KINDS.split()) | {s[1:] for s in AUDIO_SUFFIXES}
"""Folder names that say what kind of file is inside, rather than who speaks."""

DOUBTFUL = (".txt", ".csv", ".tsv", ".json", ".jsonl")
"""Suffixes that other files often have too: tried last, and skipped in folders if they are not annotations."""

_SHARED = tuple(s for f in annotation.READABLE.values() if f.parse_all is not None for s in f.suffixes)
"""Suffixes of files that may annotate many recordings."""

_PREFERENCE = sorted(annotation.SUFFIXES, key=lambda s: s in DOUBTFUL)

Key = tuple[str, ...]
"""The folders of a file that count, and its name without suffix, each in NFC and ignoring case."""


@dataclass(slots=True)
class Group:
    """The files with the same name in one folder: audio, and annotations in order of preference."""

    audio: list[Path] = field(default_factory=list)
    annotations: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class Pair:
    """A recording and the files that may annotate it.

    `annotations` are beside it or share a folder's name with it, nearest first; `others` share only the file's name. `parts` are
    files of many recordings, each with the part about this one. `raw` is the format of sound without a header.
    """

    audio: Path
    annotations: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    parts: list[tuple[Path, Annotation]] = field(default_factory=list)
    speaker: str | None = None
    split: str | None = None
    raw: RawFormat | None = None

    @property
    def file(self) -> Path:
        """The first candidate."""
        return [*self.annotations, *self.others, *(file for file, _ in self.parts)][0]

    @property
    def alone(self) -> bool:
        """True if nothing may annotate it."""
        return not (self.annotations or self.others or self.parts)


@dataclass(slots=True)
class Contents:
    """The files below `root`: groups by folder and name, and how many files of other suffixes there are."""

    root: Path
    groups: dict[tuple[str, str], Group]
    others: Counter[str]
    raw: RawFormat | None = None

    @property
    def audio(self) -> list[Path]:
        return [a for g in self.groups.values() for a in g.audio]

    @property
    def annotations(self) -> list[Path]:
        return [a for g in self.groups.values() for a in g.annotations]


def scan(root: Path, *, leave_out: Path | None = None, raw: RawFormat | None = None) -> Contents:
    """Every file below `root` but hidden ones and `leave_out`; with `raw`, files of RAW_SUFFIXES are sound of that format."""
    sound = AUDIO_SUFFIXES if raw is None else AUDIO_SUFFIXES | RAW_SUFFIXES
    groups: dict[tuple[str, str], Group] = defaultdict(Group)
    others: Counter[str] = Counter()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(files):
            base, suffix = os.path.splitext(name)
            suffix = suffix.lower()
            path = Path(folder, name)
            if name.startswith(".") or path == leave_out:  # also the "._" companions that macOS leaves on other disks
                continue
            if suffix in sound:
                groups[folder, nfc(base)].audio.append(path)
            elif suffix in annotation.SUFFIXES:
                groups[folder, nfc(_stem(name))].annotations.append(path)
            else:
                others[suffix or "no suffix"] += 1
    for group in groups.values():
        group.annotations.sort(key=lambda p: _PREFERENCE.index(p.suffix.lower()))
    return Contents(root, dict(groups), others, raw)


def _stem(name: str) -> str:
    """An annotation file's name without suffix, also without that of the sound (`u.wav.TextGrid`)."""
    stem = annotation.stem_of(name)
    base, suffix = os.path.splitext(stem)
    return base if suffix.lower() in AUDIO_SUFFIXES | RAW_SUFFIXES else stem


def folders_of(root: Path, path: Path) -> list[str]:
    """The folders between the root and the file, without those that say what kind of file is inside."""
    return [f for f in _parts_below(root, path.parent) if f.casefold() not in KIND_FOLDERS]


@lru_cache(maxsize=256)
def _parts_below(root: Path, folder: Path) -> tuple[str, ...]:
    """The names of the folders from the root to this one, for all of its files."""
    return folder.relative_to(root).parts


def pair(contents: Contents) -> tuple[list[Pair], list[CorpusProblem]]:
    """Recordings with the files that may annotate them, in order of path, and the files that found no partner."""
    recordings = {g.audio[0]: Pair(g.audio[0]) for g in contents.groups.values() if g.audio}
    if contents.raw is not None:
        for one in recordings.values():
            one.raw = contents.raw if one.audio.suffix.lower() in RAW_SUFFIXES else None
    for group in contents.groups.values():
        if group.audio:
            recordings[group.audio[0]].annotations += group.annotations
    keys = _Keys(contents)
    by_tail: dict[Key, list[Path]] = defaultdict(list)
    for audio in recordings:
        key = keys.of(audio)
        for length in range(1, len(key) + 1):
            by_tail[key[-length:]].append(audio)
    apart = [g.annotations for g in contents.groups.values() if g.annotations and not g.audio]
    far: list[tuple[int, list[Path], list[Path]]] = []
    unmatched: list[list[Path]] = []
    for files in apart:
        length, nearest = _nearest(files[0], keys, by_tail)
        (far.append((length, files, nearest)) if nearest else unmatched.append(files))
    problems: list[CorpusProblem] = []
    homes: dict[Path, set[Path]] = defaultdict(set)
    for length, files, nearest in sorted(far, key=lambda f: -f[0]):
        if len(nearest) > 1:
            problems.append(_ambiguous(contents.root, files[0], nearest))
            continue
        audio = nearest[0]
        if length > 1 or keys.of(audio) == keys.of(files[0]):
            recordings[audio].annotations += files
            homes[files[0].parent].add(audio.parent)
        elif homes.get(files[0].parent, {audio.parent}) == {audio.parent}:
            recordings[audio].others += files
        else:  # the other files of its folder belong to recordings elsewhere
            unmatched.append(files)
    lone: list[Path] = []
    for files in unmatched:
        found, problem = _parts(files[0], recordings.values())
        if problem is not None:
            problems.append(problem)
        elif not found and files[0].suffix.lower() not in DOUBTFUL:
            lone.append(files[0])
    pairs = [p for p in recordings.values() if not p.alone]
    alone = sorted(p.audio for p in recordings.values() if p.alone)
    twice = [extra for g in contents.groups.values() if g.annotations for extra in g.audio[1:]]
    problems += [
        *summarise_files(contents.root, alone, "audio file", "no annotation beside it"),
        *summarise_files(contents.root, lone, "annotation file", "no audio beside it"),
        *summarise_files(
            contents.root, twice, "further audio file", "the same name as another one, and was passed over"
        ),
    ]
    return sorted(pairs, key=lambda p: p.audio), problems


class _Keys:
    """Paths reduced to what is compared."""

    def __init__(self, contents: Contents) -> None:
        self.root = contents.root
        holds: dict[str, set[bool]] = defaultdict(set)
        for is_audio, files in ((True, contents.audio), (False, contents.annotations)):
            for folders in {f.parent for f in files}:
                for name in folders.relative_to(self.root).parts:
                    holds[nfc(name).casefold()].add(is_audio)
        self.kinds = KIND_FOLDERS | {name for name, found in holds.items() if len(found) == 1}

    def of(self, path: Path) -> Key:
        folders = (nfc(f).casefold() for f in _parts_below(self.root, path.parent))
        name = path.stem if path.suffix.lower() in AUDIO_SUFFIXES | RAW_SUFFIXES else _stem(path.name)
        return (*(f for f in folders if f not in self.kinds), nfc(name).casefold())


def _nearest(file: Path, keys: _Keys, by_tail: dict[Key, list[Path]]) -> tuple[int, list[Path]]:
    """(length of the longest common tail, the recordings that have it): several where nothing tells them apart."""
    key = keys.of(file)
    for length in range(len(key), 0, -1):
        if found := by_tail.get(key[-length:]):
            for closer in (
                lambda a: folders_of(keys.root, a) == folders_of(keys.root, file),
                lambda a: nfc(a.stem) == nfc(_stem(file.name)),
                lambda a: nfc(a.parent.name) == nfc(file.parent.name),
            ):
                found = [a for a in found if closer(a)] or found
            return length, found
    return 0, []


def _ambiguous(root: Path, file: Path, nearest: list[Path]) -> CorpusProblem:
    names = ", ".join(str(a.relative_to(root)) for a in nearest[:3])
    more = f" and {len(nearest) - 3} more" if len(nearest) > 3 else ""
    message = f"this annotation file fits {len(nearest)} recordings equally well ({names}{more}) and was left out"
    return CorpusProblem(file, None, f"{message}; put it beside its own, or into a folder of the same name")


def _parts(file: Path, pairs: Iterable[Pair]) -> tuple[bool, CorpusProblem | None]:
    """Give each recording its part of a file of many (MLF, CTM, RTTM, an export); False for other kinds of file."""
    if file.suffix.lower() not in _SHARED:
        return False, None
    try:
        recordings = {nfc(k): v for k, v in annotation.read_all(read_bytes(file), name=file.name).items()}
    except UnrecognisedAnnotation:
        return False, None
    except PhonechainError as error:
        return False, problem_of(error, file)
    except OSError as error:
        return False, CorpusProblem(file, None, f"cannot be read: {error.strerror}")
    named = defaultdict(list)
    for one in pairs:
        named[nfc(one.audio.stem)].append(one)
    found = False
    problem = None
    for name, part in recordings.items():
        if name not in named and part.channel and nfc(name.rpartition(" ")[0]) in named:
            message = f"channel {part.channel} ('{name}') is left out: a corpus takes one channel of a recording"
            problem = problem or CorpusProblem(file, None, message)
            continue
        match named.get(name, []):
            case [one]:
                one.parts.append((file, part))
                found = True
            case [first, _, *_] as several:
                message = f"recording '{name}' of this file fits {len(several)} recordings, the first {first.audio}"
                problem = problem or CorpusProblem(file, None, message)
    return found, problem


def summarise_files(root: Path, files: list[Path], what: str, lack: str) -> list[CorpusProblem]:
    """One problem for all of these files, which have `lack`; none without files."""
    if not files:
        return []
    if len(files) == 1:
        return [CorpusProblem(files[0], None, f"this {what} has {lack}")]
    folder = Path(os.path.commonpath([f.parent for f in files]))
    example = files[0].relative_to(root)
    return [CorpusProblem(folder, None, f"{len(files)} {what}s have {lack}, the first {example}")]


def read_bytes(file: Path) -> bytes:
    """Read a file, up to one byte more than the largest annotation."""
    with open(file, "rb") as handle:
        size = os.fstat(handle.fileno()).st_size  # 0 for what is no file on a disk
        # as much memory as is asked for is taken and given back, for each file
        return handle.read(min(size, MAX_BYTES) + 1 if size else MAX_BYTES + 1)
