"""`phonechain label`: recordings and their segmentations in, labels and posteriors out.

One recording is labelled here, a folder of them in `label_folder`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.app.cli import common
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.model.answers import LabelledSegment
    from phonechain.model.labeler import PhoneLabeler


def label(
    audio: Annotated[
        Path, typer.Argument(help="The recording, or a folder of recordings with annotations.", metavar="AUDIO")
    ],
    segments: Annotated[
        Path | None,
        typer.Argument(help="Its segmentation, in any format that is read; none for a folder.", metavar="[SEGMENTS]"),
    ] = None,
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
    on_bad_segment: Annotated[
        str, typer.Option(help="refuse: a segment that does not fit refuses its file; skip: it alone gets no label.")
    ] = "refuse",
    gaps: Annotated[
        str,
        typer.Option(help="across: the chain runs on where segments do not touch; break: not over a gap of --max-gap."),
    ] = "across",
    max_gap: Annotated[float, typer.Option(help="Seconds; a longer gap breaks the chain with --gaps break.")] = 0.2,
    map_: Annotated[
        Path | None,
        typer.Option("--map", help="File of given labels and labels of the model, JSON or two columns; - is none."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="table, json, or an annotation format; by default what --out's name says, in a folder the input's.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write instead of standard output; the folder to write a folder to."),
    ] = None,
    doubtful: Annotated[
        int,
        typer.Option(
            help="Print the N least certain given labels, and the N least certain answers where the model knows none.",
            metavar="N",
            min=0,
        ),
    ] = 0,
    table: Annotated[
        Path | None, typer.Option("--table", help="CSV file to write: a row a segment, the least certain first.")
    ] = None,
) -> None:
    """Label the segments of one recording, or of every recording below a folder.

    A segment's certainty is the posterior of its given label where the model knows that label, else of its answer; the
    two are ranked apart.
    """
    options = checked_options(
        channel=channel,
        n_best=n_best,
        decode=decode,
        fix=fix,
        tier=tier,
        on_bad_segment=on_bad_segment,
        gaps=gaps,
        max_gap=max_gap,
    )
    options["mapping"] = common.read_map(map_)
    common.check_output(table)
    if audio.is_dir():
        from phonechain.app.cli.label_folder import label_folder

        if segments is not None:
            raise SettingsError(
                f"expected no SEGMENTS with {audio}, which is a folder: they lie inside, got {segments}"
            )
        label_folder(audio, out, model, format, options, doubtful, table)
        return
    common.existing_file(audio, "a sound file")
    if segments is None:
        raise SettingsError(f"expected SEGMENTS, the segmentation of {audio}, got none")
    common.existing_file(segments, "an annotation file")
    wanted = _wanted_format(format, out)
    common.check_output(out)
    labeler = common.load_model(model)
    ready, labelled = label_files(labeler, audio, segments, **options)
    common.warn(ready.notices)
    if wanted == "table":
        print_table(ready, labelled, out)
    else:
        common.write_output(written(labeler, model, ready, labelled, wanted), out)
    if doubtful or table is not None:
        from phonechain.app.cli.label_folder import Rows

        rows = Rows()
        rows.add(str(segments), ready, labelled)
        rows.finish(doubtful, table)


def written(
    labeler: PhoneLabeler, model: str, ready: Prepared, labelled: Sequence[LabelledSegment], wanted: str
) -> bytes:
    """The answer as `POST /classify` gives it (`json`), or as an annotation file. Raises AnnotationError."""
    if wanted == "json":
        answer = as_answer(labeler, model, ready, labelled)
        return json.dumps(answer, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"
    from phonechain.app.labelling import pipeline as labelling

    return labelling.render_annotation(ready, labelled, wanted)


def checked_options(**options: Any) -> dict[str, Any]:
    """The options after the same schema that `POST /classify` checks them by.

    Raises:
        SettingsError: one line for the first that is wrong.
    """
    from pydantic import ValidationError

    from phonechain.app.problems.wording import expected
    from phonechain.app.schemas.classify import ClassifyOptions

    try:
        known = ClassifyOptions(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SettingsError(f"--{str(first['loc'][0]).replace('_', '-')}: {expected(first)}") from None
    made = known.model_dump(include=set(options))
    if "max_gap" in made:
        made["gaps"] = known.gap_rule
        del made["max_gap"]
    return made


def _wanted_format(format: str | None, out: Path | None) -> str:
    from phonechain.features.annotation import FORMATS

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
    labeler: PhoneLabeler, audio: Path, segments: Path, *, n_best: int, decode: Any, mapping: Any = None, **options: Any
) -> tuple[Prepared, list[LabelledSegment]]:
    """Read two files and label the segments. Raises PhonechainError, OSError."""
    from phonechain.app.labelling import pipeline as labelling
    from phonechain.features import annotation as notation

    segmentation = notation.read(segments.read_bytes(), name=segments.name)
    known = labeler.label_set_.mapped(mapping)
    ready = labelling.prepare_utterance(audio, segmentation, labeler.features_, known=known, **options)
    [labelled] = labelling.label_sequences(
        labeler,
        [(ready.features, ready.segments, ready.starts)],
        n_best=n_best,
        decode=decode,
        comparisons=[ready.comparison],
    )
    return ready, labelled


def as_answer(labeler: PhoneLabeler, name: str, ready: Prepared, labelled: Sequence[LabelledSegment]) -> dict[str, Any]:
    """The same JSON as `POST /classify` answers, without the timing."""
    from phonechain.app.labelling.pipeline import with_skipped
    from phonechain.app.schemas.classify import answer

    return answer(
        name=Path(name).stem,
        version=str(labeler.card_.get("version", "")),
        duration=ready.duration,
        tier=ready.tier.name,
        labelled=with_skipped(ready, labelled),
        notices=ready.notices,
        gaps=ready.gaps,
        sequences=len(ready.starts) + 1,
        comparison=ready.comparison,
    )


def print_table(ready: Prepared, labelled: Sequence[LabelledSegment], out: Path | None = None) -> None:
    """A row a segment, with the given label, its posterior and its rank where there were labels, and the runners-up.

    Where a given label is compared under another name, a column says which. A segment that was set aside has its times
    and its given label only.
    """
    from phonechain.app.labelling.pipeline import with_skipped

    given = any(segment.given is not None for segment in labelled)
    more = max((len(segment.n_best) for segment in labelled), default=1) > 1
    columns: list[str | tuple[str, str]] = [("start", "right"), ("end", "right"), "label", ("posterior", "right")]
    renamed = any(segment.compared_as is not None for segment in labelled)
    if given:
        columns += ["given", *(["compared as"] if renamed else []), ("its posterior", "right"), ("rank", "right")]
    if more:
        columns.append("next")
    table = common.table(*columns)
    for segment in with_skipped(ready, labelled):
        certainty = "" if segment.posterior is None else f"{segment.posterior:.3f}"
        row = [f"{segment.start:.3f}", f"{segment.end:.3f}", segment.label or "", certainty]
        if given:
            row += [
                segment.given or "",
                *([segment.compared_as or ""] if renamed else []),
                f"{segment.given_posterior:.3f}" if segment.given_posterior is not None else "",
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
