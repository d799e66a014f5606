"""`phonechain train`: a corpus in, a model file out."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phonechain.app.cli import common
from phonechain.features.errors import CorpusError, SettingsError

if TYPE_CHECKING:
    from phonechain.features.corpora import Corpus
    from phonechain.features.segments import Utterance
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.training import Progress
    from phonechain.model.settings import Preset


def train(
    context: typer.Context,
    corpus: Annotated[
        Path, typer.Argument(help="Folder of recordings with annotations beside them.", metavar="CORPUS")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path("model.safetensors"),
    preset: Annotated[str, typer.Option(help="The system to train.")] = "spn-lc-crf",
    base: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A model to go on from: its settings instead of the preset's, and its weights where the labels and the "
            "settings allow it.",
        ),
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Tier of the phones in the annotations.")] = None,
    layout: Annotated[str | None, typer.Option(help="Corpus layout; left out, it is recognised.")] = None,
    table: Annotated[Path | None, typer.Option(help="Table of speakers and splits; else utterances.tsv.")] = None,
    split: Annotated[str | None, typer.Option(help="Split to train on; else train, or everything.")] = None,
    dev: Annotated[
        str | None, typer.Option(help="Split to stop and calibrate by; else dev, or a tenth of the speakers.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Label to leave out; may be repeated.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the preset; may be repeated."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the corpus at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir", help="Folder of the features, kept, and of the checkpoint; else OUT.run, removed at the end."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint of a run that was broken off.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Sort segments and remove overlaps of up to 10 ms.")] = False,
    name: Annotated[str | None, typer.Option(help="Name on the model card; else the file's.")] = None,
    licence: Annotated[str, typer.Option(help="Licence on the model card.")] = "",
    data: Annotated[str, typer.Option(help="What the data is, for the model card.")] = "",
    limits: Annotated[str, typer.Option(help="What the model is not good for, for the model card.")] = "",
) -> None:
    """Train a model on a corpus."""
    common.existing_folder(corpus, "a corpus folder")
    command = shlex.join(["phonechain", *(word for word in context.find_root().obj or () if word != "--resume")])
    run = _run_folder(out, run_dir, resume)
    start = common.load_model(base) if base is not None else None
    settings = changed(preset, [*(set_ or []), *_own(epochs=epochs, seed=seed)], start)
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.training import CHECKPOINT

    labeler = PhoneLabeler(
        settings.name,
        model=settings.model,
        training=settings.training,
        features=start.features_ if start is not None else None,
        drop=drop or (start.drop if start is not None else ()),
        name=name if name is not None else out.stem,
        licence=licence,
        data=data,
        limits=limits,
    )
    with common.bars() as bars:
        read = read_corpus(corpus, bars, tier=tier, layout=layout, table=table, fix=fix)
        utterances, held = _splits(read, split, dev, bars)
        try:
            labeler.fit(
                utterances,
                held,
                progress=_Report(bars).event,
                run_dir=run,
                base=start,
                corpus=corpus.resolve().name,
                command=command,
            )
        except KeyboardInterrupt:
            bars.line(f"stopped; what was done is in {run}. Go on with:\n  {command} --resume")
            raise
        for utterance, error in labeler.problems_[:5]:
            bars.line(f"left out {utterance.audio}: {error}")
        if len(labeler.problems_) > 5:
            bars.line(f"left out {len(labeler.problems_) - 5} more files")
    labeler.save(out)
    if run_dir is None:
        shutil.rmtree(run, ignore_errors=True)
    else:
        (run / CHECKPOINT).unlink(missing_ok=True)  # of a run that ended; nothing could go on from it
    _summary(labeler, out)


def _own(**options: int | None) -> list[str]:
    return [f"training.{key}={value}" for key, value in options.items() if value is not None]


def _run_folder(out: Path, run_dir: Path | None, resume: bool) -> Path:
    """Where the checkpoint goes.

    Raises:
        SettingsError: `resume` without a run to resume, or a run that could be resumed without `resume`.
    """
    common.check_output(out)
    run = run_dir if run_dir is not None else out.with_name(out.name + ".run")
    from phonechain.model.learning.training import CHECKPOINT

    there = (run / CHECKPOINT).exists()
    if there and not resume:
        raise SettingsError(
            f"{run} has the checkpoint of an earlier run: add --resume to go on from it, or remove the folder"
        )
    if resume and not run.is_dir():
        raise SettingsError(f"expected the folder of a run that was broken off, got {run}, which is not there")
    return run


def changed(preset_name: str, changes: list[str], base: PhoneLabeler | None = None) -> Preset:
    """The preset, or the settings of a `base`, with `KEY=VALUE` changes.

    A key is `training.l2`, `model.bigram` or `model.factors.0.dropout`; the first word may be left out.

    Raises:
        SettingsError: no such preset or setting, or a value that it cannot have.
    """
    from phonechain.model import settings as known

    if base is not None:
        name = base.preset if base.preset in known.preset_names() else preset_name
        made = dataclasses.replace(known.preset(name), model=base.model, training=base.training)
    else:
        made = known.preset(preset_name)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise SettingsError(f"--set: expected KEY=VALUE, got {change!r}")
        path = key.strip().split(".")
        if path[0] not in ("training", "model"):
            inside = {field.name for field in dataclasses.fields(known.TrainingSettings)}
            path.insert(0, "training" if path[0] in inside else "model")
        made = dataclasses.replace(made, **{path[0]: _with(getattr(made, path[0]), path[1:], value, key)})
    return made


def _with(settings: Any, path: list[str], value: str, key: str) -> Any:
    from phonechain.model import settings as known

    if isinstance(settings, tuple):
        if not (path and path[0].isdecimal() and int(path[0]) < len(settings)):
            raise SettingsError(f"--set {key}: expected the number of a factor from 0 to {len(settings) - 1}")
        number = int(path[0])
        return tuple(_with(one, path[1:], value, key) if n == number else one for n, one in enumerate(settings))
    if not path:
        raise SettingsError(f"--set {key}: expected one setting, got a group of them")
    if len(path) == 1 and not isinstance(getattr(settings, path[0], None), tuple):
        return known.replace(settings, {path[0]: value})
    if not hasattr(settings, path[0]):
        names = ", ".join(field.name for field in dataclasses.fields(settings))
        raise SettingsError(f"--set {key}: expected one of {names}, got {path[0]}")
    return dataclasses.replace(settings, **{path[0]: _with(getattr(settings, path[0]), path[1:], value, key)})


def read_corpus(root: Path, bars: common.Bars, **options: Any) -> Corpus:
    """Read a corpus with a progress bar; what is wrong with single files is told, five of them by name.

    Raises:
        CorpusError: nothing usable.
    """
    from phonechain.features import corpora

    corpus = corpora.read(root, progress=bars.counting("corpus"), **options)
    for problem in corpus.problems[:5]:
        bars.line(f"left out {problem}")
    if len(corpus.problems) > 5:
        bars.line(f"left out {len(corpus.problems) - 5} more files")
    for notice in corpus.notices:
        bars.line(f"warning: {notice.message}")
    if not corpus.utterances:
        raise CorpusError(f"expected utterances with annotations in {root}, got none")
    return corpus


def chosen_split(corpus: Corpus, name: str) -> list[Utterance]:
    """Raises CorpusError, which lists the splits."""
    utterances = corpus.split(name)
    if not utterances:
        there = ", ".join(corpus.splits()) or "none"
        raise CorpusError(f"expected a split named {name} in {corpus.root}, got {there}", value=name)
    return utterances


def _splits(
    corpus: Corpus, split: str | None, dev: str | None, bars: common.Bars
) -> tuple[list[Utterance], list[Utterance] | None]:
    from phonechain.features.corpora.check import scarcity

    there = corpus.splits()
    held_name = dev if dev is not None else ("dev" if "dev" in there else None)
    held = chosen_split(corpus, held_name) if held_name is not None else None
    name = split if split is not None else ("train" if "train" in there else None)
    if name is not None:
        utterances = chosen_split(corpus, name)
    else:
        utterances = [u for u in corpus.utterances if u.split is None or u.split not in ("dev", "test")]
    speakers = len({u.speaker for u in utterances if u.speaker is not None})
    by = f"split {held_name}" if held_name is not None else "a tenth held out"
    bars.line(
        f"{len(utterances)} utterances ({f'split {name}' if name else 'all'}; {speakers or 'unknown'} speakers; "
        f"dev: {by})"
    )
    if (little := scarcity(utterances)) is not None:
        bars.line(f"warning: {little.message}")
    return utterances, held


class _Report:
    """Turns what training reports into a bar a stage and a line an epoch."""

    def __init__(self, bars: common.Bars) -> None:
        self.bars = bars
        self.best = float("inf")

    def event(self, event: Progress) -> None:
        if event.stage in ("start", "calibration"):
            self.bars.line(event.message)
            return
        if event.stage != "epoch":
            loss = event.metrics.get("loss")
            note = event.message or (f"loss {loss:.3f}" if loss is not None else "")
            self.bars.update(
                f"{event.stage} {event.message}".strip(), event.done, event.total, "" if event.message else note
            )
            return
        row = event.metrics
        mark = "  best so far" if row["dev_error"] < self.best else ""
        self.best = min(self.best, row["dev_error"])
        self.bars.line(
            f"epoch {event.done}/{event.total}  loss {row['loss']:.4f}  dev error {common.percent(row['dev_error'])} %"
            f"  {row['seconds']:.1f} s{mark}"
        )


def _summary(labeler: PhoneLabeler, out: Path) -> None:
    metrics = labeler.metrics_
    size = out.stat().st_size / 2**20
    typer.echo(
        f"wrote {out} ({size:.2f} MiB, {len(labeler.labels_)} labels, {labeler.parameters_} weights, "
        f"version {labeler.version_}); dev error {common.percent(metrics['dev_error'])} % after epoch "
        f"{metrics['best_epoch']} of {metrics['epochs']}"
    )
