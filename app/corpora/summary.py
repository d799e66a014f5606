"""What is in a corpus: its labels with counts and durations, its speakers, spellings that may be one; and its sound."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import soundfile

from phonechain.app.corpora import contents
from phonechain.app.problems.errors import UnknownCorpus
from phonechain.app.storage.tables import Corpus
from phonechain.app.storage.workspace import Workspace
from phonechain.features.audio import reader
from phonechain.features.corpora.base import AUDIO_SUFFIXES
from phonechain.features.phones.twins import twins
from phonechain.features.segments import Utterance

RATE = 16000
"""Sample rate of what is sent to be heard (Hz)."""
MAX_SECONDS = 60.0
"""Longest stretch that is sent at once."""
MAX_RECORDING = 5400.0
"""Longest recording that a stretch is taken from, seconds."""


def summarise(utterances: Iterable[Utterance]) -> dict[str, Any]:
    """A `CorpusSummary`, as plain data. Times in seconds."""
    found: dict[str, list[float]] = {}
    longest: dict[str, tuple[float, dict[str, Any]]] = {}
    speakers: dict[str | None, list[float]] = {}
    total, unlabelled = 0.0, 0
    for u in utterances:
        own = 0.0
        for s in u.segments:
            seconds = s.end - s.start
            own += seconds
            if s.label is None:
                unlabelled += 1
                continue
            found.setdefault(s.label, []).append(seconds)
            if seconds > longest.get(s.label, (0.0, {}))[0]:
                longest[s.label] = seconds, {"utterance": u.id, "start": s.start, "end": s.end}
        total += own
        speakers.setdefault(u.speaker, []).append(own)
    counts = {label: len(values) for label, values in found.items()}
    return {
        "seconds": round(total, 3),
        "unlabelled": unlabelled,
        "labels": [
            {
                "label": label,
                "count": len(values),
                "seconds": round(sum(values), 3),
                "median": round(statistics.median(values), 4),
                "shortest": round(min(values), 4),
                "longest": round(max(values), 4),
                "example": longest[label][1],
            }
            for label, values in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        "speakers": [
            {"speaker": speaker, "utterances": len(own), "seconds": round(sum(own), 3)}
            for speaker, own in sorted(speakers.items(), key=lambda item: (-sum(item[1]), item[0] or ""))
        ],
        "alike": [{"labels": dict(t.labels), "difference": t.difference} for t in twins(counts)],
    }


def cut_sound(path: Path, start: float, end: float | None, channel: int | Literal["mix"] = "mix") -> bytes:
    """A stretch of a recording as 16-bit WAV at RATE, MAX_SECONDS of it at most. Raises AudioError."""
    audio = reader.decode(path, channel=channel, rate=RATE, max_seconds=MAX_RECORDING)
    first = min(len(audio.samples), max(0, round(start * RATE)))
    last = first + round(MAX_SECONDS * RATE) if end is None else round(end * RATE)
    samples = audio.samples[first : max(first, min(last, first + round(MAX_SECONDS * RATE)))]
    out = io.BytesIO()
    soundfile.write(out, np.clip(samples, -1.0, 1.0), RATE, format="WAV", subtype="PCM_16")
    return out.getvalue()


def find_recording(workspace: Workspace, corpus: Corpus, name: str) -> tuple[Path, int | Literal["mix"]]:
    """The recording of an utterance, or of a file that is listed among the problems.

    The name is only ever compared with those that the corpus has: it becomes no path of its own.

    Raises:
        UnknownCorpus: the corpus has no such utterance or file, or no recording beside it.
    """
    source = contents.open_files(workspace, corpus)
    audio = _index(workspace, corpus.manifest).get(name)
    if audio is not None:
        return source.path(audio), "mix"
    if source.root is not None and name in {p["file"] for p in corpus.problems}:
        beside = source.root / PurePosixPath(name)
        for path in (beside, *sorted(beside.parent.glob("*"))):
            same = path.stem == beside.stem and path.suffix.lower() in AUDIO_SUFFIXES
            if same and path.is_file() and path.resolve().is_relative_to(source.root.resolve()):
                return path, "mix"
    raise UnknownCorpus(f"the corpus has no recording of {name[:80]!r}", pointer="utterance", value=name[:80])


def _index(workspace: Workspace, digest: str) -> dict[str, str]:
    return _audio_by_name(str(workspace.store.local(digest)))


@lru_cache(maxsize=4)
def _audio_by_name(manifest: str) -> dict[str, str]:
    """The recording by the utterance's id, by its own name and by its annotation's; a manifest never changes."""
    from phonechain.app.corpora import manifest as lines

    found: dict[str, str] = {}
    for line in lines.read(Path(manifest)):
        for name in (line.annotation, line.audio, line.id):
            found[name] = line.audio
    return found
