"""The checkout as git knows it, for tests of what is packed and built from it."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files() -> list[str]:
    """Paths below ROOT of every file that is tracked, or new and not ignored; symbolic links stand for themselves."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(file for file in listed.split("\0") if file and (ROOT / file).exists())


def copy(target: Path) -> Path:
    """Copy those files to a new folder; links stay links."""
    for file in files():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target / file, follow_symlinks=False)
    return target
