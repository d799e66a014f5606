"""`phonechain convert`: annotation files from any format to any other, one or a whole tree."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phonechain.app.cli import common, options
from phonechain.features.errors import AnnotationError, Notice, PhonechainError, SettingsError, UnrecognisedAnnotation

if TYPE_CHECKING:
    from phonechain.features.annotation import Annotation, Format
    from phonechain.features.corpora.base import NoticeCount

MANY = 400
"""Files from which on starting further processes takes less time than it saves."""

MOST_WORKERS = 8
"""Processes at most: the disk and the writing, which one process does, are the limit then."""

CHUNK = 32
"""Files that are handed to a process at a time."""


@dataclass(slots=True)
class Options:
    """Options of the command. `to` and `from_` are format names."""

    to: str
    from_: str | None
    tier: str | None
    rate: int | None
    force: bool
    utterance: str | None = None
    shift: float | Literal["start"] = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one recording: the bytes of the file to write, or why there are none."""

    target: Path
    result: bytes | PhonechainError | OSError
    notices: tuple[Notice, ...] = ()


@dataclass(slots=True)
class Tally:
    """Counts of a folder's conversion."""

    notices: NoticeCount
    written: dict[Path, Path] = field(default_factory=dict)
    """Each output file with its source."""
    failed: int = 0
    skipped: int = 0


def convert(
    source: Annotated[Path, typer.Argument(help="An annotation file, or a folder of annotation files.", metavar="IN")],
    target: Annotated[str, typer.Argument(help="File or folder to write; - for standard output.", metavar="OUT")],
    to: Annotated[
        str | None, typer.Option("--to", "-t", help="Format to write. Default: from the name of OUT.")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Format to read. Default: recognised by content.")] = None,
    tier: Annotated[
        str | None, typer.Option(help="Tier to write. Default: every tier that the format can hold.")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            help="Sample rate (Hz) for TIMIT. Default: that of the recording beside the file.", min=1, max=768_000
        ),
    ] = None,
    utterance: options.Recording = None,
    shift: options.Shift = "0",
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every warning for every file, rather than one of each kind.")
    ] = False,
) -> None:
    """Convert annotation files between formats.

    Prints a warning for everything that the target format cannot hold.
    """
    from phonechain.features.annotation import READABLE

    if not source.exists():
        raise SettingsError(f"expected an annotation file or a folder; {source} does not exist")
    out = Path(target)
    into = out.is_dir() or target.endswith(("/", os.sep)) or source.is_dir()
    moved = options.check_options(shift=shift)["shift"]
    asked = Options(
        _choose_format(to, out, into), _check_format("--from", from_, READABLE), tier, rate, force, utterance, moved
    )
    if not into:
        _convert_one(source, out, asked)
        return
    if out.is_file():
        raise SettingsError(f"expected a folder to write to, got the file {out}", value=str(out))
    tally = _convert_folder(source, out, asked, verbose)
    common.warn(tally.notices.notices())
    title = _find_formats()[asked.to].title
    other = f", {common.count_noun(tally.skipped, 'other file')} skipped" if tally.skipped else ""
    wrong = f", {tally.failed} failed" if tally.failed else ""
    typer.echo(f"wrote {common.count_noun(len(tally.written), 'file')} ({title}) to {out}{wrong}{other}")
    if tally.failed or not tally.written:
        raise typer.Exit(1 if tally.written else 2)


def _find_formats() -> dict[str, Format]:
    from phonechain.features.annotation import FORMATS

    return FORMATS


def _check_format(option: str, name: str | None, formats: dict[str, Format]) -> str | None:
    """The name of the format in `formats`; `TextGrid` and `.eaf` are names too. Raises SettingsError."""
    from phonechain.features.annotation import format_named

    found = format_named(name, formats) if name is not None else None
    if name is not None and found is None:
        raise SettingsError(f"{option}: expected one of {', '.join(formats)}, got {name!r}", value=name)
    return found.name if found is not None else None


def _choose_format(to: str | None, out: Path, into: bool) -> str:
    """The format to write. Raises SettingsError where neither --to nor a suffix names one."""
    if to is not None:
        return _check_format("--to", to, _find_formats()) or ""
    from phonechain.features.annotation import format_of

    found = None if into or str(out) == "-" else format_of(out.name)
    if found is None:
        got = f"got the name {out.name}" if not into and str(out) != "-" else "got neither"
        raise SettingsError(
            f"expected --to, or a file name with the suffix of a format, {got}; formats: {', '.join(_find_formats())}"
        )
    return found.name


def _convert_one(source: Path, out: Path, options: Options) -> None:
    """Convert one file to a file or to standard output."""
    from phonechain.features.annotation import stem_of

    target = None if str(out) == "-" else out
    common.check_output(target)
    _refuse_to_overwrite(target, options)
    data = source.read_bytes()
    if options.from_ is None:
        common.check_annotation(data, source, "an annotation to convert")
    try:
        with common.name_file(source):
            read = _read(data, source, options, options.utterance)
    except AnnotationError as error:
        if error.pointer != "utterance" or options.utterance is not None:
            raise
        # The file holds several recordings: take the one that OUT is named after.
        try:
            read = _read(data, source, options, stem_of(out.name))
        except AnnotationError:
            hint = "choose one with --utterance or the name of OUT, or give a folder as OUT to write all"
            raise AnnotationError(f"{error}; {hint}", pointer=error.pointer) from None
    made, notices = _convert(read, out if target is not None else source, options)
    common.write_output(made, target)
    common.warn(notices)
    if target is not None:
        print(f"wrote {out} ({_find_formats()[options.to].title})", file=sys.stderr)


