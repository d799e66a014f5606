"""The guide at `/guide`: the pages of `app/guide`, rendered from Markdown; they reach for nothing outside the service."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib import resources

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} - Phonechain</title><link rel="stylesheet" href="/guide/guide.css"></head>
<body><nav>{nav}</nav><main>{body}</main></body></html>
"""

ORDER = (
    "index", "alignments", "phonetician", "pronunciation", "transcripts", "research", "tools", "operator",
    "mathematics", "model-file", "commands", "formats", "interface", "problems", "settings",
)  # fmt: skip
"""The pages, in the order of the navigation. `scripts/reference.py` writes the last five."""

FILES = {"guide.css": "text/css; charset=utf-8", "phonechain.praat": "text/plain; charset=utf-8"}
"""Further files of the folder, and their media types."""

_LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.DOTALL)


@cache
def pages() -> dict[str, str]:
    """Each page of ORDER as HTML. The text is ours, so its Markdown may hold comments but no other HTML."""
    from markdown_it import MarkdownIt  # needed by those who read

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    folder = resources.files("phonechain.app") / "guide"
    texts = {name: (folder / f"{name}.md").read_text("utf-8") for name in ORDER}
    titles = {name: text.splitlines()[0].lstrip("# ") for name, text in texts.items()}
    made = {}
    for name, text in texts.items():
        here = {name: ' aria-current="page"'}
        links = [f'<a href="{_address(n)}"{here.get(n, "")}>{escape(title)}</a>' for n, title in titles.items()]
        nav = "".join(('<a href="/">← Review page</a>', *links))
        body = _LINK.sub(_link, parser.render(text))
        made[name] = _PAGE.format(title=escape(titles[name]), nav=nav, body=body)
    return made


def _address(name: str) -> str:
    return "/guide" if name == "index" else f"/guide/{name}"


def _link(match: re.Match[str]) -> str:
    """Links between the pages as addresses; those to other parts of the documentation, which is not served, as text."""
    target, text = match.groups()
    if target.startswith(("https://", "http://", "#")):
        return match[0]
    if target in FILES:
        return f'<a href="/guide/{target}" download>{text}</a>'
    name = target.removesuffix(".md")
    return f'<a href="{_address(name)}">{text}</a>' if name in ORDER else text


@router.get("/guide")
async def index() -> Response:
    """The table of the pages."""
    return Response(pages()["index"], headers=HEADERS, media_type="text/html; charset=utf-8")


@router.get("/guide/{name}")
async def page(name: str) -> Response:
    """One page, the style of all, or the script for Praat."""
    if name in FILES:
        data = (resources.files("phonechain.app") / "guide" / name).read_bytes()
        return Response(data, headers=HEADERS, media_type=FILES[name])
    if name not in pages():
        raise HTTPException(404)
    return Response(pages()[name], headers=HEADERS, media_type="text/html; charset=utf-8")
