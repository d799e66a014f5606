"""`phonechain compare`: which of two systems errs less on a corpus, and how sure that is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from phonechain.app.cli import common, corpora, options
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.model.scoring.comparison import System, SystemComparison
    from phonechain.model.scoring.significance import Interval

_SYSTEM = "model file, name of a shipped model, or answers: a folder that `phonechain label` wrote, or a job's result."


def compare(
    a: Annotated[str, typer.Argument(help=f"First system: {_SYSTEM}", metavar="A")],
    b: Annotated[str, typer.Argument(help="Second system, likewise.", metavar="B")],
    corpus: options.Corpus,
    split: Annotated[str | None, typer.Option(help="Split to compare on. Default: test, or everything.")] = None,
    over: Annotated[
        str | None,
        typer.Option(
            help="Unit of the tests, speaker or utterance. Default: speaker if all are known.",
            metavar="UNIT",
        ),
    ] = None,
    tier: options.Tier = None,
    layout: options.Layout = None,
    table: options.SpeakerTable = None,
    drop: options.Drop = None,
    decode: options.Decode = "posterior",
    normalise: options.Normalise = None,
    map_: options.LabelMap = None,
    fix: options.Fix = False,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 1,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Compare two systems on a labelled corpus.

    Prints both errors with their intervals, and three tests of their difference: McNemar's over segments, matched pairs and
    a paired bootstrap over speakers or utterances.
    """
    common.check_folder(corpus, "a corpus folder")
    if over not in (None, "speaker", "utterance"):
        raise SettingsError(f"--over: expected speaker or utterance, got {over!r}", value=over)
    decoding = options.check_options(decode=decode)["decode"]
    mapping = common.read_map(map_)
    from phonechain.app.evaluation.compare import compare as compare_systems

    problems: list[str] = []
    with common.bars() as bars:
        read = corpora.read_corpus(corpus, bars, tier=tier, layout=layout, table=table, fix=fix)
        found = compare_systems(
            a,
            b,
            read,
            split=split,
            over=cast('Literal["speaker", "utterance"] | None', over),
            drop=drop or (),
            mapping=mapping,
            decode=decoding,
            normalise=normalise,
            seed=seed,
            device=device,
            progress=bars.progress,
            problem=problems.append,
        )
        corpora.report_left_out(bars, problems)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), ensure_ascii=False, indent=2))
        return
    _print(found, corpus.resolve().name)


def _print(found: SystemComparison, corpus: str) -> None:
    from phonechain.model.scoring.significance import DRAWS

    tests, percent = found.tests, common.format_percent
    utterances = common.count_noun(found.utterances, "utterance")
    units = "" if found.over == "utterance" else f", {common.count_noun(tests.units, found.over)}"
    table = common.table(
        "system", ("errors", "right"), ("errors %", "right"), "95 %", "labels compared", ("not scored", "right"),
        title=f"{tests.segments} segments of {utterances} of {corpus}{units}",
    )  # fmt: skip
    for letter, system in (("A", found.a), ("B", found.b)):
        table.add_row(
            f"{letter} {system.name}", str(system.errors), percent(system.per), _format_interval(system.interval),
            _format_folding(system), str(system.missing),
        )  # fmt: skip
    table.add_row("B - A", "", f"{100 * tests.difference:+.1f}", _format_interval(tests.interval), "", "")
    common.console().print(table)
    rows = common.table("test", ("p", "right"), "")
    rows.add_row(
        "McNemar, exact", _format_p(tests.mcnemar_exact),
        f"segments that are wrong only in A: {tests.only_a_wrong}, only in B: {tests.only_b_wrong}, in both: {tests.both_wrong}",
    )  # fmt: skip
    rows.add_row(
        "McNemar, mid-p", _format_p(tests.mcnemar_mid), "treats segments as independent, which they are not quite"
    )
    statistic = "" if tests.matched_t is None else f"t = {tests.matched_t:.2f}; "
    rows.add_row("matched pairs", _format_p(tests.matched_pairs), f"{statistic}errors per {found.over}")
    rows.add_row("paired bootstrap", _format_p(tests.bootstrap), f"{found.over}s resampled {DRAWS} times")
    common.console().print(rows)


def _format_interval(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return interval.reason
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def _format_folding(system: System) -> str:
    from phonechain.features.phones.comparison import describe_steps

    return describe_steps(system.folding)


def _format_p(value: float | None) -> str:
    """A p value: two digits, or a bound."""
    if value is None:
        return "not computed"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.01 else f"{value:.3f}"
