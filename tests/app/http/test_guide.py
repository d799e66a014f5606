"""The guide: what is served, that its links lead somewhere, and that its commands exist."""

from __future__ import annotations

import csv
import importlib.util
import re
import shlex

import pytest
from typer.main import get_command

from phonechain.app import samples
from phonechain.app.cli import app, main
from phonechain.app.http.routes.guide import ORDER, pages
from phonechain.features.reading import read_segments
from tests.app.conftest import Client
from tests.guide.tutorials import GUIDE, RUN, SHOW, blocks


def test_every_page_is_served(client: Client) -> None:
    assert {path.stem for path in GUIDE.glob("*.md")} == set(ORDER)
    for name in ORDER:
        page = client.get("/guide" if name == "index" else f"/guide/{name}")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<script" not in page.text
        assert re.findall(r"<style|\bstyle=", page.text) == []
        assert re.search(r'<nav><a href="/">', page.text)  # back to where reviews are
        title = (GUIDE / f"{name}.md").read_text("utf-8").splitlines()[0].removeprefix("# ")
        assert f"<h1>{title}</h1>" in page.text
        assert page.text.count('aria-current="page"') == 1
    assert client.get("/guide/guide.css").headers["content-type"] == "text/css; charset=utf-8"
    assert client.get("/guide/phonechain.praat").content == (GUIDE / "phonechain.praat").read_bytes()
    assert client.get("/guide/nothing").status_code == 404
    assert client.get("/guide/..%2fsettings").status_code == 404


def test_the_reference_is_as_the_code_has_it() -> None:
    """`python scripts/reference.py` writes these pages anew."""
    program = GUIDE.parents[1] / "scripts" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", program)
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    for name, text in reference.pages().items():
        assert (GUIDE / name).read_text("utf-8") == text, f"{name} is not as it would be written now"


def test_links_lead_to_pages_that_are_there() -> None:
    served = {"/", "/guide", "/guide/guide.css", "/guide/phonechain.praat", *(f"/guide/{name}" for name in ORDER)}
    for name, page in pages().items():
        for target in re.findall(r'href="([^"]+)"', page):
            if target.startswith("/"):
                assert target in served, (name, target)
            else:
                assert target.startswith("https://"), (name, target)
    for path in GUIDE.glob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text("utf-8")):
            if not target.startswith("https://"):
                folder = GUIDE if not target.startswith("../") else GUIDE.parents[1] / "docs"
                assert (folder / target.removeprefix("../")).is_file(), (path.name, target)


@pytest.mark.parametrize("page", ORDER)
def test_fences_are_of_known_kinds_and_commands_exist(page: str) -> None:
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    for block in blocks(page):
        assert block.kind in (*RUN, *SHOW, ""), f"{page}.md:{block.line}: {block.kind!r}"
        if not block.kind.startswith("sh"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "phonechain" in words:
                assert words[words.index("phonechain") + 1] in commands, f"{page}.md:{block.line}"


def test_the_samples_are_what_the_guide_says(tmp_path) -> None:
    out = tmp_path / "samples"
    assert main(["samples", str(out)]) == 0
    assert main(["samples", str(out)]) == 2  # nothing is overwritten
    segments = {path.stem: read_segments(path) for path in (out / "reader").glob("*.TextGrid")}
    assert (len(segments), sum(map(len, segments.values()))) == (26, 1715)
    assert {path.stem for path in (out / "reader").glob("*.ogg")} == set(segments)
    texts = {path.stem: path.read_text("utf-8") for path in (out / "transcripts").glob("*.txt")}
    assert len(texts) == 7
    assert set(texts) < set(segments)
    assert all(len(text.split()) > 3 for text in texts.values())
    with (out / "planted.tsv").open() as table:
        planted = {(row["recording"], row["start"]): row for row in csv.DictReader(table, delimiter="\t")}
    assert len(planted) == 40
    for name, right in segments.items():
        changed = read_segments(out / "planted" / f"{name}.TextGrid")
        assert [(s.start, s.end) for s in changed] == [(s.start, s.end) for s in right]
        for a, b in zip(right, changed, strict=True):
            row = planted.get((name, f"{a.start:.3f}"))
            assert (a.label, b.label) == ((row["right"], row["planted"]) if row else (a.label, a.label))
    assert samples.AUDIO.read_bytes() == (out / samples.AUDIO.name).read_bytes()
