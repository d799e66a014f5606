"""Decode text: by its byte-order mark, as UTF-16 by its zero bytes, as UTF-8 if valid, else by a guess with a notice."""

from __future__ import annotations

import codecs
import re

from phonechain.features.errors import AnnotationError, Notice, UnrecognisedAnnotation

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16 LE, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NAMES = {"latin-1": "Latin-1", "cp1252": "Windows-1252", "mac-roman": "MacRoman"}
_QUOTES_1252 = frozenset(b"\x80\x82\x84\x85\x8b\x91\x92\x93\x94\x95\x96\x97\x99\x9b")


def decode(data: bytes, encoding: str | None = None) -> tuple[str, str, tuple[Notice, ...]]:
    """Text, the name of its encoding, and a Notice if that was guessed.

    Args:
        encoding: a Python codec name; None recognises it.

    Raises:
        UnrecognisedAnnotation: the bytes are not text.
        AnnotationError: they are not text in the encoding that was requested or marked.
    """
    if encoding is not None:
        return _strict(data, encoding), encoding, ()
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], name, len(mark)), name, ()
    if unmarked := _utf16_by_zeros(data):
        return _strict(data, unmarked), unmarked, ()
    if b"\0" in data:
        at = data.index(b"\0")
        raise UnrecognisedAnnotation(f"expected an annotation as text, got binary data (a zero byte at {at})", value=at)
    try:
        return data.decode("utf-8"), "utf-8", ()
    except UnicodeDecodeError as error:
        guess = _eight_bit(data)
        text = data.decode(guess, errors="replace")
        example = next((w for w in re.findall(r"\S*[^\x00-\x7f]\S*", text)), "")[:20]
        message = f"expected UTF-8, got byte 0x{data[error.start]:02x} at {error.start}"
        message += f"; read as {_NAMES[guess]} ('{example}')"
        return text, guess, (Notice("encoding-guessed", message, None, guess),)


def _strict(data: bytes, encoding: str, skipped: int = 0) -> str:
    try:
        # No text file that is written can hold U+0000; UTF-16 has it where it is damaged.
        return data.decode(encoding).replace("\0", "\ufffd")
    except LookupError:
        raise AnnotationError(f"expected the name of a text encoding, got '{encoding[:40]}'", value=encoding) from None
    except (UnicodeDecodeError, ValueError) as error:
        at = getattr(error, "start", 0) + skipped
        raise AnnotationError(
            f"expected {encoding.upper()} text, got bytes that it does not allow at {at}",
            pointer=f"byte {at}",
            value=at,
        ) from None


def _utf16_by_zeros(data: bytes) -> str | None:
    """UTF-16 without a mark: markup and digits are ASCII, so every other byte of much of the file is zero."""
    if len(data) < 4 or len(data) % 2:
        return None
    head = data[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.4 * half and even <= 0.05 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd <= 0.05 * half:
        return "utf-16-be"
    return None


def _eight_bit(data: bytes) -> str:
    """Latin-1, Windows-1252 or MacRoman: accented letters are 0xC0-0xFF in the first two, 0x80-0x9F in the last."""
    high = re.sub(rb"[\x00-\x7f]+", b"", data)
    low = sum(b < 0xA0 for b in high)
    if low == 0:
        return "latin-1"
    letters = sum(b >= 0xC0 for b in high)
    quotes = sum(b in _QUOTES_1252 for b in high)
    if quotes == low and (letters > 0 or not re.search(rb"[A-Za-z][\x80-\x9f][A-Za-z]", data)):
        return "cp1252"
    return "mac-roman" if low >= letters else "cp1252"
