"""The page's files: what is served, under which policy, and that nothing in them reaches past the service."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from phonechain.app.http.routes.page import POLICY, files
from tests.app.conftest import AUDIO, TEXTGRID, Client

WEB = Path(__file__).parents[3] / "app" / "web"


def test_the_page_is_served_under_its_policy(client: Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert re.findall(r"<script(?![^>]*\bsrc=)", page.text) == []
    assert re.findall(r"<style|\bstyle=|\son[a-z]+=", page.text) == []


def test_every_file_that_one_of_them_names_is_there(client: Client) -> None:
    named = set(re.findall(r"(?:href|src)=\"(page/[^\"]+)\"", (WEB / "index.html").read_text("utf-8")))
    for path in WEB.rglob("*.js"):
        base = path.relative_to(WEB).parent
        for found in re.findall(r"(?:from|import\(|new URL\()\s*\"(\.[^\"]+)\"", path.read_text("utf-8")):
            named.add("page/" + Path(*resolve((base / found).parts)).as_posix())
    named |= {f"page/{url}" for url in re.findall(r"url\(\"([^\"]+)\"\)", (WEB / "style.css").read_text("utf-8"))}
    assert len(named) > 15
    for url in named:
        assert client.get(f"/{url}").status_code == 200, url


def resolve(parts: tuple[str, ...]) -> list[str]:
    out: list[str] = []
    for part in parts:
        if part == "..":
            out.pop()
        elif part != ".":
            out.append(part)
    return out


def test_nothing_reaches_past_the_service() -> None:
    for path in WEB.rglob("*"):
        if path.suffix in (".js", ".css", ".html", ".svg"):
            text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.findall(
                r"https?://|\binnerHTML\b|\bouterHTML\b|insertAdjacentHTML|document\.write|\beval\(", text
            ), path
            assert not re.findall(
                r"localStorage\.setItem\((?!\"theme\")|sessionStorage|document\.cookie|indexedDB", text
            ), path


def test_the_page_is_small() -> None:
    sizes = [len(packed if packed is not None else data) for data, packed, _ in files().values()]
    assert sum(sizes) < 500_000


def test_files_are_compressed_and_revalidated(client: Client) -> None:
    first = client.get("/page/style.css", headers={"Accept-Encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    assert first.content == (WEB / "style.css").read_bytes()
    again = client.get("/page/style.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert gzip.decompress(files()["style.css"][1] or b"") == first.content


def test_the_sample_and_nothing_else(client: Client) -> None:
    assert client.get("/page/samples/LJ001-0002.flac").content == AUDIO
    assert client.get("/page/samples/LJ001-0002.TextGrid").content == TEXTGRID
    for path in (
        "samples/examples.json",
        "samples/..%2f..%2fmain.py",
        "../main.py",
        "%2e%2e/main.py",
        "js",
        "js/",
        "jsconfig.json",
    ):
        assert client.get(f"/page/{path}").status_code == 404, path


@pytest.mark.skipif(shutil.which("tsc") is None, reason="needs the TypeScript compiler")
def test_types() -> None:
    done = subprocess.run(["tsc", "-p", str(WEB / "jsconfig.json")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
