"""A folder of recordings with transcripts: text beside the sound, or an annotation that has words or phones.

Files find each other as `pairing` says. Where a recording has several, text comes before annotations, unless
boundaries are wanted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from phonechain.features import annotation
from phonechain.features.corpora import folder
from phonechain.features.corpora.base import AUDIO_SUFFIXES, CorpusProblem
from phonechain.features.corpora.pairing import Pair, read_bytes
from phonechain.features.errors import CorpusError, PhonechainError, UnrecognisedAnnotation

TEXT = (".txt", ".lab")
"""Suffixes of files that are text unless they are an annotation."""


Prefer = Literal["text", "annotation"]


@dataclass(slots=True)
class TranscribedRecording:
    """A recording and the file that has its transcript; `transcript` is None where none is needed."""

    id: str
    audio: Path
    transcript: Path | None
    speaker: str | None = None
    split: str | None = None


@dataclass(slots=True)
class Transcripts:
    """The recordings of a folder that can be aligned; `problems` are those that cannot."""

    root: Path
    recordings: list[TranscribedRecording]
    problems: list[CorpusProblem] = field(default_factory=list)


def read(root: Path | str, *, table: Path | None = None, prefer: Prefer = "text") -> Transcripts:
    """The recordings below `root` that have a transcript; speakers and splits are found as for `folder.read`.

    `prefer` says which of several files has the transcript.

    Raises:
        CorpusError: no folder, no recording with a transcript, or a table that cannot be read.
    """
    root = Path(root)
    pairs, problems = folder.pairs(root, table=table)
    found = Transcripts(root, [], list(problems))
    for pair in pairs:
        transcript = transcript_of(pair, prefer)
        if transcript is None:
            found.problems.append(CorpusProblem(pair.audio, None, "this audio file has no transcript beside it"))
            continue
        stem = pair.audio.relative_to(root).with_suffix("").as_posix()
        found.recordings.append(TranscribedRecording(stem, pair.audio, transcript, pair.speaker, pair.split))
    if not found.recordings:
        raise CorpusError(
            f"expected recordings with transcripts (.txt, .lab, or an annotation) beside them in {root}, got none "
            f"of {len(pairs)} recordings with one"
        )
    folder.shorten_ids(found.recordings)
    return found


def read_sound(root: Path | str) -> Transcripts:
    """Every recording below `root`, by its suffix.

    Raises:
        CorpusError: no folder, or no recording in it.
    """
    root = Path(root)
    if not root.is_dir():
        raise CorpusError(f"expected a folder with recordings, got {'a file' if root.exists() else 'nothing'}: {root}")
    found = Transcripts(root, [])
    for directory, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(files):
            path = Path(directory, name)
            if not name.startswith(".") and path.suffix.lower() in AUDIO_SUFFIXES:
                speaker, split = folder.speaker_and_split(root, path)
                stem = path.relative_to(root).with_suffix("").as_posix()
                found.recordings.append(TranscribedRecording(stem, path, None, speaker, split))
    if not found.recordings:
        raise CorpusError(f"expected recordings below {root}, got none")
    folder.shorten_ids(found.recordings)
    return found


def transcript_of(pair: Pair, prefer: Prefer = "text") -> Path | None:
    """The file with the recording's transcript: the first of the preferred kind, else of the other; None if there is none."""
    candidates = [*pair.annotations, *pair.others, *(file for file, _ in pair.parts)]
    kinds = {file: _kind(file) for file in candidates}
    for wanted in (prefer, "annotation" if prefer == "text" else "text"):
        for file in candidates:
            if kinds[file] == wanted:
                return file
    return None


def _kind(file: Path) -> Prefer | Literal["other"]:
    try:
        annotation.read(read_bytes(file), name=file.name, audio=file.stem)
    except UnrecognisedAnnotation:
        return "text" if file.suffix.lower() in TEXT else "other"
    except (PhonechainError, OSError):
        return "annotation"  # a damaged one: whoever aligns it says what is wrong
    return "annotation"
