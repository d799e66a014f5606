"""The corpora in the database, by id."""

from __future__ import annotations

from sqlalchemy.orm import Session

from phonechain.app.problems.errors import UnknownCorpus
from phonechain.app.storage.tables import Corpus


def get(session: Session, id: str, owner: str | None = None) -> Corpus:
    """The corpus of an id, which belongs to the key `owner` if given. Raises UnknownCorpus."""
    row = session.get(Corpus, id)
    if row is None or (owner is not None and row.owner != owner):  # the same answer: who asks learns nothing
        raise UnknownCorpus(f"unknown corpus {id[:80]!r}", pointer="corpus", value=id[:80])
    return row


def blobs_of(corpus: Corpus) -> list[str]:
    """What it has in the store and the cache: its manifest, and its archive or the copies from its URL."""
    files = {"upload": corpus.location, "url": corpus.options.get("fingerprint")}.get(corpus.source)
    return [corpus.manifest, *([files] if files else [])]
