"""Zip and tar files of strangers, unpacked while everything is counted: members, bytes, names, kinds.

Only plain files come out, under names that stay inside the target. Whatever a header claims, what is counted is what is
read: a member that unpacks to more than is left stops there. Archives inside archives stay closed.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from phonechain.app.problems.errors import ArchiveError, ArchiveTooLarge, StorageFull
from phonechain.app.storage.database import is_disk_full

CHUNK = 1 << 18
LONGEST_NAME = 1024
DEEPEST = 32
LONGEST_HEADER = 1 << 16
_EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that an archive may unpack to."""

    files: int = 500_000
    total: int = 16 * 2**30


def unpack(archive: Path, target: Path, caps: Caps) -> int:
    """Unpack `archive` into the folder `target`, which must not exist; the number of files.

    It appears whole or not at all. Two members of one name, or of names that differ in letter case or Unicode form
    only, are refused: one of them would be lost.

    Raises:
        ArchiveError: no archive, damaged, or a member that is never unpacked.
        ArchiveTooLarge: more than `caps`.
        StorageFull.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=".unpacking-"))
    try:
        count = _unpack_into(archive, partial, caps)
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():  # somebody else was faster, with the same content
                raise
        return count
    except OSError as error:
        if is_disk_full(error):
            raise StorageFull("disk full: cannot unpack the archive") from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack_into(archive: Path, folder: Path, caps: Caps) -> int:
    budget = _Budget(caps)
    seen: dict[str, str] = {}
    for name, handle in _members(archive, budget):
        inner = resolve_member(name)
        folded = unicodedata.normalize("NFC", inner.as_posix()).casefold()
        if folded in seen:
            raise ArchiveError(
                f"expected distinct member names, got {_short(seen[folded])} and {_short(name)}", value=_short(name)
            )
        seen[folded] = name
        path = folder / inner
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as out:
                while chunk := _read(handle, name):
                    budget.take(len(chunk))
                    out.write(chunk)
        except (FileExistsError, NotADirectoryError):
            raise ArchiveError(
                f"expected each member to be a file or a folder, got {_short(name)} as both", value=_short(name)
            ) from None
        except OSError as error:
            if error.errno in (36, 22):  # a name that this file system cannot have
                raise ArchiveError(f"expected a valid file name, got {_short(name)}", value=_short(name)) from None
            raise
    if not seen:
        raise ArchiveError("expected an archive with at least one file, got none", value=0)
    return len(seen)


class _Budget:
    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self.files = 0
        self.bytes = 0

    def file(self) -> None:
        self.files += 1
        if self.files > self.caps.files:
            limit = self.caps.files
            raise ArchiveTooLarge(f"expected at most {limit} members, got more", value=self.files, limit=limit)

    def take(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self.caps.total:
            limit = self.caps.total
            raise ArchiveTooLarge(f"expected at most {limit} bytes unpacked, got more", value=self.bytes, limit=limit)


class _PlainMember(tarfile.TarInfo):
    """A member whose extended header (PAX, or GNU's long names) is short: tarfile reads it into memory whole."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENDED and self.size > LONGEST_HEADER:
            raise ArchiveTooLarge(
                f"expected headers of at most {LONGEST_HEADER} bytes in the tar file, got {self.size}",
                value=self.size, limit=LONGEST_HEADER,
            )  # fmt: skip
        member: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return member


def _members(archive: Path, budget: _Budget) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each plain file; what is neither a file nor a folder is refused."""
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive, budget)
        return
    try:
        # Streaming ("r|*"): members are met in the order of the file, and no header can point back.
        with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*", tarinfo=_PlainMember) as tar:
            for member in tar:
                budget.file()
                if member.isdir():
                    continue
                if not member.isreg():
                    raise ArchiveError(
                        f"expected plain files, got a link or device: {_short(member.name)}", value=_short(member.name)
                    )
                handle = tar.extractfile(member)
                assert handle is not None
                yield member.name, handle
    except ArchiveError:
        raise
    except _BROKEN as error:
        if budget.files:
            raise ArchiveError(f"expected an intact tar file, got a damaged one: {error}") from None
        raise ArchiveError("expected a zip or tar file, got neither") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise ArchiveError(f"expected an intact archive, got a damaged one: {error}") from None


def _zip_members(archive: Path, budget: _Budget) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                budget.file()
                kind = stat.S_IFMT(info.external_attr >> 16)
                if info.is_dir():
                    continue
                if kind not in (0, stat.S_IFREG):
                    raise ArchiveError(
                        f"expected plain files, got a link or device: {_short(info.filename)}",
                        value=_short(info.filename),
                    )
                if info.flag_bits & 0x1:
                    raise ArchiveError(
                        f"expected files without a password, got {_short(info.filename)}", value=_short(info.filename)
                    )
                with file.open(info) as handle:
                    yield info.filename, handle
    except ArchiveError:
        raise
    except _BROKEN as error:
        raise ArchiveError(f"expected an intact zip file, got a damaged one: {error}") from None


def _read(handle: IO[bytes], name: str) -> bytes:
    try:
        return handle.read(CHUNK)
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, EOFError):
            raise
        raise ArchiveError(
            f"expected intact members, got a damaged one: {_short(name)}: {error}", value=_short(name)
        ) from None


def resolve_member(name: str) -> PurePosixPath:
    """The member's path below the target. Raises ArchiveError where it would lead elsewhere."""
    plain = name.replace("\\", "/")
    path = PurePosixPath(plain)
    drive = len(plain) > 1 and plain[1] == ":"
    if path.is_absolute() or ".." in path.parts or drive or not path.parts or any(ord(c) < 32 for c in plain):
        raise ArchiveError(f"expected names inside the archive, got {_short(name)}", value=_short(name))
    if len(os.fsencode(plain)) > LONGEST_NAME or len(path.parts) > DEEPEST:
        raise ArchiveError(
            f"expected names of at most {LONGEST_NAME} bytes and {DEEPEST} folders, got {_short(name)}",
            value=_short(name),
        )
    return path


def _short(name: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in name)
    return repr(shown if len(shown) <= 80 else shown[:77] + "...")
