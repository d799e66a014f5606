"""The layout "audio beside annotations": files that differ only in their suffix, in any tree of folders.

`pairing` says which files belong together, and `candidates` which of several files annotates a recording. Speakers and splits
come from a table, else from the folders: the split from a top folder with a name such as `train`, the speaker from the folder
of the recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, Protocol

from phonechain.features.annotation.base import nfc
from phonechain.features.annotation.tiers import is_phone_tier
from phonechain.features.audio.raw import RawFormat
from phonechain.features.corpora import pairing
from phonechain.features.corpora import table as tables
from phonechain.features.corpora.base import (
    Corpus,
    CorpusProblem,
    NoticeCount,
    Progress,
    Spelling,
    channel_of,
    problem_of,
    segments_in,
)
from phonechain.features.corpora.candidates import Unusable, annotation_of
from phonechain.features.corpora.pairing import Contents, Pair
from phonechain.features.errors import CorpusError, Notice, PhonechainError
from phonechain.features.files import printable_path
from phonechain.features.segment_checks import OnBadSegment
from phonechain.features.segments import Utterance

SPLITS = {
    **dict.fromkeys(("train", "training", "trn", "tr"), "train"),
    **dict.fromkeys(("dev", "devel", "development", "valid", "validation", "val"), "dev"),
    **dict.fromkeys(("test", "testing", "tst", "eval", "evaluation"), "test"),
}
"""Names of top folders, in lower case, and their splits."""

KNOWN = 0.5
"""Share of a file's labels that must occur in the other files, if its tier has a different name from theirs."""

NAMELESS = "labels"
"""Name for the tier of formats that do not name it (CTM, Audacity)."""


def pairs(
    root: Path, *, table: Path | None = None, raw: RawFormat | None = None
) -> tuple[list[Pair], list[CorpusProblem]]:
    """The recordings of a folder with the files that may annotate them, and problems with the files left over.

    Args:
        root, table, raw: as for `read`.

    Raises:
        CorpusError: no folder, no pair of files in it, or a table that cannot be read.
    """
    contents, rows = _contents(root, table, raw)
    found, problems = pairing.pair(contents)
    if not found:
        raise _no_pairs(contents, problems)
    for pair in found:
        stem = _relative(root, pair.audio) if rows is not None else ""
        pair.speaker, pair.split = _find_speaker_and_split(root, pair.audio, rows, stem)
    return found, problems


