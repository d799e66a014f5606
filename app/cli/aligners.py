"""What `align` and `recognize` share: models and dictionary, for one process or for several, and answers as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from phonechain.app.cli import common
from phonechain.features.corpora.base import NoticeCount
from phonechain.features.errors import Notice, SettingsError

if TYPE_CHECKING:
    from phonechain.app.alignment.labels import Labels
    from phonechain.app.alignment.pipeline import AlignedRecording
    from phonechain.app.alignment.transcripts import Pronouncer
    from phonechain.features.audio.reader import Audio
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.segmental.aligner import PhoneAligner
    from phonechain.model.segmental.answers import Recognition

MANY = 6
"""Recordings from which on further processes save more time than they take to start."""

EVERY = 10.0
"""Seconds between two lines of progress, where standard error is not a terminal."""

T = TypeVar("T")


def load_aligner(model: str, device: str = "cpu") -> PhoneAligner:
    """The aligner of a model file, or the shipped one, on a device. Raises ModelFileError, SettingsError."""
    from phonechain.model import ALIGNMENT
    from phonechain.model.segmental.aligner import PhoneAligner

    return PhoneAligner.load(common.model_path(ALIGNMENT if model == common.DEFAULT else model), device=device)


@lru_cache(maxsize=1)
def load_lone_aligner(model: str, device: str = "cpu") -> PhoneAligner:
    """The aligner of a process that is one of several, with one thread; one that is forked finds what was loaded before."""
    from phonechain.app.labelling.batcher import set_threads

    set_threads(1)  # each process has a core, and torch's threads do not survive a fork
    return load_aligner(model, device)


@lru_cache(maxsize=1)
def load_lone_labeler(model: str, device: str = "cpu") -> PhoneLabeler:
    """The labeler of such a process."""
    return common.load_model(model, device)


def forget_models() -> None:
    """Load them again: their files may have changed since this process read them."""
    load_lone_aligner.cache_clear()
    load_lone_labeler.cache_clear()


@dataclass(slots=True)
class Outcome:
    """What came of one recording of a folder.

    Attributes:
        failure: why it could not be used.
        lines: what to print about it at once.
        notices: what to print at the end, once for all recordings with the same one.
        rows: of a table of the whole folder.
    """

    audio: Path
    failure: str | None = None
    phones: int = 0
    lines: Sequence[str] = ()
    notices: Sequence[Notice] = ()
    rows: Sequence[Any] = ()


@dataclass(slots=True)
class Totals:
    """What came of all recordings of a folder."""

    done: int = 0
    failed: int = 0
    phones: int = 0
    notices: NoticeCount = field(default_factory=NoticeCount)
    rows: list[Any] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count a recording that could be used."""
        self.done += 1
        self.phones += outcome.phones
        self.notices.add(outcome.audio, outcome.notices)
        self.rows += outcome.rows

    def finish(self, said: str) -> None:
        """Print what was done. Exits with 1 if files could not be used, 2 if nothing could be done."""
        wrong = f"; {common.count_noun(self.failed, 'file')} could not be used" if self.failed else ""
        print(f"{said}{wrong}", file=sys.stderr)
        if self.failed or not self.done:
            raise typer.Exit(1 if self.done else 2)


def run_folder(
    name: str, work: Callable[[T], Outcome], recordings: Sequence[T], workers: int, lines: Iterable[str] = ()
) -> Totals:
    """`work` on every recording, by so many processes, with progress under a name; `lines` are printed first."""
    totals, count = Totals(), len(recordings)
    with common.bars(every=EVERY) as bars, common.map_in_processes(work, recordings, workers) as outcomes:
        for line in lines:
            bars.line(line)
        for n, outcome in enumerate(outcomes):
            bars.update(name, n, count)
            for line in outcome.lines:
                bars.line(line)
            if outcome.failure is None:
                totals.add(outcome)
            else:
                totals.failed += 1
                bars.line(f"failed {outcome.failure}")
        bars.update(name, count, count)
    common.warn(totals.notices.notices())
    return totals


def choose_folder_format(format: str | None) -> tuple[str, str]:
    """The format of a folder's answers, and the suffix of their files. Raises SettingsError."""
    from phonechain.features.annotation import FORMATS

    form = format or "textgrid"
    if form == "json":
        return form, ".json"
    if form not in FORMATS:
        raise SettingsError(f"--format: expected json or one of {', '.join(FORMATS)} for a folder, got {format!r}")
    return form, FORMATS[form].suffixes[0].replace(".textgrid", ".TextGrid")


def render_answer(
    done: AlignedRecording | Recognition,
    form: str,
    aligner: PhoneAligner,
    model: str,
    sound: Audio,
    audio: Path,
    labels: Labels | None,
) -> bytes:
    """The answer as JSON or as an annotation. Raises AnnotationError."""
    from phonechain.app.alignment import documents, pipeline

    if form == "json":
        document = documents.to_json(Path(model).stem, aligner, done, labels)
        return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    rate = sound.source_rate or sound.rate
    return pipeline.render(done, form, duration=sound.duration, rate=rate, recording=audio.name, labels=labels)


def count_workers(recordings: int, aligner: PhoneAligner | None = None) -> int:
    """A process for each core where there are many recordings; one for an aligner on a GPU, which none could share by forking."""
    from phonechain.app.settings import cores

    if aligner is not None and aligner.device_.type != "cpu":
        return 1
    return min(cores(), recordings) if recordings >= MANY else 1


def load_pronouncer(dictionary: Path | None, language: str, phones: bool, oov: str | None = None) -> Pronouncer:
    """How transcripts become words, by the options. Raises SettingsError, AnnotationSyntaxError."""
    from phonechain.app.alignment.transcripts import pronouncer_of
    from phonechain.features.words import espeak

    if oov not in (None, "guess", "refuse"):
        raise SettingsError(f"--oov: expected guess or refuse, got {oov!r}", value=oov)
    if language.split("-")[0].casefold() != "en" and dictionary is None and not phones:
        raise SettingsError(
            f"--language {language}: expected --dictionary or --phones with it, for only English has one"
        )
    own = None if dictionary is None else espeak.read(dictionary)
    return pronouncer_of(own, language=language, phones=phones, oov=oov)  # type: ignore[arg-type]
