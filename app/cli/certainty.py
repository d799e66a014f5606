"""Segments ranked by certainty, the least certain first: a table on the screen, or a CSV file."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from phonechain.app.cli import common

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared, Skipped
    from phonechain.model.answers import LabelledSegment

COLUMNS = (
    "file", "segment", "start", "end", "certainty", "measure", "given", "compared_as", "given_posterior", "given_rank",
    "label", "posterior", "skipped",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A segment and its certainty: the support of its given label, or the posterior of its answer, or none.

    Support is the probability that the given label is right in view of the sound and of all other given labels; a model
    that has none (a MEMM) gives the label's posterior instead.

    The two are no common measure, since a right answer to a wrong label has a high posterior and the label a low one; they
    are ranked separately.
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
class Ranking:
    """Every segment: first those whose given label the model knows, least certain first; then the others by their answers."""

    rows: list[Row] = field(default_factory=list)

    def add(self, file: str, ready: Prepared, labelled: Sequence[LabelledSegment]) -> None:
        """The segments of one recording, skipped ones included."""
        from phonechain.app.labelling.pipeline import insert_skipped

        for n, segment in enumerate(insert_skipped(ready, labelled)):
            if segment.given_posterior is not None:
                support = segment.given_posterior if segment.given_support is None else segment.given_support
                self.rows.append(Row("given", support, file, n, segment))
            elif segment.posterior is not None:
                self.rows.append(Row("answer", segment.posterior, file, n, segment))
            else:
                self.rows.append(Row("none", math.inf, file, n, segment))

    def output(self, doubtful: int, table: Path | None) -> None:
        """Print the `doubtful` least certain of each measure, and write all to `table`."""
        self.rows.sort(key=lambda row: row.order)
        if doubtful:
            self._print_given([row for row in self.rows if row.measure == "given"][:doubtful])
            self._print_answers([row for row in self.rows if row.measure == "answer"][:doubtful])
        if table is not None:
            common.write_output(self._csv(), table)
            print(f"wrote {table} ({len(self.rows)} segments, least certain first)", file=sys.stderr)

    def _print_given(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        table = common.table(
            "file", ("start", "right"), ("end", "right"), "given", ("support", "right"), "label",
            ("posterior", "right"), title="Least certain given labels",
        )  # fmt: skip
        for row in rows:
            s = row.segment
            table.add_row(
                row.file, f"{s.start:.3f}", f"{s.end:.3f}", s.given or "", f"{row.certainty:.5f}", s.label or "",
                f"{s.posterior:.4f}",
            )  # fmt: skip
        common.console().print(table)

    def _print_answers(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        table = common.table(
            "file", ("start", "right"), ("end", "right"), "label", ("posterior", "right"), "given",
            title="Least certain answers (no given label that the model knows)",
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
