"""`phonechain recognize FOLDER`: the phones of every recording of a folder, however many of them cannot be used."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import typer

from phonechain.app.cli import common
from phonechain.app.cli.align_folder import EVERY
from phonechain.app.cli.aligners import (
    choose_folder_format,
    count_workers,
    forget_models,
    load_lone_aligner,
    load_lone_labeler,
    render_answer,
)
from phonechain.features.corpora import transcripts
from phonechain.features.corpora.base import NoticeCount
from phonechain.features.errors import Notice, PhonechainError, SettingsError


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every recording: the arguments of `recognize_folder`, checked."""

    model: str
    form: str
    channel: int | Literal["mix"]
    label_with: str | None
    device: str


@dataclass(slots=True)
class Outcome:
    """What came of a recording: why it failed, or the number of its phones and what is to be said of it."""

    audio: Path
    failure: str | None = None
    phones: int = 0
    notices: Sequence[Notice] = ()


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
    notices, failed, done, phones = NoticeCount(), 0, 0, 0
    count = len(recordings)
    with (
        common.bars(every=EVERY) as bars,
        common.map_in_processes(partial(_recognize_one, task), recordings, count_workers(count, aligner)) as outcomes,
    ):
        for n, outcome in enumerate(outcomes):
            bars.update("recognize", n, count)
            if outcome.failure is not None:
                failed += 1
                bars.line(f"failed {outcome.failure}")
                continue
            notices.add(outcome.audio, list(outcome.notices))
            done += 1
            phones += outcome.phones
        bars.update("recognize", count, count)
    common.warn(notices.notices())
    wrong = f"; {common.count_noun(failed, 'file')} could not be used" if failed else ""
    print(f"found {phones} phones in {common.count_noun(done, 'recording')}, to {out}{wrong}", file=sys.stderr)
    if failed or not done:
        raise typer.Exit(1 if done else 2)


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
    return Outcome(audio, None, len(found.phones), found.notices)
