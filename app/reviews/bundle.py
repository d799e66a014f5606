"""Everything of a review in one zip: its annotations for a person, or sound and annotations as a corpus to train on."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import PurePosixPath
from typing import IO

from phonechain.app.reviews.export import export
from phonechain.app.reviews.repository import Reviews
from phonechain.app.reviews.tables import ReviewFile

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same review gives the same bytes."""


def write_zip(reviews: Reviews, id: str, out: IO[bytes], *, sound: bool = False) -> list[ReviewFile]:
    """Write the annotations of a review as they stand, a folder a speaker; with `sound`, the recordings beside them.

    Names that occur twice get the number of their file. Returns the files.

    Raises:
        UnknownReview.
        AnnotationError: a format cannot hold a label.
    """
    _, files, _ = reviews.get(id)
    taken: set[str] = set()
    store = reviews.workspace.store
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            folder = _safe_name(file.speaker) if file.speaker else ""
            stem, suffix = _split_name(file.annotation_name)
            if sound:
                # A recording and its annotation find each other by their names.
                stem = _split_name(file.name)[0]
            base = _unique_name(taken, f"{folder}/{stem}" if folder else stem, file.number)
            source = store.local(file.annotation).read_bytes()
            data = export(file, source, reviews.segments(id, file.number)[1]).data
            archive.writestr(zipfile.ZipInfo(base + suffix, _EARLIEST), data, zipfile.ZIP_DEFLATED)
            if sound:
                member = zipfile.ZipInfo(base + (_split_name(file.name)[1] or ".wav"), _EARLIEST)
                with store.local(file.sound).open("rb") as given, archive.open(member, "w", force_zip64=True) as kept:
                    shutil.copyfileobj(given, kept, 1 << 20)
    return files


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
