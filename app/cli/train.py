"""`phonechain train`: a corpus in, a model file out."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from phonechain.app.cli import common, corpora, options
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.features.corpora import Corpus
    from phonechain.features.segments import Utterance
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.learning.training import Progress
    from phonechain.model.settings import TrainingSettings


SEGMENTAL = "spn-semi-crf"
"""The preset of aligners (`phonechain.model.segmental.settings`), named here so that help loads nothing heavy."""


class TrainCommand(typer.core.TyperCommand):
    """Its help ends with every setting that `--set` takes."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Append the settings to the help."""
        from phonechain.app.cli.preset_settings import describe_settings

        formatter.write_paragraph()
        formatter.write(describe_settings() + "\n")


def train(
    context: typer.Context,
    corpus: options.Corpus,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path("model.safetensors"),
    preset: Annotated[
        str,
        typer.Option(
            help="System to train; `phonechain presets` lists them. auto compares several, and the unchanged base, on parts of "
            "the corpus."
        ),
    ] = "spn-lc-crf",
    base: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model to start from: its settings replace the preset's, and its weights are kept where labels and "
            "settings match.",
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model from whose answers to learn as well (training.teacher_weight), which brings a small system closer to "
            "a large one. It must have the corpus's labels and the same feature settings.",
        ),
    ] = None,
    tier: options.Tier = None,
    layout: options.Layout = None,
    table: options.SpeakerTable = None,
    split: Annotated[
        str | None, typer.Option(help="Split to train on. Default: train, or everything but dev and test.")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(help="Split for early stopping and calibration. Default: dev, or a tenth of the speakers."),
    ] = None,
    fold: Annotated[
        bool,
        typer.Option(
            "--fold",
            help="With --base: spell the corpus's labels as that model does, through the folding that fits best.",
        ),
    ] = False,
    map_: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="File that maps the corpus's labels to others to train on: JSON, or two columns with - for no label.",
        ),
    ] = None,
    drop: options.Drop = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting (listed below); repeatable."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of passes over the corpus.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir",
            help="Folder for features and the checkpoint, kept after training. Default: OUT.run, removed on success.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run from its checkpoint.")] = False,
    device: options.Device = "auto",
    fix: options.Fix = False,
    shift: options.Shift = "0",
    raw: options.Raw = None,
    flat_start: Annotated[
        bool,
        typer.Option(
            "--flat-start", help="With spn-semi-crf: learn without boundaries, from the order of the labels alone."
        ),
    ] = False,
    dictionary: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|english",
            help="With --flat-start: learn from transcripts beside the recordings, with the pronunciations in this dictionary.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Model card: name. Default: the name of the model file.")] = None,
    licence: Annotated[str, typer.Option(help="Model card: licence.")] = "",
    data: Annotated[str, typer.Option(help="Model card: training data.")] = "",
    limits: Annotated[str, typer.Option(help="Model card: limitations.")] = "",
) -> None:
    """Train a model on a corpus."""
    common.check_folder(corpus, "a corpus folder")
    command = shlex.join(["phonechain", *(word for word in context.find_root().obj or () if word != "--resume")])
    reading = options.check_options(shift=shift, raw=raw)
    if preset == SEGMENTAL:
        from phonechain.app.cli import train_aligner

        changes = [*(set_ or []), *_to_changes(epochs=epochs, seed=seed)]
        request = train_aligner.Request(
            corpus, out, base, tier, layout, table, split, dev, tuple(drop or ()), changes, fix, flat_start, dictionary,
            name or "", licence, data, limits, command, reading, device,
        )  # fmt: skip
        if map_ is not None or fold or resume or run_dir is not None:
            raise SettingsError(f"--map, --fold, --resume and --run-dir: not available with the preset {SEGMENTAL}")
        if teacher is not None:
            raise SettingsError(f"--teacher: not available with the preset {SEGMENTAL}")
        train_aligner.train(request)
        return
    if flat_start or dictionary is not None:
        raise SettingsError(f"--flat-start and --dictionary: expected --preset {SEGMENTAL}, got {preset}")
    run = _run_folder(out, run_dir, resume)
    mapping = common.read_map(map_)
    if fold and base is None:
        raise SettingsError("--fold: expected --base with the model whose spelling to use, got none")
    if teacher is not None and (base is not None or preset == "auto"):
        raise SettingsError("--teacher: not available with --base or the preset auto")
    start = common.load_model(base, device).trainable() if base is not None else None
    changes = [*(set_ or []), *_to_changes(epochs=epochs, seed=seed)]
    card = {"name": name if name is not None else out.stem, "licence": licence, "data": data, "limits": limits}
    labeler, training = _make_labeler(preset, changes, start, drop, card | {"device": device})
    with common.bars() as bars:
        read = corpora.read_corpus(corpus, bars, tier=tier, layout=layout, table=table, fix=fix, **reading)
        _respell(read, mapping, start if fold else None, bars)
        utterances, held = _select_splits(read, split, dev, training.held_out, bars)
        try:
            labeler.fit(
                utterances,
                dev=held,
                progress=_Report(bars).event,
                run_dir=run,
                base=start,
                teacher=common.load_model(teacher, device) if teacher is not None else None,
                corpus=corpus.resolve().name,
                command=command,
            )
        except KeyboardInterrupt:
            bars.line(f"Interrupted; progress saved in {run}. Resume with:\n  {command} --resume")
            raise
        corpora.report_left_out(bars, [f"{utterance.audio}: {error}" for utterance, error in labeler.problems_])
    labeler.save(out)
    _clear_run(run, keep=run_dir is not None)
    _print_summary(labeler, out)


