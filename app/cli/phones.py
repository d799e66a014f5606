"""`phonechain phones`: the phone sets, and how the labels of a file or corpus are compared with a model's."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phonechain.app.cli import common, corpora, options
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.features.phones.comparison import LabelComparison

XSAMPA = "xsampa"


def phones(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A phone set, an annotation file or a corpus folder; omit it to list the sets.", metavar="[WHAT]"
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(help="With a phone set: the set to fold it to.", metavar="SET")] = None,
    model: options.Model = "default",
    tier: options.Tier = None,
    map_: options.LabelMap = None,
    as_json: options.Json = False,
) -> None:
    """List the phone sets, show one, or show which labels of a file a model knows, and through which folding."""
    from phonechain.features.phones import sets

    if what is None:
        _list_sets(as_json)
    elif what in (*sets.names(), XSAMPA) and not Path(what).exists():
        _show_set(what, to, as_json)
    else:
        path = Path(what)
        if not path.exists():
            raise SettingsError(
                f"expected a phone set ({', '.join((*sets.names(), XSAMPA))}), a file or a folder, got {what}",
                value=what,
            )
        labeler = common.load_model(model)
        known = labeler.label_set_.with_map(common.read_map(map_))
        found = known.compare(_count_labels(path, tier))
        _show_comparison(
            found, f"{path} with {labeler.card_.get('name') or model}, {known.phone_set or 'a set of its own'}", as_json
        )


def _list_sets(as_json: bool) -> None:
    from phonechain.features.phones import sets

    rows = [(name, len(sets.load(name)), sets.ABOUT[name]) for name in sets.names()]
    rows.append(
        (XSAMPA, len(sets.rows_of(XSAMPA)), "symbols of X-SAMPA, which spell the IPA of any language (Wells 1995)")
    )
    if as_json:
        typer.echo(json.dumps([{"name": n, "labels": count, "about": about} for n, count, about in rows], indent=2))
        return
    table = common.table("set", ("labels", "right"), "what")
    for name, count, about in rows:
        table.add_row(name, str(count), about)
    common.console().print(table)


def _show_set(name: str, to: str | None, as_json: bool) -> None:
    """Raises PhoneSetError: no such set to fold to, or none that it folds to."""
    from phonechain.features.phones import sets

    pairs: dict[str, str | None]
    if name == XSAMPA:
        if to not in (None, "ipa"):
            raise SettingsError(f"expected --to ipa for {XSAMPA}, got {to}", value=to)
        pairs = {row[0]: row[1].removeprefix("\u25cc") for row in sets.rows_of(XSAMPA)}
        to = "ipa"
    elif to is None:
        labels = sets.load(name).labels
        typer.echo(json.dumps(labels, ensure_ascii=False) if as_json else "\n".join(labels))
        return
    else:
        pairs = dict(sets.folding(name, to))
    if as_json:
        typer.echo(json.dumps(pairs, ensure_ascii=False, indent=2))
        return
    for label, image in pairs.items():
        typer.echo(f"{label}\t{image if image is not None else sets.DROPPED}")


def _count_labels(path: Path, tier: str | None) -> Counter[str]:
    """How often each label occurs in an annotation file or a corpus.

    Raises:
        PhonechainError: it cannot be read.
    """
    if path.is_dir():
        with common.bars() as bars:
            return Counter(corpora.read_corpus(path, bars, tier=tier).labels())
    from phonechain.features import annotation as notation

    data = path.read_bytes()
    common.check_annotation(data, path, "an annotation or a corpus folder")
    with common.name_file(path):
        chosen, notices = notation.choose_tier(notation.read(data, name=path.name), tier)
    common.warn(notices)
    return Counter(s.label for s in notation.tier_segments(chosen) if s.label is not None)


def _show_comparison(found: LabelComparison, title: str, as_json: bool) -> None:
    from phonechain.features.phones.comparison import describe_steps

    if as_json:
        compared = {given: found.name_of(given) for given in found.known}
        typer.echo(json.dumps({**found.as_dict(), "compared_as": compared}, ensure_ascii=False, indent=2))
        return
    typer.echo(title)
    typer.echo(f"folding: {describe_steps(found.steps)}")
    table = common.table("given", ("times", "right"), "compared as")
    for label, count in found.known.items():
        table.add_row(label, str(count), found.name_of(label) or "")
    for counts, why in ((found.unscored, "not scored"), (found.unknown, "unknown to the model")):
        for label, count in counts.items():
            table.add_row(label, str(count), why)
    common.console().print(table)
    sums = [sum(counts.values()) for counts in (found.known, found.unscored, found.unknown)]
    typer.echo(f"{sums[0]} of {found.total} labels known, {sums[1]} not scored, {sums[2]} unknown")
