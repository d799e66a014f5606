"""`phonechain samples`: the recordings of the guide, in a folder of one's own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from phonechain.app import samples as shipped
from phonechain.features.errors import SettingsError

PARTS = ("LJ001-0002.*", "README.md", "planted.tsv", "reader/*", "planted/*", "transcripts/*")


def samples(
    folder: Annotated[Path, typer.Argument(help="Folder to write, which must not exist yet.", metavar="FOLDER")],
) -> None:
    """Write the sample recordings with their annotations, which the guide works with, to a folder.

    A public-domain reader of US English: 26 sentences, 1,715 phones; a copy of the labels with 40 errors; seven of the texts.
    """
    if folder.exists():
        raise SettingsError(f"{folder} already exists; choose another folder", value=str(folder))
    count = 0
    for part in PARTS:
        for source in sorted(shipped.FOLDER.glob(part)):
            target = folder / source.relative_to(shipped.FOLDER)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            count += 1
    typer.echo(f"wrote {count} files to {folder}")
