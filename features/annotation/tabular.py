"""Tables: CSV and TSV with a line an interval.

With a header, the columns are found by their names: a start and an end or a duration (seconds, or milliseconds where
the name says so), and any others, each of which becomes a tier; a column `tier` (or `type`) sorts the lines into tiers
instead, and a column `speaker` beside it those of several speakers. That takes what Praat ("Down to Table"), ELAN and the
Montreal Forced Aligner export. Without a header: start, end, label.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator

from phonechain.features.annotation.base import (
    Annotation,
    Format,
    Source,
    Tier,
    blank,
    check_count,
    is_number,
    number,
    one_line,
    seconds,
)
from phonechain.features.annotation.tiers import same_intervals
from phonechain.features.errors import AnnotationSyntaxError, UnrecognisedAnnotation
from phonechain.features.segments import Segment

_STARTS = {"start", "begin", "onset", "tmin", "xmin", "starttime", "begintime", "from", "t0", "time"}
_ENDS = {"end", "offset", "stop", "tmax", "xmax", "endtime", "stoptime", "to", "t1"}
_DURATIONS = {"duration", "dur", "length"}
_LABELS = ("label", "text", "phone", "phoneme", "segment", "mark", "annotation", "transcription", "value")
_TIERS = {"tier", "tiername", "type", "level"}
_SPEAKERS = {"speaker"}
_ROW = {"", "index", "row", "number", "nr", "no"}
_DELIMITERS = "\t,;"

Cells = Iterator[tuple[int, list[str]]]


def _key(column: str) -> tuple[str, float]:
    """A column's name reduced to what it means, and how many of its units make a second."""
    name = column.strip().strip('"').casefold()
    unit = 1000.0 if re.search(r"(?:^|[\s_\[(-])(?:ms|msec|milliseconds)\b", name) else 1.0
    name = re.sub(r"[\s_\[(-]*(?:ms|msec|milliseconds|s|sec|secs|seconds|ss\.msec)[\])]?\s*$", "", name)
    return re.sub(r"[\s_-]+", "", name), unit


def _delimiter(line: str) -> str | None:
    """What parts the cells of a header line, or of a line of numbers."""
    there = [d for d in _DELIMITERS if d in line]
    named = [d for d in there if any(_key(c)[0] in _STARTS for c in line.split(d))]
    return max(named or there, key=line.count, default=None)


def sniff(source: Source) -> int:
    """3 for a header with a start and an end, 2 for `number,number,...`, 0 otherwise."""
    first, _, rest = source.head.lstrip("\n").partition("\n")
    delimiter = _delimiter(first)
    if delimiter is None or first.lstrip()[:1] in "{[<":
        return 0
    keys = {_key(c)[0] for c in first.split(delimiter)}
    if keys & _STARTS and keys & (_ENDS | _DURATIONS):
        return 3
    if delimiter == "\t":
        return 0
    cells = (rest.partition("\n")[0] or first).split(delimiter)
    times = [c.strip().replace(",", ".") if delimiter == ";" else c.strip() for c in cells[:2]]
    return 2 if len(cells) >= 2 and all(is_number(t) for t in times) else 0


def sniff_tsv(source: Source) -> int:
    return sniff(source) if _delimiter(source.head.lstrip("\n").split("\n", 1)[0]) == "\t" else 0


def sniff_csv(source: Source) -> int:
    return sniff(source) if _delimiter(source.head.lstrip("\n").split("\n", 1)[0]) != "\t" else 0


def _cells(text: str, delimiter: str) -> Cells:
    """(line, cells) of each row that is not blank. A TSV has no quoting: a quotation mark is a label in X-SAMPA."""
    if delimiter == "\t":
        for at, line in enumerate(text.split("\n"), 1):
            if line and not line.isspace():
                yield at, line.split("\t")
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise AnnotationSyntaxError(
                f"expected cells that are quoted as in CSV, got: {error}", line=reader.line_num
            ) from None
        if any(not blank(c) for c in row):
            yield reader.line_num, row


