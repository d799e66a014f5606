"""Archives that attacks send."""

from __future__ import annotations

import io
import zipfile

from phonechain.app import samples


def zip_members(*members: tuple[str, bytes], level: int = 0) -> bytes:
    """An archive."""
    out = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", kind, compresslevel=level or None) as file:
        for name, data in members:
            file.writestr(name, data)
    return out.getvalue()


def sample_archive(mark: object = "") -> bytes:
    """One utterance."""
    parts = (("u.flac", samples.AUDIO.read_bytes()), ("u.TextGrid", samples.SEGMENTS.read_bytes()))
    return zip_members(*parts, ("README.md", str(mark).encode()))
