"""Parts of alignment jobs, run in this process: a cancelled job does not wait for the end of a long recording."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from phonechain.app import samples
from phonechain.app.corpora.contents import Files
from phonechain.app.corpora.manifest import Line
from phonechain.app.jobs import align
from phonechain.app.jobs.outage import Throttle
from phonechain.app.jobs.repository import Cancelled
from phonechain.app.storage.tables import Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features.audio.reader import decode
from phonechain.model import ALIGNMENT, pretrained_path

TEXTS = sorted((samples.FOLDER / "transcripts").glob("*.txt"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of more than two minutes with its transcript and its phones."""
    root = tmp_path_factory.mktemp("long")
    sound = [decode(samples.FOLDER / "reader" / f"{text.stem}.ogg", rate=16000).samples for text in TEXTS] * 3
    data = io.BytesIO()
    soundfile.write(data, np.concatenate(sound), 16000, format="FLAC")
    (root / "long.flac").write_bytes(data.getvalue())
    (root / "long.txt").write_text(" ".join(text.read_text() for text in TEXTS * 3))
    return root


@pytest.mark.parametrize("kind", ["align", "recognize"])
def test_cancelling_is_heard_between_the_windows_of_a_recording(kind: str, folder: Path, tmp_path: Path) -> None:
    assert soundfile.info(folder / "long.flac").duration > 100
    workspace = Workspace("", f"file://{tmp_path / 'blobs'}", str(tmp_path))
    digest = workspace.store.put(pretrained_path(ALIGNMENT))
    options = {
        "channel": "mix", "max_seconds": 7200.0, "formats": [], "tier": None, "refine": False, "spread": 0.03,
        "language": "en", "phones": False, "oov": None,
    }  # fmt: skip
    spec = {"model": {"name": "x", "version": "", "blob": digest}, "options": options}
    job, line = Job(id="j", kind=kind, spec=spec), Line(0, "long", "long.flac", "long.txt")
    asked: list[int] = []

    def wanted(limit: int) -> Throttle:
        def ask() -> None:
            asked.append(0)
            if len(asked) == limit:
                raise Cancelled

        return Throttle(ask, every=0.0)

    part = align.run(workspace, job, [line], Files(folder, tmp_path), wanted(-1))
    assert (part.segments > 900, part.errors) == (True, [])
    in_all = len(asked)
    assert in_all > 7, "before the recording, after it, and between its windows"
    for limit in (3, in_all - 2):
        asked.clear()
        with pytest.raises(Cancelled):
            align.run(workspace, job, [line], Files(folder, tmp_path), wanted(limit))
        assert len(asked) == limit
