"""Roots of corpora, when what lies under them changes while the service runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from phonechain.app.corpora import intake
from phonechain.app.problems.errors import PlaceNotAllowed


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
