"""`phonechain demo`: label the shipped sample with the shipped model."""

from __future__ import annotations

from pathlib import Path

import typer

from phonechain.app.cli import answers, common
from phonechain.app.cli.label import label_files
from phonechain.app.samples import AUDIO, SEGMENTS, TEXT


def demo() -> None:
    """Label a sample sentence."""
    from phonechain.app.environment import load

    address = f"http://127.0.0.1:{load().port}"
    label_sample()
    typer.echo(f"\nThe same from a service (phonechain serve):\n  {curl(address)}")


def label_sample() -> None:
    """Print the sample's labels, and how many agree with its annotation."""
    labeler = common.load_model(common.DEFAULT)
    ready, labelled = label_files(labeler, AUDIO, SEGMENTS, n_best=3, decode="posterior", tier="phones")
    typer.echo(f'"{TEXT}" ({ready.duration:.1f} s), labelled by the model {labeler.card_["name"] or common.DEFAULT}:')
    common.warn(ready.notices)
    answers.print_tables([(ready, labelled)])
    right = sum(segment.label == segment.given for segment in labelled)
    typer.echo(f"{right} of {len(labelled)} labels agree with the annotation.")


def curl(url: str) -> str:
    """A command that labels the sample with a running service; paths are relative in a checkout."""
    audio, segments = (_short(path) for path in (AUDIO, SEGMENTS))
    return f"curl -F audio=@{audio} -F segments=@{segments} '{url}/classify?n_best=3'"


def _short(path: Path) -> str:
    linked = Path("samples") / path.name
    return str(linked) if linked.exists() and linked.samefile(path) else str(path)
