"""`phonechain models`: the shipped models, or one model's card."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from phonechain.app.cli import common, options
from phonechain.model import ALIGNMENT, labelling_names


def models(
    model: Annotated[
        str | None, typer.Argument(help="Model file or name whose card to print.", metavar="[MODEL]")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the shipped models, or print a model's card."""
    if model is None:
        _list(as_json)
        return
    card = _read_card(model)
    if as_json:
        typer.echo(json.dumps(card, ensure_ascii=False, indent=2))
        return
    table = common.table("", "")
    table.show_header = False
    for key, value in card.items():
        if value not in ("", None, [], {}):
            table.add_row(key, _format_text(value))
    common.console().print(table)


def _list(as_json: bool) -> None:
    names = [*labelling_names(), ALIGNMENT]
    cards = [
        {"file": name, **_read_card(name), "kind": "alignment" if name == ALIGNMENT else "labelling"} for name in names
    ]
    if as_json:
        typer.echo(json.dumps(cards, ensure_ascii=False, indent=2))
        return
    table = common.table("model", "kind", "version", ("labels", "right"), ("weights", "right"), "description")
    for card in cards:
        table.add_row(
            card["file"], card["kind"], card["version"], str(len(card["labels"])), str(card["parameters"]),
            card["description"],
        )  # fmt: skip
    common.console().print(table)


def _read_card(model: str) -> dict[str, Any]:
    """The card of a model of either kind. Raises ModelFileError."""
    from phonechain.model.files import modelfile
    from phonechain.model.files.header import ALIGNMENT_KIND
    from phonechain.model.segmental.aligner import PhoneAligner

    path = common.model_path(model)
    if modelfile.read(path)[1].model.get("kind") == ALIGNMENT_KIND:
        return PhoneAligner.load(path, device="cpu").card_
    return dict(common.load_model(model).card_)


def _format_text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(part) for part in value)
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_format_text(part)}" for key, part in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
