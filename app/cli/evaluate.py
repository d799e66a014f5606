"""`phonechain evaluate`: how well a model labels a corpus, and how honest its posteriors are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phonechain.app.cli import common

if TYPE_CHECKING:
    from phonechain.features.corpora import Corpus
    from phonechain.features.segments import Utterance
    from phonechain.model.scoring.evaluation import Evaluation


def evaluate(
    model: Annotated[str, typer.Argument(help="A model file, or default for the shipped one.", metavar="MODEL")],
    corpus: Annotated[
        Path, typer.Argument(help="Folder of recordings with annotations beside them.", metavar="CORPUS")
    ],
    split: Annotated[str | None, typer.Option(help="Split to score; else test, or everything.")] = None,
    tier: Annotated[str | None, typer.Option(help="Tier of the phones in the annotations.")] = None,
    layout: Annotated[str | None, typer.Option(help="Corpus layout; left out, it is recognised.")] = None,
    table: Annotated[Path | None, typer.Option(help="Table of speakers and splits; else utterances.tsv.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Label to leave out; may be repeated.")] = None,
    decode: Annotated[
        str, typer.Option(help="posterior: the likeliest label of each segment; viterbi: the likeliest sequence.")
    ] = "posterior",
    map_: Annotated[
        Path | None,
        typer.Option("--map", help="File of given labels and labels of the model, JSON or two columns; - is none."),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Sort segments and remove overlaps of up to 10 ms.")] = False,
    confusions: Annotated[int, typer.Option("--confusions", help="How many confusions to list.", min=0, max=1000)] = 0,
    per_phone: Annotated[bool, typer.Option("--per-phone", help="A row for each label.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Score a model on a labelled corpus."""
    from phonechain.app.cli.label import checked_options
    from phonechain.app.cli.train import read_corpus

    common.existing_folder(corpus, "a corpus folder")
    options = checked_options(decode=decode)
    mapping = common.read_map(map_)
    labeler = common.load_model(model)
    from phonechain.model.scoring.evaluation import score

    with common.bars() as bars:
        read = read_corpus(corpus, bars, tier=tier, layout=layout, table=table, fix=fix)
        chosen, utterances = _chosen(read, split)
        scored = score(
            labeler, utterances, drop=drop or (), mapping=mapping, decode=options["decode"], progress=bars.progress
        )
    found = scored.summarise()
    common.warn(scored.comparison.notices())
    if as_json:
        about = {"model": labeler.card_.get("name"), "version": labeler.version_, "split": chosen}
        typer.echo(json.dumps({**about, **found.as_dict()}, ensure_ascii=False, indent=2))
        return
    _print(
        found,
        f"{labeler.card_.get('name') or model} ({labeler.version_}) on {corpus.resolve().name}, {chosen or 'all'}",
    )
    if per_phone:
        _print_phones(found)
    if confusions:
        _print_confusions(found, confusions)
    for problem in found.problems[:5]:
        bars.line(f"left out {problem['utterance']}: {problem['message']}")
    if len(found.problems) > 5:
        bars.line(f"left out {len(found.problems) - 5} more files")


def _chosen(corpus: Corpus, split: str | None) -> tuple[str | None, list[Utterance]]:
    from phonechain.app.cli.train import chosen_split

    name = split if split is not None else ("test" if "test" in corpus.splits() else None)
    return name, corpus.utterances if name is None else chosen_split(corpus, name)


def _print(found: Evaluation, title: str) -> None:
    per_cent = common.percent
    speakers = f" of {found.speakers} speakers" if found.speakers is not None else ""
    table = common.table("", ("", "right"), "", title=title)
    table.show_header = False
    table.add_row("segments", str(found.segments), f"{found.utterances} utterances{speakers}")
    interval = found.interval
    between = f"{per_cent(interval.low)} to {per_cent(interval.high)} at {100 * interval.level:.0f} %"
    detail = f"{found.errors} segments; {between}, drawn over {found.interval_over}s"
    table.add_row("errors", f"{per_cent(found.per)} %", detail)
    for n, share in found.top.items():
        if n > 1:
            table.add_row(f"among the first {n}", f"{per_cent(share)} %", "of the true labels")
    if found.nll is not None:
        table.add_row("negative log posterior", f"{found.nll:.3f}", "nats a segment, of the true label")
    table.add_row(
        "mean posterior", f"{per_cent(found.mean_confidence)} %", f"against {per_cent(1 - found.per)} % right"
    )
    table.add_row("calibration error", f"{per_cent(found.ece)} %", "expected, of the posterior of the answer")
    if found.unknown:
        names = " ".join(list(found.unknown)[:8]) + (" ..." if len(found.unknown) > 8 else "")
        count = sum(found.unknown.values())
        table.add_row("unknown labels", str(count), f"segments labelled {names}, not scored")
    if found.unscored:
        count = sum(found.unscored.values())
        table.add_row("noise and the like", str(count), f"segments labelled {' '.join(found.unscored)}, not scored")
    if found.folding:
        from phonechain.features.phones.comparison import described

        table.add_row("labels compared", "", described(found.folding))
    if found.dropped:
        table.add_row("left out", str(sum(found.dropped.values())), f"segments labelled {' '.join(found.dropped)}")
    if found.unlabelled:
        table.add_row("without a label", str(found.unlabelled), "segments, not scored")
    common.console().print(table)


def _print_phones(found: Evaluation) -> None:
    right = "right"
    table = common.table(
        "label",
        ("count", right),
        ("recall %", right),
        ("precision %", right),
        "taken for",
        ("times", right),
        title="Labels",
    )
    for row in sorted(found.per_phone, key=lambda row: -row.count):
        table.add_row(
            row.label,
            str(row.count),
            common.percent(row.recall),
            common.percent(row.precision),
            row.confused_with or "",
            str(row.confused) if row.confused else "",
        )
    common.console().print(table)


def _print_confusions(found: Evaluation, most: int) -> None:
    table = common.table("label", "taken for", ("times", "right"), ("% of the label", "right"), title="Confusions")
    for confusion in found.confusions[:most]:
        table.add_row(confusion.true, confusion.predicted, str(confusion.count), common.percent(confusion.share))
    common.console().print(table)
