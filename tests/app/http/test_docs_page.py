"""`/docs` works on a machine without a network: every file that it loads comes from the service."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from tests.app.conftest import Client


class Loaded(HTMLParser):
    """Every address that a page loads by itself, and its inline scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.scripts = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script"
        known = dict(attrs)
        if tag in ("script", "img", "iframe", "link") and (url := known.get("href" if tag == "link" else "src")):
            self.urls.append(url)

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts += data


@pytest.fixture
def page(client: Client) -> Loaded:
    response = client.get("/docs")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    loaded = Loaded()
    loaded.feed(response.text)
    return loaded


def test_every_file_comes_from_the_service(client: Client, page: Loaded) -> None:
    described = re.findall(r"""url:\s*["']([^"']+)""", page.scripts)
    urls = [url for url in (*page.urls, *described) if not url.startswith("data:")]
    assert len(urls) == 3
    for url in urls:
        full = urljoin("http://phonechain/docs", url)
        assert urlsplit(full).netloc == "phonechain", url
        response = client.get(urlsplit(full).path)
        assert response.status_code == 200, url
        assert len(response.content) > 10_000


def test_nothing_in_the_page_or_its_style_is_elsewhere(client: Client, page: Loaded) -> None:
    assert "//" not in re.sub(r"(?m)^\s*//.*$|/\*.*?\*/", "", page.scripts)
    style = client.get("/docs/swagger-ui.css").text
    assert not [url for url in re.findall(r"url\(([^)]+)\)", style) if not url.strip("'\"").startswith("data:")]
    assert "@import" not in style
    assert '"validatorUrl": null' in page.scripts


def test_types_and_what_is_not_there(client: Client) -> None:
    assert client.get("/docs/swagger-ui-bundle.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/docs/swagger-ui.css").headers["content-type"].startswith("text/css")
    for name in ("index.html", "..%2Fcore.py", "redoc.standalone.js"):
        assert client.get(f"/docs/{name}").status_code == 404
    assert client.get("/redoc").status_code == 404


def test_it_understands_the_version_of_the_description(client: Client) -> None:
    assert client.get("/openapi.json").json()["openapi"].startswith("3.1")
    # Swagger UI reads OpenAPI 3.1 from its version 5 on.
    script = client.get("/docs/swagger-ui-bundle.js").text
    version = re.search(r'PACKAGE_VERSION:"(\d+)\.', script)
    assert version is not None
    assert int(version[1]) >= 5


def test_it_needs_no_key(serve: Callable[..., Any]) -> None:
    with serve(admin_key="a-key-of-a-good-length") as client:
        assert client.get("/docs").status_code == 200
        assert client.get("/docs/swagger-ui.css").status_code == 200
        assert client.get("/models").status_code == 401
