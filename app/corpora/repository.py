"""The corpora in the database, by id."""

from __future__ import annotations

from sqlalchemy.orm import Session

from phonechain.app.problems.errors import UnknownCorpus
from phonechain.app.storage.tables import Corpus


def get(session: Session, id: str) -> Corpus:
    """The corpus of an id. Raises UnknownCorpus."""
    row = session.get(Corpus, id)
    if row is None:
        raise UnknownCorpus(f"unknown corpus {id[:80]!r}", pointer="corpus", value=id[:80])
    return row
