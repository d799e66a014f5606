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
    folder: Annotated[Path, typer.Argument(help="Folder to create; it must not exist.", metavar="FOLDER")],
) -> None:
    """Write the guide's sample recordings and annotations to a folder.

    26 sentences by a reader of US English (public domain) with 1,715 labelled phones, a copy of the labels with 40 errors, and
    the transcripts of seven sentences.
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
