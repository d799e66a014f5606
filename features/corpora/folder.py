"""The layout "audio beside annotations": files that differ in their suffix only, in any tree of folders.

Where sound and annotations lie in trees of their own (`wav/a.wav`, `TextGrid/a.TextGrid`), files are paired by a name
that occurs once on either side. Speakers and splits come from a table, else from the folders: the split is a top folder
with a name such as `train`, the speaker the folder that holds the recording.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from phonechain.features import annotation
from phonechain.features.annotation import Annotation
from phonechain.features.annotation.base import MAX_BYTES
from phonechain.features.corpora import table as tables
from phonechain.features.corpora.base import (
    AUDIO_SUFFIXES,
    Corpus,
    CorpusProblem,
    NoticeCount,
    Progress,
    Segmentation,
    Spelling,
    problem_of,
    segments_in,
    segments_of,
)
from phonechain.features.errors import CorpusError, PhonechainError, UnrecognisedAnnotation
from phonechain.features.segments import OnBadSegment, Utterance

SPLITS = {
    **dict.fromkeys(("train", "training", "trn", "tr"), "train"),
    **dict.fromkeys(("dev", "devel", "development", "valid", "validation", "val"), "dev"),
    **dict.fromkeys(("test", "testing", "tst", "eval", "evaluation"), "test"),
}
"""Names of top folders, in lower case, and the splits that they are."""

_KIND_FOLDERS = frozenset(
    [
        "wav",
        "wavs",
        "audio",
        "sound",
        "sounds",
        "recordings",
        "clips",
        "textgrid",
        "textgrids",
        "annotation",
        "annotations",
        "label",
        "labels",
        "lab",
        "labs",
        "phn",
    ]
) | {s[1:] for s in AUDIO_SUFFIXES}
"""Folder names that say what kind of file is inside, not who speaks."""

_DOUBTFUL = (".txt", ".csv", ".tsv", ".json")
"""Suffixes under which other things are kept as often as annotations: tried last, passed over if they are none."""

_SHARED = (".mlf", ".ctm", ".json")
"""Suffixes of files that may annotate many recordings."""

_ANNOTATIONS = sorted(annotation.SUFFIXES, key=lambda s: s in _DOUBTFUL)


@dataclass(slots=True)
class _Stem:
    """The files of one path without suffix: audio, and annotations in the order in which they are preferred."""

    audio: list[Path] = field(default_factory=list)
    annotations: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class Pair:
    """A recording and the files that may annotate it; or its part of a file that annotates many, which has been read.

    `annotations` are in the order in which they are to be tried.
    """

    audio: Path
    annotations: list[Path]
    part: Annotation | None = None
    speaker: str | None = None
    split: str | None = None


@dataclass(slots=True)
class _Found:
    """What a folder holds, before any annotation is read."""

    root: Path
    rows: tables.Table | None
    stems: dict[str, _Stem]
    others: Counter[str]
    pairs: list[Pair]
    problems: list[CorpusProblem]


def pairs(root: Path, *, table: Path | None = None) -> tuple[list[Pair], list[CorpusProblem]]:
    """The recordings of a folder with the files that may annotate them, and the files that found no partner.

    Args:
        root, table: as for `read`.

    Raises:
        CorpusError: no folder, no pair of files in it, or a table that cannot be read.
    """
    found = _find(root, table)
    if not found.pairs:
        raise _nothing(found)
    for pair in found.pairs:
        pair.speaker, pair.split = _whose(root, pair.audio, found.rows, _relative(root, pair.audio))
    return found.pairs, found.problems


def read(
    root: Path,
    *,
    tier: str | None = None,
    table: Path | None = None,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    drop: Collection[str] = (),
    progress: Progress | None = None,
) -> Corpus:
    """Read a folder of recordings with their annotations.

    A file that cannot be used is a CorpusProblem, never a failure of the corpus; sound without annotation, annotations
    without sound and table rows without either are counted in one problem each.

    Args:
        root: the folder.
        tier: of the phones in each annotation; None lets `choose_tier` choose.
        table: of speakers and splits; None takes `utterances.tsv` (or .csv) in the root if it is there.
        fix: repair segments by the rules of `prepare` instead of refusing the file.
        on_bad_segment: "refuse" leaves out the file of a segment that does not fit, "skip" that segment alone.
        drop: labels whose segments are left out, such as an aligner's mark for noise.
        progress: called with (recordings done, recordings in all).

    Raises:
        CorpusError: no folder, no pair of files in it, or a table that cannot be read.
    """
    found = _find(root, table)
    pairs, rows = found.pairs, found.rows
    corpus = Corpus(root, [], found.problems, layout="folder")
    counted, spelling = NoticeCount(), Spelling()
    passed_over = 0
    for done, pair in enumerate(pairs, 1):
        file = pair.annotations[0]
        try:
            file, read = _segments(pair, tier=tier, fix=fix, on_bad_segment=on_bad_segment, drop=drop)
        except UnrecognisedAnnotation as error:
            if file.suffix.lower() in _DOUBTFUL:
                passed_over += 1
            else:
                corpus.problems.append(problem_of(error, file))
        except PhonechainError as error:
            corpus.problems.append(problem_of(error, file))
        except OSError as error:
            corpus.problems.append(CorpusProblem(file, None, f"cannot be read: {error.strerror}"))
        else:
            counted.add(file, read.notices)
            stem = _relative(root, pair.audio)
            speaker, split = _whose(root, pair.audio, rows, stem)
            segments = spelling.apply(read.segments)
            corpus.utterances.append(Utterance(stem, pair.audio, segments, speaker, split, file, read.lines))
        if progress is not None:
            progress(done, len(pairs))
    if passed_over == len(pairs):  # also where there are no pairs at all
        raise _nothing(found)
    corpus.notices = counted.notices()
    _shorten_ids(corpus.utterances)
    if rows is not None:
        corpus.problems += _table_problems(rows, corpus.utterances)
    return corpus


def _find(root: Path, table: Path | None) -> _Found:
    """Raises CorpusError."""
    if table is None:
        table = next((root / name for name in tables.NAMES if (root / name).is_file()), None)
    rows = tables.read(table) if table is not None else None
    stems, others = _scan(root, table)
    return _Found(root, rows, stems, others, *_pair(root, stems))


def _scan(root: Path, table: Path | None) -> tuple[dict[str, _Stem], Counter[str]]:
    """Files by path without suffix, and how many others there are of each suffix."""
    if not root.is_dir():
        got = "a file" if root.exists() else "no such path"
        raise CorpusError(f"expected a folder with audio beside annotations, got {got}: {root}")
    stems: dict[str, _Stem] = defaultdict(_Stem)
    others: Counter[str] = Counter()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(files):
            base, suffix = os.path.splitext(name)
            suffix = suffix.lower()
            if name.startswith("."):  # also the "._" companions that macOS leaves on other disks
                continue
            path = Path(folder, name)
            if path == table:
                continue
            if suffix in AUDIO_SUFFIXES:
                stems[os.path.join(folder, base)].audio.append(path)
            elif suffix in annotation.SUFFIXES:
                stems[os.path.join(folder, base)].annotations.append(path)
            else:
                others[suffix or "no suffix"] += 1
    for files_ in stems.values():
        files_.annotations.sort(key=lambda p: _ANNOTATIONS.index(p.suffix.lower()))
    return dict(stems), others


def _pair(root: Path, stems: dict[str, _Stem]) -> tuple[list[Pair], list[CorpusProblem]]:
    """Recordings with their annotations in order of path, and the files that found no partner, counted."""
    pairs = [Pair(s.audio[0], s.annotations) for s in stems.values() if s.audio and s.annotations]
    lone_audio = {s.audio[0] for s in stems.values() if s.audio and not s.annotations}
    lone_annotations = [s.annotations for s in stems.values() if s.annotations and not s.audio]
    for key in (lambda path: _place(root, path), lambda path: path.stem):
        by_key: dict[str, list[Path]] = defaultdict(list)
        for audio in lone_audio:
            by_key[key(audio)].append(audio)
        counts = Counter(key(a[0]) for a in lone_annotations)
        left = []
        for candidates in lone_annotations:
            found = by_key.get(key(candidates[0]), [])
            if len(found) == 1 and counts[key(candidates[0])] == 1:
                pairs.append(Pair(found[0], candidates))
                lone_audio.remove(found[0])
            else:
                left.append(candidates)
        lone_annotations = left
    unmatched, problems = [], []
    for candidates in lone_annotations:
        parts, problem = _parts(candidates[0], lone_audio) if lone_audio else ([], None)
        pairs += parts
        lone_audio -= {p.audio for p in parts}
        if problem is not None:
            problems.append(problem)
        elif not parts and candidates[0].suffix.lower() not in _DOUBTFUL:
            unmatched.append(candidates[0])
    twice = [extra for s in stems.values() if s.annotations for extra in s.audio[1:]]
    problems += [
        *_counted(root, sorted(lone_audio), "audio file", "no annotation beside it"),
        *_counted(root, unmatched, "annotation file", "no audio beside it"),
        *_counted(root, twice, "further audio file", "the same name as another one, and was passed over"),
    ]
    return sorted(pairs, key=lambda p: p.audio), problems


def _place(root: Path, path: Path) -> str:
    """The path below the root without suffix and without folders that name a kind of file."""
    return "/".join([*_folders(root, path), path.stem]).casefold()


def _folders(root: Path, path: Path) -> list[str]:
    return [f for f in path.relative_to(root).parts[:-1] if f.casefold() not in _KIND_FOLDERS]


def _parts(file: Path, lone_audio: set[Path]) -> tuple[list[Pair], CorpusProblem | None]:
    """The recordings that a file of many (MLF, CTM, a Label Studio export) annotates; none if it is another kind."""
    if file.suffix.lower() not in _SHARED:
        return [], None
    try:
        recordings = annotation.read_all(_bytes(file), name=file.name)
    except UnrecognisedAnnotation:
        return [], None
    except PhonechainError as error:
        return [], problem_of(error, file)
    except OSError as error:
        return [], CorpusProblem(file, None, f"cannot be read: {error.strerror}")
    return [Pair(a, [file], recordings[a.stem]) for a in lone_audio if a.stem in recordings], None


def _counted(root: Path, files: list[Path], what: str, lack: str) -> list[CorpusProblem]:
    if not files:
        return []
    if len(files) == 1:
        return [CorpusProblem(files[0], None, f"this {what} has {lack}")]
    folder = Path(os.path.commonpath([f.parent for f in files]))
    example = files[0].relative_to(root)
    return [CorpusProblem(folder, None, f"{len(files)} {what}s have {lack}, the first {example}")]


def _segments(
    pair: Pair, *, tier: str | None, fix: bool, on_bad_segment: OnBadSegment, drop: Collection[str]
) -> tuple[Path, Segmentation]:
    """The first candidate that is an annotation, and its segments; its error if none is."""
    if pair.part is not None:
        part = segments_in(pair.part, tier=tier, fix=fix, on_bad_segment=on_bad_segment, drop=drop)
        return pair.annotations[0], part
    for file in pair.annotations:
        try:
            return file, segments_of(
                _bytes(file),
                file.name,
                tier=tier,
                fix=fix,
                on_bad_segment=on_bad_segment,
                drop=drop,
                audio=pair.audio,
            )
        except UnrecognisedAnnotation:
            if file is pair.annotations[-1]:
                raise
    raise AssertionError("there is always a candidate")


def _bytes(file: Path) -> bytes:
    with open(file, "rb") as handle:
        return handle.read(MAX_BYTES + 1)


def _relative(root: Path, audio: Path) -> str:
    return audio.relative_to(root).with_suffix("").as_posix()


def _whose(root: Path, audio: Path, rows: tables.Table | None, stem: str) -> tuple[str | None, str | None]:
    """(speaker, split): what the table says, else what the folders say."""
    row = rows.find(stem) if rows is not None else None
    folders = _folders(root, audio)
    split = SPLITS.get(folders[0].casefold()) if folders else None
    inner = folders[1:] if split else folders
    speaker = inner[-1] if inner else None
    if rows is not None and rows.speakers is not None:
        speaker = row.speaker if row else None
    if rows is not None and rows.splits is not None:
        split = SPLITS.get(row.split.casefold(), row.split) if row and row.split else None
    return speaker, split


def _shorten_ids(utterances: Iterable[Utterance]) -> None:
    """The bare name where it occurs once in the corpus; the path below the root where it does not."""
    utterances = list(utterances)
    names = Counter(u.id.rsplit("/", 1)[-1] for u in utterances)
    for u in utterances:
        name = u.id.rsplit("/", 1)[-1]
        if names[name] == 1:
            u.id = name


def _table_problems(rows: tables.Table, utterances: list[Utterance]) -> list[CorpusProblem]:
    problems = []
    if unused := rows.unused():
        name, row = unused[0]
        count = "1 row has" if len(unused) == 1 else f"{len(unused)} rows have"
        problems.append(CorpusProblem(rows.file, row.line, f"{count} no usable utterance, the first '{name}'"))
    if rows.splits is not None and (missing := [u for u in utterances if u.split is None]):
        count = "1 utterance is" if len(missing) == 1 else f"{len(missing)} utterances are"
        message = f"{count} in no row with a split and belong to none, the first '{missing[0].id}'"
        problems.append(CorpusProblem(rows.file, None, message))
    return problems


def _nothing(there: _Found) -> CorpusError:
    """What was looked for, and what is there instead."""
    audio = [a for s in there.stems.values() for a in s.audio]
    annotations = [a for s in there.stems.values() for a in s.annotations]
    found = [f"{len(audio)} audio files ({_suffixes(audio)})" if audio else "no audio file"]
    found.append(
        f"{len(annotations)} possible annotation files ({_suffixes(annotations)})"
        if annotations
        else "no annotation file"
    )
    if there.others:
        most = ", ".join(s for s, _ in there.others.most_common(5))
        found.append(f"{there.others.total()} other files ({most})")
    hint = ""
    if audio and annotations:
        pair = f"{audio[0].name} and {annotations[0].name}"
        hint = f"; names must be equal up to the suffix, as a.wav and a.TextGrid, not as {pair}"
    return CorpusError(
        f"expected audio files beside annotation files of the same name in {there.root}, got {', '.join(found)}{hint}",
        details={"audio": len(audio), "annotations": len(annotations)},
    )


def _suffixes(files: list[Path]) -> str:
    return ", ".join(s for s, _ in Counter(f.suffix for f in files).most_common(5))
