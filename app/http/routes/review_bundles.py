"""A whole review at once: its annotations as a zip, a corpus to train on, what to label next, what trainings brought."""

from __future__ import annotations

import io
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response

from phonechain.app.corpora import intake, repository
from phonechain.app.http.dependencies import DatabaseDep, OwnerDep, ServicesDep, check_query
from phonechain.app.http.gateway import caller_id
from phonechain.app.http.routes.corpora import corpus_to_json
from phonechain.app.http.routes.reviews import ReviewsDep
from phonechain.app.http.uploads import BINARY
from phonechain.app.reviews import ranking, sources
from phonechain.app.reviews.bundle import write_zip
from phonechain.app.schemas.corpora import CorpusOptions, CorpusOut
from phonechain.app.schemas.problems import refusals
from phonechain.app.schemas.reviews import NextFiles, ReviewTrainings
from phonechain.app.storage import quotas, references
from phonechain.app.storage.archives import Caps

router = APIRouter(prefix="/reviews", tags=["reviews"], dependencies=[Depends(check_query)])


@router.get(
    "/{id}/annotations",
    summary="Download all corrected annotations",
    response_class=Response,
    responses=refusals(404, 422, 503) | {200: {"content": {"application/zip": {"schema": BINARY}}}},
)
def archive(id: str, reviews: ReviewsDep) -> Response:
    """A zip with each file in its original format, in a folder per speaker if known."""
    out = io.BytesIO()
    write_zip(reviews, id, out)
    name = reviews.get(id)[0].name
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.zip",
    }
    return Response(out.getvalue(), headers=headers, media_type="application/zip")


@router.post(
    "/{id}/corpus", summary="Make a corpus from a review", status_code=201, response_model=CorpusOut,
    responses=refusals(404, 413, 422, 503, 507),
)  # fmt: skip
async def corpus(
    request: Request, id: str, reviews: ReviewsDep, services: ServicesDep, db: DatabaseDep, owner: OwnerDep,
    with_corpus: Annotated[
        str | None,
        Query(max_length=40, description="Id of a corpus whose recordings to include, except those in the review."),
    ] = None,
) -> JSONResponse:  # fmt: skip
    """Makes a corpus of the recordings with their current annotations, for example for a training job."""
    settings = services.settings

    def make() -> dict[str, Any]:
        with references.hold_blobs(services.workspace) as holds:
            others, base = (
                (None, {}) if with_corpus is None else sources.read_others(holds.workspace, with_corpus, owner)
            )
            with holds.workspace.store.writing() as out:
                files = write_zip(reviews, id, out, sound=True, others=others)  # type: ignore[arg-type]
            tiers = {file.tier for file in files}
            tier = tiers.pop() if len(tiers) == 1 and (others is None or tiers == {base.get("tier")}) else None
            asked = CorpusOptions.model_validate({"name": reviews.get(id)[0].name, **base, "tier": tier})
            options = asked.model_dump(include=set(CorpusOptions.model_fields) - {"name"})
            options |= {"review": id, "checked_seconds": ranking.count_checked_seconds(reviews, id)}
            caps = Caps(settings.max_archive_files, settings.max_archive_bytes)
            row = intake.from_archive(holds.workspace, out.digest, asked.name, options, caps)
            row.owner = caller_id(request)
            row.bytes = repository.bytes_of(holds.workspace, row)
            with db.write() as session:
                quotas.check_bytes(session, settings, row.owner, row.bytes)
                session.add(row)
                session.flush()
                return corpus_to_json(row)

    body = await services.take_in(make)
    return JSONResponse(body, 201, {"Location": f"/corpora/{body['id']}"})


@router.get(
    "/{id}/next", summary="Recordings to label next", response_model=NextFiles, responses=refusals(404, 422, 503)
)
def label_next(
    id: str, reviews: ReviewsDep, owner: OwnerDep,
    count: Annotated[int, Query(ge=1, le=200, description="Maximum number.")] = 20,
) -> dict[str, Any]:  # fmt: skip
    """The recordings of which the model is least certain, one speaker after the other, except fully checked ones.
    `trained_on` is the corpus that the review's model was trained on here, if it is still there."""
    return {"files": ranking.choose_next(reviews, id, count), "trained_on": ranking.find_corpus(reviews, id, owner)}


@router.get(
    "/{id}/trainings",
    summary="List a review's trainings",
    response_model=ReviewTrainings,
    responses=refusals(404, 422, 503),
)
def trainings(
    id: str, reviews: ReviewsDep,
    limit: Annotated[int, Query(ge=1, le=200, description="Maximum number.")] = 50,
) -> dict[str, Any]:  # fmt: skip
    """The error of each training on it against the time checked by then, newest first."""
    return {"trainings": ranking.list_trainings(reviews, id, limit)}
