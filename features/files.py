"""Write files atomically, and file names as text."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

_NO_TEXT = re.compile("[\ud800-\udfff]")


def printable_path(path: str | Path) -> str:
    """A path as text that any program can write: bytes that are no UTF-8 as `\\xe9`, which Python keeps as surrogates.

    >>> printable_path("caf\\udce9.wav")
    'caf\\\\xe9.wav'
    """
    return _NO_TEXT.sub(lambda m: f"\\x{ord(m[0]) & 0xFF:02x}" if m[0] >= "\udc80" else "\ufffd", str(path))


def write_whole(path: str | Path, write: Callable[[Path], object], *, durable: bool = True) -> None:
    """Write a file so that, whatever happens, there is either the old one or the new one, never a part of it.

    `write` gets another name in the same folder to write to. The result is flushed to disk and then replaces `path` in one
    step; if `write` raises, nothing is left of it. A link stays a link, to the new file; what is not a file, such as a pipe,
    is written to directly. Safe for several processes that write the same file.

    Without `durable` nothing waits for the disk: a power failure may then lose the latest files, as with most programs, and
    many small files are written many times faster.

    Raises:
        OSError: of the disk, and whatever `write` raises.
    """
    target = Path(os.path.realpath(path) if os.path.islink(path) else path)
    try:
        is_file = stat.S_ISREG(os.stat(target).st_mode)
    except OSError:
        is_file = True  # there is none yet, or the disk will say what is wrong
    if not is_file:
        write(target)
        return
    # Without the target's name, which may be as long as names can be; hidden, so that nobody takes it for a finished one.
    spare = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        write(spare)
        if durable:
            with spare.open("rb+") as file:
                os.fsync(file.fileno())
        spare.replace(target)
    except BaseException as error:
        spare.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(spare):
            error.filename = str(path)  # the name that the caller knows
        raise
    if durable:
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure, on file systems that can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