def parse(source: Source) -> Annotation:
    """Read a table. Raises AnnotationSyntaxError with the line."""
    first = source.text.lstrip("\n").split("\n", 1)[0]
    delimiter = _delimiter(first) or ","
    rows = _cells(source.text, delimiter)
    at, header = next(rows, (1, []))
    times = [_time(c, delimiter) for c in header[:2]]
    if len(header) >= 2 and all(is_number(t) for t in times):
        rows = iter([(at, header), *rows])
        header = ["start", "end", "label", *(f"column {k}" for k in range(4, len(header) + 1))]
    keys = [_key(c) for c in header]
    start = _find(keys, _STARTS)
    end, length = _find(keys, _ENDS), _find(keys, _DURATIONS)
    if start is None or (end is None and length is None):
        names = ", ".join(c.strip() for c in header)[:200] or "nothing"
        raise UnrecognisedAnnotation(
            f"expected columns for a start and an end or a duration, got {names}", pointer=f"line {at}"
        )
    by = _find(keys, _TIERS)
    who = _find(keys, _SPEAKERS) if by is not None else None
    spent = {start, end, length, by, who} | {k for k, (key, _) in enumerate(keys) if key in _ROW}
    others = [k for k in range(len(keys)) if k not in spent]
    main = next((k for wanted in _LABELS for k in others if keys[k][0] == wanted), others[0] if others else None)
    columns: list[int | None] = [main, *(k for k in others if k != main)]
    units = (keys[start][1], keys[end][1] if end is not None else 1.0, keys[length][1] if length is not None else 1.0)
    tiers: dict[tuple[str, str, int | None], Tier] = {}
    count = 0
    for at, row in rows:
        cell = _row(row)
        a = number(_time(cell(start), delimiter), at, "a start") / units[0]
        if end is not None and (length is None or not blank(cell(end))):
            b = number(_time(cell(end), delimiter), at, "an end") / units[1]
        else:
            b = round(a + number(_time(cell(length), delimiter), at, "a duration") / units[2], 9)
        name = cell(by).strip() if by is not None else ""
        for k in columns:
            title = header[k].strip() if k is not None else "label"
            if by is not None:
                title = name if k == main else f"{name} {title}"
            tier = tiers.setdefault((cell(who).strip(), title, k), Tier(title, "interval"))
            tier.entries.append(Segment(a, b, cell(k).strip()))
            tier.lines.append(at)
        count += len(columns)
        check_count(count, at)
    if len({speaker for speaker, _, _ in tiers}) > 1:  # as aligners name the tiers of a conversation
        for (speaker, title, _), tier in tiers.items():
            tier.name = f"{speaker} - {title}"
    found = [t for (_, _, k), t in tiers.items() if k in (main, None) or any(s.label for s in t.entries)]
    for tier in found:
        if all(s.start == s.end for s in tier.entries):
            tier.kind = "point"
    return source.annotation(found or [Tier("label", "interval")], "tsv" if delimiter == "\t" else "csv")


def _row(row: list[str]) -> Callable[[int | None], str]:
    return lambda k: row[k] if k is not None and k < len(row) else ""


def _find(keys: list[tuple[str, float]], names: set[str]) -> int | None:
    """The column of that meaning; of several (ELAN exports times in three ways) the plain seconds."""
    found = [k for k, (key, _) in enumerate(keys) if key in names]
    return min(found, key=lambda k: keys[k][1], default=None)


def _time(cell: str, delimiter: str) -> str:
    """A time as Python reads it: with a decimal comma where the comma does not part cells."""
    cell = cell.strip()
    return cell.replace(",", ".") if delimiter != "," and cell.count(",") == 1 and "." not in cell else cell


def _table(annotation: Annotation) -> list[list[str]]:
    """One line per interval and one column per tier if all tiers have the same intervals; else one line per entry."""
    tiers = annotation.tiers
    names = Counter(t.name for t in tiers)
    spoken_for = _STARTS | _ENDS | _DURATIONS | _TIERS | _ROW
    wide = bool(tiers) and all(same_intervals(t, tiers[0]) and t.kind == tiers[0].kind for t in tiers)
    plain = wide and max(names.values()) == 1 and not any(_key(n)[0] in spoken_for for n in names)
    plain = plain and all(any(s.label for s in t.entries) for t in tiers)  # a column without labels is no tier
    if plain:
        rows = [["start", "end", *(t.name for t in tiers)]]
        for i, s in enumerate(tiers[0].entries):
            rows.append([seconds(s.start), seconds(s.end), *(t.entries[i].label or "" for t in tiers)])
        return rows
    rows = [["tier", "start", "end", "label"]]
    return rows + [[t.name, seconds(s.start), seconds(s.end), s.label or ""] for t in tiers for s in t.entries]


def write_csv(annotation: Annotation) -> bytes:
    """Every tier, as columns where they have the same intervals. UTF-8, quoted as in RFC 4180 where needed."""
    return "".join(",".join(map(_quote, row)) + "\n" for row in _table(annotation)).encode()


def _quote(cell: str) -> str:
    """A cell as RFC 4180 has it; Python's csv leaves a carriage return as it is, and that ends a line."""
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\r\n') else cell


def write_tsv(annotation: Annotation) -> bytes:
    """As `write_csv`, with tabs and without quoting. Raises AnnotationError for a label with a tab or a line end."""
    return "".join("\t".join(one_line(c) for c in row) + "\n" for row in _table(annotation)).encode()


CSV = Format("csv", "CSV table", (".csv",), "text/csv", sniff_csv, parse, write_csv)
TSV = Format("tsv", "TSV table", (".tsv",), "text/tab-separated-values", sniff_tsv, parse, write_tsv)
