"""`phonechain align`: recordings and their transcripts in, words and phones with the certainty of every boundary out.

One recording is aligned here, a folder of them in `align_folder`. `phonechain recognize` of one recording is here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.app.cli import common, options
from phonechain.app.cli.aligners import load_aligner, load_pronouncer, render_answer
from phonechain.features.errors import AudioError, SettingsError

if TYPE_CHECKING:
    from phonechain.app.alignment.labels import Labels
    from phonechain.app.alignment.pipeline import AlignedRecording
    from phonechain.features.audio.reader import Audio
    from phonechain.model.segmental.aligner import PhoneAligner
    from phonechain.model.segmental.answers import AlignedPhone, Recognition
    from phonechain.model.segmental.progress import Progress

ModelOption = Annotated[str, typer.Option("--model", "-m", help="Alignment model file, or default for English.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", "-f", help="table, json, or an annotation format. Default: from the name of --out."),
]
LabelWith = Annotated[
    str | None,
    typer.Option(
        help="Labelling model, such as default, that labels the segments found and gives the probability of their labels.",
        metavar="MODEL",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="File to write instead of standard output; a folder if AUDIO is one."),
]


def align(
    audio: Annotated[
        Path, typer.Argument(help="A recording, or a folder of recordings with transcripts.", metavar="AUDIO")
    ],
    transcript: Annotated[
        Path | None,
        typer.Argument(help="A text file, or an annotation of words or phones.", metavar="[TRANSCRIPT]"),
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="The transcript as text.")] = None,
    model: ModelOption = "default",
    refine: Annotated[
        bool, typer.Option("--refine", help="Refine the boundaries of an annotation instead of finding new ones.")
    ] = False,
    spread: options.Spread = 0.03,
    dictionary: options.Pronunciations = None,
    phones: Annotated[
        bool, typer.Option("--phones", help="The transcript consists of phones separated by spaces.")
    ] = False,
    language: options.Language = "en",
    oov: Annotated[
        str | None,
        typer.Option(
            help="For words missing from the dictionary: guess their pronunciation (default for English without "
            "--dictionary), or refuse the transcript and list them.",
            metavar="guess|refuse",
        ),
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Tier with the words or phones.")] = None,
    channel: options.Channel = "mix",
    device: options.Device = "auto",
    format: FormatOption = None,
    out: OutOption = None,
    label_with: LabelWith = None,
    doubtful: Annotated[int, typer.Option(help="Print the N least certain boundaries.", metavar="N", min=0)] = 0,
    table: Annotated[
        Path | None, typer.Option("--table", help="Write every phone to this CSV file, least certain first.")
    ] = None,
) -> None:
    """Align a transcript with its recording.

    Finds the start and end of every word and phone. The certainty of a phone is the probability that its true start is
    within 20 ms of the one found.
    """
    common.check_output(table)
    chosen = parse_channel(channel)
    if audio.is_dir():
        from phonechain.app.cli.align_folder import Speech, align_folder

        if transcript is not None or text is not None:
            raise SettingsError(
                f"expected no transcript with {audio}: in a folder, each is read from beside its recording"
            )
        how = {"tier": tier, "refine": refine, "spread": spread}
        speech = Speech(dictionary, language, phones, oov)
        align_folder(audio, out, model, speech, format, how, chosen, doubtful, table, label_with, device)
        return
    aligner, speaker = load_aligner(model, device), load_pronouncer(dictionary, language, phones, oov)
    common.check_file(audio, "a sound file")
    if (transcript is None) == (text is None):
        got = "neither" if text is None else "both"
        raise SettingsError(f"expected a TRANSCRIPT file or --text for {audio}, got {got}")
    wanted = common.choose_format(format, out)
    common.check_output(out)
    from phonechain.app.alignment import pipeline
    from phonechain.app.alignment.labels import label

    with common.name_file(audio, AudioError):
        sound = pipeline.read_audio(audio, aligner, chosen)
    source: Any = text
    if transcript is not None:
        common.check_file(transcript, "a transcript or an annotation file")
        source = pipeline.read_source(transcript.read_bytes(), transcript.name, utterance=audio.stem)
    with show_progress(sound) as progress:
        done = pipeline.align(
            aligner, sound, source, speaker, tier=tier, refine=refine, spread=spread, progress=progress
        )
    common.warn(done.notices)
    labels = (
        None if label_with is None else label(common.load_model(label_with, device), label_with, sound, done.alignment)
    )
    print_answer(done, wanted, out, aligner, model, sound, audio, labels)
    if doubtful or table is not None:
        from phonechain.app.cli.align_folder import Ranking, list_rows

        Ranking(list_rows(str(audio), aligner, done, labels)).finish(doubtful, table)


def recognize(
    audio: Annotated[Path, typer.Argument(help="A recording, or a folder of recordings.", metavar="AUDIO")],
    model: ModelOption = "default",
    channel: options.Channel = "mix",
    label_with: LabelWith = None,
    device: options.Device = "auto",
    format: FormatOption = None,
    out: OutOption = None,
) -> None:
    """Find phones without a transcript (experimental).

    On learners' speech about half of the phones are wrong; `phonechain models english-alignment` prints the model's card.
    """
    chosen = parse_channel(channel)
    if audio.is_dir():
        from phonechain.app.cli.recognize_folder import recognize_folder

        recognize_folder(audio, out, model, format, chosen, label_with, device)
        return
    wanted = common.choose_format(format, out)
    common.check_output(out)
    common.check_file(audio, "a sound file")
    aligner = load_aligner(model, device)
    from phonechain.app.alignment import pipeline
    from phonechain.app.alignment.labels import label

    with common.name_file(audio, AudioError):
        sound = pipeline.read_audio(audio, aligner, chosen)
    with show_progress(sound) as progress:
        done = pipeline.recognize(aligner, sound, progress=progress)
    common.warn(done.notices)
    labels = None if label_with is None else label(common.load_model(label_with, device), label_with, sound, done)
    print_answer(done, wanted, out, aligner, model, sound, audio, labels)


@contextmanager
def show_progress(sound: Audio) -> Iterator[Progress]:
    """How far the work on a long recording is: a bar, or off a terminal a line every ten seconds."""
    minutes = max(1, round(sound.duration / 60))
    with common.bars(every=10.0) as bars:
        yield lambda share: bars.update("minutes of sound", int(minutes * share), minutes)


def parse_channel(channel: str) -> Any:
    """An index, or "mix". Raises SettingsError."""
    if channel == "mix" or (channel.isascii() and channel.isdecimal() and len(channel) < 6):
        return channel if channel == "mix" else int(channel)
    raise SettingsError(f"--channel: expected an index from 0, or mix, got {channel!r}", value=channel)


def print_answer(
    done: AlignedRecording | Recognition,
    wanted: str,
    out: Path | None,
    aligner: PhoneAligner,
    model: str,
    sound: Audio,
    audio: Path,
    labels: Labels | None,
) -> None:
    """Write the answer in the format that is wanted. Raises AnnotationError, OSError."""
    if wanted == "table":
        data = _table(done, labels).encode("utf-8")
    else:
        data = render_answer(done, wanted, aligner, model, sound, audio, labels)
    common.write_output(data, out)


def _table(done: AlignedRecording | Recognition, labels: Labels | None) -> str:
    from io import StringIO

    from rich.console import Console

    from phonechain.app.alignment.pipeline import AlignedRecording, describe_fit

    answer = done.alignment if isinstance(done, AlignedRecording) else done
    words = done.alignment.words if isinstance(done, AlignedRecording) else ()
    moved = any(p.given_start is not None for p in answer.phones)
    columns: list[str | tuple[str, str]] = [
        ("start", "right"),
        ("end", "right"),
        "label",
        ("90 % interval of the start", "right"),
    ]
    columns += [("within 20 ms", "right"), ("posterior", "right")]
    columns += ["labelled", ("its posterior", "right")] if labels is not None else []
    columns += [("moved by", "right")] if moved else []
    columns += ["word"] if words else []
    table = common.table(*columns)
    for n, p in enumerate(answer.phones):
        row = [f"{p.start:.3f}", f"{p.end:.3f}", p.label, f"{p.start_low:.3f} to {p.start_high:.3f}"]
        row += [f"{p.within:.2f}", f"{p.posterior:.2f}"]
        if labels is not None:
            row += [labels.segments[n].label, f"{labels.segments[n].posterior:.2f}"]
        row += [_format_shift(p)] if moved else []
        row += [words[p.word].written if p.word is not None else ""] if words else []
        table.add_row(*row)
    text = StringIO()
    Console(file=text, width=200).print(table)
    if isinstance(done, AlignedRecording):
        text.write(f"log posterior of the transcript: {describe_fit(done.alignment)}\n")
    return text.getvalue()


def _format_shift(p: AlignedPhone) -> str:
    return "" if p.given_start is None else f"{1000 * (p.start - p.given_start):+.0f} ms"