def _make_labeler(
    preset: str, changes: list[str], base: PhoneLabeler | None, drop: list[str] | None, card: dict[str, str]
) -> tuple[PhoneLabeler, TrainingSettings]:
    """The labeler of a preset with changed settings, to start from `base`, and how it trains. Raises SettingsError."""
    from phonechain.app.cli.preset_settings import apply_changes, split_features

    changes, features = split_features(changes)
    settings = apply_changes(preset, changes, base)
    from phonechain.model.labeler import PhoneLabeler
    from phonechain.model.presets import AUTO

    if features is not None and (base is not None or settings.name == AUTO):
        raise SettingsError("--set features: not available with --base or the preset auto, which keep the base's")
    labeler = PhoneLabeler(
        settings.name,
        model=None if settings.name == AUTO else settings.model,
        training=settings.training,
        features=base.features_ if base is not None else features,
        drop=drop or (base.drop if base is not None else ()),
        **card,
    )
    return labeler, settings.training


def _clear_run(run: Path, *, keep: bool) -> None:
    """Remove a finished run, or with `keep` its checkpoint: a finished run cannot be resumed."""
    from phonechain.model.learning.training import CHECKPOINT

    if keep:
        (run / CHECKPOINT).unlink(missing_ok=True)
    else:
        shutil.rmtree(run, ignore_errors=True)


def _respell(
    corpus: Corpus, mapping: dict[str, str | None] | None, base: PhoneLabeler | None, bars: common.Bars
) -> None:
    """Put labels by hand, then the base's spellings, in place of the corpus's; say so, and which look like one."""
    from phonechain.features.phones.comparison import LabelSet
    from phonechain.features.phones.twins import twins

    if mapping:
        labels = tuple(dict.fromkeys([*corpus.labels(), *(label for label in mapping.values() if label is not None)]))
        corpus.utterances = (
            LabelSet(labels, steps=()).with_map(mapping).compare(corpus.labels()).respell(corpus.utterances)
        )
    if base is not None:
        found = base.label_set_.compare(corpus.labels())
        corpus.utterances = found.respell(corpus.utterances)
        for notice in found.notices():
            bars.line(f"labels of {base.name or 'the base'}: {notice.message}")
    for pair in twins(corpus.labels()):
        bars.line(f"warning: {pair.notice().message}")


