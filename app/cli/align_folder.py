"""`phonechain align FOLDER`: every recording of a folder aligned to the transcript beside it, however many of them cannot be."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from phonechain.app.alignment.tables import COLUMNS, phone_to_row
from phonechain.app.cli import common
from phonechain.app.cli.aligners import (
    choose_folder_format,
    count_workers,
    forget_models,
    load_lone_aligner,
    load_lone_labeler,
    load_pronouncer,
    render_answer,
)
from phonechain.app.cli.outcomes import Outcome, run_folder
from phonechain.features.corpora import transcripts
from phonechain.features.corpora.pairing import read_bytes
from phonechain.features.errors import AudioError, PhonechainError

if TYPE_CHECKING:
    from phonechain.app.alignment.labels import Labels
    from phonechain.app.alignment.pipeline import AlignedRecording
    from phonechain.app.alignment.transcripts import Pronouncer
    from phonechain.features.audio.reader import Audio
    from phonechain.features.corpora.transcripts import TranscribedRecording
    from phonechain.model.segmental.aligner import PhoneAligner


@dataclass(frozen=True, slots=True)
class Row:
    """A phone with the certainty of its start, and what a table says of it (see alignment.tables)."""

    certainty: float
    file: str
    place: int
    columns: Mapping[str, Any]


def list_rows(file: str, aligner: PhoneAligner, answer: AlignedRecording, labels: Labels | None) -> list[Row]:
    """The rows of a recording; its own start is certain."""
    from phonechain.app.alignment import documents

    document = documents.to_json("", aligner, answer, labels)
    rows = []
    for n, phone in enumerate(answer.alignment.phones):
        certainty = phone.within if n else 1.0
        columns = {**phone_to_row(document, n), "within_20_ms": float(f"{certainty:.6g}")}
        rows.append(Row(certainty, file, n, columns))
    return rows


@dataclass
class Ranking:
    """Every phone with the certainty of its start."""

    rows: list[Row] = field(default_factory=list)

    def finish(self, doubtful: int, table: Path | None) -> None:
        """Print the first `doubtful`, and write them all."""
        self.rows.sort(key=lambda row: (row.certainty, row.file, row.place))
        if doubtful:
            shown = common.table(
                "file", ("start", "right"), "label", "word", ("within 20 ms", "right"), ("90 % interval", "right"),
                title="Least certain boundaries",
            )  # fmt: skip
            for row in self.rows[:doubtful]:
                phone = row.columns
                interval = f"{phone['start_low']:.3f} to {phone['start_high']:.3f}"
                shown.add_row(
                    row.file, f"{phone['start']:.3f}", phone["label"], phone["word"], f"{row.certainty:.2f}", interval
                )
            common.console().print(shown)
        if table is not None:
            common.write_output(self._csv(), table)
            print(f"wrote {table} ({len(self.rows)} phones, the least certain first)", file=sys.stderr)

    def _csv(self) -> bytes:
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("file", "segment", *COLUMNS))
        for row in self.rows:
            writer.writerow((row.file, row.place, *(row.columns[name] for name in COLUMNS)))
        return out.getvalue().encode()


@dataclass(frozen=True, slots=True)
class Speech:
    """How transcripts become words: the options of the command."""

    dictionary: Path | None
    language: str
    phones: bool
    oov: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every recording: the arguments of `align_folder`, checked."""

    root: Path
    out: Path | None
    model: str
    speech: Speech
    form: str
    suffix: str
    options: dict[str, Any]
    channel: int | Literal["mix"]
    ranked: bool
    label_with: str | None
    device: str


def align_folder(
    root: Path,
    out: Path | None,
    model: str,
    speech: Speech,
    format: str | None,
    options: dict[str, Any],
    channel: int | Literal["mix"],
    doubtful: int,
    table: Path | None,
    label_with: str | None,
    device: str = "cpu",
) -> None:
    """Align every recording below `root` that has a transcript beside it, into the same tree below `out`.

    Exits with 1 if files could not be used, 2 if nothing could be done.
    """
    form, suffix = choose_folder_format(format)
    common.check_folder_output(root, out, doubtful, table, "answers inside would be taken for transcripts")
    forget_models()
    _load.cache_clear()
    aligner, _ = _load(model, speech, device)
    found = transcripts.read(root, prefer="annotation" if options.get("refine") else "text")
    ranked = bool(doubtful) or table is not None
    task = Task(root, out, model, speech, form, suffix, options, channel, ranked, label_with, device)
    if label_with is not None:
        load_lone_labeler(label_with, device)
    left_out = [f"left out {problem}" for problem in found.problems]
    workers = count_workers(len(found.recordings), aligner)
    totals = run_folder("align", partial(_align_one, task), found.recordings, workers, left_out)
    Ranking(totals.rows).finish(doubtful, table)
    where = f" to {out}" if out is not None else ""
    totals.finish(f"aligned {totals.phones} phones of {common.count_noun(totals.done, 'recording')}{where}")


@lru_cache(maxsize=1)
def _load(model: str, speech: Speech, device: str) -> tuple[PhoneAligner, Pronouncer]:
    """Once for each process; one that is forked finds what was loaded before."""
    pronouncer = load_pronouncer(speech.dictionary, speech.language, speech.phones, speech.oov)
    return load_lone_aligner(model, device), pronouncer


def _align_one(task: Task, one: TranscribedRecording) -> Outcome:
    """Read, align and write a recording; whatever is wrong with it, the others go on."""
    from phonechain.app.alignment import pipeline

    aligner, pronouncer = _load(task.model, task.speech, task.device)
    assert one.transcript is not None
    try:
        source = pipeline.read_source(read_bytes(one.transcript), one.transcript.name, audio=one.audio.stem)
        sound = pipeline.read_audio(one.audio, aligner, task.channel)
        answer = pipeline.align(aligner, sound, source, pronouncer, **task.options)
        labels = _label(task, sound, answer)
        if task.out is not None:
            target = task.out / one.audio.relative_to(task.root).with_suffix(task.suffix)
            target.parent.mkdir(parents=True, exist_ok=True)
            data = render_answer(answer, task.form, aligner, task.model, sound, one.audio, labels)
            common.write_output(data, target, durable=False)
    except (PhonechainError, OSError) as error:
        file = one.audio if isinstance(error, AudioError) else one.transcript
        return Outcome(one.audio, common.file_line(file, error))
    except Exception as error:
        return Outcome(one.audio, common.unexpected_line(one.audio, error))
    name = one.audio.relative_to(task.root).as_posix()
    rows = list_rows(name, aligner, answer, labels) if task.ranked else ()
    improbable = [notice for notice in answer.notices if notice.code == "transcript-improbable"]
    return Outcome(
        one.audio,
        phones=len(answer.alignment.phones),
        lines=[f"warning {one.transcript}: {notice.message}" for notice in improbable],
        notices=[notice for notice in answer.notices if notice not in improbable],
        rows=rows,
    )


def _label(task: Task, sound: Audio, answer: AlignedRecording) -> Labels | None:
    """The labels by another model, where they are asked for. Raises PhonechainError."""
    from phonechain.app.alignment.labels import label

    name = task.label_with
    return None if name is None else label(load_lone_labeler(name, task.device), name, sound, answer.alignment)
