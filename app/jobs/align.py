"""A part of a job that aligns or recognises: one recording after the other, each an answer of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from phonechain.app.alignment import documents, pipeline
from phonechain.app.alignment.labels import Labels, label
from phonechain.app.alignment.transcripts import Pronouncer, pronouncer_of
from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import execution
from phonechain.app.jobs.outage import Throttle
from phonechain.app.jobs.parts import Part, file_name
from phonechain.app.storage.tables import Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features.annotation.base import name_stem
from phonechain.features.errors import PhonechainError
from phonechain.features.words import dictionary as dictionaries
from phonechain.model.segmental.answers import Recognition

if TYPE_CHECKING:
    from phonechain.app.alignment.pipeline import AlignedRecording
    from phonechain.features.audio.reader import Audio
    from phonechain.model.segmental.aligner import PhoneAligner
    from phonechain.model.segmental.progress import Progress


def run(workspace: Workspace, job: Job, lines: Sequence[Line], files: Files, still_wanted: Throttle) -> Part:
    """The alignments of the recordings of these lines, or what is heard in them. Raises Cancelled, Fenced."""
    spec = job.spec
    options = spec["options"]
    aligner = execution.load_aligner(workspace, spec["model"]["blob"])
    labelling = spec.get("labelling") or {}
    labeler = execution.load_labeler(workspace, labelling["blob"]) if labelling else None
    pronouncer = _pronouncer(workspace, spec) if job.kind == "align" else None
    part = Part()

    def go_on(share: float) -> None:
        still_wanted()

    for line in lines:
        still_wanted()
        try:
            data, longest = files.read(line.audio), options.get("max_seconds")
            sound = pipeline.read_audio(data, aligner, options["channel"], max_seconds=longest)
            done: AlignedRecording | Recognition
            if pronouncer is None:
                done = pipeline.recognize(aligner, sound, progress=go_on)
            else:
                done = _align(aligner, sound, line, files, pronouncer, options, go_on)
            answer = done if isinstance(done, Recognition) else done.alignment
            labels = None if labeler is None else label(labeler, labelling["name"], sound, answer)
            made = [
                (file_name(line, format), _render(done, format, sound, line, labels)) for format in options["formats"]
            ]
        except (PhonechainError, OSError) as error:
            part.errors.append(execution.make_file_error(job.id, line.index, line.id, error))
            continue
        part.files += made
        document = _row(line, spec, aligner, done, labels)
        part.add_row(json.dumps(document, ensure_ascii=False, allow_nan=False))
        part.segments += len(document["segments"])
    still_wanted.action()
    return part


def _align(
    aligner: PhoneAligner, sound: Audio, line: Line, files: Files, pronouncer: Pronouncer, options: dict[str, Any],
    progress: Progress,
) -> AlignedRecording:  # fmt: skip
    name = PurePosixPath(line.annotation).name
    source = pipeline.read_source(files.read(line.annotation), name, audio=name_stem(line.audio))
    return pipeline.align(
        aligner, sound, source, pronouncer, tier=options["tier"], refine=options["refine"], spread=options["spread"],
        progress=progress,
    )  # fmt: skip


def _render(
    done: AlignedRecording | Recognition, format: str, sound: Audio, line: Line, labels: Labels | None
) -> bytes:
    rate, name = sound.source_rate or sound.rate, PurePosixPath(line.audio).name
    return pipeline.render(done, format, duration=sound.duration, rate=rate, recording=name, labels=labels)


def _row(
    line: Line, spec: dict[str, Any], aligner: PhoneAligner, done: AlignedRecording | Recognition,
    labels: Labels | None,
) -> dict[str, Any]:  # fmt: skip
    """The answer as `POST /align` has it, with whose it is instead of the model's name."""
    document = documents.to_json(spec["model"]["name"], aligner, done, labels)
    del document["model"]
    whose = {"place": line.index, "utterance": line.id, "speaker": line.speaker, "split": line.split}
    return {**whose, **document}


def _pronouncer(workspace: Workspace, spec: dict[str, Any]) -> Pronouncer:
    own = spec.get("dictionary")
    options = spec["options"]
    dictionary = None if own is None else _dictionary(workspace.blobs, workspace.folder, own["blob"])
    return pronouncer_of(dictionary, language=options["language"], phones=options["phones"], oov=options["oov"])


@lru_cache(maxsize=2)
def _dictionary(blobs: str, folder: str, digest: str) -> dictionaries.Dictionary:
    return dictionaries.read(Workspace("", blobs, folder).store.local(digest), name="the dictionary")