def _to_changes(**options: int | None) -> list[str]:
    return [f"training.{key}={value}" for key, value in options.items() if value is not None]


def _run_folder(out: Path, run_dir: Path | None, resume: bool) -> Path:
    """The folder of the checkpoint.

    Raises:
        SettingsError: `resume` without a run to resume, or a checkpoint without `resume`.
    """
    common.check_output(out)
    run = run_dir if run_dir is not None else out.with_name(out.name + ".run")
    from phonechain.model.learning.training import CHECKPOINT

    if (run / CHECKPOINT).exists() and not resume:
        raise SettingsError(
            f"{run} holds the checkpoint of an earlier run: add --resume to continue it, or remove the folder"
        )
    if resume and not run.is_dir():
        raise SettingsError(f"no interrupted run to resume: {run} does not exist")
    return run


def _select_splits(
    corpus: Corpus, split: str | None, dev: str | None, share: float, bars: common.Bars
) -> tuple[list[Utterance], list[Utterance] | None]:
    """(train, dev); without a split for dev, `fit` holds out that share of the corpus."""
    from phonechain.app.corpora import splits

    name, held_name = splits.choose_training(corpus.splits(), split, dev)
    held = corpora.select_split(corpus, held_name) if held_name is not None else None
    utterances = corpora.select_split(corpus, name) if name is not None else splits.drop_held_out(corpus.utterances)
    speakers = len({u.speaker for u in utterances if u.speaker is not None})
    counted_speakers = common.count_noun(speakers, "speaker") if speakers else "unknown speakers"
    by = f"split {held_name}" if held_name is not None else f"{100 * share:g} % held out"
    bars.line(
        f"{common.count_noun(len(utterances), 'utterance')} ({f'split {name}' if name else 'all'}; {counted_speakers}; "
        f"dev: {by})"
    )
    return utterances, held


class _Report:
    """Shows the progress of training: a bar per stage and a line per epoch."""

    def __init__(self, bars: common.Bars) -> None:
        self.bars = bars
        self.best = float("inf")

    def event(self, event: Progress) -> None:
        if event.stage in ("start", "candidate", "notice"):
            self.bars.line(f"warning: {event.message}" if event.stage == "notice" else event.message)
            return
        if event.stage != "epoch":
            loss = event.metrics.get("loss")
            note = event.message or (f"loss {loss:.3f}" if loss is not None else "")
            self.bars.update(
                f"{event.stage} {event.message}".strip(), event.done, event.total, "" if event.message else note
            )
            return
        row = event.metrics
        mark = "  lowest so far" if row["dev_error"] < self.best else ""
        self.best = min(self.best, row["dev_error"])
        self.bars.line(
            f"epoch {event.done}/{event.total}  loss {row['loss']:.4f}  dev error {common.format_percent(row['dev_error'])} %"
            f"  {row['seconds']:.1f} s{mark}"
        )


def _print_summary(labeler: PhoneLabeler, out: Path) -> None:
    metrics = labeler.metrics_
    size = out.stat().st_size / 2**20
    if "candidates" in metrics:
        best, others = metrics["candidates"][0], len(metrics["candidates"]) - 1
        name = "the base, unchanged" if best["kept"] else f"{best['preset']}{' from the base' if best['warm'] else ''}"
        typer.echo(f"chosen: {name}, best of {others + 1} candidates")
    kept = metrics["best_epoch"]
    weights = f"after epoch {kept} of {metrics['epochs']}" if kept else "with the base's weights"
    history = labeler.history_
    if kept and metrics["dev_error"] > history.best_error:
        lowest = f"{common.format_percent(history.best_error)} % after epoch {history.best_epoch}"
        weights += f" (the last, as training.keep says; the lowest was {lowest})"
    typer.echo(
        f"wrote {out} ({size:.2f} MiB, {len(labeler.labels_)} labels, {labeler.parameters_} weights, "
        f"version {labeler.version_}); dev error {common.format_percent(metrics['dev_error'])} % {weights}"
    )
