"""A speaker's recordings are normalised together in a job, however many there are, and the rows say over what."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phonechain.app import samples
from phonechain.app.corpora import contents, manifest
from phonechain.app.jobs import label
from phonechain.app.jobs.outage import Throttle
from phonechain.app.jobs.sharding import read_part
from phonechain.app.storage.tables import Corpus, Job
from phonechain.app.storage.workspace import Workspace
from phonechain.features import corpora
from phonechain.model import pretrained_path
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.extraction import featurise
from phonechain.model.sequences import answer_sequence
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


def test_a_speaker_with_more_recordings_than_a_part_is_normalised_over_all(
    tmp_path: Path, own_service: Callable[..., Any]
) -> None:
    """70 of one speaker, among them some of another who has few but not one after the other."""
    folder, count, others = tmp_path / "corpus", 73, {5, 6, 68}
    folder.mkdir()
    speakers = ["other" if n in others else "one" for n in range(count)]
    table = "utterance\tspeaker\n"
    for n, speaker in enumerate(speakers):
        wav, lab = speech.utterance(n)
        (folder / f"u{n:02d}.wav").write_bytes(wav)
        (folder / f"u{n:02d}.lab").write_bytes(lab)
        table += f"u{n:02d}\t{speaker}\n"
    (folder / "u02.wav").write_bytes(b"RIFF")  # what cannot be used is no part of its speaker
    (folder / "utterances.tsv").write_text(table)
    labeler = PhoneLabeler.load(pretrained_path("small"))
    utterances = [u for u in corpora.read(folder).utterances if u.id != "u02"]
    inputs = [item.inputs for item in featurise(utterances, labeler.features_)]
    groups = [speaker == "other" for n, speaker in enumerate(speakers) if n != 2]
    expected, _ = labeler.posteriors(inputs, groups=[int(g) for g in groups])
    alone, _ = labeler.posteriors(inputs[:64], groups=[int(g) for g in groups[:64]])
    assert max(np.abs(a - b).max() for a, b in zip(alone, expected, strict=False)) > 1e-3
    with own_service(workers=2, shard_files=64) as client:
        body, kind = speech.zip_folder(folder), {"content-type": "application/zip"}
        corpus = client.post("/corpora?name=one", content=body, headers=kind).json()["id"]
        job = wait_for_end(client, started(client, kind="label", corpus=corpus, model="small", sequences=1))
        assert (job["state"], job["progress"]["done"]) == ("succeeded", count), job
        assert job["result"]["failed"] == 1
        rows = rows_of(client, job)
    assert len(rows) == count - 1
    for row, p in zip(rows, expected, strict=True):
        np.testing.assert_allclose([s["posterior"] for s in row["segments"]], p.max(1), atol=1e-5)
        assert row["normalised"] == "speaker"
    model = labeler.model_
    beside = [i for i, other in zip(inputs[1:], groups[1:], strict=True) if not other]
    [h] = model.encode_parts(inputs[:1], beside=beside, mode="speaker")
    best = answer_sequence(model.network, model.labels, h, temperature=model.temperature, n_best=1).n_best[0]
    assert rows[0]["sequences"][0]["n_best"][0]["log_probability"] == pytest.approx(best.log_probability, abs=1e-3)


def test_a_speaker_with_more_sound_than_is_labelled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label, "MOST_SECONDS", 7.0)
    lines, inputs = [], []
    for n in range(12):
        wav, lab = speech.utterance(n)
        (tmp_path / f"u{n:02d}.wav").write_bytes(wav)
        (tmp_path / f"u{n:02d}.lab").write_bytes(lab)
        lines.append(manifest.Line(n, f"u{n:02d}", f"u{n:02d}.wav", f"u{n:02d}.lab", "one" if n < 9 else "two"))
    labeler = PhoneLabeler.load(pretrained_path("small"))
    inputs = [item.inputs for item in featurise(corpora.read(tmp_path).utterances, labeler.features_)]
    expected, _ = labeler.posteriors(inputs, groups=[int(n >= 9) for n in range(12)])
    workspace = Workspace("", str(tmp_path / "blobs"), str(tmp_path))
    options = {
        "n_best": 1, "decode": "posterior", "formats": [], "channel": "mix", "fix": False, "tier": None,
        "max_seconds": 60.0, "max_segments": 1000,
    }  # fmt: skip
    spec = {"options": options, "model": {"blob": workspace.store.put(pretrained_path("small"))}}
    job = Job(id="j", kind="label", spec=spec)
    part = label.run(workspace, job, lines, contents.Files(tmp_path, tmp_path), Throttle(lambda: None), {})
    assert not part.errors
    part.rows.seek(0)
    rows = [json.loads(row) for row in part.rows]
    assert len(rows) == 12
    for row, p in zip(rows, expected, strict=True):
        np.testing.assert_allclose([s["posterior"] for s in row["segments"]], p.max(1), atol=1e-5)


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
