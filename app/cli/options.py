"""Options that several commands share, and the check of their values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from phonechain.features.errors import SettingsError

Corpus = Annotated[Path, typer.Argument(help="Folder of recordings with annotations beside them.", metavar="CORPUS")]
Model = Annotated[str, typer.Option("--model", "-m", help="Model file, or default for the shipped model.")]
Tier = Annotated[str | None, typer.Option(help="Tier with the phones. Default: recognised by its name or content.")]
Layout = Annotated[str | None, typer.Option(help="Corpus layout, folder or timit. Default: recognised.")]
SpeakerTable = Annotated[
    Path | None, typer.Option("--table", help="Table of speakers and splits. Default: utterances.tsv in the corpus.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Label to exclude; repeatable.")]
Fix = Annotated[
    bool, typer.Option("--fix", help="Drop segments of zero length, sort the rest, and remove overlaps of up to 10 ms.")
]
Recording = Annotated[
    str | None,
    typer.Option(
        "--utterance", help="Recording to read from a file with several. Default: the one named like the sound file."
    ),
]
Shift = Annotated[
    str, typer.Option(help="Seconds to add to every time, or start to move the annotation to 0.", metavar="SECONDS")
]
Raw = Annotated[
    str | None,
    typer.Option(
        "--raw", help="Sound without a header: sample rate, encoding, channels.", metavar="RATE,FORMAT,CHANNELS"
    ),
]
Spread = Annotated[
    float, typer.Option(help="With --refine: expected error of the given boundaries, in seconds.", min=0.001)
]
Pronunciations = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        "-d",
        help="Pronunciation dictionary, in the format of MFA or Kaldi, or espeak-ng:VOICE to ask that program.",
    ),
]
Language = Annotated[str, typer.Option(help="Language for spelling out numbers.")]
Channel = Annotated[str, typer.Option(help="Channel to read: an index from 0, or mix.")]
Normalise = Annotated[
    str | None,
    typer.Option(
        help="Normalise features over the recording, over the speaker (in a folder), or by the model's training set alone, "
        "so that no answer depends on the rest of the recording. Default: the widest of these that the model was trained for.",
        metavar="recording|speaker|model",
    ),
]
Decode = Annotated[
    str,
    typer.Option(help="posterior: the most probable label of each segment; viterbi: the most probable sequence."),
]
BadSegment = Annotated[
    str, typer.Option(help="For a bad segment: refuse its whole file, or skip it, leaving it without a label.")
]
Gaps = Annotated[
    str, typer.Option(help="across: the chain continues across gaps; break: a gap longer than --max-gap ends it.")
]
MaxGap = Annotated[float, typer.Option(help="Longest gap (seconds) within a chain, with --gaps break.")]
LabelMap = Annotated[
    Path | None,
    typer.Option("--map", help="File that maps given labels to the model's: JSON, or two columns with - for no label."),
]
AllSpeakers = Annotated[bool, typer.Option("--all-speakers", help="Label every speaker's phone tier in a recording.")]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    typer.Option(
        help="Precision in which the networks multiply. With bfloat16, posteriors change by up to "
        "0.01, and every answer says so; whether it is faster depends on the machine.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        envvar="PHONECHAIN_DEVICE",
        help="Device to compute on: cpu, cuda, cuda:N, or auto (a GPU if torch can use one, otherwise the CPU).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_options(**options: Any) -> dict[str, Any]:
    """The options as typed values, checked by the schema of `POST /classify`.

    Raises:
        SettingsError: names the first option that is wrong.
    """
    from pydantic import ValidationError

    from phonechain.app.problems.wording import describe
    from phonechain.app.schemas.classify import ClassifyOptions

    try:
        known = ClassifyOptions(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SettingsError(f"--{str(first['loc'][0]).replace('_', '-')}: {describe(first)}") from None
    values = {name: getattr(known, name) for name in options}
    if "max_gap" in values:
        values["gaps"] = known.gap_rule
        del values["max_gap"]
    return values


def split_assignment(change: str) -> tuple[str, str]:
    """KEY=VALUE as (key, value). Raises SettingsError."""
    key, equals, value = change.partition("=")
    if not equals:
        raise SettingsError(f"--set: expected KEY=VALUE, got {change!r}")
    return key.strip(), value