def read(
    root: Path,
    *,
    tier: str | None = None,
    table: Path | None = None,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    drop: Collection[str] = (),
    shift: float | Literal["start"] = 0.0,
    raw: RawFormat | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Read a folder of recordings with their annotations.

    A file that cannot be used is a CorpusProblem, never a failure of the whole corpus. Sound without annotation, annotations
    without sound, and table rows without either are one problem each, with their number.

    Args:
        root: the folder.
        tier: of the phones in each annotation; None lets `choose_tier` choose.
        table: of speakers and splits; None takes `utterances.tsv` (or .csv) in the root if it is there.
        fix: repair segments by the rules of `prepare` instead of refusing the file.
        on_bad_segment: "refuse" leaves out a file with a segment that does not fit, "skip" only that segment.
        drop: labels whose segments are left out, such as an aligner's mark for noise.
        shift: seconds added to every time of every annotation; "start" subtracts the time at which each one starts.
        raw: format of files with RAW_SUFFIXES, sound without a header; None ignores them.
        progress: called with (recordings done, recordings in all).

    Raises:
        CorpusError: no folder, no pair of files in it, or a table that cannot be read.
    """
    contents, rows = _contents(root, table, raw)
    found, problems = pairing.pair(contents)
    corpus = Corpus(root, [], problems, layout="folder")
    counted, spelling = NoticeCount(), Spelling()
    tiers: list[str] = []
    passed_over: list[Unusable] = []
    taken: set[Path] = set()
    for done, pair in enumerate(found, 1):
        file = pair.file
        try:
            chosen = annotation_of(pair, tier, shift)
            file = chosen.file
            read = segments_in(chosen.tier, chosen.notices, fix=fix, on_bad_segment=on_bad_segment, drop=drop)
        except Unusable as unusable:
            if unusable.doubtful:
                passed_over.append(unusable)
            elif isinstance(unusable.error, OSError):
                message = f"cannot be read: {unusable.error.strerror}"
                corpus.problems.append(CorpusProblem(unusable.file, None, message))
            else:
                corpus.problems.append(problem_of(unusable.error, unusable.file))
        except PhonechainError as error:
            corpus.problems.append(problem_of(error, file))
        else:
            taken.add(file)
            counted.add(file, read.notices)
            stem = _relative(root, pair.audio)
            speaker, split = _find_speaker_and_split(root, pair.audio, rows, stem)
            segments = spelling.apply(read.segments)
            channel, said = channel_of(chosen.annotation, pair.audio, pair.raw)
            counted.add(file, said)
            utterance = Utterance(stem, pair.audio, segments, speaker, split, file, read.lines, channel, pair.raw)
            corpus.utterances.append(utterance)
            tiers.append(chosen.tier.name)
        if progress is not None:
            progress(done, len(found))
    if len(passed_over) == len(found):  # also where there are no pairs at all
        raise _no_pairs(contents, corpus.problems, passed_over)
    if tier is None:
        _set_apart(corpus, tiers, counted)
    spare = [f for pair in found for f in pair.others if f not in taken and f.suffix.lower() not in pairing.DOUBTFUL]
    spare = [f for f in spare if not any(p.file == f for p in corpus.problems)]
    corpus.problems += pairing.summarise_files(root, spare, "annotation file", "no audio of its own")
    corpus.notices = counted.notices()
    shorten_ids(corpus.utterances)
    if rows is not None:
        corpus.problems += _table_problems(rows, corpus.utterances)
    return corpus


def _contents(root: Path, table: Path | None, raw: RawFormat | None = None) -> tuple[Contents, tables.Table | None]:
    """The contents of the folder, and its table. Raises CorpusError."""
    if table is None:
        table = next((root / name for name in tables.NAMES if (root / name).is_file()), None)
    rows = tables.read(table) if table is not None else None
    if not root.is_dir():
        got = "a file" if root.exists() else "no such path"
        raise CorpusError(f"expected a folder with audio beside annotations, got {got}: {root}")
    return pairing.scan(root, leave_out=table, raw=raw), rows


def _set_apart(corpus: Corpus, tiers: list[str], counted: NoticeCount) -> None:
    """Leave out files whose tier has a different name and different labels from the others': words instead of phones."""
    names = [nfc(t).casefold().strip() for t in tiers]
    usual = _usual(names)
    if usual is None:
        return
    spelled = tiers[names.index(usual)]
    labels = {s.label for u, name in zip(corpus.utterances, names, strict=True) if name == usual for s in u.segments}
    kept = []
    for u, name, own in zip(corpus.utterances, names, tiers, strict=True):
        given = [s.label for s in u.segments if s.label is not None]
        known = sum(label in labels for label in given)
        if name in (usual, NAMELESS):
            kept.append(u)
            continue
        file = u.annotation or u.audio
        files = "the other file" if names.count(usual) == 1 else f"{names.count(usual)} other files"
        what = f"segments taken from tier '{own}', in {files} from '{spelled}'"
        if given and known < KNOWN * len(given):
            count = "none" if not known else str(known)
            message = f"left out: {what}, where {count} of its {len(given)} labels occur (tier, --tier to use it)"
            corpus.problems.append(CorpusProblem(file, None, message))
        else:
            kept.append(u)
            counted.add(file, [Notice("tier-differs", what, "tiers", own)])
    corpus.utterances = kept


def _usual(names: list[str]) -> str | None:
    """The most frequent name of the tier, if it is a usual one for phones or that of more than half of the files."""
    for name, count in Counter(names).most_common():
        if is_phone_tier(name) or 2 * count > len(names):
            return name
    return None


def _relative(root: Path, audio: Path) -> str:
    return printable_path(audio.relative_to(root).with_suffix("").as_posix())


def speaker_and_split(root: Path, audio: Path) -> tuple[str | None, str | None]:
    """(speaker, split) of a recording, from its folders."""
    return _find_speaker_and_split(root, audio, None, "")


def _find_speaker_and_split(
    root: Path, audio: Path, rows: tables.Table | None, stem: str
) -> tuple[str | None, str | None]:
    """(speaker, split), from the table, else from the folders."""
    row = rows.find(stem) if rows is not None else None
    folders = pairing.folders_of(root, audio)
    split = SPLITS.get(folders[0].casefold()) if folders else None
    inner = folders[1:] if split else folders
    speaker = inner[-1] if inner else None
    if rows is not None and rows.speakers is not None:
        speaker = row.speaker if row else None
    if rows is not None and rows.splits is not None:
        split = SPLITS.get(row.split.casefold(), row.split) if row and row.split else None
    return speaker, split


class _HasId(Protocol):
    id: str


def shorten_ids(utterances: Iterable[_HasId]) -> None:
    """Shorten ids to the bare name where it is unique in the corpus; others stay paths below the root."""
    utterances = list(utterances)
    names = Counter(u.id.rsplit("/", 1)[-1] for u in utterances)
    for u in utterances:
        name = u.id.rsplit("/", 1)[-1]
        if names[name] == 1:
            u.id = name


def _table_problems(rows: tables.Table, utterances: list[Utterance]) -> list[CorpusProblem]:
    problems = []
    if unused := rows.find_unused():
        name, row = unused[0]
        count = "1 row has" if len(unused) == 1 else f"{len(unused)} rows have"
        problems.append(CorpusProblem(rows.file, row.line, f"{count} no usable utterance, the first '{name}'"))
    if rows.splits is not None and (missing := [u for u in utterances if u.split is None]):
        count = "1 utterance is" if len(missing) == 1 else f"{len(missing)} utterances are"
        message = f"{count} in no row with a split and belong to none, the first '{missing[0].id}'"
        problems.append(CorpusProblem(rows.file, None, message))
    return problems


def _no_pairs(there: Contents, problems: list[CorpusProblem], passed_over: Collection[Unusable] = ()) -> CorpusError:
    """The error for a folder without pairs: what it has instead, and the likely reason."""
    audio, annotations = there.audio, there.annotations
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
    if passed_over:
        first = next(iter(passed_over))
        name = printable_path(first.file.relative_to(there.root))
        hint = (
            f"; of {len(passed_over)} recordings with a file of the same name none has an annotation, {name}: {first}"
        )
    elif unclear := next((p for p in problems if "equally well" in p.message), None):
        hint = f"; {printable_path(unclear.file.relative_to(there.root))}: {unclear.message}"
    elif audio and annotations:
        pair = f"{audio[0].name} and {annotations[0].name}"
        hint = f"; names must be equal up to the suffix, as a.wav and a.TextGrid, not as {pair}"
    return CorpusError(
        f"expected audio files beside annotation files of the same name in {there.root}, got {', '.join(found)}{hint}",
        details={"audio": len(audio), "annotations": len(annotations)},
    )


def _suffixes(files: list[Path]) -> str:
    return ", ".join(s for s, _ in Counter(f.suffix for f in files).most_common(5))
