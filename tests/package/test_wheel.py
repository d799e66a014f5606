"""The wheel, in a fresh environment and beside files that are called as our layers are."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.package import checkout

pytestmark = pytest.mark.slow

SAMPLE = checkout.ROOT / "samples"
SCRIPT = """
import sys
import phonechain
assert "torch" not in sys.modules
import model                                      # the user's own
import app
assert model.MINE and app.MINE
labeler = phonechain.PhoneLabeler.load(phonechain.pretrained_path())
audio, annotation = sys.argv[1:]
answers = labeler.label(phonechain.read_audio(audio), phonechain.read_segments(annotation))
print(phonechain.__file__, phonechain.__version__, len(answers))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git knows: nothing of another build comes in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = checkout.copy(folder / "source")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; its dependencies are borrowed from the one that runs this test."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "-q", "--python", python, "install", "--no-deps", "--no-index", wheel)
    [packages] = folder.glob("lib/python*/site-packages")
    # The path alone: .pth files there, such as that of an editable phonechain, are not followed.
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"


@pytest.fixture
def clashing(tmp_path: Path) -> Path:
    """A folder with a `model.py` and an `app` of the user's own."""
    (tmp_path / "app").mkdir()
    for file in ("model.py", "features.py", "app/__init__.py"):
        (tmp_path / file).write_text("MINE = True\n")
    return tmp_path


def run(*command: object, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_one_top_level_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"phonechain"}
    assert "phonechain/py.typed" in names


def test_the_wheel_holds_every_file_of_the_layers(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    layers = {f"phonechain/{file}" for file in checkout.files() if file.split("/")[0] in ("features", "model", "app")}
    missing = {file for file in layers - packed if not file.endswith(".md")}
    assert not missing


def test_import_beside_modules_of_the_same_names(installed: Path, clashing: Path) -> None:
    (clashing / "script.py").write_text(SCRIPT)
    audio, segments = SAMPLE / "LJ001-0002.flac", SAMPLE / "LJ001-0002.TextGrid"
    file, version, count = run(installed / "python", "script.py", audio, segments, cwd=clashing).split()
    assert Path(file).is_relative_to(installed.parent)
    assert version != "0"
    assert int(count) == 23


@pytest.mark.parametrize("command", [["phonechain"], ["python", "-m", "phonechain"]])
def test_command_line_beside_modules_of_the_same_names(installed: Path, clashing: Path, command: list[str]) -> None:
    start = [installed / command[0], *command[1:]]
    assert run(*start, "--version", cwd=clashing).startswith("phonechain ")
    audio, segments = SAMPLE / "LJ001-0002.flac", SAMPLE / "LJ001-0002.TextGrid"
    run(*start, "label", audio, segments, "--out", "answer.json", cwd=clashing)
    assert '"posterior"' in (clashing / "answer.json").read_text()
