"""The files of a corpus on this machine, and its utterances for training."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phonechain.app.corpora import manifest
from phonechain.app.corpora.manifest import Line
from phonechain.app.storage import archives
from phonechain.app.storage.archives import Caps
from phonechain.app.storage.blobs import open_remote
from phonechain.app.storage.database import is_disk_full
from phonechain.app.storage.tables import Corpus
from phonechain.app.storage.workspace import Workspace
from phonechain.features.corpora.base import Spelling, segments_of
from phonechain.features.errors import CorpusError, PhonechainError
from phonechain.features.files import write_whole
from phonechain.features.segments import Utterance

UNPACKED = Caps(files=2**40, total=2**60)
"""No limits: an archive was counted when it was added."""


@dataclass(frozen=True)
class Files:
    """Reads the files that a manifest names. `root` is None where it names absolute places."""

    root: Path | None
    cache: Path

    def read(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            CorpusError: it cannot be read.
        """
        with _reading(name):
            if "://" in name:
                system, path = open_remote(name, "the corpus")
                data: bytes = system.cat_file(path)
                return data
            return self.path(name).read_bytes()

    def path(self, name: str) -> Path:
        """The file on this machine; what lies under a URL is copied once.

        Raises:
            CorpusError: it cannot be fetched.
        """
        if "://" not in name:
            return self.root / name if self.root is not None else Path(name)
        copy = self.cache / "files" / (hashlib.sha256(name.encode()).hexdigest() + Path(name).suffix)
        if not copy.exists():
            system, path = open_remote(name, "the corpus")
            copy.parent.mkdir(parents=True, exist_ok=True)
            with _reading(name):
                write_whole(copy, lambda spare: system.get_file(path, str(spare)))
        return copy


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Raises CorpusError for whatever a file system raises: fsspec's raise errors of HTTP clients and of clouds, too."""
    try:
        yield
    except PhonechainError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_disk_full(error):
            raise
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
        raise CorpusError(f"expected a readable file, got {reason.lower()}: {Path(name).name}") from None


def open_files(workspace: Workspace, corpus: Corpus) -> Files:
    """The files of a corpus, unpacked or fetched first where that is needed.

    Raises:
        ArchiveError, StorageFull, CorpusError.
    """
    cache = workspace.root / "cache"
    if corpus.source == "list":
        return Files(None, cache)
    if corpus.source == "folder":
        return Files(Path(corpus.location), cache)
    if corpus.source == "url":
        return Files(fetch(workspace, corpus.location, corpus.options["fingerprint"]), cache)
    return Files(unpack(workspace, corpus.location), cache)


def unpack(workspace: Workspace, digest: str, caps: Caps = UNPACKED) -> Path:
    """The folder of an archive's files, unpacked now if it is not there. Raises ArchiveError, StorageFull."""
    folder = workspace.corpus_folder(digest)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with workspace.lock(digest):
            if not folder.is_dir():
                archives.unpack(workspace.store.local(digest), folder, caps)
    return folder


def list_url(url: str) -> tuple[Any, str, dict[str, Any], str]:
    """(file system, path, its files, fingerprint of names and sizes) under a URL. Raises CorpusError."""
    system, path = open_remote(url, "the corpus")
    with _reading(url):
        found = system.find(path, detail=True)
    if not found:
        raise CorpusError("expected files under the URL, got none")
    facts = sorted(
        (name, info.get("size"), str(info.get("ETag") or info.get("mtime") or "")) for name, info in found.items()
    )
    return system, path, found, hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def fetch(workspace: Workspace, url: str, fingerprint: str) -> Path:
    """The folder of copies of everything under a URL.

    Raises:
        CorpusError: what is there has changed since the corpus was registered.
    """
    folder = workspace.corpus_folder(fingerprint)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with workspace.lock(fingerprint):
        if folder.is_dir():
            return folder
        system, path, found, now = list_url(url)
        if now != fingerprint:
            raise CorpusError("expected the files that were registered, got others: register the corpus again")
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".fetching-"))
        try:
            for name in found:
                inside = archives.resolve_member(name.removeprefix(path).lstrip("/"))
                (partial / inside).parent.mkdir(parents=True, exist_ok=True)
                with _reading(name):
                    system.get_file(name, str(partial / inside))
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def read_lines(workspace: Workspace, corpus: Corpus, start: int = 0, count: int | None = None) -> Iterator[Line]:
    """A range of the corpus's utterances."""
    return manifest.read(workspace.store.local(corpus.manifest), start, count)


def read_utterances(
    workspace: Workspace,
    corpus: Corpus,
    *,
    progress: Callable[[int, int], None] | None = None,
    problem: Callable[[Line, PhonechainError], None] | None = None,
) -> list[Utterance]:
    """Every utterance with its segments; `problem` is called for those whose annotation cannot be used."""
    source, spelling = open_files(workspace, corpus), Spelling()
    options = corpus.options
    read: list[Utterance] = []
    for line in read_lines(workspace, corpus):
        try:
            path = source.path(line.audio)
            found = segments_of(
                source.read(line.annotation),
                Path(line.annotation).name,
                tier=options.get("tier"),
                fix=bool(options.get("fix")),
                on_bad_segment=options.get("on_bad_segment") or "refuse",
                drop=options.get("drop") or (),
                audio=path,
            )
        except PhonechainError as error:
            if problem is not None:
                problem(line, error)
        else:
            segments = spelling.apply(found.segments)
            file = Path(line.annotation)
            read.append(Utterance(line.id, path, segments, line.speaker, line.split, file, found.lines, found.channel))
        if progress is not None:
            progress(line.index + 1, corpus.utterances)
    return read
