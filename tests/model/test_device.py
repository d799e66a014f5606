"""Placement: every preset trains, labels, saves, loads and resumes on the stand-in for a GPU, with the CPU's answers.

The stand-in (tests/far.py) refuses tensors of two devices in one operation. It says nothing about a GPU's own arithmetic, speed
or memory, which scripts/gpu_check.sh measures where there is one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from phonechain.features.errors import SettingsError, TrainingError
from phonechain.features.inputs import Inputs, from_array
from phonechain.features.reading import read_audio, read_segments
from phonechain.model import device as devices
from phonechain.model import phone_model, pretrained_path
from phonechain.model.device import choose_device
from phonechain.model.labeler import PhoneLabeler
from phonechain.model.learning.checkpoint import CHECKPOINT
from phonechain.model.learning.training import Progress
from phonechain.model.presets import preset, preset_names
from tests.far import DEVICE, Far, Gpu, place
from tests.model.test_presets import corpus, small

TRAIN, DEV = corpus(12, 1), corpus(4, 2)


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with Gpu() as made:
        yield made


def make(name: str, device: str, epochs: int) -> PhoneLabeler:
    """A labeler of a small preset. The stand-in draws what the CPU draws, so that dropout may stay."""
    given = small(preset(name))
    training = dataclasses.replace(given.training, epochs=epochs)
    return PhoneLabeler(name, model=given.model, training=training, device=device)


def inputs_of(items: list) -> list[Inputs]:
    return [i.inputs for i in items]


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_trains_labels_saves_and_loads_as_on_the_cpu(name: str, tmp_path: Path) -> None:
    near = make(name, "cpu", 1).fit_featurised(TRAIN, DEV)
    near.save(tmp_path / "near.safetensors")
    expected, expected_best = near.posteriors(inputs_of(DEV))
    _, expected_paths = near.posteriors(inputs_of(DEV), viterbi=True)
    with Gpu():
        moved = PhoneLabeler.load(tmp_path / "near.safetensors", device="cuda")
        assert place(moved.network_) == {"cuda"}
        assert moved.device_ == DEVICE
        answers, best = moved.posteriors(inputs_of(DEV))
        _, paths = moved.posteriors(inputs_of(DEV), viterbi=True)
        moved.save(tmp_path / "moved.safetensors")
        far = make(name, "cuda", 1).fit_featurised(TRAIN, DEV)
        assert place(far.network_) == {"cuda"}
        trained = far.posteriors(inputs_of(DEV))[0]
        far.save(tmp_path / "far.safetensors")
    for p, q, r in zip(answers, expected, trained, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-6, rtol=0)
        np.testing.assert_allclose(r, q, atol=1e-4, rtol=0)  # stored weights are rounded to 16 bits, some up, some down
    for a, b in zip(best + paths, expected_best + expected_paths, strict=True):
        np.testing.assert_array_equal(a, b)
    for file, given in (("moved", answers), ("far", trained)):
        stored = PhoneLabeler.load(tmp_path / f"{file}.safetensors", device="cpu").posteriors(inputs_of(DEV))[0]
        for p, q in zip(stored, given, strict=True):
            np.testing.assert_allclose(p, q, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["spn-lc-crf", "spn-memm", pytest.param("blstm-ho-lc-crf", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")])
def test_a_run_is_resumed_on_either_device(name: str, first: str, second: str, tmp_path: Path) -> None:
    whole = make(name, "cpu", 2).fit_featurised(TRAIN, DEV)

    def end_after_an_epoch(event: Progress) -> None:
        if event.stage == "epoch":
            raise KeyboardInterrupt

    with Gpu():
        with pytest.raises(KeyboardInterrupt):
            make(name, first, 2).fit_featurised(TRAIN, DEV, run_dir=tmp_path, progress=end_after_an_epoch)
        assert (tmp_path / CHECKPOINT).exists()
        resumed = make(name, second, 2).fit_featurised(TRAIN, DEV, run_dir=tmp_path)
        answers = resumed.posteriors(inputs_of(DEV))[0]
    assert [row["epoch"] for row in resumed.history_.epochs] == [1, 2]
    for p, q in zip(answers, whole.posteriors(inputs_of(DEV))[0], strict=True):
        np.testing.assert_allclose(p, q, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n.startswith("blstm") else n for n in preset_names()]
)
def test_a_preset_is_resumed_on_a_gpu_to_the_bit(name: str, gpu: Gpu, tmp_path: Path) -> None:
    whole = make(name, "cuda", 2).fit_featurised(TRAIN, DEV)

    def end_after_an_epoch(event: Progress) -> None:
        if event.stage == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(name, "cuda", 2).fit_featurised(TRAIN, DEV, run_dir=tmp_path, progress=end_after_an_epoch)
    resumed = make(name, "cuda", 2).fit_featurised(TRAIN, DEV, run_dir=tmp_path)
    assert [row["epoch"] for row in resumed.history_.epochs] == [1, 2]
    for p, q in zip(resumed.posteriors(inputs_of(DEV))[0], whole.posteriors(inputs_of(DEV))[0], strict=True):
        np.testing.assert_array_equal(p, q)


def test_a_model_of_the_cpu_is_trained_further_on_a_gpu_and_keeps_its_place(gpu: Gpu) -> None:
    base = make("spn-lc-crf", "cuda", 1).fit_featurised(TRAIN, DEV)
    made = make("spn-lc-crf", "cpu", 1).fit_featurised(TRAIN, DEV, base=base)
    assert place(base.network_) == {"cuda"}
    assert place(made.network_) == {"cpu"}
    assert made.start_
    assert place(make("spn-lc-crf", "cuda", 1).fit_featurised(TRAIN, DEV, base=made).network_) == {"cuda"}


def test_answers_of_sequences_and_long_recordings_are_those_of_the_cpu(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = PhoneLabeler.load(pretrained_path(), device="cpu")
    far = PhoneLabeler.load(pretrained_path(), device="cuda")
    audio, segments = read_audio("samples/LJ001-0002.flac"), read_segments("samples/LJ001-0002.TextGrid")
    given, found = near.label_sequence(audio, segments), far.label_sequence(audio, segments)
    assert [n.labels for n in found.n_best] == [n.labels for n in given.n_best]
    assert found.entropy == pytest.approx(given.entropy, abs=1e-4)
    for decode in ("posterior", "viterbi"):
        expected = near.label(audio, segments, decode=decode)
        monkeypatch.setattr(phone_model, "LONG", 4)  # the windows of long recordings
        answers = far.label(audio, segments, decode=decode)
        monkeypatch.undo()
        assert [a.label for a in answers] == [b.label for b in expected]
        np.testing.assert_allclose([a.posterior for a in answers], [b.posterior for b in expected], atol=1e-5)


@pytest.mark.parametrize("name", ["lc-crf", "spn-ho-lc-crf"])
def test_transfers_to_the_host_do_not_grow_with_the_length_of_sequences(name: str, gpu: Gpu) -> None:
    labeler = make(name, "cuda", 1).fit_featurised(TRAIN, DEV)
    random = np.random.default_rng(3)

    def count(length: int) -> int:
        before = Gpu.syncs
        labeler.posteriors([from_array(random.normal(size=(length, 92)).astype(np.float32)) for _ in range(3)])
        return Gpu.syncs - before

    assert count(50) == count(10)


def test_a_batch_that_does_not_fit_is_labelled_in_halves(gpu: Gpu, caplog: pytest.LogCaptureFixture) -> None:
    labeler = make("lc-crf", "cuda", 1).fit_featurised(TRAIN, DEV)
    expected = labeler.posteriors(inputs_of(TRAIN))[0]
    devices._told.clear()
    Gpu.limit = 92 * sum(len(i.segments) for i in TRAIN) // 3
    with caplog.at_level(logging.WARNING):
        answers = labeler.posteriors(inputs_of(TRAIN))[0]
        again = labeler.posteriors(inputs_of(TRAIN))[0]
    for p, q, r in zip(answers, expected, again, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-6, rtol=0)
        np.testing.assert_allclose(r, q, atol=1e-6, rtol=0)
    assert [r.getMessage() for r in caplog.records if "memory" in r.getMessage()] == [
        "out of memory on cuda:0: batches that do not fit are done in halves"
    ]


def test_a_batch_that_does_not_fit_is_trained_in_halves(gpu: Gpu) -> None:
    """By plain gradient steps: those of Adam are as large for a gradient that rounding alone makes."""
    system = small(preset("lc-crf"))
    training = dataclasses.replace(system.training, epochs=2, optimizer="sgd", learning_rate=0.05)

    def train() -> PhoneLabeler:
        made = PhoneLabeler("lc-crf", model=system.model, training=training, device="cuda")
        return made.fit_featurised(TRAIN, DEV)

    whole = train()
    Gpu.limit = 92 * sum(len(i.segments) for i in TRAIN) // 4
    halved = train()
    Gpu.limit = None
    assert halved.history_.epochs[1]["loss"] == pytest.approx(whole.history_.epochs[1]["loss"], abs=1e-5)
    assert halved.temperature_ == pytest.approx(whole.temperature_, rel=1e-3)
    for (name, p), q in zip(halved.network_.named_parameters(), whole.network_.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().cpu(), q.detach().cpu(), atol=1e-6, rtol=0, err_msg=name)


def test_a_single_sequence_that_does_not_fit_ends_the_training_with_its_size(gpu: Gpu) -> None:
    Gpu.limit = 600
    with pytest.raises(TrainingError, match=r"out of memory on cuda:0: one sequence of \d+ segments does not fit"):
        make("lc-crf", "cuda", 1).fit_featurised(TRAIN, DEV)


def test_auto_is_the_gpu_where_there_is_one(gpu: Gpu) -> None:
    assert choose_device("auto") == choose_device("cuda") == choose_device("cuda:0") == DEVICE
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(SettingsError, match=r"cuda:1: torch can use 1 GPU, the first of which is cuda:0"):
        choose_device("cuda:1")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_says_what_is_missing() -> None:
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(SettingsError, match=r"cuda: no GPU that torch can use"):
        choose_device("cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "CUDA", "", "cuda:0\n", "meta"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="expected auto, cpu, cuda or cuda:N, got"):
        choose_device(name)


def test_the_stand_in_refuses_what_a_gpu_refuses(gpu: Gpu) -> None:
    far, near = torch.ones(3, device=DEVICE), torch.ones(3)
    for mix in (lambda: far + near, lambda: near + far, lambda: far[near.long()], lambda: torch.cat([far, near])):
        with pytest.raises((RuntimeError, TypeError)):
            mix()
    for leak in (far.numpy, far.tolist, lambda: np.asarray(far)):
        with pytest.raises(TypeError):
            leak()
    assert (far + torch.tensor(2.0)).cpu().tolist() == [3.0, 3.0, 3.0]
    assert isinstance(far + 1, Far)
    assert not isinstance(near + near, Far)
