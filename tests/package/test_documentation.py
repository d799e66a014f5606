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
