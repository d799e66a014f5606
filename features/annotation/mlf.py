"""HTK master label files: label files of many recordings in one file.

Source: the HTK Book, section "Master label files". After `#!MLF!#` each recording has its name in quotes (often
`"*/name.lab"`), its lines as in a label file, and a `.` by itself.
"""

from __future__ import annotations

from phonechain.features.annotation import htk
from phonechain.features.annotation.base import ANY, Annotation, Format, Source, excerpt, name_stem, pick
from phonechain.features.errors import AnnotationSyntaxError


def sniff(source: Source) -> int:
    return 3 if source.head.lstrip().startswith("#!MLF!#") else 0


def _blocks(source: Source) -> dict[str, list[tuple[int, str]]]:
    """The numbered lines of each recording, by the stem of its name."""
    blocks: dict[str, list[tuple[int, str]]] = {}
    current: list[tuple[int, str]] | None = None
    for at, line in source.lines():
        text = line.strip()
        if current is None:
            if text == "#!MLF!#" or "->" in text:  # a pointer to files elsewhere
                continue
            if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
                raise AnnotationSyntaxError(f"expected the name of a recording in quotes, got {excerpt(text)}", line=at)
            current = blocks.setdefault(name_stem(text[1:-1]), [])
        elif text == ".":
            current = None
        else:
            current.append((at, line))
    return blocks


def parse(source: Source) -> Annotation:
    """Read one recording of the file.

    Raises:
        AnnotationSyntaxError: with the line.
        AnnotationError: the recording that is meant is not there, or it is not said which is.
    """
    blocks = _blocks(source)
    tiers, notices = htk.parse_lines(blocks[pick(source, list(blocks))])
    return source.annotation(tiers, "mlf", notices=notices)


def parse_all(source: Source) -> dict[str, Annotation]:
    """Every recording of the file, by the stem of its name. Raises AnnotationSyntaxError with the line."""
    out = {}
    for name, lines in _blocks(source).items():
        tiers, notices = htk.parse_lines(lines)
        out[name] = source.annotation(tiers, "mlf", notices=notices)
    return out


def write(annotation: Annotation, recording: str | None = None, rate: int | None = None) -> bytes:
    """One recording, by default under the name that matches any. UTF-8."""
    name = "".join(c if c.isprintable() and c not in '"/\\' else "_" for c in recording or ANY)
    return ("\n".join(["#!MLF!#", f'"*/{name}.lab"', *htk.rows(annotation), "."]) + "\n").encode()


FORMAT = Format(
    "mlf",
    "HTK master label file",
    (".mlf",),
    "text/plain",
    sniff,
    parse,
    write,
    holds="one",
    parse_all=parse_all,
    names_sound=True,
)
