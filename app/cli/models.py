"""`phonechain models`: the shipped models, or one model's card."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from phonechain.app.cli import common, options


def models(
    model: Annotated[
        str | None, typer.Argument(help="Model file or name whose card to print.", metavar="[MODEL]")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the shipped models, or print a model's card."""
    card: dict[str, Any] = dict(common.load_model(model if model is not None else common.DEFAULT).card_)
    if as_json:
        typer.echo(
            json.dumps(card if model is not None else [{"file": common.DEFAULT, **card}], ensure_ascii=False, indent=2)
        )
        return
    if model is None:
        table = common.table("model", "version", ("labels", "right"), ("weights", "right"), "description")
        table.add_row(
            common.DEFAULT, card["version"], str(len(card["labels"])), str(card["parameters"]), card["description"]
        )
        common.console().print(table)
        return
    table = common.table("", "")
    table.show_header = False
    for key, value in card.items():
        if value not in ("", None, [], {}):
            table.add_row(key, _text(value))
    common.console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(part) for part in value)
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_text(part)}" for key, part in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
