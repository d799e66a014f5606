"""`phonechain demo`: the shipped sample, labelled by the shipped model."""

from __future__ import annotations

from pathlib import Path

import typer

from phonechain.app.cli import common, label
from phonechain.app.samples import AUDIO, SEGMENTS, TEXT


def demo() -> None:
    """Label the sample that comes with the package."""
    from phonechain.app.settings import load

    settings = load()
    labeler = common.load_model(common.DEFAULT)
    ready, labelled = label.label_files(labeler, AUDIO, SEGMENTS, n_best=3, decode="posterior", tier="phones")
    typer.echo(f'"{TEXT}" ({ready.duration:.1f} s), labelled by the model {labeler.card_["name"] or common.DEFAULT}:')
    common.warn(ready.notices)
    label.print_table(ready, labelled)
    right = sum(segment.label == segment.given for segment in labelled)
    typer.echo(f"{right} of {len(labelled)} as the annotation has them.\n")
    typer.echo(f"The same from a service (phonechain serve):\n  {curl(f'http://127.0.0.1:{settings.port}')}")


def curl(url: str) -> str:
    """A command that labels the sample at a running service; paths are relative where that is shorter."""
    audio, segments = (_short(path) for path in (AUDIO, SEGMENTS))
    return f"curl -F audio=@{audio} -F segments=@{segments} '{url}/classify?n_best=3'"


def _short(path: Path) -> str:
    linked = Path("samples") / path.name
    return str(linked) if linked.exists() and linked.samefile(path) else str(path)
