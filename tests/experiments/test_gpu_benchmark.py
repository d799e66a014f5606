"""The measurement of GPUs runs, in a tiny size on the CPU and on the stand-in; without a GPU the script says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from tests.far import Gpu

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_trial_measures_everything(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "cuda":
        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda *_: 0)
        with Gpu():
            assert gpu.main(["--device", "cuda", "--tiny"]) == 0
    else:
        assert gpu.main(["--device", "cpu", "--tiny"]) == 0
    said = capsys.readouterr().out
    assert said.count("epoch of 380 segments: ") == 2  # in float32 and in bfloat16
    for line in (
        "peak: ", "share of the peak: ", "segments per second", "times real time", "labels are the same", "summary\n",
        "alignment: done", "epoch in bfloat16: done", "kernels: left out", "letters: left out, a trial", "answers are the CPU's",
    ):  # fmt: skip
        assert line in said


def test_a_part_that_ends_with_an_error_fails_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(gpu, "measure_epoch", fail)
    assert gpu.main(["--device", "cpu", "--tiny"]) == 1
    said = capsys.readouterr().out
    assert "epoch: FAILED: RuntimeError: no kernel" in said
    assert "alignment: done" in said


def test_no_part_begins_when_the_time_is_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "BUDGET", -1.0)
    assert gpu.main(["--device", "cpu", "--tiny"]) == 0
    assert "epoch: left out, out of time" in capsys.readouterr().out


def test_answers_that_differ_fail(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "BOUND", -1.0)
    assert gpu.main(["--device", "cpu", "--tiny"]) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_script_says_that_there_is_no_gpu() -> None:
    done = subprocess.run([str(ROOT / "scripts" / "gpu_check.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "no GPU that torch can use" in done.stderr
