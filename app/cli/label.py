"""`phonechain label`: one recording and its segmentation in, labels and posteriors out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import common
from features.errors import SettingsError

if TYPE_CHECKING:
    from app.labelling import Prepared
    from model.labeler import LabelledSegment, PhoneLabeler


def label(
    audio: Annotated[Path, typer.Argument(help="The recording.", metavar="AUDIO")],
    segments: Annotated[Path, typer.Argument(help="Its segmentation, in any format that is read.", metavar="SEGMENTS")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="A model file, or default for the shipped one.")
    ] = "default",
    tier: Annotated[str | None, typer.Option(help="The tier that holds the segments.")] = None,
    channel: Annotated[str, typer.Option(help="Channel of the sound: an index from 0, or mix.")] = "mix",
    n_best: Annotated[
        int, typer.Option("--n-best", "-n", help="Labels to list for each segment.", min=1, max=1000)
    ] = 1,
    decode: Annotated[
        str, typer.Option(help="posterior: the likeliest label of each segment; viterbi: the likeliest sequence.")
    ] = "posterior",
    fix: Annotated[bool, typer.Option("--fix", help="Sort segments and remove overlaps of up to 10 ms.")] = False,
    format: Annotated[
        str | None,
        typer.Option("--format", "-f", help="table, json, or an annotation format; by default what --out's name says."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write instead of standard output.")] = None,
) -> None:
    """Label the segments of one recording."""
    common.existing_file(audio, "a sound file")
    common.existing_file(segments, "an annotation file")
    options = checked_options(channel=channel, n_best=n_best, decode=decode, fix=fix, tier=tier)
    wanted = _wanted_format(format, out)
    common.check_output(out)
    labeler = common.load_model(model)
    ready, labelled = label_files(labeler, audio, segments, **options)
    common.warn(ready.notices)
    if wanted == "table":
        print_table(ready, labelled, out)
        return
    if wanted == "json":
        data = (
            json.dumps(as_answer(labeler, model, ready, labelled), ensure_ascii=False, indent=2).encode("utf-8") + b"\n"
        )
    else:
        from app import labelling

        data = labelling.annotated(ready, labelled, wanted)
    common.write_output(data, out)


def checked_options(**options: Any) -> dict[str, Any]:
    """The options after the same schema that `POST /classify` checks them by.

    Raises:
        SettingsError: one line for the first that is wrong.
    """
    from pydantic import ValidationError

    from app.schemas.classify import ClassifyOptions
    from app.wording import expected

    try:
        known = ClassifyOptions(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SettingsError(f"--{str(first['loc'][0]).replace('_', '-')}: {expected(first)}") from None
    return known.model_dump(include=set(options))


def _wanted_format(format: str | None, out: Path | None) -> str:
    from features.annotation import FORMATS

    if format is not None:
        known = ["table", "json", *(name for name in FORMATS if name != "json")]
        if format not in known:
            raise SettingsError(f"--format: expected one of {', '.join(known)}, got {format!r}")
        return format
    if out is None:
        return "table"
    if out.suffix.lower() == ".json":
        return "json"
    for name, known_format in FORMATS.items():
        if out.suffix.lower() in known_format.suffixes:
            return name
    return "table"


def label_files(
    labeler: PhoneLabeler, audio: Path, segments: Path, *, n_best: int, decode: Any, **options: Any
) -> tuple[Prepared, list[LabelledSegment]]:
    """Read two files and label the segments. Raises PhonechainError, OSError."""
    from app import labelling
    from features import annotation as notation

    segmentation = notation.read(segments.read_bytes(), name=segments.name)
    ready = labelling.prepared(audio, segmentation, labeler.features_, **options)
    [labelled] = labeler.label_features([ready.features], segments=[ready.segments], n_best=n_best, decode=decode)
    return ready, labelled


def as_answer(labeler: PhoneLabeler, name: str, ready: Prepared, labelled: Sequence[LabelledSegment]) -> dict[str, Any]:
    """The same JSON as `POST /classify` answers, without the timing."""
    from app.schemas.classify import answer

    return answer(
        name=Path(name).stem,
        version=str(labeler.card_.get("version", "")),
        duration=ready.duration,
        tier=ready.tier.name,
        labelled=labelled,
        notices=ready.notices,
    )


def print_table(ready: Prepared, labelled: Sequence[LabelledSegment], out: Path | None = None) -> None:
    """A row a segment, with the given label, its posterior and its rank where there were labels, and the runners-up."""
    given = any(segment.given is not None for segment in labelled)
    more = max((len(segment.n_best) for segment in labelled), default=1) > 1
    columns: list[str | tuple[str, str]] = [("start", "right"), ("end", "right"), "label", ("posterior", "right")]
    if given:
        columns += ["given", ("its posterior", "right"), ("rank", "right")]
    if more:
        columns.append("next")
    table = common.table(*columns)
    for segment in labelled:
        row = [f"{segment.start:.3f}", f"{segment.end:.3f}", segment.label or "", f"{segment.posterior:.3f}"]
        if given:
            known = segment.given_posterior is not None
            row += [
                segment.given or "",
                f"{segment.given_posterior:.3f}" if known else "",
                str(segment.given_rank) if segment.given_rank is not None else "",
            ]
        if more:
            row.append("  ".join(f"{name} {posterior:.3f}" for name, posterior in segment.n_best[1:]))
        table.add_row(*row)
    if out is None:
        common.console().print(table)
        return
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    Console(file=text, width=200).print(table)
    common.write_output(text.getvalue().encode("utf-8"), out)
