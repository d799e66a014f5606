"""Segments that do not fit, gaps between them, and samples at the recording's rate: by the service and the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from phonechain.app import samples
from phonechain.app.cli import main
from phonechain.app.labelling import pipeline as labelling
from phonechain.app.labelling.pipeline import Gaps
from phonechain.app.models.catalog import Registry
from phonechain.features import annotation as notation
from phonechain.features.segments import Segment
from tests.app.conftest import LAB, Client, lab, speech, wav

PHONES = notation.tier_segments(notation.read(LAB, name="a.lab").tiers[0])
SPANS = [(s.start, s.end, s.label or "") for s in PHONES]
BAD = lab(*SPANS[:4], (SPANS[4][0], SPANS[4][0], "X"), *SPANS[4:], (1.89, 2.5, "Z"))
ZERO, PAST = 4, 24


def on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], segments: bytes, *options: str
) -> dict[str, Any]:
    (tmp_path / "a.lab").write_bytes(segments)
    assert main(["label", str(samples.AUDIO), str(tmp_path / "a.lab"), "--format", "json", *options]) == 0
    return dict(json.loads(capfd.readouterr().out))


# ---------------------------------------------------------------------------------------------------- bad segments


def test_they_are_refused_unless_asked_otherwise(client: Client) -> None:
    answer = client.classify(segments=BAD)
    assert answer.status_code == 422
    assert "zero length" in answer.json()["detail"]
    assert "past the end" in answer.json()["detail"]


def test_skipped_ones_come_back_with_the_reason(client: Client) -> None:
    answer = client.classify(segments=BAD, on_bad_segment="skip").json()
    segments = answer["segments"]
    assert [s["given"] for s in segments] == [*[p[2] for p in SPANS[:4]], "X", *[p[2] for p in SPANS[4:]], "Z"]
    for place, reason in ((ZERO, "zero length"), (PAST, "past the end of the sound")):
        skipped = segments[place]
        assert reason in skipped["skipped"]
        assert (skipped["label"], skipped["posterior"], skipped["n_best"], skipped["given_rank"]) == (
            None,
            None,
            [],
            None,
        )
    told = {w["pointer"]: w["message"] for w in answer["warnings"] if w["code"] == "segment-skipped"}
    assert told == {f"segments/{n}": segments[n]["skipped"] for n in (ZERO, PAST)}
    others = [s for s in segments if "skipped" not in s]
    assert [s["label"] for s in others] == [s["label"] for s in client.classify(segments=LAB).json()["segments"]]


def test_the_command_line_says_the_same(client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    answer = on_the_command_line(tmp_path, capfd, BAD, "--on-bad-segment", "skip")
    served = client.classify(segments=BAD, on_bad_segment="skip").json()
    assert answer["warnings"] == served["warnings"]
    assert [s["label"] for s in answer["segments"]] == [s["label"] for s in served["segments"]]
    assert main(["label", str(samples.AUDIO), str(tmp_path / "a.lab"), "--on-bad-segment", "skip"]) == 0
    out, err = capfd.readouterr()
    assert "zero length" in err
    assert ["0.310", "0.310", "X"] in [line.split() for line in out.splitlines()]
    assert main(["label", str(samples.AUDIO), str(tmp_path / "a.lab"), "--on-bad-segment", "drop"]) == 2
    assert "--on-bad-segment: expected" in capfd.readouterr().err


def test_all_bad_is_still_refused(client: Client) -> None:
    answer = client.classify(segments=lab((5.0, 6.0, "N"), (6.0, 7.0, "N")), on_bad_segment="skip")
    assert answer.status_code == 422
    assert "another recording" in answer.json()["detail"]


@pytest.mark.parametrize("format", ["textgrid", "htk", "csv", "eaf", "ctm"])
def test_an_annotation_without_those_that_no_file_can_hold(format: str, client: Client) -> None:
    reversed_one = lab(*SPANS[:4], (0.6, 0.5, "X"), *SPANS[4:])
    answer = client.classify(segments=reversed_one, on_bad_segment="skip", format=format)
    assert answer.status_code == 200, answer.text
    assert "segment-skipped; count=1" in answer.headers["x-phonechain-warnings"]
    read = notation.read(answer.content, format=format)
    known = client.classify(segments=LAB).json()["segments"]
    answered = next((t for t in read.tiers if t.name.endswith(" phonechain")), read.tiers[0])
    assert [s.label for s in answered.entries] == [s["label"] for s in known]


# ---------------------------------------------------------------------------------------------------- gaps

HOLE = [*SPANS[:8], *SPANS[12:]]
"""Without four segments in the middle."""


def test_the_chain_runs_across_gaps_and_says_so(client: Client) -> None:
    answer = client.classify(segments=lab(*HOLE)).json()
    assert answer["gaps"] == {"mode": "across", "max_gap": 0.2, "sequences": 1}


def test_a_chain_that_breaks_is_two_chains(client: Client, registry: Registry) -> None:
    # normalised over the training set alone: else each half would be normalised by itself
    answer = client.classify(segments=lab(*HOLE), gaps="break", n_best="3", normalise="model").json()
    assert answer["gaps"] == {"mode": "break", "max_gap": 0.2, "sequences": 2}
    halves = [
        client.classify(segments=lab(*half), n_best="3", normalise="model").json()["segments"]
        for half in (HOLE[:8], HOLE[8:])
    ]
    for got, known in zip(answer["segments"], [*halves[0], *halves[1]], strict=True):
        assert got["label"] == known["label"]
        assert got["posterior"] == pytest.approx(known["posterior"], rel=1e-3)
    across = client.classify(segments=lab(*HOLE), normalise="model").json()["segments"]
    # Far from the gap both say the same, beside it they do not: the break is no mere word in the answer.
    beside = [abs(a["posterior"] - b["posterior"]) for a, b in zip(answer["segments"], across, strict=True)][7:9]
    assert max(beside) > 1e-4


def test_where_it_breaks(client: Client) -> None:
    def breaks(**options: Any) -> int:
        return int(client.classify(segments=lab(*HOLE), **options).json()["gaps"]["sequences"])

    hole = HOLE[8][0] - HOLE[7][1]
    assert breaks(gaps="break", max_gap=str(hole + 0.001)) == 1
    assert breaks(gaps="break", max_gap=str(hole - 0.001)) == 2
    assert breaks(gaps="across", max_gap="0") == 1
    assert client.classify(segments=LAB, gaps="break", max_gap="0").json()["gaps"]["sequences"] == 1  # they touch
    assert client.classify(gaps="break", max_gap="-1").status_code == 422
    assert client.classify(gaps="break", max_gap="nan").status_code == 422


def test_the_command_line_breaks_as_well(tmp_path: Path, capfd: pytest.CaptureFixture[str], client: Client) -> None:
    answer = on_the_command_line(tmp_path, capfd, lab(*HOLE), "--gaps", "break", "--max-gap", "0.1")
    assert answer["gaps"] == {"mode": "break", "max_gap": 0.1, "sequences": 2}
    served = client.classify(segments=lab(*HOLE), gaps="break", max_gap="0.1").json()
    for got, known in zip(answer["segments"], served["segments"], strict=True):
        assert got["posterior"] == pytest.approx(known["posterior"], rel=1e-3)


def test_a_skipped_segment_leaves_a_gap() -> None:
    rule = Gaps("break", 0.0)
    assert labelling.find_breaks([Segment(0, 0.1), Segment(0.1, 0.2), Segment(0.3, 0.4)], rule) == (2,)


# ---------------------------------------------------------------------------------------------------- samples


def phn(rate: int) -> bytes:
    return "".join(f"{round(s.start * rate)} {round(s.end * rate)} {s.label}\n" for s in PHONES).encode()


@pytest.mark.parametrize("rate", [8000, 16000, 22050])
def test_timit_counts_the_samples_of_the_recording(rate: int, client: Client) -> None:
    import soxr

    sound = wav(soxr.resample(speech(), 22050, rate), rate)
    files = {"audio": sound, "segments": ("a.phn", phn(rate))}
    answer = client.post("/classify", files=files).json()
    assert "rate-assumed" not in [w["code"] for w in answer["warnings"]]
    for s, known in zip(answer["segments"], PHONES, strict=True):
        assert s["start"] == pytest.approx(known.start, abs=1 / rate)
    written = client.post("/classify", files=files, data={"format": "timit"}).content.split(b"\n")
    assert [line.split()[:2] for line in written] == [line.split()[:2] for line in phn(rate).split(b"\n")]


def test_a_sphere_like_recording_of_8_khz_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = io.BytesIO()
    soundfile.write(out, np.random.default_rng(0).normal(0, 0.1, 8000), 8000, format="NIST", subtype="PCM_16")
    (tmp_path / "a.wav").write_bytes(out.getvalue())
    (tmp_path / "a.PHN").write_text("0 4000 AA\n4000 8000 N\n")
    assert main(["label", str(tmp_path / "a.wav"), str(tmp_path / "a.PHN"), "--format", "json"]) == 0
    assert [s["end"] for s in json.loads(capfd.readouterr().out)["segments"]] == [0.5, 1.0]