def _read(data: bytes, source: Path, options: Options, utterance: str | None) -> Annotation:
    """The annotation; where one side counts in samples, at the rate of the recording beside the file, if there is one."""
    from phonechain.app.labelling.conversion import find_rate
    from phonechain.features import annotation as notation

    if options.rate is None and notation.FORMATS[options.to].names_sound:
        options.rate = find_rate(source)
    read = notation.read(data, name=source.name, format=options.from_, rate=options.rate, utterance=utterance)
    if options.rate is None and any(n.code == "rate-assumed" for n in read.notices):
        options.rate = find_rate(source)
        if options.rate is not None:
            return notation.read(data, name=source.name, format=options.from_, rate=options.rate, utterance=utterance)
    return read


def _convert(read: Annotation, name: Path, options: Options) -> tuple[bytes, tuple[Notice, ...]]:
    """One annotation in the other format, and the warnings."""
    from phonechain.app.labelling import conversion
    from phonechain.features import annotation as notation

    read = notation.shift(read, options.shift)
    recording = notation.stem_of(name.name)
    made = conversion.convert(read, options.to, tier=options.tier, rate=options.rate, recording=recording)
    return made.data, (*read.notices, *made.notices)


def _refuse_to_overwrite(target: Path | None, options: Options) -> None:
    if target is not None and target.exists() and not options.force:
        raise SettingsError(f"{target} already exists (--force overwrites it)", value=str(target))


# ---------------------------------------------------------------------------------------------------- a whole tree


def _convert_folder(source: Path, out: Path, options: Options, verbose: bool) -> Tally:
    """Convert every annotation file below a folder, or every recording of one file, into the same tree."""
    from phonechain.features.corpora.base import NoticeCount

    files = _scan(source, options)
    if not files:
        from phonechain.features.annotation import READABLE

        suffixes = ", ".join(READABLE[options.from_].suffixes) if options.from_ else "any annotation format"
        raise SettingsError(f"no files with the suffix of {suffixes} in {source}", value=str(source))
    tally = Tally(NoticeCount())
    root = source if source.is_dir() else source.parent
    convert = partial(_convert_file, root=root, out=out, options=options)
    with (
        common.map_in_processes(convert, files, _count_workers(files), chunk=CHUNK) as results,
        common.bars() as bars,
    ):
        for done, (file, outcomes) in enumerate(zip(files, results, strict=True), 1):
            for outcome in outcomes:
                _store(file, outcome, options, tally, verbose, bars.line)
            bars.update("convert", done, len(files))
    return tally


def _count_workers(files: list[Path]) -> int:
    """Processes for so many files: one for each core where there are many."""
    if len(files) < MANY:
        return 1
    from phonechain.app.settings import cores

    return min(cores(), MOST_WORKERS)


def _scan(source: Path, options: Options) -> list[Path]:
    """Files that may be annotations, sorted by path."""
    if source.is_file():
        return [source]
    from phonechain.features.annotation import READABLE, SUFFIXES

    suffixes = READABLE[options.from_].suffixes if options.from_ is not None else SUFFIXES
    found = []
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        found += [Path(folder, name) for name in names if not name.startswith(".") and name.lower().endswith(suffixes)]
    return sorted(found)


def _report_failure(file: Path, error: PhonechainError | OSError, tally: Tally, line: Callable[[str], None]) -> None:
    tally.failed += 1
    line(f"failed {common.file_line(file, error)}")


def _convert_file(file: Path, *, root: Path, out: Path, options: Options) -> list[Outcome]:
    """The recordings of one file in the other format; nothing is written."""
    from phonechain.app.labelling import conversion
    from phonechain.features import annotation as notation

    own = replace(options)
    target = out / conversion.rename_to(file.relative_to(root), options.to)
    try:
        data = file.read_bytes()
        try:
            parts = {target: _read(data, file, own, own.utterance)}
        except AnnotationError as error:
            if error.pointer != "utterance" or own.utterance is not None:
                raise
            read = notation.read_all(data, name=file.name)
            suffix = conversion.suffix_of(options.to)
            parts = {target.with_name(_safe_name(name) + suffix): one for name, one in read.items()}
    except (PhonechainError, OSError) as error:
        return [Outcome(target, error)]
    outcomes = []
    for to, annotation in parts.items():
        try:
            outcomes.append(Outcome(to, *_convert(annotation, to, own)))
        except PhonechainError as error:
            outcomes.append(Outcome(to, error))
    return outcomes


def _store(
    file: Path, outcome: Outcome, options: Options, tally: Tally, verbose: bool, line: Callable[[str], None]
) -> None:
    """Write what came of one recording, and count it."""
    target = outcome.target
    try:
        if isinstance(outcome.result, Exception):
            raise outcome.result
        if target in tally.written:
            raise SettingsError(f"would overwrite {target}, written from {tally.written[target]}")
        _refuse_to_overwrite(target, options)
        target.parent.mkdir(parents=True, exist_ok=True)
        common.write_output(outcome.result, target, durable=False)
    except UnrecognisedAnnotation as error:
        from phonechain.features.corpora.pairing import DOUBTFUL

        if file.suffix.lower() in DOUBTFUL and options.from_ is None:
            tally.skipped += 1
        else:
            _report_failure(file, error, tally, line)
    except (PhonechainError, OSError) as error:
        _report_failure(file, error, tally, line)
    else:
        tally.written[target] = file
        if verbose:
            for notice in outcome.notices:
                line(f"warning: {file}: {notice.message}")
        else:
            tally.notices.add(file, outcome.notices)


def _safe_name(name: str) -> str:
    """A recording's name made safe as a file name, so that it cannot lead to another folder."""
    return "".join("_" if c in "/\\" or not c.isprintable() else c for c in name) or "recording"
