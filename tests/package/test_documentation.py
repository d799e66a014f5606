"""The documentation builds without a warning, names every public name, and its Python runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import phonechain

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))


@pytest.mark.parametrize("name", phonechain.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert f"`{name}`" in REFERENCE
    home = getattr(phonechain, name).__module__
    assert f"::: {home}\n" in REFERENCE


def _exists(name: str) -> bool:
    """Whether documentation names a file or folder: from the root, or as docs/architecture.md, from a layer's folder."""
    bases = (ROOT, *(ROOT / layer for layer in ("features", "model", "app")))
    spellings = (name, f"{name}.py", f"{name.rpartition('.')[0]}.py")  # a module, a function of one
    return any((base / spelling).exists() for base in bases for spelling in spellings)


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_files_that_the_guides_name_are_there(document: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text("utf-8"), flags=re.DOTALL)
    names = {name for name in re.findall(r"`([a-z][\w./-]*/[\w./-]*)`", text) if not re.search(r"NAME|RESOURCE", name)}
    assert len(names) > 15
    assert [name for name in sorted(names) if not _exists(name)] == []


@pytest.mark.parametrize("topic", ["an annotation format", "a factor", "a preset", "a route", "a job kind"])
def test_the_guide_says_where_to_add_things_by_names_that_are_there(topic: str) -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split(f"## Add {topic}\n")[1].split("\n## ")[0]
    names = set(re.findall(r"`([A-Za-z_]{4,})[(`]", re.sub(r"```.*?```", "", section, flags=re.DOTALL)))
    folders = [ROOT / layer for layer in ("features", "model", "app", "tests")]
    sources = "\n".join(path.read_text("utf-8") for folder in folders for path in sorted(folder.rglob("*.py")))
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", sources)] == []
    assert re.search(r"`(features|model|app)/[\w/]+\.py`|`model/presets/", section)


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "features" / "index.html").read_text("utf-8")
    assert 'id="phonechain.features.reading.read_segments"' in page


@pytest.mark.slow
def test_the_readmes_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = (ROOT / "README.md").read_text("utf-8").split("## From Python\n")[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    corpus = tmp_path / "my_corpus"
    for speaker in ("amy", "bob", "cy"):
        (corpus / speaker).mkdir(parents=True)
        for suffix in (".flac", ".lab"):
            shutil.copy(ROOT / "samples" / f"LJ001-0002{suffix}", corpus / speaker / f"{speaker}{suffix}")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    exec(compile(code[1], "README.md", "exec"), {})
    assert (tmp_path / "mine.safetensors").is_file()
