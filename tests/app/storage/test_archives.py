"""Archives of strangers."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from phonechain.app.problems.errors import ArchiveError, ArchiveTooLarge
from phonechain.app.storage import archives
from phonechain.app.storage.archives import Caps


def make_zip(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members:
            file.writestr(name, data)
    return out.getvalue()


def make_tar(*members: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as file:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                file.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def zip_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    return info


def unpack(data: bytes, tmp_path: Path, caps: Caps | None = None) -> Path:
    archive, target = tmp_path / "archive", tmp_path / "in" / "target"
    archive.write_bytes(data)
    archives.unpack(archive, target, caps or Caps())
    return target


@pytest.mark.parametrize("mode", ["zip", "w:gz", "w", "w:bz2", "w:xz"])
def test_plain_archives_are_unpacked(tmp_path: Path, mode: str) -> None:
    members = (("a/b.wav", b"sound"), ("c.lab", b"0 1 x\n"), ("é/ü.lab", b""))
    target = unpack(make_zip(*members) if mode == "zip" else make_tar(*members, mode=mode), tmp_path)
    found = {p.relative_to(target).as_posix(): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert found == dict(members)
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["target"]


BAD: dict[str, bytes] = {
    "parent in a zip": make_zip(("../evil", b"x")),
    "parent inside": make_zip(("a/../../evil", b"x")),
    "backslashes": make_zip(("..\\evil", b"x")),
    "absolute in a zip": make_zip(("/tmp/evil", b"x")),
    "a drive": make_zip(("C:/evil", b"x")),
    "a control character": make_zip(("a\nb", b"x")),
    "a link in a zip": make_zip((zip_link(), b"/etc/passwd")),
    "parent in a tar": make_tar(("../evil", b"x")),
    "absolute in a tar": make_tar(("/tmp/evil", b"x")),
    "a symbolic link": make_tar(link("a", "/etc/passwd")),
    "a hard link": make_tar(link("a", "/etc/passwd", tarfile.LNKTYPE)),
    "a device": make_tar(link("a", "", tarfile.CHRTYPE)),
    "a pipe": make_tar(link("a", "", tarfile.FIFOTYPE)),
    "a link, then a file through it": make_tar(link("a", "/tmp"), ("a/evil", b"x")),
    "twice the same": make_tar(("a.wav", b"x"), ("a.wav", b"y")),
    "the same but for case": make_zip(("a.wav", b"x"), ("A.wav", b"y")),
    "a file as a folder": make_zip(("a", b"x"), ("a/b", b"y")),
    "a very long name": make_zip(("a" * 300, b"x")),
    "many folders": make_zip(("/".join("a" * 40), b"x")),
    "nothing in it": make_zip(),
    "no archive": b"this is a poem\n" * 100,
    "empty": b"",
    "a cut zip": make_zip(("a", os.urandom(1000)))[:500],
    "a cut tar": make_tar(("a", os.urandom(100_000)))[:50_000],
    "a zip with a broken member": make_zip(("a", bytes(range(256)) * 40)).replace(bytes(range(30, 60)), bytes(30)),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_never_unpacked(tmp_path: Path, data: bytes) -> None:
    if data is BAD["a zip with a broken member"]:
        at = data.index(b"PK\x01\x02") - 20
        data = data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]
    with pytest.raises(ArchiveError, match="expected") as caught:
        unpack(data, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "in" / "target").exists()
    assert list((tmp_path / "in").iterdir()) == []
    assert not Path("/tmp/evil").exists()


def test_a_bomb_stops_where_the_cap_is(tmp_path: Path) -> None:
    bomb = make_zip(*((f"{n}", bytes(10_000_000)) for n in range(5)))
    assert len(bomb) < 100_000
    with pytest.raises(ArchiveTooLarge) as caught:
        unpack(bomb, tmp_path, Caps(total=20_000_000))
    assert caught.value.limit == 20_000_000
    assert caught.value.value < 21_000_000  # not unpacked any further


def test_a_header_that_lies_is_not_believed(tmp_path: Path) -> None:
    data = bytearray(make_zip(("a", bytes(1_000_000))))
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = data.index(mark) + at
        data[start : start + 4] = (10).to_bytes(4, "little")
    with pytest.raises((ArchiveError, ArchiveTooLarge)):
        unpack(bytes(data), tmp_path, Caps(total=1000))


def test_members_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ArchiveTooLarge):
        unpack(make_tar(*((f"{n}", b"") for n in range(11))), tmp_path, Caps(files=10))


def test_an_archive_in_an_archive_stays_closed(tmp_path: Path) -> None:
    target = unpack(make_zip(("inner.zip", make_zip(("a.wav", b"x")))), tmp_path)
    assert [p.name for p in target.rglob("*")] == ["inner.zip"]


def test_two_that_unpack_the_same_do_not_disturb_one_another(tmp_path: Path) -> None:
    target = unpack(make_zip(("a", b"x")), tmp_path)
    assert unpack(make_zip(("a", b"x")), tmp_path) == target
    assert (target / "a").read_bytes() == b"x"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_an_extended_header_is_not_read_into_memory_whole(kind: bytes, tmp_path: Path) -> None:
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, 600 * 2**20
    path = tmp_path / "a.tar"
    path.write_bytes(header.tobuf() + bytes(10240))  # refused by what the header announces
    with pytest.raises(ArchiveTooLarge, match="65536 bytes"):
        archives.unpack(path, tmp_path / "out", Caps())
    long = make_tar(("a/" * 10 + "b" * 180 + ".wav", b"x"))  # such a name has an extended header
    path.write_bytes(long)
    assert archives.unpack(path, tmp_path / "out", Caps()) == 1
