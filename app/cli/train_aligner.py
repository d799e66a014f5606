"""`phonechain train --preset spn-semi-crf`: an aligner from labelled boundaries, or from what is said alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from phonechain.app.cli import common, corpora
from phonechain.app.cli.options import split_assignment
from phonechain.features.errors import CorpusError, PhonechainError, SettingsError

if TYPE_CHECKING:
    from phonechain.features.segments import Utterance
    from phonechain.model.segmental.fitting import TranscribedRecording
    from phonechain.model.segmental.learning import Epoch
    from phonechain.model.segmental.settings import SegmentalPreset
    from phonechain.model.segmental.transcripts import Word

STRESS = re.compile(r"(?<=^[A-Z]{2})[012]$")

STAGES = {"frames": "frame labels", "segments": "epoch"}


@dataclass(frozen=True)
class Request:
    """What the command was asked for; see the options of `phonechain train`."""

    corpus: Path
    out: Path
    base: str | None = None
    tier: str | None = None
    layout: str | None = None
    table: Path | None = None
    split: str | None = None
    dev: str | None = None
    drop: Sequence[str] = ()
    changes: Sequence[str] = ()
    fix: bool = False
    flat_start: bool = False
    dictionary: str | None = None
    name: str = ""
    licence: str = ""
    data: str = ""
    limits: str = ""
    command: str = ""
    reading: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"


def train(request: Request) -> None:
    """Train an aligner and write its model file.

    Raises:
        PhonechainError: settings, corpus or base that cannot be used.
    """
    common.check_output(request.out)
    if request.dictionary is not None and not request.flat_start:
        raise SettingsError("--dictionary: expected --flat-start with it, for boundaries come with their labels")
    preset = apply_changes(request.changes)
    from phonechain.model import ALIGNMENT
    from phonechain.model.files.modelfile import Card, Provenance
    from phonechain.model.segmental.aligner import PhoneAligner

    base = None
    if request.base is not None:
        path = common.model_path(ALIGNMENT if request.base == common.DEFAULT else request.base)
        base = PhoneAligner.load(path, device=request.device)
    card = Card(
        request.name or request.out.stem, "Segmental CRF that aligns speech to transcripts.", request.licence,
        request.data, request.limits,
    )  # fmt: skip
    aligner = PhoneAligner(preset.model, training=preset.training, card=card, device=request.device)
    with common.bars() as bars:
        report = _Report(bars, preset.training.epochs)
        if request.flat_start:
            recordings = _pair_transcripts(request, bars)
            bars.line(f"{common.count_noun(len(recordings), 'recording')}, no boundaries: align, train, align, train")
            aligner.fit_flat(recordings, base=base, report=report.epoch)
        else:
            utterances, held = _select_utterances(request, bars)
            bars.line(f"{common.count_noun(len(utterances), 'utterance')}")
            aligner.fit(utterances, held, base=base, report=report.epoch)
        corpora.report_left_out(bars, [f"{u.audio}: {error}" for u, error in aligner.problems_])
    aligner.provenance_ = Provenance.now(
        command=request.command, seed=preset.training.seed, corpus=request.corpus.resolve().name
    )
    aligner.save(request.out)
    size, metrics = request.out.stat().st_size / 2**20, aligner.metrics_
    found = ""
    if "dev_within_20_ms" in metrics:
        share = 100 * float(str(metrics["dev_within_20_ms"]))
        found = f"; held out: {share:.1f} % of {metrics['dev_boundaries']} boundaries within 20 ms of the labels"
    typer.echo(
        f"wrote {request.out} ({size:.2f} MiB, {len(aligner.labels_)} labels, version {aligner.version_}){found}"
    )


def apply_changes(changes: Sequence[str]) -> SegmentalPreset:
    """The preset with `KEY=VALUE` changes; a key is `epochs` or `training.epochs`. Raises SettingsError."""
    from phonechain.model import settings as known
    from phonechain.model.segmental.settings import SegmentalPreset

    preset = SegmentalPreset()
    parts: dict[str, Any] = {"model": preset.model, "training": preset.training}
    for change in changes:
        key, value = split_assignment(change)
        part, _, name = key.rpartition(".")
        homes = [p for p in parts if part in ("", p) and name in {f.name for f in fields(parts[p])}]
        if not homes:
            names = ", ".join(f"{p}.{f.name}" for p in parts for f in fields(parts[p]))
            raise SettingsError(f"--set {key}: expected one of {names}", value=key)
        home = homes[0]
        new: object = value
        if isinstance(getattr(parts[home], name), tuple):
            try:
                new = [float(v) for v in value.split(",")]
            except ValueError:
                raise SettingsError(f"--set {key}: expected numbers with commas between them, got {value!r}") from None
        parts[home] = known.replace(parts[home], {name: new})
    return SegmentalPreset(**parts)


def _select_utterances(request: Request, bars: common.Bars) -> tuple[list[Utterance], list[Utterance] | None]:
    from phonechain.app.corpora import splits

    read = corpora.read_corpus(
        request.corpus, bars, tier=request.tier, layout=request.layout, table=request.table, fix=request.fix,
        drop=request.drop, **request.reading,
    )  # fmt: skip
    name, held_name = splits.choose_training(read.splits(), request.split, request.dev)
    held = corpora.select_split(read, held_name) if held_name is not None else None
    chosen = corpora.select_split(read, name) if name is not None else splits.drop_held_out(read.utterances)
    return chosen, held


def _pair_transcripts(request: Request, bars: common.Bars) -> list[TranscribedRecording]:
    """With a dictionary the transcripts beside the recordings, else the labels of the annotations in order."""
    from phonechain.features.words.dictionary import Pronunciation
    from phonechain.model.segmental.fitting import TranscribedRecording, is_silence
    from phonechain.model.segmental.transcripts import Word

    if request.dictionary is not None:
        return _transcripts(request, bars)
    found = []
    for u in _select_utterances(request, bars)[0]:
        labels = [s.label for s in u.segments if s.label is not None]
        if labels:
            words = [Word(y, [Pronunciation((y,))]) for y in labels]
            # where silence is labelled it is said where it is; else it may be anywhere
            ordered = any(is_silence(y) for y in labels)
            found.append(TranscribedRecording(u.id, u.audio, words, speaker=u.speaker, phones=ordered))
    return found


def _transcripts(request: Request, bars: common.Bars) -> list[TranscribedRecording]:
    from phonechain.app.alignment import pipeline
    from phonechain.app.alignment.transcripts import pronouncer_of
    from phonechain.features.corpora import transcripts
    from phonechain.features.corpora.pairing import read_bytes
    from phonechain.features.words import espeak
    from phonechain.model.segmental.fitting import TranscribedRecording

    own = None if request.dictionary == "english" else espeak.read(Path(str(request.dictionary)))
    pronouncer = pronouncer_of(own)
    read = transcripts.read(request.corpus, table=request.table)
    found, left = [], [str(problem) for problem in read.problems]
    for one in read.recordings:
        assert one.transcript is not None
        try:
            text = pipeline.read_source(read_bytes(one.transcript), one.transcript.name, audio=one.audio.stem)
            if not isinstance(text, str):
                raise CorpusError(f"{one.transcript.name} is an annotation, not a text")
            words = [_strip_stress(w) for w in pronouncer.words(text)]
            found.append(TranscribedRecording(one.id, one.audio, words, speaker=one.speaker))
        except PhonechainError as error:
            left.append(f"{one.audio}: {error}")
    corpora.report_left_out(bars, left)
    if not found:
        raise CorpusError(f"no recordings with transcripts that can be used in {request.corpus}")
    return found


def _strip_stress(word: Word) -> Word:
    """ARPAbet's vowels without their stress, which half an hour of speech is too little to tell apart."""
    plain = [replace(v, phones=tuple(STRESS.sub("", p) for p in v.phones)) for v in word.pronunciations]
    return replace(word, pronunciations=list(dict.fromkeys(plain)))


class _Report:
    """A line for each epoch."""

    def __init__(self, bars: common.Bars, epochs: int) -> None:
        self.bars, self.epochs = bars, epochs

    def epoch(self, epoch: Epoch) -> None:
        """Tell of one that is over."""
        held = "" if epoch.dev_loss is None else f"  held out {epoch.dev_loss:.3f}"
        what = STAGES[epoch.stage]
        of = f"/{self.epochs}" if epoch.stage == "segments" else ""
        self.bars.line(f"{what} {epoch.number}{of}  loss {epoch.loss:.3f}{held}  {epoch.seconds:.0f} s")
