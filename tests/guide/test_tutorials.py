"""Every command of the guide runs, page by page, in a folder of its own and against a live service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phonechain.app import samples
from tests.guide.tutorials import GUIDE, blocks
from tests.processes import Service, running

PAGES = ("alignments", "phonetician", "pronunciation", "transcripts", "research", "tools", "operator")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as started:
        yield started


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `phonechain` is this checkout's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "phonechain"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m phonechain "$@"\n')
    script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("page", PAGES)
def test_commands(page: str, tmp_path: Path, path: str, service: Service) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    printed = ""
    for block in [*blocks("index"), *blocks(page)]:
        text = block.text.replace("http://127.0.0.1:8000", service.address)
        if block.kind == "text":
            compare(block.text, printed, f"{page}.md:{block.line}")
        if block.kind not in ("sh", "python"):
            continue
        if "zip " in text and shutil.which("zip") is None:
            pytest.skip("the page packs a corpus with zip, which is not installed")
        command = ["sh", "-ec", text] if block.kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page}.md:{block.line}\n{done.stdout}\n{done.stderr}"
        printed = done.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_lines_for_a_browser(service: Service) -> None:
    """In Node, which has the browser's fetch, with the sample as the clip."""
    [block] = [block for block in blocks("pronunciation") if block.kind == "ts"]
    clip = f"import fs from 'node:fs';\nconst clip = new Blob([fs.readFileSync({str(samples.AUDIO)!r})]);\n"
    text = clip + block.text.replace("http://127.0.0.1:8000", service.address)
    done = subprocess.run(["node", "--input-type=module", "-e", text], capture_output=True, text=True, check=False)
    assert re.fullmatch(r"IH 0\.\d+ \d+\n", done.stdout), done.stderr


def test_the_script_for_praat(tmp_path: Path, service: Service) -> None:
    """In Praat itself, in a process of its own: while Praat runs, this one would not answer."""
    program = (
        "import sys, parselmouth\n"
        "from parselmouth.praat import run_file\n"
        "sound, grid = parselmouth.Sound(sys.argv[1]), parselmouth.read(sys.argv[2])\n"
        "_, answer = run_file([sound, grid], sys.argv[3], sys.argv[4], 'default', 'phones')\n"
        "names = [parselmouth.praat.call(answer, 'Get tier name...', n) for n in (1, 2, 3, 4)]\n"
        "print(answer.name, names, parselmouth.praat.call(answer, 'Get label of interval...', 3, 1))\n"
        "run_file([sound, grid], sys.argv[3], sys.argv[4], 'nothing', '')\n"
    )
    files = (samples.AUDIO, samples.SEGMENTS, GUIDE / "phonechain.praat")
    command = [sys.executable, "-c", program, *map(str, files), service.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tiers = ["words", "phones", "phones phonechain", "phones posterior"]
    assert done.stdout == f"untitled_labelled {tiers} IH\n", done.stderr
    assert "Phonechain says: " in done.stderr
    assert "model-unknown" in done.stderr


def compare(shown: str, printed: str, where: str) -> None:
    """Each line that a page shows was printed, but for blanks and the last digits; `...` stands for the rest."""
    lines = [normal(line) for line in printed.splitlines()]
    for line in shown.splitlines():
        if line.strip() not in ("", "...") and not set(line) <= set(" ─"):
            assert normal(line) in lines, f"{where}: {line!r} is not in\n{printed}"


def normal(line: str) -> list[str]:
    return [re.sub(r"(\.\d)\d+", r"\1", word) for word in line.split()]
