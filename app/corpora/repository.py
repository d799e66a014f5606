"""The corpora in the database, by id."""

from __future__ import annotations

from sqlalchemy.orm import Session

from phonechain.app.problems.errors import UnknownCorpus
from phonechain.app.storage.tables import Corpus
from phonechain.app.storage.workspace import Workspace


def get(session: Session, id: str, owner: str | None = None) -> Corpus:
    """The corpus of an id, which belongs to the key `owner` if given. Raises UnknownCorpus."""
    row = session.get(Corpus, id)
    if row is None or (owner is not None and row.owner != owner):  # the same answer: who asks learns nothing
        raise UnknownCorpus(f"unknown corpus {id[:80]!r}", pointer="corpus", value=id[:80])
    return row


def bytes_of(workspace: Workspace, corpus: Corpus) -> int:
    """What the files of a corpus take on the disk: its blobs, and what was unpacked or fetched."""
    total = workspace.store.size(corpus.manifest)
    if corpus.source in ("upload", "url"):
        copies = corpus.location if corpus.source == "upload" else str(corpus.options.get("fingerprint"))
        if corpus.source == "upload":
            total += workspace.store.size(copies)
        total += sum(path.stat().st_size for path in workspace.corpus_folder(copies).rglob("*") if path.is_file())
    return total


def blobs_of(corpus: Corpus) -> list[str]:
    """What it has in the store and the cache: its manifest, and its archive or the copies from its URL."""
    files = {"upload": corpus.location, "url": corpus.options.get("fingerprint")}.get(corpus.source)
    return [corpus.manifest, *([files] if files else [])]
