"""`phonechain label FOLDER`: every recording of a folder labelled, the least certain segments first."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from phonechain.app.cli import common
from phonechain.features.errors import Notice, PhonechainError, SettingsError
from phonechain.features.files import printable_path

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared, Skipped
    from phonechain.features.corpora.folder import Pair
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler

BATCH = 16
"""Recordings labelled at once."""

COLUMNS = (
    "file", "segment", "start", "end", "certainty", "measure", "given", "compared_as", "given_posterior", "given_rank",
    "label", "posterior", "skipped",
)  # fmt: skip

_ALONE = re.compile("beside it|passed over")
"""Said of files that lack a partner: they are told, and nothing has failed."""


@dataclass(slots=True)
class Work:
    """One recording, ready to be labelled. `format` and `target` are what is written and where."""

    pair: Pair
    ready: Prepared
    format: str
    target: Path


@dataclass(frozen=True, slots=True)
class Row:
    """A segment with how certain it is, and of what: of its given label, of the answer, or of nothing.

    The posterior of a given label and that of an answer are no common measure: a right answer to a wrong label has a low
    one and a high one. They are ranked apart.
    """

    measure: Literal["given", "answer", "none"]
    certainty: float
    file: str
    place: int
    segment: LabelledSegment | Skipped

    @property
    def order(self) -> tuple[int, float, str, int]:
        return ("given", "answer", "none").index(self.measure), self.certainty, self.file, self.place


@dataclass
class Rows:
    """Every segment: those whose given label the model knows, the most doubtful first; then the others by their answers."""

    rows: list[Row] = field(default_factory=list)

    def add(self, file: str, ready: Prepared, labelled: Sequence[LabelledSegment]) -> None:
        """The segments of one recording, those that were set aside among them."""
        from phonechain.app.labelling.pipeline import with_skipped

        for n, segment in enumerate(with_skipped(ready, labelled)):
            if segment.given_posterior is not None:
                self.rows.append(Row("given", segment.given_posterior, file, n, segment))
            elif segment.posterior is not None:
                self.rows.append(Row("answer", segment.posterior, file, n, segment))
            else:
                self.rows.append(Row("none", math.inf, file, n, segment))

    def finish(self, doubtful: int, table: Path | None) -> None:
        """Print the first `doubtful` of each measure, and write them all."""
        self.rows.sort(key=lambda row: row.order)
        if doubtful:
            self._print_given([row for row in self.rows if row.measure == "given"][:doubtful])
            self._print_answers([row for row in self.rows if row.measure == "answer"][:doubtful])
        if table is not None:
            common.write_output(self._csv(), table)
            print(f"wrote {table} ({len(self.rows)} segments, the least certain first)", file=sys.stderr)

    def _print_given(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        table = common.table(
            "file", ("start", "right"), ("end", "right"), "given", ("posterior", "right"), "label",
            ("posterior", "right"), title="Least certain given labels",
        )  # fmt: skip
        for row in rows:
            s = row.segment
            table.add_row(
                row.file, f"{s.start:.3f}", f"{s.end:.3f}", s.given or "", f"{row.certainty:.4f}", s.label or "",
                f"{s.posterior:.4f}",
            )  # fmt: skip
        common.console().print(table)

    def _print_answers(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        table = common.table(
            "file", ("start", "right"), ("end", "right"), "label", ("posterior", "right"), "given",
            title="Least certain answers, of segments without a label that the model knows",
        )  # fmt: skip
        for row in rows:
            s = row.segment
            table.add_row(
                row.file, f"{s.start:.3f}", f"{s.end:.3f}", s.label or "", f"{row.certainty:.4f}", s.given or ""
            )
        common.console().print(table)

    def _csv(self) -> bytes:
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in self.rows:
            s = row.segment
            writer.writerow(
                (
                    row.file, row.place, s.start, s.end, _number(row.certainty if row.measure != "none" else None),
                    row.measure, s.given or "", s.compared_as or "", _number(s.given_posterior), s.given_rank or "",
                    s.label or "", _number(s.posterior), getattr(s, "reason", ""),
                )
            )  # fmt: skip
        return out.getvalue().encode()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def label_folder(
    root: Path,
    out: Path | None,
    model: str,
    format: str | None,
    options: dict[str, Any],
    doubtful: int,
    table: Path | None,
) -> None:
    """Label every pair below `root` into the same tree below `out`.

    Exits with 1 if files could not be used, 2 if nothing could be done.
    """
    from phonechain.app.cli.label import written
    from phonechain.app.labelling.pipeline import label_sequences
    from phonechain.features.corpora import folder

    form = _checked(root, out, format, doubtful, table)
    pairs, problems = folder.pairs(root)
    labeler = common.load_model(model)
    decoding = {name: options.pop(name) for name in ("n_best", "decode")}
    options["known"] = labeler.label_set_.mapped(options.pop("mapping"))
    rows, notices, failed, done = Rows(), _Notices(), 0, 0
    with common.bars() as bars:
        for problem in problems:
            alone = _ALONE.search(problem.message) is not None
            bars.line(f"{'left out' if alone else 'failed'} {problem}")
            failed += not alone

        def fail(file: Path, error: Exception) -> None:
            nonlocal failed
            failed += 1
            bars.line(f"failed {common.file_line(file, error)}")

        for at in range(0, len(pairs), BATCH):
            work = _prepared(pairs[at : at + BATCH], root, out, form, labeler, options, fail)
            speakers: dict[str, int] = {}
            answers = label_sequences(
                labeler,
                [(one.ready.features, one.ready.segments, one.ready.starts) for one in work],
                comparisons=[one.ready.comparison for one in work],
                groups=[speakers.setdefault(one.pair.speaker or f"\0{n}", len(speakers)) for n, one in enumerate(work)],
                **decoding,
            )
            for one, labelled in zip(work, answers, strict=True):
                file = one.pair.file
                try:
                    if out is not None:
                        data = written(labeler, model, one.ready, labelled, one.format)
                        one.target.parent.mkdir(parents=True, exist_ok=True)
                        common.write_output(data, one.target)
                except (PhonechainError, OSError) as error:
                    fail(file, error)
                    continue
                done += 1
                rows.add(printable_path(file), one.ready, labelled)
                notices.add(file, one.ready.notices)
            bars.update("label", min(at + BATCH, len(pairs)), len(pairs))
    common.warn(notices.counted())
    rows.finish(doubtful, table)
    wrong = f"; {failed} files could not be used" if failed else ""
    where = f" to {out}" if out is not None else ""
    print(f"labelled {len(rows.rows)} segments of {done} recordings{where}{wrong}", file=sys.stderr)
    if failed or not done:
        raise typer.Exit(1 if done else 2)


def _checked(root: Path, out: Path | None, format: str | None, doubtful: int, table: Path | None) -> str | None:
    """The format that is asked for. Raises SettingsError."""
    from phonechain.features.annotation import FORMATS

    if out is None and not doubtful and table is None:
        raise SettingsError("expected --out DIR for a folder (or --doubtful, or --table), got none")
    if out is not None and out.is_file():
        raise SettingsError(f"expected a folder for --out, got {out}, which is a file", value=str(out))
    if out is not None and out.resolve().is_relative_to(root.resolve()):
        raise SettingsError(
            f"expected --out outside {root}, got {out}: what is written there would be taken for its annotations",
            value=str(out),
        )
    if format is not None and format not in FORMATS:
        raise SettingsError(f"--format: expected one of {', '.join(FORMATS)} for a folder, got {format!r}")
    return format


def _prepared(
    pairs: Sequence[Pair],
    root: Path,
    out: Path | None,
    wanted: str | None,
    labeler: PhoneLabeler,
    options: dict[str, Any],
    fail: Callable[[Path, Exception], None],
) -> list[Work]:
    """Read, decode and compute features; what cannot be used is told and left out."""
    from phonechain.app.labelling import conversion
    from phonechain.app.labelling import pipeline as labelling
    from phonechain.features.annotation import FORMATS
    from phonechain.features.corpora.candidates import Unusable, annotation_of

    ready = []
    for pair in pairs:
        file = pair.file
        try:
            chosen = annotation_of(pair, options.get("tier"))
            file, annotation = chosen.file, chosen.annotation
            prepared = labelling.prepare_utterance(
                pair.audio, annotation, labeler.features_, chosen=chosen.tier, **options
            )
            prepared.notices = tuple(dict.fromkeys((*chosen.notices, *prepared.notices)))
        except Unusable as unusable:
            fail(unusable.file, unusable.error)
            continue
        except (PhonechainError, OSError) as error:
            fail(file if not _of_sound(error) else pair.audio, error)
            continue
        form = wanted or annotation.format
        own = file.suffix if file.suffix.lower() in FORMATS[form].suffixes else conversion.suffix(form)
        target = (out or root) / pair.audio.relative_to(root).with_suffix(own)
        ready.append(Work(replace(pair, annotations=[file], part=None), prepared, form, target))
    return ready


def _of_sound(error: Exception) -> bool:
    from phonechain.features.errors import AudioError

    return isinstance(error, AudioError)


class _Notices:
    """Warnings of many files, one of each kind with the number of files."""

    def __init__(self) -> None:
        from phonechain.features.corpora.base import NoticeCount

        self._count = NoticeCount()

    def add(self, file: Path, notices: Sequence[Notice]) -> None:
        self._count.add(file, notices)

    def counted(self) -> list[Notice]:
        return self._count.notices()
