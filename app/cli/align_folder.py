"""`phonechain align FOLDER`: every recording of a folder aligned to the transcript beside it, however many of them cannot be."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from phonechain.app.cli import common
from phonechain.features.corpora import transcripts
from phonechain.features.corpora.base import NoticeCount
from phonechain.features.corpora.pairing import read_bytes
from phonechain.features.errors import AudioError, PhonechainError, SettingsError

if TYPE_CHECKING:
    from phonechain.app.alignment.pipeline import AlignedRecording
    from phonechain.app.alignment.transcripts import Pronouncer
    from phonechain.features.audio.reader import Audio
    from phonechain.features.corpora.transcripts import TranscribedRecording
    from phonechain.model.segmental.aligner import PhoneAligner
    from phonechain.model.segmental.answers import AlignedPhone, Alignment

COLUMNS = (
    "file", "segment", "start", "end", "label", "word", "within_20_ms", "start_low", "start_high", "posterior",
    "given_start", "log_posterior_per_phone",
)  # fmt: skip

EVERY = 10.0
"""Seconds between two lines that say how far it is, where standard error is no terminal."""


@dataclass
class Rows:
    """Every phone with the certainty of its start."""

    rows: list[tuple[float, str, int, AlignedPhone, str, float]] = field(default_factory=list)
    files: int = 0

    def add(self, file: str, answer: Alignment) -> None:
        self.files += 1
        for n, p in enumerate(answer.phones):
            word = answer.words[p.word].written if p.word is not None and answer.words else ""
            self.rows.append((p.within if n else 1.0, file, n, p, word, answer.log_posterior_per_phone))

    def finish(self, doubtful: int, table: Path | None) -> None:
        """Print the first `doubtful`, and write them all."""
        self.rows.sort(key=lambda row: row[:3])
        if doubtful:
            shown = common.table(
                "file", ("start", "right"), "label", "word", ("within 20 ms", "right"), ("90 % interval", "right"),
                title="Least certain boundaries",
            )  # fmt: skip
            for certainty, file, _, p, word, _ in self.rows[:doubtful]:
                interval = f"{p.start_low:.3f} to {p.start_high:.3f}"
                shown.add_row(file, f"{p.start:.3f}", p.label, word, f"{certainty:.2f}", interval)
            common.console().print(shown)
        if table is not None:
            common.write_output(self._csv(), table)
            print(f"wrote {table} ({len(self.rows)} phones, the least certain first)", file=sys.stderr)

    def _csv(self) -> bytes:
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for certainty, file, n, p, word, each in self.rows:
            given = "" if p.given_start is None else p.given_start
            numbers = [f"{v:.6g}" for v in (certainty, p.start_low, p.start_high, p.posterior)]
            writer.writerow((file, n, p.start, p.end, p.label, word, *numbers, given, f"{each:.4g}"))
        return out.getvalue().encode()


def align_folder(
    root: Path,
    out: Path | None,
    aligner: PhoneAligner,
    pronouncer: Pronouncer,
    format: str | None,
    options: dict[str, Any],
    channel: int | Literal["mix"],
    doubtful: int,
    table: Path | None,
) -> None:
    """Align every recording below `root` that has a transcript beside it, into the same tree below `out`.

    Exits with 1 if files could not be used, 2 if nothing could be done.
    """
    from phonechain.features.annotation import FORMATS

    form = format or "textgrid"
    if form != "json" and form not in FORMATS:
        raise SettingsError(f"--format: expected json or one of {', '.join(FORMATS)} for a folder, got {format!r}")
    if out is None and not doubtful and table is None:
        raise SettingsError("expected --out DIR for a folder (or --doubtful, or --table), got none")
    if out is not None and out.resolve().is_relative_to(root.resolve()):
        raise SettingsError(
            f"expected --out outside {root}, got {out}: what is written there would be taken for transcripts"
        )
    found = transcripts.read(root, prefer="annotation" if options.get("refine") else "text")
    suffix = ".json" if form == "json" else FORMATS[form].suffixes[0].replace(".textgrid", ".TextGrid")
    rows, notices, failed = Rows(), NoticeCount(), 0
    with common.bars(every=EVERY) as bars:
        for problem in found.problems:
            bars.line(f"left out {problem}")
        for n, one in enumerate(found.recordings):
            bars.update("align", n, len(found.recordings))
            try:
                sound, answer = _align(one, aligner, pronouncer, options, channel)
                if out is not None:
                    target = out / one.audio.relative_to(root).with_suffix(suffix)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    common.write_output(_answer(answer, form, aligner, sound, one.audio), target)
            except (PhonechainError, OSError) as error:
                failed += 1
                file = one.audio if isinstance(error, AudioError) or one.transcript is None else one.transcript
                bars.line(f"failed {common.file_line(file, error)}")
                continue
            except Exception as error:  # whatever it is, the others go on
                failed += 1
                bars.line(
                    f"failed {one.audio}: unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                )
                continue
            for notice in answer.notices:
                if notice.code == "transcript-improbable":
                    bars.line(f"warning {one.transcript}: {notice.message}")
            notices.add(one.audio, [n for n in answer.notices if n.code != "transcript-improbable"])
            rows.add(one.audio.relative_to(root).as_posix(), answer.alignment)
        bars.update("align", len(found.recordings), len(found.recordings))
    common.warn(notices.notices())
    rows.finish(doubtful, table)
    wrong = f"; {common.count_noun(failed, 'file')} could not be used" if failed else ""
    where = f" to {out}" if out is not None else ""
    print(
        f"aligned {len(rows.rows)} phones of {common.count_noun(rows.files, 'recording')}{where}{wrong}",
        file=sys.stderr,
    )
    if failed or not rows.files:
        raise typer.Exit(1 if rows.files else 2)


def _align(
    one: TranscribedRecording,
    aligner: PhoneAligner,
    pronouncer: Pronouncer,
    options: dict[str, Any],
    channel: int | Literal["mix"],
) -> tuple[Audio, AlignedRecording]:
    """Raises PhonechainError, OSError."""
    from phonechain.app.alignment import pipeline

    assert one.transcript is not None
    source = pipeline.read_source(read_bytes(one.transcript), one.transcript.name, audio=one.audio.stem)
    sound = pipeline.read_audio(one.audio, aligner, channel)
    return sound, pipeline.align(aligner, sound, source, pronouncer, **options)


def _answer(answer: AlignedRecording, form: str, aligner: PhoneAligner, sound: Audio, audio: Path) -> bytes:
    """Raises AnnotationError."""
    from phonechain.app.alignment import documents, pipeline

    if form == "json":
        document = documents.to_json("", aligner, answer)
        return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    rate = sound.source_rate or sound.rate
    return pipeline.render(answer, form, duration=sound.duration, rate=rate, recording=audio.name)
