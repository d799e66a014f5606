"""`GET /problems` and `GET /problems/{slug}`: what each `type` of a problem document means."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from phonechain.app.problems.documents import TYPES, ProblemType
from phonechain.app.problems.errors import UnknownProblem
from phonechain.app.schemas.problems import refusals

router = APIRouter(prefix="/problems", tags=["problems"])

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><link rel="icon" href="data:,">
<style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}}
td,th{{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0}}</style></head>
<body>{body}</body></html>
"""


def _as_dict(kind: ProblemType) -> dict[str, str | int]:
    return {"type": kind.uri, "title": kind.title, "status": kind.status, "description": kind.text}


def _wants_html(request: Request) -> bool:
    """Browsers name HTML; programs that name nothing get the type that the description names first."""
    return "text/html" in request.headers.get("accept", "")


@router.get(
    "", summary="List problem types", responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
)
async def index(request: Request) -> Response:
    """The types of problem documents, as a page, or as JSON where that is what Accept asks for."""
    if not _wants_html(request):
        return JSONResponse([_as_dict(kind) for kind in TYPES.values()])
    head = "<tr><th>Status</th><th>Type</th><th>Title</th></tr>"
    rows = "".join(
        f'<tr><td>{kind.status}</td><td><a href="{kind.uri}">{kind.slug}</a></td><td>{escape(kind.title)}</td></tr>'
        for kind in sorted(TYPES.values(), key=lambda kind: (kind.status, kind.slug))
    )
    return HTMLResponse(_PAGE.format(title="Problems", body=f"<h1>Problems</h1><table>{head}{rows}</table>"))


@router.get(
    "/{slug}",
    summary="Explain a problem type",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **refusals(404)},
)
async def explain(request: Request, slug: str) -> Response:
    """The page behind the `type` of a problem document."""
    kind = TYPES.get(slug)
    if kind is None:
        raise UnknownProblem(f"unknown type of problem {slug[:80]!r}; GET /problems lists them")
    if not _wants_html(request):
        return JSONResponse(_as_dict(kind))
    body = (
        f"<h1>{escape(kind.title)}</h1><p>{escape(kind.text)}</p>"
        f'<p>type <code>{kind.uri}</code>, status {kind.status}. <a href="/problems">All problems</a></p>'
    )
    return HTMLResponse(_PAGE.format(title=escape(kind.title), body=body))
