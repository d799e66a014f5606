"""The page at `/`: static files of this package, under a content security policy that lets nothing else in."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from phonechain.app import samples

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
SAMPLES = {samples.AUDIO.name: "audio/flac", samples.SEGMENTS.name: "text/plain; charset=utf-8"}


@cache
def files() -> dict[str, tuple[bytes, bytes | None, str]]:
    """The files of the page by their path: bytes, the same compressed where that is shorter, media type."""
    root = resources.files("phonechain.app") / "web"
    found: dict[str, tuple[bytes, bytes | None, str]] = {}

    def walk(folder: resources.abc.Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                walk(entry, f"{prefix}{entry.name}/")
            elif (kind := MEDIA_TYPES.get(PurePosixPath(entry.name).suffix)) is not None:
                data = entry.read_bytes()
                packed = gzip.compress(data, 9, mtime=0)
                found[prefix + entry.name] = (data, packed if len(packed) < len(data) else None, kind)

    walk(root, "")
    return found


@router.get("/")
async def page(request: Request) -> Response:
    """The page itself."""
    return _file(request, "index.html")


@router.get("/page/samples/{name}")
async def sample(name: str) -> Response:
    """The files of the sample, which are dropped like any others."""
    if name not in SAMPLES:
        raise HTTPException(404)
    return Response((samples.FOLDER / name).read_bytes(), media_type=SAMPLES[name])


@router.get("/page/{path:path}")
async def asset(request: Request, path: str) -> Response:
    """A file of the page."""
    return _file(request, path)


def _file(request: Request, path: str) -> Response:
    known = files().get(path)
    if known is None:
        raise HTTPException(404)
    data, packed, kind = known
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache",
        "ETag": tag,
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        data, headers["Content-Encoding"] = packed, "gzip"
    return Response(data, headers=headers, media_type=kind)
