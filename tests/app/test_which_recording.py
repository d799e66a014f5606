"""Annotations of several recordings or channels, and ones cut out of longer ones: by the service and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.features import annotation as notation
from phonechain.features import corpora
from phonechain.features.annotation import ctm
from tests.app.conftest import AUDIO, LAB, TEXTGRID, Client, speech, wav

READ = notation.read(LAB, name="a.lab")
CTM = ctm.write(READ, "LJ001-0002") + b"other 1 0.0 0.1 T\n"
STEREO = wav(np.stack([speech(), 0.1 * speech()[::-1]], axis=1), 22050)
TWO = b"a A 0.0 0.2 IH\na A 0.2 0.2 N\na B 0.1 0.2 B\n"


def classify(client: Client, audio: bytes, segments: bytes, name: str, **options: Any) -> Any:
    files = {"audio": ("LJ001-0002.flac", audio), "segments": (name, segments)}
    return client.post("/classify", files=files, data=options)


def labels(answer: Any) -> list[str]:
    return [s["label"] for s in answer.json()["segments"]]


def codes(answer: Any) -> set[str]:
    return {w["code"] for w in answer.json()["warnings"]}


def test_the_name_of_the_sound_says_which_recording_is_meant(client: Client) -> None:
    assert labels(classify(client, AUDIO, CTM, "all.ctm")) == labels(client.classify(segments=LAB))
    assert len(labels(classify(client, AUDIO, CTM, "all.ctm", utterance="other"))) == 1
    refused = classify(client, AUDIO, CTM, "all.ctm", utterance="third")
    assert refused.status_code == 422
    assert refused.json()["detail"] == "expected a recording named 'third', got 'LJ001-0002', 'other'"


def test_the_command_line_takes_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.ctm"
    file.write_bytes(CTM)
    assert main(["label", str(samples.AUDIO), str(file), "--format", "json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["segments"]) == len(READ.tiers[0].entries)
    assert main(["label", str(samples.AUDIO), str(file), "--utterance", "other", "--format", "json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["segments"]) == 1
    assert main(["label", str(samples.AUDIO), str(file), "--utterance", "third"]) == 2
    assert main(["convert", str(file), "-", "--to", "csv", "--utterance", "other"]) == 0
    assert capfd.readouterr().out == "start,end,labels\n0,0.1,T\n"


def test_the_channel_of_a_ctm_chooses_that_of_the_sound(client: Client) -> None:
    first = classify(client, STEREO, TWO, "x.ctm")
    assert labels(first) == labels(classify(client, STEREO, TWO, "x.ctm", channel="0"))
    assert {"annotation-channels", "channel-chosen"} <= codes(first)
    second = classify(client, STEREO, TWO, "x.ctm", channel="1")
    assert [s["given"] for s in second.json()["segments"]] == ["B"]
    assert "audio-channels-differ" not in codes(second)
    assert labels(second) == labels(classify(client, STEREO, TWO, "x.ctm", utterance="a B"))
    missing = classify(client, STEREO, TWO + b"a C 0 1 x\n", "x.ctm", channel="3")
    assert missing.json()["detail"].startswith("expected labels for channel 3 of 'a', got channels 'A', 'B', 'C'")


def test_one_channel_is_said_where_the_annotation_knows_more(client: Client) -> None:
    assert {"channel-mono", "annotation-channels"} <= codes(classify(client, AUDIO, TWO, "x.ctm"))


def test_a_corpus_takes_the_channel_too(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(STEREO)
    (tmp_path / "all.ctm").write_bytes(TWO)
    corpus = corpora.read(tmp_path)
    assert [(u.channel, len(u.segments)) for u in corpus.utterances] == [(0, 2)]
    assert [p.message for p in corpus.problems] == [
        "channel 1 ('a B') is left out: a corpus takes one channel of a recording"
    ]


CUT = notation.write(notation.shift(notation.read(TEXTGRID), 0.5), "textgrid")


def test_an_annotation_that_kept_the_times_of_a_longer_one(client: Client) -> None:
    refused = client.classify(segments=CUT)
    assert "kept its times: from 0.500 s to 2.390 s" in refused.json()["detail"]
    assert "with a shift of -0.500 s they fit" in refused.json()["detail"]
    for shift in ("-0.5", "start"):
        assert labels(client.classify(segments=CUT, shift=shift)) == labels(client.classify())
    wrong = client.classify(segments=CUT, shift="half")
    assert wrong.status_code == 422
    assert "expected a number of seconds, or start" in wrong.json()["errors"][0]["detail"]


def test_shifted_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.TextGrid"
    file.write_bytes(CUT)
    assert main(["label", str(samples.AUDIO), str(file)]) == 2
    assert main(["label", str(samples.AUDIO), str(file), "--shift", "start", "--format", "csv"]) == 0
    capfd.readouterr()
    assert main(["convert", str(file), "-", "--to", "textgrid", "--shift", "-0.5"]) == 0
    back = notation.read(capfd.readouterr().out.encode())
    known = notation.read(TEXTGRID)
    assert (back.start, back.end) == (known.start, known.end)
    assert [t.entries for t in back.tiers] == [t.entries for t in known.tiers]


@pytest.mark.parametrize("name", ["a.PNG", "a.docx", "answer"])
def test_a_suffix_that_names_no_format_is_refused(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / name
    assert main(["label", str(samples.AUDIO), str(samples.SEGMENTS), "--out", str(out)]) == 2
    assert "has no suffix of a format" in capfd.readouterr().err
    assert main(["convert", str(samples.SEGMENTS), str(out)]) == 2
    assert not out.exists()


def test_formats_by_the_names_that_people_give_them(client: Client, tmp_path: Path) -> None:
    assert main(["convert", str(samples.SEGMENTS), str(tmp_path / "a.x"), "--to", "TextGrid"]) == 0
    assert notation.read((tmp_path / "a.x").read_bytes()).format == "textgrid"
    assert main(["label", str(samples.AUDIO), str(samples.SEGMENTS), "--out", str(tmp_path / "a.EAF")]) == 0
    assert notation.read((tmp_path / "a.EAF").read_bytes()).format == "eaf"
    assert main(["label", str(samples.AUDIO), str(samples.SEGMENTS), "-f", "PHN", "-o", str(tmp_path / "b")]) == 0
    assert client.classify(format="TextGrid").content == client.classify(format="textgrid").content


def test_a_tree_of_emu_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/s.TextGrid").write_bytes(TEXTGRID)
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "emu"), "--to", "emu"]) == 0
    assert [p.name for p in (tmp_path / "emu").iterdir()] == ["s_annot.json"]
    assert main(["convert", str(tmp_path / "emu"), str(tmp_path / "back"), "--to", "csv"]) == 0
    assert [p.name for p in (tmp_path / "back").iterdir()] == ["s.csv"]
    (tmp_path / "emu/s.flac").write_bytes(AUDIO)
    assert [u.id for u in corpora.read(tmp_path / "emu").utterances] == ["s"]


def test_sound_without_a_header(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    headerless = (speech() * 32767).round().astype("<i2").tobytes()
    answer = client.classify(audio=headerless, raw="22050,s16le,1")
    assert labels(answer) == labels(client.classify())
    assert (
        client.classify(audio=headerless).status_code == 415 or "expected WAV" in client.classify(audio=headerless).text
    )
    wrong = client.classify(audio=headerless, raw="22050")
    assert wrong.status_code == 422
    assert "such as 16000,s16le,1" in wrong.text
    (tmp_path / "a.raw").write_bytes(headerless)
    asked = ["label", str(tmp_path / "a.raw"), str(samples.SEGMENTS), "--format", "json"]
    assert main([*asked, "--raw", "22050,s16le,1"]) == 0
    assert [s["label"] for s in json.loads(capfd.readouterr().out)["segments"]] == labels(answer)
    assert main([*asked, "--raw", "22050,s16,1"]) == 2
    assert "--raw: expected a rate" in capfd.readouterr().err
