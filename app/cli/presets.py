"""`phonechain presets`: the systems that can be trained, or every setting of one."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from phonechain.app.cli import common, options


def presets(
    preset: Annotated[str | None, typer.Argument(help="Preset whose settings to list.", metavar="[NAME]")] = None,
    as_json: options.Json = False,
) -> None:
    """List the presets, or the settings of one."""
    from phonechain.app.cli.preset_settings import list_settings
    from phonechain.model import presets as known
    from phonechain.model.segmental.settings import SegmentalPreset

    if preset is None:
        every: list[known.Preset | SegmentalPreset] = [known.preset(name) for name in known.preset_names()]
        every.append(SegmentalPreset())
        if as_json:
            typer.echo(json.dumps([{"name": one.name, "title": one.title} for one in every], indent=2))
            return
        table = common.table("preset", "system")
        for one in every:
            table.add_row(one.name, one.title)
        common.console().print(table)
        return
    rows = list_settings(SegmentalPreset() if preset == SegmentalPreset.name else known.preset(preset))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
        return
    table = common.table("setting", "value", "type", "meaning", title=preset)
    for row in rows:
        table.add_row(row.key, row.value, row.type, row.meaning)
    common.console().print(table)
