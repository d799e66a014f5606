"""Which blobs are still needed: by corpora, models, jobs, their parts and results, reviews. A blob may serve several."""

from __future__ import annotations

from sqlalchemy import or_, select

from phonechain.app.reviews.tables import ReviewFile
from phonechain.app.storage.tables import UNFINISHED, Corpus, Job, ModelVersion, Shard
from phonechain.app.storage.workspace import Workspace


def needed(workspace: Workspace, digest: str) -> bool:
    """Whether anything in the database names the blob."""
    with workspace.db.read() as session:
        for query in (
            select(Corpus.id).where(or_(Corpus.location == digest, Corpus.manifest == digest)),
            select(ModelVersion.name).where(ModelVersion.blob == digest),
            select(Shard.job).where(Shard.blob == digest),
            select(ReviewFile.review).where(
                or_(
                    ReviewFile.sound == digest,
                    ReviewFile.annotation == digest,
                    ReviewFile.playback == digest,
                    ReviewFile.peaks == digest,
                    ReviewFile.answer == digest,
                )
            ),
            select(Job.id).where(Job.result["blob"].as_string() == digest),
        ):
            if session.scalars(query.limit(1)).first() is not None:
                return True
        unfinished = session.scalars(select(Job.spec).where(Job.state.in_(UNFINISHED)))
        return any(digest == (spec.get(use) or {}).get("blob") for spec in unfinished for use in ("model", "base"))


def drop(workspace: Workspace, *digests: str) -> None:
    """Remove the blobs that nothing needs."""
    for digest in digests:
        if not needed(workspace, digest):
            workspace.store.delete(digest)
