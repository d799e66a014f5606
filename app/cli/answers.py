"""The labels of one recording as a table, as JSON, or as an annotation file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phonechain.app.cli import common

if TYPE_CHECKING:
    from rich.table import Table

    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler


def render(
    labeler: PhoneLabeler,
    model: str,
    ready: Prepared,
    labelled: Sequence[LabelledSegment],
    format: str,
    *,
    entropy: bool = False,
    gop: bool = False,
    more: dict[str, Any] | None = None,
) -> bytes:
    """The answer of `POST /classify` (`json`), or an annotation file. Raises AnnotationError."""
    if format == "json":
        answer = to_json(labeler, model, ready, labelled, entropy=entropy, gop=gop, more=more)
        return json.dumps(answer, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"
    from phonechain.app.labelling import pipeline

    return pipeline.render_annotation(ready, labelled, format)


def to_json(
    labeler: PhoneLabeler,
    name: str,
    ready: Prepared,
    labelled: Sequence[LabelledSegment],
    *,
    entropy: bool = False,
    gop: bool = False,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer of `POST /classify`, without its timing; with `more` members."""
    from phonechain.app.labelling.pipeline import insert_skipped
    from phonechain.app.schemas.classify import answer_to_json

    return answer_to_json(
        name=Path(name).stem,
        version=str(labeler.card_.get("version", "")),
        duration=ready.duration,
        tier=ready.tier.name,
        labelled=insert_skipped(ready, labelled),
        notices=ready.notices,
        gaps=ready.gaps,
        sequences=len(ready.starts) + 1,
        comparison=ready.comparison,
        entropy=entropy,
        pronunciation=gop,
        more=more,
        normalised=ready.normalised,
    )


def write(
    labeler: PhoneLabeler,
    model: str,
    tiers: Sequence[tuple[Prepared, Sequence[LabelledSegment]]],
    format: str,
    out: Path | None,
    *,
    all_speakers: bool = False,
    entropy: bool = False,
    gop: bool = False,
    more: Sequence[dict[str, Any]] = (),
) -> None:
    """Write the answers to one tier, or with `all_speakers` to several: tables under each other, or as `render_tiers`.

    `more` members go to the JSON of each tier, and into tables of their own.

    Raises:
        AnnotationError, OSError: it cannot be written.
    """
    if format == "table":
        print_tables(tiers, out, named=all_speakers, entropy=entropy, gop=gop, more=more)
    else:
        data = render_tiers(
            labeler, model, tiers, format, all_speakers=all_speakers, entropy=entropy, gop=gop, more=more
        )
        common.write_output(data, out)


def render_tiers(
    labeler: PhoneLabeler,
    model: str,
    tiers: Sequence[tuple[Prepared, Sequence[LabelledSegment]]],
    format: str,
    *,
    all_speakers: bool = False,
    entropy: bool = False,
    gop: bool = False,
    more: Sequence[dict[str, Any]] = (),
) -> bytes:
    """The answers to one tier, or with `all_speakers` to several: the answer of `POST /classify`, or an annotation file.

    Raises:
        AnnotationError: the format cannot hold it.
    """
    if not all_speakers:
        [(ready, labelled)] = tiers
        own = more[0] if more else None
        return render(labeler, model, ready, labelled, format, entropy=entropy, gop=gop, more=own)
    if format != "json":
        from phonechain.app.labelling import speakers

        return speakers.render(tiers, format)
    each = zip(tiers, more or [{}] * len(tiers), strict=True)
    body = {"tiers": [to_json(labeler, model, *tier, entropy=entropy, gop=gop, more=own) for tier, own in each]}
    return json.dumps(body, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"


def print_tables(
    tiers: Sequence[tuple[Prepared, Sequence[LabelledSegment]]],
    out: Path | None = None,
    *,
    named: bool = False,
    entropy: bool = False,
    gop: bool = False,
    more: Sequence[dict[str, Any]] = (),
) -> None:
    """A table per tier, under its name if `named`, and what is to say `more`; on standard output or in a file."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    console = common.console() if out is None else Console(file=text, width=200)
    for (ready, labelled), own in zip(tiers, more or [{}] * len(tiers), strict=True):
        if named:
            console.print(ready.tier.name, markup=False)
        console.print(_table(ready, labelled, entropy, gop))
        if own is not None:
            for table in _more_tables(own):
                console.print(table)
    if out is not None:
        common.write_output(text.getvalue().encode("utf-8"), out)


def _table(ready: Prepared, labelled: Sequence[LabelledSegment], entropy: bool, gop: bool) -> Table:
    """One row per segment: its label and posterior, those of the given label if there is one, and the runners-up.

    A column says under which name a given label is compared where that differs. A skipped segment has only its times and
    its given label.
    """
    from phonechain.app.labelling.pipeline import insert_skipped

    given = any(segment.given is not None for segment in labelled)
    more = max((len(segment.n_best) for segment in labelled), default=1) > 1
    columns: list[str | tuple[str, str]] = [("start", "right"), ("end", "right"), "label", ("posterior", "right")]
    if entropy:
        columns.append(("entropy", "right"))
    renamed = any(segment.compared_as is not None for segment in labelled)
    if given:
        columns += ["given", *(["compared as"] if renamed else []), ("its posterior", "right"), ("rank", "right")]
        if gop:
            columns += [("log posterior", "right"), ("log ratio", "right"), ("GOP", "right")]
    if more:
        columns.append("runners-up")
    table = common.table(*columns)
    for segment in insert_skipped(ready, labelled):
        certainty = "" if segment.posterior is None else f"{segment.posterior:.3f}"
        row = [f"{segment.start:.3f}", f"{segment.end:.3f}", segment.label or "", certainty]
        if entropy:
            row.append("" if segment.entropy is None else f"{segment.entropy:.3f}")
        if given:
            row += [
                segment.given or "",
                *([segment.compared_as or ""] if renamed else []),
                f"{segment.given_posterior:.3f}" if segment.given_posterior is not None else "",
                str(segment.given_rank) if segment.given_rank is not None else "",
            ]
            if gop:
                scores = segment.pronunciation
                row += ["", "", ""] if scores is None else [f"{value:.3f}" for value in scores.to_json().values()]
        if more:
            row.append("  ".join(f"{name} {posterior:.3f}" for name, posterior in segment.n_best[1:]))
        table.add_row(*row)
    return table


def _more_tables(more: dict[str, Any]) -> Iterator[Table]:
    """The most probable sequences of each chain, and the words."""
    for chain in more.get("sequences", ()):
        entropy = "" if chain["entropy"] is None else f", entropy {chain['entropy']:.2f} nats"
        title = (
            f"Segments {chain['first'] + 1} to {chain['last'] + 1} as a sequence: probability of the answer "
            f"{chain['probability']:.3g} (log {chain['log_probability']:.2f}){entropy}"
        )
        table = common.table(("probability", "right"), ("log", "right"), "sequence", title=title)
        for one in chain["n_best"]:
            table.add_row(f"{one['probability']:.3g}", f"{one['log_probability']:.2f}", " ".join(one["labels"]))
        yield table
    if "words" in more:
        table = common.table(("start", "right"), ("end", "right"), "word", ("all labels right", "right"))
        for word in more["words"]:
            table.add_row(f"{word['start']:.3f}", f"{word['end']:.3f}", word["label"], f"{word['confidence']:.3f}")
        yield table
