"""A file is there whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from phonechain.features.files import write_whole


def test_a_new_file_and_one_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    for text in ("one", "two"):
        write_whole(path, lambda spare, text=text: spare.write_text(text))  # type: ignore[misc]
        assert path.read_text() == text
    assert os.listdir(tmp_path) == [path.name]
    (tmp_path / "plain").write_text("x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt(), OSError(28, "full")])
def test_a_failure_leaves_what_was_there(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "a"
    path.write_text("before")

    def half(spare: Path) -> None:
        spare.write_text("hal")
        raise failure

    with pytest.raises(type(failure)):
        write_whole(path, half)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a"]


def test_nobody_reads_half_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0" * 100_000)
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            data = path.read_bytes()
            assert len(data) == 100_000
            seen.add(data[:1] + data[-1:])

    reader = threading.Thread(target=look)
    reader.start()
    for n in range(30):
        write_whole(path, lambda spare, n=n: spare.write_bytes(b"%d" % (n % 10) * 100_000))  # type: ignore[misc]
    done.set()
    reader.join()
    assert all(ends[0] == ends[1] for ends in seen)


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", lambda spare: spare.write_text("new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_whole(tmp_path / "pipe", lambda pipe: pipe.write_text("through"))
    reader.join(10)
    assert got == ["through"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    wanted = tmp_path / "no folder" / "a.txt"
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(wanted, lambda spare: spare.write_text("a"))
    assert caught.value.filename == str(wanted)
