"""`phonechain evaluate`: how well a model labels a corpus, and how honest its posteriors are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phonechain.app.cli import common, corpora, options
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.features.corpora import Corpus
    from phonechain.features.segments import Utterance
    from phonechain.model.scoring.summary import Evaluation


def evaluate(
    model: Annotated[str, typer.Argument(help="Model file, or default for the shipped model.", metavar="MODEL")],
    corpus: options.Corpus,
    split: Annotated[str | None, typer.Option(help="Split to score. Default: test, or everything.")] = None,
    tier: options.Tier = None,
    layout: options.Layout = None,
    table: options.SpeakerTable = None,
    drop: options.Drop = None,
    decode: options.Decode = "posterior",
    normalise: options.Normalise = None,
    map_: options.LabelMap = None,
    fix: options.Fix = False,
    shift: options.Shift = "0",
    raw: options.Raw = None,
    confusions: Annotated[
        int, typer.Option("--confusions", metavar="N", help="List the N most frequent confusions.", min=0, max=1000)
    ] = 0,
    reliability: Annotated[
        bool, typer.Option("--reliability", help="List how often answers are right, by posterior.")
    ] = False,
    per_phone: Annotated[bool, typer.Option("--per-phone", help="List recall and precision per label.")] = False,
    device: options.Device = "auto",
    as_json: options.Json = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Write all tables and charts to this self-contained HTML file."),
    ] = None,
) -> None:
    """Score a model on a labelled corpus.

    Prints the error with its confidence interval over speakers, and the calibration of the posteriors.
    """
    if Path(model).is_dir() and not corpus.is_dir():
        raise SettingsError(f"expected the model before the corpus, got the folder {model} in its place", value=model)
    common.check_folder(corpus, "a corpus folder")
    common.check_output(report)
    reading = options.check_options(shift=shift, raw=raw)
    decoding = options.check_options(decode=decode)["decode"]
    mapping = common.read_map(map_)
    labeler = common.load_model(model, device)
    from phonechain.model.scoring.evaluation import score

    with common.bars() as bars:
        read = corpora.read_corpus(corpus, bars, tier=tier, layout=layout, table=table, fix=fix, **reading)
        chosen, utterances = _choose_split(read, split)
        scored = score(
            labeler,
            utterances,
            drop=drop or (),
            mapping=mapping,
            decode=decoding,
            normalise=normalise,
            progress=bars.progress,
        )
    found = scored.summarise()
    common.warn(scored.comparison.notices())
    title = f"{labeler.card_.get('name') or model} ({labeler.version_}) on {corpus.resolve().name}, {chosen or 'all'}"
    if report is not None:
        from phonechain.model.scoring.report import render

        common.write_output(render(scored, title).encode("utf-8"), report)
    if as_json:
        about = {"model": labeler.card_.get("name"), "version": labeler.version_, "split": chosen}
        typer.echo(json.dumps({**about, **found.as_dict()}, ensure_ascii=False, indent=2))
        return
    _print(found, title)
    if reliability:
        _print_reliability(found)
    if per_phone:
        _print_phones(found)
    if confusions:
        _print_confusions(found, confusions)
    corpora.report_left_out(bars, [f"{problem['utterance']}: {problem['message']}" for problem in found.problems])


def _choose_split(corpus: Corpus, split: str | None) -> tuple[str | None, list[Utterance]]:
    from phonechain.app.corpora import splits

    name = splits.choose_test(corpus.splits(), split)
    return name, corpus.utterances if name is None else corpora.select_split(corpus, name)


def _print(found: Evaluation, title: str) -> None:
    per_cent = common.format_percent
    speakers = f" of {common.count_noun(found.speakers, 'speaker')}" if found.speakers is not None else ""
    table = common.table("", ("", "right"), "", title=title)
    table.show_header = False
    table.add_row("segments", str(found.segments), f"{common.count_noun(found.utterances, 'utterance')}{speakers}")
    interval = found.interval
    between = f"{per_cent(interval.low)} to {per_cent(interval.high)} at {100 * interval.level:.0f} %"
    detail = f"{found.errors} segments; {between}, resampled over {found.interval_over}s"
    if interval.low is None:
        detail = f"{found.errors} segments; interval {interval.reason}"
    table.add_row("errors", f"{per_cent(found.per)} %", detail)
    for n, share in found.top.items():
        if n > 1:
            table.add_row(f"in the top {n}", f"{per_cent(share)} %", "of the true labels")
    if found.nll is not None:
        table.add_row("negative log-likelihood", f"{found.nll:.3f}", "nats per segment, of the true label")
    table.add_row(
        "mean posterior",
        f"{per_cent(found.mean_confidence)} %",
        f"of the answers; {per_cent(1 - found.per)} % are right",
    )
    by_chance = (
        f"expected calibration error of the answers; {per_cent(found.ece_by_chance)} % by chance on so many segments"
    )
    table.add_row("calibration error", f"{per_cent(found.ece)} %", by_chance)
    if found.calibration:
        table.add_row("model's calibration", "", found.calibration)
    if found.unknown:
        names = " ".join(list(found.unknown)[:8]) + (" ..." if len(found.unknown) > 8 else "")
        count = sum(found.unknown.values())
        table.add_row("unknown labels", str(count), f"segments labelled {names}, not scored")
    if found.unscored:
        count = sum(found.unscored.values())
        table.add_row("noise and similar", str(count), f"segments labelled {' '.join(found.unscored)}, not scored")
    if found.folding:
        from phonechain.features.phones.comparison import describe_steps

        table.add_row("labels compared", "", describe_steps(found.folding))
    if found.dropped:
        table.add_row("left out", str(sum(found.dropped.values())), f"segments labelled {' '.join(found.dropped)}")
    if found.unlabelled:
        table.add_row("without a label", str(found.unlabelled), "segments, not scored")
    common.console().print(table)


def _print_reliability(found: Evaluation) -> None:
    right, percent = "right", common.format_percent
    table = common.table(
        "posterior", ("answers", right), ("mean posterior %", right), ("right %", right),
        f"{100 * found.interval.level:.0f} %, over {found.interval_over}s", title="Reliability",
    )  # fmt: skip
    for one in found.reliability:
        assert one.interval is not None
        low, high = one.interval.low, one.interval.high
        between = one.interval.reason if low is None else f"{percent(low)} to {percent(high)}"
        mark = "" if one.calibrated is not False else "  differs from the mean posterior"
        table.add_row(
            f"{one.low:.3f} to {one.high:.3f}", str(one.count), percent(one.confidence), percent(one.accuracy),
            between + mark,
        )  # fmt: skip
    common.console().print(table)


def _print_phones(found: Evaluation) -> None:
    right = "right"
    table = common.table(
        "label",
        ("count", right),
        ("recall %", right),
        ("precision %", right),
        "confused with",
        ("times", right),
        title="Labels",
    )
    for row in sorted(found.per_phone, key=lambda row: -row.count):
        table.add_row(
            row.label,
            str(row.count),
            common.format_percent(row.recall),
            common.format_percent(row.precision),
            row.confused_with or "",
            str(row.confused) if row.confused else "",
        )
    common.console().print(table)


def _print_confusions(found: Evaluation, most: int) -> None:
    table = common.table("label", "answer", ("times", "right"), ("% of label", "right"), title="Confusions")
    for confusion in found.confusions[:most]:
        table.add_row(confusion.true, confusion.predicted, str(confusion.count), common.format_percent(confusion.share))
    common.console().print(table)
