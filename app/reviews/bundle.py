"""Everything of a review in one zip: its annotations for a person, or sound and annotations as a corpus to train on."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.reviews.export import export
from phonechain.app.reviews.repository import Reviews
from phonechain.app.reviews.tables import ReviewFile
from phonechain.features import annotation as notation

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same review gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Others:
    """The utterances of a corpus, to be put beside those of a review."""

    lines: Sequence[Line]
    files: Files


def write_zip(
    reviews: Reviews, id: str, out: IO[bytes], *, sound: bool = False, others: Others | None = None
) -> list[ReviewFile]:
    """Write the annotations of a review as they stand, a folder a speaker; with `sound`, the recordings beside them.

    Names that occur twice get the number of their file. Of `others`, recordings of a name that the review has are left out;
    where they have splits, the review is part of "train". Returns the files.

    Raises:
        UnknownReview.
        AnnotationError: a format cannot hold a label.
        CorpusError: a file of `others` cannot be read.
    """
    _, files, _ = reviews.get(id)
    taken: set[str] = set()
    store = reviews.workspace.store
    split = "train/" if others is not None and any(line.split for line in others.lines) else ""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            folder = _safe_name(file.speaker) if file.speaker else ""
            stem, suffix = _split_name(file.annotation_name)
            if sound:
                # A recording and its annotation find each other by their names.
                stem = _split_name(file.name)[0]
            base = _unique_name(taken, split + (f"{folder}/{stem}" if folder else stem), file.number)
            source = store.local(file.annotation).read_bytes()
            data = export(file, source, reviews.segments(id, file.number)[1]).data
            archive.writestr(zipfile.ZipInfo(base + suffix, _EARLIEST), data, zipfile.ZIP_DEFLATED)
            if sound:
                member = zipfile.ZipInfo(base + (_split_name(file.name)[1] or ".wav"), _EARLIEST)
                with store.local(file.sound).open("rb") as given, archive.open(member, "w", force_zip64=True) as kept:
                    shutil.copyfileobj(given, kept, 1 << 20)
        if others is not None:
            _add_others(archive, others, files, taken)
    return files


def _add_others(archive: zipfile.ZipFile, others: Others, files: Sequence[ReviewFile], taken: set[str]) -> None:
    """Write the recordings of a corpus that the review does not have itself."""
    known = {(_split_name(file.name)[0].casefold(), file.speaker) for file in files}
    shared = Counter(line.annotation for line in others.lines)
    for line in others.lines:
        stem, suffix = _split_name(line.audio)
        speakers = {speaker for name, speaker in known if name == stem.casefold()}
        if line.speaker in speakers or None in speakers or (speakers and line.speaker is None):
            continue
        folders = [line.split, _safe_name(line.speaker) if line.speaker else None]
        base = _unique_name(taken, "/".join(part for part in (*folders, stem) if part), line.index)
        data, annotation = others.files.read(line.annotation), line.annotation
        if shared[line.annotation] > 1:  # a file of several recordings is taken apart
            own = notation.read(data, name=PurePosixPath(annotation).name, audio=PurePosixPath(line.audio).stem)
            data, annotation = notation.write(own, "textgrid"), "a.TextGrid"
        archive.writestr(zipfile.ZipInfo(base + _split_name(annotation)[1], _EARLIEST), data, zipfile.ZIP_DEFLATED)
        member = zipfile.ZipInfo(base + suffix, _EARLIEST)
        with others.files.path(line.audio).open("rb") as given, archive.open(member, "w", force_zip64=True) as kept:
            shutil.copyfileobj(given, kept, 1 << 20)


def _unique_name(taken: set[str], name: str, number: int) -> str:
    """The name, with the file's number where it is taken; file systems that ignore case take it too."""
    if name.casefold() in taken:
        name = f"{name}-{number}"
    taken.add(name.casefold())
    return name


def _split_name(name: str) -> tuple[str, str]:
    """Stem and suffix of a name that came from outside, without folders."""
    path = PurePosixPath(_safe_name(name.replace("\\", "/").rsplit("/", 1)[-1]))
    return path.stem, path.suffix


def _safe_name(name: str) -> str:
    """A name that every file system takes."""
    return re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", name).strip(" .")[:100] or "file"
