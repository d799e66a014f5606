"""`phonechain align FOLDER`: every recording of a folder aligned to the transcript beside it, with a progress bar."""

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
from phonechain.features.corpora import AUDIO_SUFFIXES
from phonechain.features.errors import PhonechainError, SettingsError

if TYPE_CHECKING:
    from phonechain.app.alignment.transcripts import Pronouncer
    from phonechain.model.segmental.aligner import PhoneAligner
    from phonechain.model.segmental.answers import AlignedPhone, Alignment

COLUMNS = (
    "file", "segment", "start", "end", "label", "word", "within_20_ms", "start_low", "start_high", "posterior",
    "given_start", "log_posterior_per_phone",
)  # fmt: skip

TRANSCRIPTS = (".txt", ".lab", ".TextGrid", ".textgrid", ".trs", ".wrd", ".eaf", ".json", ".csv", ".tsv")
"""Suffixes of the files beside a recording that may have its transcript, in the order in which they are tried."""


@dataclass
class Rows:
    """Every phone with the certainty of its start."""

    rows: list[tuple[float, str, int, AlignedPhone, str, float]] = field(default_factory=list)

    def add(self, file: str, answer: Alignment) -> None:
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
    from phonechain.app.alignment import documents, pipeline
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
    recordings = sorted(p for p in root.rglob("*") if p.suffix.lower() in AUDIO_SUFFIXES and p.is_file())
    if not recordings:
        raise SettingsError(f"expected recordings below {root}, got none", value=str(root))
    suffix = ".json" if form == "json" else FORMATS[form].suffixes[0].replace(".textgrid", ".TextGrid")
    rows, failed, done = Rows(), 0, 0
    with common.bars() as bars:
        for n, audio in enumerate(recordings):
            bars.update("align", n, len(recordings))
            source = transcript_of(audio)
            if source is None:
                bars.line(f"left out {audio}: no transcript beside it")
                continue
            try:
                sound = pipeline.read_audio(audio, aligner, channel)
                text = pipeline.read_source(source.read_bytes(), source.name, utterance=audio.stem)
                answer = pipeline.align(aligner, sound, text, pronouncer, **options)
                if out is not None:
                    target = out / audio.relative_to(root).with_suffix(suffix)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if form == "json":
                        document = documents.to_json("", aligner, answer)
                        data = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
                    else:
                        data = pipeline.render(
                            answer, form, duration=sound.duration, rate=sound.source_rate or sound.rate,
                            recording=audio.name,
                        )  # fmt: skip
                    common.write_output(data, target)
            except (PhonechainError, OSError) as error:
                failed += 1
                about_sound = type(error).__name__.startswith(("Audio", "Empty", "Truncated", "UnrecognisedAudio"))
                bars.line(f"failed {common.file_line(audio if about_sound else source, error)}")
                continue
            done += 1
            for notice in answer.notices:
                if notice.code == "transcript-improbable":
                    bars.line(f"warning {source}: {notice.message}")
            rows.add(str(audio.relative_to(root)), answer.alignment)
        bars.update("align", len(recordings), len(recordings))
    rows.finish(doubtful, table)
    wrong = f"; {common.counted(failed, 'file')} could not be used" if failed else ""
    where = f" to {out}" if out is not None else ""
    print(f"aligned {len(rows.rows)} phones of {common.counted(done, 'recording')}{where}{wrong}", file=sys.stderr)
    if failed or not done:
        raise typer.Exit(1 if done else 2)


def transcript_of(audio: Path) -> Path | None:
    """The file beside a recording that has its transcript."""
    return next((p for s in TRANSCRIPTS if (p := audio.with_suffix(s)).is_file() and p != audio), None)
