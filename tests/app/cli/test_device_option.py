"""`--device`: the commands compute where it says; the service and its metrics tell where that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from phonechain.app import samples
from phonechain.app.cli import app, label_folder
from phonechain.app.jobs import execution
from phonechain.features.errors import SettingsError
from tests.far import Gpu

AUDIO, SEGMENTS = str(samples.AUDIO), str(samples.SEGMENTS)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_label_answers_on_a_gpu_as_on_the_cpu() -> None:
    near = json.loads(run("label", AUDIO, SEGMENTS, "--device", "cpu", "--format", "json"))
    with Gpu():
        far = json.loads(run("label", AUDIO, SEGMENTS, "--device", "cuda", "--format", "json", "--sequences", "3"))
        assert Gpu.syncs, "it was on the GPU"
    assert [s["label"] for s in far["segments"]] == [s["label"] for s in near["segments"]]
    for a, b in zip(far["segments"], near["segments"], strict=True):
        assert a["posterior"] == pytest.approx(b["posterior"], abs=1e-4)


def test_a_folder_is_labelled_by_one_process_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(3):
        for file in (samples.AUDIO, samples.SEGMENTS):
            (folder / f"{n}{file.suffix}").write_bytes(file.read_bytes())
    monkeypatch.setattr(label_folder, "MANY", 1)
    monkeypatch.setattr(label_folder, "BATCH", 1)
    monkeypatch.setattr(label_folder, "_loaded", {})
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", None)  # a process that is forked cannot use the GPU
    with Gpu():
        run("label", str(folder), "--device", "cuda", "--out", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").iterdir())) == 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="cuda: no GPU that torch can use"):
        run("label", AUDIO, SEGMENTS, "--device", "cuda")
    monkeypatch.setenv("PHONECHAIN_DEVICE", "cuda:3")
    with pytest.raises(SettingsError, match="cuda:3: no GPU that torch can use"):
        run("label", AUDIO, SEGMENTS)
    with pytest.raises(SettingsError, match="expected auto, cpu, cuda or cuda:N, got 'gpu'"):
        run("label", AUDIO, SEGMENTS, "--device", "gpu")


def test_align_and_recognize_answer_on_a_gpu_as_on_the_cpu() -> None:
    for command in (["align", AUDIO, "--text", samples.TEXT], ["recognize", AUDIO]):
        near = json.loads(run(*command, "--device", "cpu", "--format", "json"))
        with Gpu():
            far = json.loads(run(*command, "--device", "cuda", "--format", "json"))
            assert Gpu.syncs, "it was on the GPU"
        assert [p["label"] for p in far["segments"]] == [p["label"] for p in near["segments"]]
        assert [p["start"] for p in far["segments"]] == pytest.approx([p["start"] for p in near["segments"]], abs=1e-3)


def test_jobs_compute_where_their_worker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHONECHAIN_DEVICE", raising=False)
    assert execution.device() == "auto"
    monkeypatch.setenv("PHONECHAIN_DEVICE", "cuda:1")
    assert execution.device() == "cuda:1"


def test_readiness_and_metrics_name_the_device(client: Any) -> None:
    assert client.get("/health/ready").json()["device"] == "cpu"
    assert 'phonechain_device_info{device="cpu"} 1.0' in client.get("/metrics").text


def test_models_are_compared_on_a_gpu() -> None:
    corpus = str(samples.AUDIO.parent)
    near = json.loads(run("compare", "paper", "small", corpus, "--device", "cpu", "--json"))
    with Gpu():
        far = json.loads(run("compare", "paper", "small", corpus, "--device", "cuda", "--json"))
        assert Gpu.syncs, "it was on the GPU"
    assert (far["a"]["errors"], far["b"]["errors"]) == (near["a"]["errors"], near["b"]["errors"])
