"""What the commands share: checks of paths, the model, output, tables, warnings and progress bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from phonechain.features.errors import ModelFileError, Notice, PhonechainError, SettingsError, UnrecognisedAnnotation
from phonechain.features.files import printable_path, write_whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from phonechain.model.device import Precision
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.training import Progress

DEFAULT = "default"

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def map_in_processes(
    work: Callable[[T], R], items: Sequence[T], workers: int, *, chunk: int = 1
) -> Iterator[Iterator[R]]:
    """`work` of each item, in their order, by so many processes, which get `chunk` items at a time; by this one if 1."""
    if workers == 1:
        yield map(work, items)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(workers) as pool:
        try:
            yield pool.map(work, items, chunksize=chunk)
        except BaseException:  # Ctrl-C, or a full disk: what is queued is not waited for
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def check_file(path: Path, what: str) -> None:
    """Raises SettingsError where `path` is not a file."""
    if path.is_dir():
        raise SettingsError(f"expected {what}, got the folder {path}", value=str(path))
    if not path.exists():
        raise SettingsError(f"expected {what}; {path} does not exist", value=str(path))


def check_folder_output(root: Path, out: Path | None, doubtful: int, table: Path | None, inside: str) -> None:
    """Raises SettingsError where the answers to a folder go nowhere, to a file, or into it (`inside`: why they must not)."""
    if out is None:
        if not doubtful and table is None:
            raise SettingsError("a folder needs --out DIR, --doubtful N or --table FILE")
        return
    if out.is_file():
        raise SettingsError(f"--out: expected a folder, got the file {out}", value=str(out))
    if out.resolve().is_relative_to(root.resolve()):
        raise SettingsError(f"--out: expected a folder outside {root}, got {out}; {inside}", value=str(out))


def check_folder(path: Path, what: str) -> None:
    """Raises SettingsError where `path` is not a folder."""
    if not path.exists():
        raise SettingsError(f"expected {what}; {path} does not exist", value=str(path))
    if not path.is_dir():
        raise SettingsError(f"expected {what}; {path} is not a folder", value=str(path))


def load_model(model: str, device: str = "cpu", precision: Precision = "float32") -> PhoneLabeler:
    """The labeler in a model file, or the shipped one of that name, on a device; it multiplies in that precision.

    Raises:
        ModelFileError: neither. SettingsError: a device that torch does not have.
    """
    path = model_path(model)
    from phonechain.model.labeler import PhoneLabeler

    return PhoneLabeler.load(path, device=device, precision=precision)


def keep_freed_memory() -> None:
    """Let glibc keep up to 256 MB of freed memory for the arrays of the next batch; with another C library nothing happens.

    Otherwise it returns each large array to the system, whose fresh pages took up to a tenth of the time of a folder.
    """
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # of malloc.h
    with suppress(OSError, TypeError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 1 << 28)
        library.mallopt(mmap_threshold, 1 << 25)


def model_path(model: str) -> Path:
    """The file itself, or that of the shipped model of this name.

    Raises:
        ModelFileError, SettingsError: neither; the message lists the shipped models.
    """
    path = Path(model)
    if path.is_dir():
        raise ModelFileError(f"expected a model file, got the folder {model}", value=model)
    if path.exists():
        return path
    if path.name != model or path.suffix:
        raise ModelFileError(f"expected a model file; {model} does not exist", value=model)
    from phonechain.model import pretrained_path

    return pretrained_path(model)


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error. Unless it is a terminal, lines are not wrapped, since programs read them."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 200)


def table(*columns: str | tuple[str, str], title: str | None = None) -> Table:
    """An empty table. A column is a heading, or (heading, "right")."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        heading, justify = (column, "left") if isinstance(column, str) else column
        table.add_column(heading, justify="right" if justify == "right" else "left")
    return table


def warn(notices: Iterable[Notice]) -> None:
    """Each notice as one line on standard error."""
    for notice in notices:
        print(f"warning: {notice.message}", file=sys.stderr)


def file_line(file: Path, error: Exception) -> str:
    """The problem of a file as one line: path, line number if known, message."""
    from phonechain.features.corpora.base import CorpusProblem, problem_of

    if isinstance(error, PhonechainError):
        return str(problem_of(error, file))
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return str(CorpusProblem(file, None, f"cannot be used: {reason}"))


