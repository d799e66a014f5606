"""Roots of corpora, when what lies under them changes while the service runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from phonechain.app.corpora import contents, intake
from phonechain.app.corpora.contents import Files
from phonechain.app.environment import check_locations, load
from phonechain.app.problems.errors import PlaceNotAllowed
from phonechain.features.errors import CorpusError, SettingsError


def test_a_folder_that_becomes_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "corpus").mkdir(parents=True)
    outside.mkdir()
    file = str(root / "corpus" / "a.wav")
    assert intake.check_location(file, [str(root)]) == file
    (root / "corpus").rmdir()
    (root / "corpus").symlink_to(outside)
    with pytest.raises(PlaceNotAllowed):
        intake.check_location(file, [str(root)])


ROOT = "http://data.example/corpus"


@pytest.mark.parametrize(
    "url",
    [
        "http://data.example/corpus/../secret", "http://data.example/corpus/%2e%2e/secret",
        "http://data.example/corpus/%252E%252e/secret", "http://data.example/corpus/..%2fsecret",
        "http://data.example/corpus/..\\secret", "http://data.example/corpus/x::file:///etc/passwd",
        "http://data.example/corpus%2f..", "http://data.example/corpus2", "http://data.example@evil.example/corpus/x",
    ],
)  # fmt: skip
def test_an_address_that_leads_out_of_the_root_is_refused(url: str) -> None:
    with pytest.raises(PlaceNotAllowed):
        intake.check_location(url, [ROOT])


def test_an_address_below_the_root_is_allowed() -> None:
    for url in (ROOT, f"{ROOT}/a%20b/u..1.wav?version=2"):
        assert intake.check_location(url, [ROOT]) == url


@pytest.mark.parametrize("root", ["file:///data", "nonsense://bucket", "zip://a.zip::s3://bucket"])
def test_roots_that_cannot_be_used_end_the_start(root: str) -> None:
    with pytest.raises(SettingsError, match=r"PHONECHAIN_CORPUS_ROOTS: expected .*, got "):
        check_locations(load({"PHONECHAIN_CORPUS_ROOTS": f"/data,{root}"}))


class _Site(BaseHTTPRequestHandler):
    """/moved leads to the server's other name, /here stays, /broken fails."""

    def do_GET(self) -> None:
        port = self.headers["Host"].rpartition(":")[2]
        to = {"/moved": f"http://localhost:{port}/secret", "/here": "/u.lab"}.get(self.path)
        self.send_response(500 if self.path == "/broken" else 302 if to else 200)
        if to:
            self.send_header("Location", to)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"0 1 IY\n")

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_redirect_to_another_host_is_not_followed(site: str, tmp_path: Path) -> None:
    """A host that is allowed must not lead to one that only the service can reach."""
    files = Files(None, tmp_path)
    assert files.read(f"{site}/u.lab") == files.read(f"{site}/here") == b"0 1 IY\n"
    with pytest.raises(CorpusError, match="redirected to another host, localhost"):
        files.read(f"{site}/moved")
    with pytest.raises(CorpusError, match="redirected to another host, localhost"):
        files.path(f"{site}/moved")


def test_what_a_host_answers_with_is_told(site: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="expected a readable file, got 500"):
        Files(None, tmp_path).read(f"{site}/broken")
    with pytest.raises(CorpusError, match="expected files under the URL, got none"):
        contents.list_url("http://127.0.0.1:1/nobody")
