"""TIMIT in its own layout: `TRAIN|TEST/DR1..8/SPEAKER/UTT.{WAV,PHN}`, in upper or lower case, sound as SPHERE or RIFF.

The utterances SA1 and SA2, which every speaker read, are left out, and so is the glottal stop `q`, as the literature does
since Lee and Hon (1989). The 61 labels are kept; `phonechain.features.phones.sets` folds them. Splits:

    train     the 462 speakers of TRAIN
    test      the core test set: 24 speakers of TEST
    dev       the usual 50 speakers of TEST (Halberstadt 1998)
    dev-rest  the other speakers of TEST
    dev-full  dev and dev-rest together: the full test set less the core, with which the paper chose its settings
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection
from importlib import resources
from pathlib import Path

from phonechain.features.corpora.base import Corpus, CorpusProblem, NoticeCount, Progress, problem_of, segments_of
from phonechain.features.errors import CorpusError, PhonechainError
from phonechain.features.phones import sets as phones
from phonechain.features.segment_checks import OnBadSegment
from phonechain.features.segments import Utterance

COUNTS = {"train": 140_173, "dev-full": 50_735, "test": 7_211}
"""Segments of each set after folding to 39 labels, without `q`, as the paper gives them."""

LABELS = "timit61"
DROPPED = "q"
RATE = 16000

_REGION = re.compile(r"dr[0-8]", re.IGNORECASE)
_SHARED_SENTENCES = re.compile(r"sa[0-9]", re.IGNORECASE)
_SOUND = (".wav", ".wav.wav", ".sph", ".flac")


def find(root: Path) -> Path | None:
    """The folder that holds TRAIN and TEST, with dialect regions inside: the root or one or two levels below it."""
    level = [root]
    for _ in range(3):
        for folder in level:
            sets = _subfolders(folder, "train", "test")
            if sets and any(_REGION.fullmatch(p.name) for s in sets.values() for p in _folders(s)):
                return folder
        level = [p for folder in level for p in _folders(folder)][:20]
    return None


def speakers() -> dict[str, str]:
    """The set, "test" (core) or "dev" (50 speakers), of the TEST speakers that are in one, in lower case."""
    text = resources.files("phonechain.features").joinpath("corpora", "timit_speakers.tsv").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines()[1:])


def read(
    root: Path,
    *,
    fix: bool = False,
    on_bad_segment: OnBadSegment = "refuse",
    drop: Collection[str] = (),
    progress: Progress | None = None,
) -> Corpus:
    """Read TIMIT.

    A file that cannot be used is a CorpusProblem, as is a set whose count of segments differs from the paper's.

    Args:
        root: the folder with TRAIN and TEST, or one above it.
        fix: repair segments by the rules of `prepare` instead of refusing the file.
        on_bad_segment: as for `settle`.
        drop: labels besides `q` whose segments are left out.
        progress: called with (annotation files read, annotation files in all).

    Raises:
        CorpusError: there is no such layout.
    """
    base = find(root)
    if base is None:
        raise CorpusError(f"expected TIMIT's folders TRAIN and TEST with DR1 to DR8 inside, got neither below {root}")
    corpus = Corpus(root, [], [], layout="timit", unions={"dev-full": ("dev", "dev-rest")}, dropped=(DROPPED,))
    sets, labels, counted = speakers(), phones.load(LABELS), NoticeCount()
    files = [
        (name, speaker, file)
        for name, folder in _subfolders(base, "train", "test").items()
        for region in _folders(folder)
        if _REGION.fullmatch(region.name)
        for speaker in _folders(region)
        for file in sorted(speaker.iterdir())
        if file.suffix.lower() == ".phn" and not _SHARED_SENTENCES.fullmatch(file.stem)
    ]
    sounds: dict[Path, dict[str, Path]] = {}
    for done, (name, folder, file) in enumerate(files, 1):
        speaker = folder.name.lower()
        if folder not in sounds:
            sounds[folder] = {p.name.lower(): p for p in folder.iterdir()}
        audio = next((p for s in _SOUND if (p := sounds[folder].get(file.stem.lower() + s))), None)
        try:
            read = segments_of(
                file.read_bytes(),
                file.name,
                fix=fix,
                on_bad_segment=on_bad_segment,
                drop={DROPPED, *drop},
                rate=RATE,
            )
        except PhonechainError as error:
            corpus.problems.append(problem_of(error, file))
        except OSError as error:
            corpus.problems.append(CorpusProblem(file, None, f"cannot be read: {error.strerror}"))
        else:
            unknown = [
                (line, s.label)
                for line, s in zip(read.lines, read.segments, strict=True)
                if s.label is None or s.label not in labels
            ]
            if audio is None:
                corpus.problems.append(CorpusProblem(file, None, "has no sound beside it"))
            elif unknown:
                line, label = unknown[0]
                message = f"expected one of TIMIT's 61 labels, got {label!r}" + (
                    f", and {len(unknown) - 1} more" if unknown[1:] else ""
                )
                corpus.problems.append(CorpusProblem(file, line, message))
            else:
                counted.add(file, read.notices)
                split = "train" if name == "train" else sets.get(speaker, "dev-rest")
                id = f"{speaker}_{file.stem.lower()}"
                corpus.utterances.append(Utterance(id, audio, read.segments, speaker, split, file, read.lines))
        if progress is not None:
            progress(done, len(files))
    corpus.notices = counted.notices()
    corpus.problems += _checks(base, corpus, sets)
    return corpus


def _checks(base: Path, corpus: Corpus, sets: dict[str, str]) -> list[CorpusProblem]:
    """Differences between the set and its description in the literature."""
    found = []
    present = {u.speaker for u in corpus.utterances}
    for name, size in Counter(sets.values()).items():
        if missing := [s for s, split in sets.items() if split == name and s not in present]:
            message = f"{len(missing)} of the {size} speakers of the {name} set are not there: {', '.join(missing[:5])}"
            found.append(CorpusProblem(base, None, message + (" and others" if missing[5:] else "")))
    for name, expected in COUNTS.items():
        count = sum(len(u.segments) for u in corpus.split(name))
        if count != expected:
            message = f"expected {expected} segments in the {name} set (without q, as in the paper), got {count}"
            found.append(CorpusProblem(base, None, message))
    return found


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(e.path) for e in entries if e.is_dir())
    except OSError:
        return []


def _subfolders(folder: Path, *names: str) -> dict[str, Path]:
    """The subfolders with these names in any case, in the order of the names."""
    inside = {p.name.lower(): p for p in _folders(folder)}
    return {name: inside[name] for name in names if name in inside}
