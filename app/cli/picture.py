"""The picture of `phonechain label --plot`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from phonechain.app.cli import common
from phonechain.features.errors import SettingsError

if TYPE_CHECKING:
    from phonechain.app.labelling.pipeline import Prepared
    from phonechain.model.answers import LabelledSegment

FORMATS = (".png", ".svg", ".pdf")


def check_picture(out: Path | None, folder: bool) -> None:
    """Raises SettingsError before the work begins: another suffix, a folder of recordings, matplotlib not installed."""
    if out is None:
        return
    if folder:
        raise SettingsError("--plot draws one recording, not a folder of them")
    if out.suffix.lower() not in FORMATS:
        raise SettingsError(f"--plot: expected a name that ends in {', '.join(FORMATS)}, got {out}", value=str(out))
    common.check_output(out)
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise SettingsError("--plot needs matplotlib: pip install 'phonechain[plot]'")


def draw(audio: Path, channel: str, labelled: Sequence[tuple[Prepared, Sequence[LabelledSegment]]], out: Path) -> None:
    """Write the picture of one recording and its first labelled tier. Raises SettingsError, OSError."""
    from phonechain import plot
    from phonechain.features.audio.reader import decode

    ready, segments = labelled[0]
    tiers = [t for t in ready.annotation.interval_tiers() if t is not ready.tier]
    sound = decode(audio, channel=int(channel) if channel.isdecimal() else "mix", rate=16000)
    figure = plot.utterance(sound, segments, tiers=tiers[:6], title=audio.name)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=out.suffix.lower()[1:], dpi=160, metadata=METADATA.get(out.suffix.lower()))
    common.write_output(buffer.getvalue(), out)


METADATA: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""No date, so that the same input gives the same file."""
