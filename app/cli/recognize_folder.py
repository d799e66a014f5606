"""`phonechain recognize FOLDER`: the phones of every recording of a folder, however many of them cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from phonechain.app.cli import common
from phonechain.app.cli.aligners import (
    choose_folder_format,
    count_workers,
    forget_models,
    load_lone_aligner,
    load_lone_labeler,
    render_answer,
)
from phonechain.app.cli.outcomes import Outcome, run_folder
from phonechain.features.corpora import transcripts
from phonechain.features.errors import PhonechainError, SettingsError


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every recording: the arguments of `recognize_folder`, checked."""

    model: str
    form: str
    channel: int | Literal["mix"]
    label_with: str | None
    device: str


def recognize_folder(
    root: Path,
    out: Path | None,
    model: str,
    format: str | None,
    channel: int | Literal["mix"],
    label_with: str | None,
    device: str = "cpu",
) -> None:
    """Find the phones of every recording below `root`, and write them into the same tree below `out`.

    Exits with 1 if files could not be used, 2 if nothing could be done.
    """
    form, suffix = choose_folder_format(format)
    if out is None:
        raise SettingsError("a folder needs --out DIR")
    common.check_folder_output(root, out, 0, None, "a later run would take the answers for annotations")
    forget_models()
    aligner = load_lone_aligner(model, device)
    if label_with is not None:
        load_lone_labeler(label_with, device)
    recordings = list(_choose_targets(root, out, suffix))
    task = Task(model, form, channel, label_with, device)
    workers = count_workers(len(recordings), aligner)
    totals = run_folder("recognize", partial(_recognize_one, task), recordings, workers)
    totals.finish(f"found {totals.phones} phones in {common.count_noun(totals.done, 'recording')}, to {out}")


def _choose_targets(root: Path, out: Path, suffix: str) -> Iterator[tuple[Path, Path]]:
    """Each recording with its file below `out`, whose name has the sound's suffix too where two recordings share a name."""
    found = [one.audio for one in transcripts.read_sound(root).recordings]
    shared = Counter(audio.with_suffix("") for audio in found)
    for audio in found:
        target = out / audio.relative_to(root)
        lone = shared[audio.with_suffix("")] == 1
        yield audio, target.with_suffix(suffix) if lone else target.with_name(target.name + suffix)


def _recognize_one(task: Task, files: tuple[Path, Path]) -> Outcome:
    """Read a recording, find its phones and write them; whatever is wrong with it, the others go on."""
    from phonechain.app.alignment import pipeline
    from phonechain.app.alignment.labels import label

    audio, target = files
    aligner, name = load_lone_aligner(task.model, task.device), task.label_with
    try:
        sound = pipeline.read_audio(audio, aligner, task.channel)
        found = pipeline.recognize(aligner, sound)
        labels = None if name is None else label(load_lone_labeler(name, task.device), name, sound, found)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = render_answer(found, task.form, aligner, task.model, sound, audio, labels)
        common.write_output(data, target, durable=False)
    except (PhonechainError, OSError) as error:
        return Outcome(audio, common.file_line(audio, error))
    except Exception as error:
        return Outcome(audio, common.unexpected_line(audio, error))
    return Outcome(audio, phones=len(found.phones), notices=found.notices)
