"""What `align` and `recognize` share: models and dictionary, for one process or for several, and answers as files."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from phonechain.app.cli import common
from phonechain.features.errors import SettingsError

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
