"""A speaker's recordings are normalised together in a job, however many there are, and the rows say over what."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phonechain.app import samples
from phonechain.app.corpora import manifest
from phonechain.app.jobs.sharding import read_part
from phonechain.app.storage.tables import Corpus
from phonechain.app.storage.workspace import Workspace
from phonechain.features import corpora
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import featurise
from tests.app.jobs import speech
from tests.app.jobs.conftest import started, wait_for_end
from tests.app.jobs.test_segment_options import rows_of

READER = samples.AUDIO.parent / "reader"
COUNT = 20
"""Recordings of the sample's reader: more than are labelled at once where nothing says that they belong together."""


@pytest.mark.parametrize("known", [True, False])
def test_a_job_normalises_all_of_a_speaker(known: bool, tmp_path: Path, own_service: Callable[..., Any]) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    names = sorted(path.stem for path in READER.glob("*.ogg"))[:COUNT]
    for name in names:
        for suffix in (".ogg", ".TextGrid"):
            shutil.copy(READER / f"{name}{suffix}", folder)
    if known:
        table = "utterance\tspeaker\n" + "".join(f"{name}\treader\n" for name in names)
        (folder / "utterances.tsv").write_text(table)
    labeler = PhoneLabeler.load(pretrained_path("small"))
    inputs = [item.inputs for item in featurise(corpora.read(folder).utterances, labeler.features_)]
    expected, _ = labeler.posteriors(inputs, groups=[0] * COUNT if known else list(range(COUNT)))
    with own_service(workers=1, shard_files=12) as client:
        body, kind = speech.zip_folder(folder), {"content-type": "application/zip"}
        corpus = client.post("/corpora?name=reader", content=body, headers=kind).json()["id"]
        job = wait_for_end(client, started(client, kind="label", corpus=corpus, model="small"))
        assert (job["state"], job["progress"]["done"]) == ("succeeded", COUNT), job
        rows = rows_of(client, job)
        assert [row["utterance"] for row in rows] == names
        assert {row["normalised"] for row in rows} == {"speaker" if known else "recording"}
        for row, p in zip(rows, expected, strict=True):
            np.testing.assert_allclose([s["posterior"] for s in row["segments"]], p.max(1), atol=1e-5)
        # a review finds the row of a recording that went to the part before
        review = client.post("/reviews", json={"name": "r"}).json()["id"]
        added = client.post(f"/reviews/{review}/files", json={"job": job["id"], "place": 15})
        assert added.status_code == 201, added.text


@pytest.mark.parametrize("seed", range(30))
def test_parts_have_every_line_once_and_whole_speakers(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 7))
    speakers: list[str | None] = []
    while len(speakers) < 40:
        name = None if random.random() < 0.2 else f"s{random.integers(100)}"
        speakers += [name] * int(random.integers(1, 2 * size + 2))
    lines = [manifest.Line(n, f"u{n}", f"u{n}.wav", f"u{n}.lab", speaker) for n, speaker in enumerate(speakers)]
    workspace = Workspace("", str(tmp_path / "blobs"), str(tmp_path))
    (tmp_path / "manifest").write_bytes(b"".join(manifest.render(lines)))
    corpus = Corpus(manifest=workspace.store.put(tmp_path / "manifest"))
    count = -(-len(lines) // size)
    parts = [read_part(workspace, corpus, number, size, whole_speakers=True) for number in range(count)]
    assert [line.index for part in parts for line in part] == list(range(len(lines)))
    runs = {name: max(_runs(speakers, name)) for name in speakers if name is not None}
    for one, other in pairwise([part for part in parts if part]):
        speaker = one[-1].speaker
        if speaker is not None and speaker == other[0].speaker:
            assert runs[speaker] > size
    plain = [read_part(workspace, corpus, number, size, whole_speakers=False) for number in range(count)]
    assert [len(part) for part in plain[:-1]] == [size] * (count - 1)


def _runs(speakers: list[str | None], name: str) -> list[int]:
    """How many recordings of a speaker follow each other."""
    lengths = [0]
    for speaker in speakers:
        if speaker == name:
            lengths[-1] += 1
        else:
            lengths.append(0)
    return lengths