def unexpected_line(file: Path, error: Exception) -> str:
    """An error that should not occur, of a file of many, as one line: path, kind, message."""
    return f"{file}: unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def check_annotation(data: bytes, file: Path, what: str) -> None:
    """Raises UnrecognisedAnnotation for sound, and the like, where a command takes no sound beside the annotation."""
    from phonechain.features.annotation import describe_other

    if (other := describe_other(data)) is not None:
        raise UnrecognisedAnnotation(
            f"{printable_path(file)}: expected {what}, got {other}; `phonechain align` and `phonechain recognize` make "
            "annotations of recordings"
        )


@contextmanager
def name_file(file: Path, kind: type[PhonechainError] = PhonechainError) -> Iterator[None]:
    """Errors of a kind that are raised within begin with the file's name, unless they name it."""
    try:
        yield
    except kind as error:
        message = str(error)
        if printable_path(file.name) not in message:
            error.args = (f"{printable_path(file)}: {message}",)
        raise


def read_map(path: Path | None) -> dict[str, str | None] | None:
    """A map of given labels from a file, JSON or two columns separated by a tab; None without a file.

    Raises:
        PhoneSetError, SettingsError: not such a file.
    """
    if path is None:
        return None
    from phonechain.features.phones import mapping

    check_file(path, "a file of labels")
    data = path.read_bytes()
    try:
        return mapping.parse(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise SettingsError(f"expected UTF-8 in {path}, got other bytes", value=str(path)) from None


def count_noun(number: int, noun: str) -> str:
    """A number with its noun: "1 file", "2 files"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_percent(share: float | None) -> str:
    """A share as per cent with one decimal; empty for None."""
    return "" if share is None else f"{100 * share:.1f}"


def check_output(out: Path | None) -> None:
    """Raises SettingsError where `out` cannot be written; called before the work begins."""
    if out is None:
        return
    if out.is_dir():
        raise SettingsError(f"expected a file to write, got the folder {out}", value=str(out))
    if not out.parent.is_dir():
        raise SettingsError(f"cannot write {out}: the folder {out.parent} does not exist", value=str(out))


def choose_format(format: str | None, out: Path | None) -> str:
    """The format asked for, else the one of `out`'s suffix: table, json or an annotation format. Raises SettingsError."""
    from phonechain.features.annotation import FORMATS, format_named, format_of

    known = ["table", "json", *(name for name in FORMATS if name != "json")]
    if format == "table" or (format is None and out is None):
        return "table"
    if format is not None:
        found = format_named(format)
        if found is None:
            raise SettingsError(f"--format: expected one of {', '.join(known)}, got {format!r}")
        return found.name
    found = format_of(out.name) if out is not None else None
    if found is None:
        raise SettingsError(
            f"--out: the name {out} has no suffix of a format; rename it or add --format: {', '.join(known)}",
            value=str(out),
        )
    return found.name


def write_output(data: bytes, out: Path | None, *, durable: bool = True) -> None:
    """Write to a file whole or not at all, or to standard output; `durable` as for `write_whole`."""
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    write_whole(out, lambda spare: spare.write_bytes(data), durable=durable)


class Bars:
    """A progress bar per stage on standard error, with lines of text above them.

    Unless standard error is a terminal, only the lines are printed, and, with `every`, how far it is every so many seconds.
    """

    def __init__(self, every: float | None = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Display

        self.console = console(stderr=True)
        self.display = Display(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._tasks: dict[str, Any] = {}
        self._every, self._began = every, time.monotonic()
        self._said = self._began

    def update(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Say how far a stage is."""
        if self.display.disable and self._every is not None and (now := time.monotonic()) - self._said >= self._every:
            self._said = now
            left = (now - self._began) * (total - done) / done if done else None
            about = "" if left is None else f", about {_duration(left)} left"
            self.line(f"{stage}: {done} of {total}{about}")
        if stage not in self._tasks:
            self._tasks[stage] = self.display.add_task(stage, total=total or None, note=note)
        self.display.update(self._tasks[stage], completed=done, total=total or None, note=note)

    def counting(self, stage: str) -> Any:
        """A callback (done, total) for one stage."""
        return lambda done, total: self.update(stage, done, total)

    def progress(self, event: Progress) -> None:
        """A callback that takes `Progress`."""
        self.update(event.stage, event.done, event.total, event.message)

    def line(self, text: str) -> None:
        if sys.stderr.isatty():
            self.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def bars(every: float | None = None) -> Iterator[Bars]:
    """Progress bars for as long as the block runs; off a terminal, with `every`, a line every so many seconds."""
    shown = Bars(every)
    with shown.display:
        yield shown
